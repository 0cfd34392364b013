"""Lecture of 10/10: training in the space of functions, and kernels that are positive at the start."""
