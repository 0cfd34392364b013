"""Section 12.4: amplified noise."""
