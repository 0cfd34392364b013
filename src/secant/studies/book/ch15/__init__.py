"""Chapter 15: Language models."""
