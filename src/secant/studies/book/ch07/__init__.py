"""Chapter 7: Escaping saddle points."""
