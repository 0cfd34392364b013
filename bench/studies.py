"""What a study costs at smoke scale, cold: CPU-seconds with compiling, each in a process and on a core of its own.

`python -m bench.studies [ID ...]` prints one line a study, the dearest first, with where the time went.
"""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.row import Row, row

QUICK = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": " ".join((Path(__file__).parents[1] / "tests" / "xla.flags").read_text().split()),
}
"""The compiler of the studies' tests, which optimises a little."""

LIMIT = 3.0
"""CPU-seconds a study may cost on average."""

WORKER = """
import collections, json, sys, time
import jax
from secant import lab
study = lab.get(sys.argv[1])
config, spent, times = study.config("smoke"), collections.Counter(), collections.Counter()
def listen(name, seconds, **_):
    spent[name.rsplit("/", 1)[-1]] += seconds
    times[name.rsplit("/", 1)[-1]] += 1
jax.monitoring.register_event_duration_secs_listener(listen)
began = time.process_time()
with study.arithmetic():
    data = study.compute(config)
computed = time.process_time()
findings = list(study.judge(data, config))
print(json.dumps({
    "id": study.id,
    "cpu": time.process_time() - began,
    "judge": time.process_time() - computed,
    "trace": spent["jaxpr_trace_duration"],
    "lower": spent["jaxpr_to_mlir_module_duration"],
    "compile": spent["backend_compile_duration"],
    "compilations": times["backend_compile_duration"],
}))
"""


def on_cores(function: Callable[[str], Any], ids: list[str]) -> list[Any]:
    """What a function gives for each, in as many threads as there are cores, each held to its own."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    allowed = sorted(os.sched_getaffinity(0))
    for core in allowed:
        cores.put(core)

    def one(id: str) -> Any:
        core = cores.get()
        try:
            os.sched_setaffinity(0, {core})  # of this thread, and of the processes that it starts
            return function(id)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(len(allowed)) as pool:
        return list(pool.map(one, ids))


def costs(ids: list[str], environment: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The cost of each study, dearest first."""
    told = {**os.environ, **(QUICK if environment is None else environment)}

    def one(id: str) -> dict[str, Any]:
        worker = [sys.executable, "-c", WORKER, id]
        return dict(json.loads(subprocess.check_output(worker, env=told, text=True).splitlines()[-1]))

    return sorted(on_cores(one, ids), key=lambda cost: -cost["cpu"])


@row
def study_cost() -> Row:
    from secant import lab

    found = costs([study.id for study in lab.catalog()])
    mean = statistics.fmean(cost["cpu"] for cost in found)
    return Row(
        "study_cost",
        f"mean of {len(found)} studies at smoke scale, cold, CPU-s; worst {found[0]['cpu']:.0f} ({found[0]['id']})",
        "the limit",
        LIMIT,
        mean,
        target=1.0,
    )


def main() -> None:
    from secant import lab

    for cost in costs(sys.argv[1:] or [study.id for study in lab.catalog()]):
        parts = ("judge", "trace", "lower", "compile")
        print(
            f"{cost['id']:28s} {cost['cpu']:6.1f}  " + "  ".join(f"{part} {cost[part]:5.1f}" for part in parts),
            f" {cost['compilations']:4d} compilations",
        )


if __name__ == "__main__":
    main()
