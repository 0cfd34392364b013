"""Two-layer networks beside their linear and quadratic models."""
