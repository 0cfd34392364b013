"""The command line."""

from secant.cli.entry import main

__all__ = ["main"]
