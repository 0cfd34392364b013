"""Random quadratic regression, and starts in its phase plane."""
