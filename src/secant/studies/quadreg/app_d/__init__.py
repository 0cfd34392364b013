"""Appendix D: Analysis of real models."""
