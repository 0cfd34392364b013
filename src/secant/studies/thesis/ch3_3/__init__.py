"""Chapter 3: Catapult dynamics of neural networks, section 3.3."""
