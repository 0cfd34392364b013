"""Lecture 11-07: The catapult phase in quadratic models."""
