"""Chapter 17: Self-supervised learning."""
