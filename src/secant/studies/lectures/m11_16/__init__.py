"""Lecture of 11/16: gradient noise and what it prefers."""
