"""The command line."""

from secant.cli.main import main

__all__ = ["main"]
