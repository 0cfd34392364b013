"""Chapter 8: Algorithmic regularisation."""
