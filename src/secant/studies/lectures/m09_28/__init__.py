"""Lecture on pathologies, of 9/28: wide networks that learn no features, and the scaling in which they do."""
