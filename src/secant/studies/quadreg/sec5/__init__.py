"""Section 5: Discussion."""
