"""Section 8.1: implicit bias in regression."""
