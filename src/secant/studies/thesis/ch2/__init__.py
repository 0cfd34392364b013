"""Chapter 2: Transition to linearity of general feedforward neural networks."""
