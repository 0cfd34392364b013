"""Chapter 10: Interpreting the output: credit attribution."""
