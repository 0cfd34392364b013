"""Appendix C: Quadratic regression model dynamics."""
