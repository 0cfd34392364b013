"""Monitors of loops in JAX."""
