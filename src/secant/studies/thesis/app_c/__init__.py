"""Appendix C: Appendix to chapter 4: experiments."""
