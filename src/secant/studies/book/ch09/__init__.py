"""Chapter 9: Ultra-wide networks and the neural tangent kernel."""
