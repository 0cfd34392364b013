"""Chapter 18: Adversarial examples."""
