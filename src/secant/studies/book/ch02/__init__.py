"""Chapter 2: Basics of optimisation."""
