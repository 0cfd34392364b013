"""The row of the monitor in a PyTorch loop, in an environment of its own."""

from __future__ import annotations

from bench import environments
from bench.row import Row, row

BATCH = 64
STEPS, ROUNDS = 60, 4


@row
def monitor_torch() -> Row:
    """A run without the monitor over one with it, at the cadence that it chooses itself."""
    report = environments.run("monitor-torch", "pytorch/monitor_torch", batch=BATCH, steps=STEPS, rounds=ROUNDS)
    plain, watched = (sum(report.methods[name].seconds) for name in ("plain", "watched"))
    assert report.values["same"], "another run than without the monitor"
    assert report.values["looks"] > 0, "no looks"
    size = report.values["parameters"]
    work = f"residual network, {size:,} parameters, batch {BATCH}, {ROUNDS * STEPS} steps; processor seconds"
    return Row("monitor_torch", work, "the loop alone", plain, watched, 0.95, "at least")
