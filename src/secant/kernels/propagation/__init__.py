"""Signals on their way through a network, layer by layer: what every layer needs, and what each is told."""
