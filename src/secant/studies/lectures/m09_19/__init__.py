"""Lecture of 9/19: tuning to criticality."""
