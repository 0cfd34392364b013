"""Lecture of 12/7: Bayesian interpolation with deep linear networks."""
