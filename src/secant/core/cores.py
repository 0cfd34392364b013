"""The cores of the machine."""

from __future__ import annotations

import os


def cores() -> int:
    """How many this process may use, which XLA computes with: fewer than the machine has, in a container for instance.

    `NPROC` says so where it is set, to XLA as well.
    """
    told = os.environ.get("NPROC", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
