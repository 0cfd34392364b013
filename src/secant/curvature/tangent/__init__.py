"""The empirical tangent kernel, and the signals it is made of."""
