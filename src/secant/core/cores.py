"""How many cores and threads a computation may use."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores this process may use. In a container, for instance, these are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads XLA uses on a CPU: one for each core, or the number in `NPROC`."""
    told = os.environ.get("NPROC", "")
    return int(told) if told.isdigit() and int(told) > 0 else cores()
