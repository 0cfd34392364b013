"""Section 3: Quadratic regression model."""
