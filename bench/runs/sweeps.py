"""Row of sweeps: two workers of one core each against one."""

from __future__ import annotations

import tempfile
import time
import warnings

import secant as sc
from bench.row import Row, row
from secant.lab import Ray, Store

CELLS, STEPS = 8, 60_000


@row
def sweep_ray() -> Row:
    import ray

    def seconds(workers: int) -> float:
        """Of a sweep on a cluster that is running, its first tasks included: they start a worker and compile."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
            ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        try:
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                over = {"epsilon": [0.005 + 0.001 * cell for cell in range(CELLS)]}
                sc.sweep("quadreg/fig-8", over, scale="laptop", engine=Ray(), store=Store(folder), steps=STEPS)
                return time.perf_counter() - began
        finally:
            ray.shutdown()

    one, two = seconds(1), seconds(2)
    work = f"{CELLS} cells of a sweep over quadreg/fig-8, {STEPS} steps, on two Ray workers of one core"
    return Row("sweep_ray", work, "one such worker", one, two, 1.7, "at least")
