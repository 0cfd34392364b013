"""Monitors of loops in PyTorch."""
