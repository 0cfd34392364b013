"""Chapter 4: Feature learning of catapult dynamics."""
