"""Chapter 12: Approximating stochastic gradient descent by a differential equation."""
