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
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.row import Row, row

QUICK = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""The compiler of the tests, which optimises little."""

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


def costs(ids: list[str], environment: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The cost of each study, dearest first, in as many processes as there are cores."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    allowed = sorted(os.sched_getaffinity(0))
    for core in allowed:
        cores.put(core)

    def one(id: str) -> dict[str, Any]:
        core = cores.get()
        try:
            done = subprocess.run(
                [sys.executable, "-c", WORKER, id],
                env={**os.environ, **(QUICK if environment is None else environment)},
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            cores.put(core)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    with ThreadPoolExecutor(len(allowed)) as pool:
        return sorted(pool.map(one, ids), key=lambda cost: -cost["cpu"])


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
