"""Appendix B: Two-parameter model."""
