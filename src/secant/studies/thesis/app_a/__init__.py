"""Appendix A: Appendix to chapter 2: proofs."""
