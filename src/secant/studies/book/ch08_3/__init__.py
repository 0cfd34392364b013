"""Section 8.3: implicit bias in classification."""
