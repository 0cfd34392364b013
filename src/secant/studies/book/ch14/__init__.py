"""Chapter 14: Unsupervised learning: distribution learning."""
