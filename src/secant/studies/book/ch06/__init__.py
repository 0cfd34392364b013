"""Chapter 6: Tractable landscapes for nonconvex optimisation."""
