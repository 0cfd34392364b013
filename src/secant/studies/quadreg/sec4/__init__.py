"""Section 4: Connection to real world models."""
