"""Chapter 16: Generative adversarial networks."""
