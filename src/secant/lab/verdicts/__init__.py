"""Findings: claims, errors of measurements, and what makes a verdict."""
