"""The cores of the machine."""

from __future__ import annotations

import os


def cores() -> int:
    """How many this process may use: fewer than the machine has, in a container for instance."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads XLA computes with on a processor: one a core, or what `NPROC` says."""
    told = os.environ.get("NPROC", "")
    return int(told) if told.isdigit() and int(told) > 0 else cores()
