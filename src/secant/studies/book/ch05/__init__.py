"""Chapter 5: Basics of generalisation theory."""
