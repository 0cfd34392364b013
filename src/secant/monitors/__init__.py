"""Monitors of somebody's own training run, in JAX or PyTorch: what they record, where, and how to read it."""

from secant.monitors.columns import COLUMNS, Column
from secant.monitors.entrance import monitor
from secant.monitors.keeping import MonitorWarning
from secant.monitors.plan import Plan
from secant.monitors.record import RecordError, Watched, Writer, read
from secant.monitors.watching import Monitor

__all__ = [
    "COLUMNS",
    "Column",
    "Monitor",
    "MonitorWarning",
    "Plan",
    "RecordError",
    "Watched",
    "Writer",
    "monitor",
    "read",
]
