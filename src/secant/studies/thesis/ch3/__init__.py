"""Chapter 3: Catapult dynamics of neural networks."""
