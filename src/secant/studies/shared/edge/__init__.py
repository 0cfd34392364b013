"""Networks at the edge of stability, and their Taylor polynomials there."""
