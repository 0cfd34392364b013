"""Appendix A: Connection to other models."""
