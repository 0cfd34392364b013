"""Rows of the monitor: what it costs in a loop of one's own, and what a look costs."""

from __future__ import annotations

import gc
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import secant as sc
from bench import environments
from bench.row import Row, processor_seconds, row
from bench.runs import residual
from secant.monitors.sampling import TIMED

BATCH = 64
STEPS, ROUNDS = 50, 4
WARM = TIMED + 10
"""Steps before the clock runs: by then it is chosen on how many samples looks are taken, and all is set up."""


class _Loop:
    """A plain loop of optax, with a monitor or without."""

    def __init__(self, watched: bool) -> None:
        rule = optax.sgd(0.05, momentum=0.9)
        self.params = jax.tree.map(jnp.asarray, residual.draw())
        self.state, self.batches, self.step = rule.init(self.params), residual.batches(BATCH), 0
        self.watch = sc.monitor(residual.loss, optimiser=rule, record=False) if watched else None
        self.gradient = jax.jit(jax.value_and_grad(residual.loss))

        @jax.jit
        def move(params: Any, state: Any, gradient: Any) -> tuple[Any, Any]:
            updates, state = rule.update(gradient, state, params)
            return optax.apply_updates(params, updates), state

        self.move = move

    def run(self, steps: int) -> float:
        """Processor seconds of some steps."""
        gc.collect()
        began = time.process_time()
        for _ in range(steps):
            batch = next(self.batches)
            value, gradient = self.gradient(self.params, batch)
            if self.watch is not None:
                self.watch(self.step, self.params, self.state, batch, loss=value, grads=gradient)
            self.params, self.state = self.move(self.params, self.state, gradient)
            self.step += 1
        jax.block_until_ready(self.params)
        return time.process_time() - began


@row
def monitor_jax() -> Row:
    """A run without the monitor over one with it, at the cadence that it chooses itself."""
    plain, watched = _Loop(False), _Loop(True)
    for loop in (plain, watched):
        loop.run(WARM)
    seconds = dict.fromkeys((plain, watched), 0.0)
    for _ in range(ROUNDS):
        for loop in seconds:
            seconds[loop] += loop.run(STEPS)
    for one, other in zip(jax.tree.leaves(plain.params), jax.tree.leaves(watched.params), strict=True):
        np.testing.assert_array_equal(one, other)  # the same run, to the bit
    assert watched.watch is not None
    assert len(watched.watch.watched.column("batch_sharpness")[0]) > 2, "no looks"
    work = f"residual network, 78,042 parameters, batch {BATCH}, {ROUNDS * STEPS} steps; processor seconds"
    return Row("monitor_jax", work, "the loop alone", seconds[plain], seconds[watched], 0.95, "at least")


@row
def batch_sharpness() -> Row:
    """A look along the gradient that the loop has, against a product with curvlinops, which has no norms there."""
    params, batch = jax.tree.map(jnp.asarray, residual.draw()), next(residual.batches(BATCH))
    gradient = jax.jit(jax.grad(residual.loss))(params, batch)
    watch = sc.monitor(residual.loss, record=False, every={"batch_sharpness": 1})
    seconds = processor_seconds(lambda: watch(0, params, None, batch, grads=gradient))
    # The same number by another way, without norms: the peer's product along the gradient.
    bare = residual.draw(norms=False)
    report = environments.run("torch", "pytorch/curvlinops_product", {**bare, "x": batch[0], "y": batch[1]})
    watch = sc.monitor(residual.loss, record=False, every={"batch_sharpness": 1})
    watch(0, jax.tree.map(jnp.asarray, bare), None, batch)
    best, theirs = report.best()
    np.testing.assert_allclose(theirs.values["quotient"], watch.last["batch_sharpness"], rtol=1e-3)
    work = f"residual network, batch {BATCH}, along the gradient; processor seconds, the peer's without norms"
    return Row("batch_sharpness", work, best, theirs.median, seconds, 4.0, "at least")


@row
def monitor_overhead_idle() -> Row:
    """Steps at which nothing is looked at, with a record on disk; against a promise of 50 microseconds."""
    import tempfile

    params, batch = jnp.ones(3), (np.zeros((BATCH, 3), np.float32), np.zeros(BATCH, np.float32))
    value, count = jnp.ones(()), 2_000
    with tempfile.TemporaryDirectory() as folder:
        loss = lambda p, b: jnp.mean(b[0] @ p)  # noqa: E731
        watch = sc.monitor(loss, record=f"{folder}/run", every={"batch_sharpness": 10**9})
        watch(0, params, None, batch, loss=value)

        def idle() -> None:
            for step in range(1, count + 1):
                watch(step, params, None, batch, loss=value)

        seconds = processor_seconds(idle) / count
        watch.close()
    return Row(
        "monitor_overhead_idle",
        "a step without a look, its loss recorded; processor seconds",
        "50 us",
        50e-6,
        seconds,
        1.0,
    )
