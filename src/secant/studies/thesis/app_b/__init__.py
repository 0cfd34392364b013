"""Appendix B: Appendix to chapter 3: proofs and experiments."""
