"""Optimisers with a memory, and what is known of each."""
