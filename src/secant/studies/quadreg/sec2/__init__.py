"""Section 2: Quartic loss function."""
