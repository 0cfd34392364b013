"""Chapter 1: Basic setup and some mathematical notions."""
