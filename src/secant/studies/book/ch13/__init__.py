"""Chapter 13: Effect of normalisation."""
