"""Chapter 4: Backpropagation and its variants."""
