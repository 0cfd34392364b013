"""A limit on the compiled programs that a process keeps."""

from __future__ import annotations

import gc
import sys

LIMIT = 500
"""How many programs a process keeps that does one task after the other."""


class _Made:
    """Counts the programs compiled since its start or its last reset."""

    def __init__(self) -> None:
        self.number = 0
        self.counting = False

    def __call__(self, event: str, _: float, **__: object) -> None:
        self.number += event.endswith("/jaxpr_to_mlir_module_duration")


_made = _Made()


def forget_programs(beyond: int = LIMIT) -> bool:
    """Makes JAX forget its compiled programs, if there are more than `beyond` since the last time.

    JAX keeps the last 2,048 programs with their texts, megabytes each. The more there are, the longer a new program
    takes to write. A process that does many tasks, each with programs of its own, calls this after each task. The
    first call begins to count; without JAX it does nothing.

    Returns:
        Whether the programs are forgotten.
    """
    if (jax := sys.modules.get("jax")) is None:
        return False
    if not _made.counting:
        jax.monitoring.register_event_duration_secs_listener(_made)
        _made.counting = True
    if _made.number <= beyond:
        return False
    _made.number = 0
    jax.clear_caches()
    gc.collect()  # programs and their texts refer to each other
    return True
