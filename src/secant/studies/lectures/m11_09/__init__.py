"""Lecture of 11/9: implicit bias in regression, rich and kernel."""
