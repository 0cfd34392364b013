"""Lecture of 11/30: path counting in random ReLU networks."""
