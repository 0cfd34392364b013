"""Rows of features and batches: what watching stochastic gradient descent costs, AGOP's memory, feature machines."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import secant as sc
from bench import environments
from bench.row import Row, alternate, row, seconds
from secant.features import RFMRegressor

BATCH = 50
STEPS = 400


@row
def sgd_probes() -> Row:
    """The setting of the thesis's table 4.1, with and without what is watched there."""
    task = sc.data.regression("rank-2", jax.random.key(0), samples=2_000, test_samples=1, dim=100)
    net = sc.nets.mlp([1_024])
    problem = sc.Problem(net.apply, *task.train, sc.losses.mean_mse)
    params = net.init(jax.random.key(1), task.train.x.shape)
    lr = 0.5 * sc.critical_lr(net.apply, params, problem.x, problem.y, sc.losses.mean_mse).ntk
    batches = sc.Batches(BATCH)
    watched = {
        "critical": sc.measure.batch_critical_lr(),
        "loss": sc.measure.batch_loss(),
        "alignment": sc.measure.alignment(sc.data.TARGETS["rank-2"].egop(100), every=50),
    }

    def run(probes: dict[str, Any]) -> Any:
        return sc.train(problem, params, lr=lr, steps=STEPS, batches=batches, probes=probes)

    def ours() -> Any:
        found = run(watched).dataset
        sc.measure.events.spikes(found.loss.values)
        return sc.measure.events.match_rates(found.loss.values, lr, found.critical.values[:-1])

    mine, theirs = alternate(ours, lambda: jax.block_until_ready(run({}).state), 15)
    work = (
        f"{STEPS} steps of SGD in batches of {BATCH}, 2,000 samples, 100-1024-1: critical step of every batch, spikes, "
        "alignment every 50 steps"
    )
    return Row("sgd_probes", work, "the same steps alone", theirs, mine, target=2.3)


@row
def agop_memory() -> Row:
    """Peak memory, in a process of its own; the row's seconds are gibibytes."""
    peak = environments.run(environments.OURS, "memory/agop_memory").values["peak_gib"]
    work = "peak memory (GiB) of the AGOP of a 4-layer network, width 1024, over 5,000 samples of 3,072 inputs"
    return Row("agop_memory", work, "limit of 1 GiB", 1.0, peak, target=1.0, unit="GiB")


@row
def rfm() -> Row:
    """Both learn from the same samples in float32; theirs also needs validation samples, ours leaves one out."""
    random = np.random.default_rng(0)
    x = random.standard_normal((4_500, 100), dtype=np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.1 * random.standard_normal(len(x), dtype=np.float32)
    parts = {"x": x[:2_000], "y": y[:2_000], "x_valid": x[2_000:2_500], "y_valid": y[2_000:2_500]}
    tests = {"x_test": x[2_500:], "y_test": y[2_500:]}
    report = environments.run("xrfm", "xrfm_machine", parts | tests)
    name, theirs = report.best()
    machine = RFMRegressor().fit(parts["x"], parts["y"])
    error = float(np.mean((machine.predict(tests["x_test"]) - tests["y_test"]) ** 2))
    assert error < 1.02 * theirs.values["error"], f"test error {error:.4f} against {theirs.values['error']:.4f}"
    mine = seconds(lambda: RFMRegressor().fit(parts["x"], parts["y"]), 5)
    work = "a recursive feature machine, Laplace kernel, 5 rounds, 2,000 samples of 100 features"
    return Row("rfm", work, f"xrfm 0.4.5, {name}", theirs.median, mine, 1.0, "at least")
