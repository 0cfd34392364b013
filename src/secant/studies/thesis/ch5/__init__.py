"""Chapter 5: Summary and discussion."""
