"""Lecture of 10/31: kernels, their spaces of functions, and ridge regression."""
