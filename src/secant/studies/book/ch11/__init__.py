"""Chapter 11: Inductive biases due to algorithmic regularisation."""
