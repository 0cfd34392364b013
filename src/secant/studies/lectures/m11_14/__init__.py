"""Lecture of 11/14: implicit bias in classification, the largest margin."""
