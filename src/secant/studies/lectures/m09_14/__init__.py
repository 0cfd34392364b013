"""Lectures of 9/14 and 9/21: networks at initialisation are Gaussian processes."""
