"""Monitors of somebody's own training run, in JAX or PyTorch: what they record, where, and how to read it."""

from secant.monitors.columns import COLUMNS, Column
from secant.monitors.record import RecordError, Watched, Writer, read

__all__ = ["COLUMNS", "Column", "RecordError", "Watched", "Writer", "read"]
