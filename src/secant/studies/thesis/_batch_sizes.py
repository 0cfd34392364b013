"""Stochastic gradient descent with several batch sizes and one step size, as in table 4.1 and figures 4.9 and 4.10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from secant import losses
from secant.curvature import ntk
from secant.curvature.tangent_kernel import pair_kernel
from secant.data import TARGETS, regression
from secant.dynamics import Batches, Map, Outcome, Probe, Stop, gradient_descent, simulate
from secant.dynamics.batches import BatchState, on_batches
from secant.features import agop_of, alignment
from secant.linalg.norm import largest_eigenvalue
from secant.nets.network import Network


class Draw(NamedTuple):
    """Data, weights and step size of one seed."""

    seed: Any
    start: Any
    lr: Any
    x: Any
    y: Any
    x_valid: Any
    y_valid: Any
    x_test: Any
    y_test: Any


class Setting(NamedTuple):
    """What all batch sizes share.

    Attributes:
        target: one of `secant.data.TARGETS`.
        samples: for training.
        held_out: for validation, and as many for testing.
        dim: features.
        share: step size over the critical one of all samples.
        goal: training loss at which a run has converged.
        epochs: passes over the data, at most, or
        steps: so many steps, where that is more.
    """

    target: str
    samples: int
    held_out: int
    dim: int
    share: float
    goal: float
    epochs: int
    steps: int


def draw_of(net: Network, setting: Setting, seed: int) -> Draw:
    """Data and weights; the step size in units of the critical one, by the tangent kernel of all samples."""
    of_data, of_net = jax.random.split(jax.random.key(seed))
    task = regression(
        setting.target,
        of_data,
        samples=setting.samples,
        validation_samples=setting.held_out,
        test_samples=setting.held_out,
        dim=setting.dim,
    )
    assert task.validation is not None
    start = net.init(of_net, task.train.x.shape)
    top = float(ntk(net.apply, start, task.train.x).top(1).values[0])
    lr = setting.share * setting.samples / top
    return Draw(np.uint32(seed), start, np.float32(lr), *task.train, *task.validation, *task.test)


def batch_run(net: Network, setting: Setting, size: int, draws: Draw) -> xr.Dataset:
    r"""Trains on batches of one size from every draw, and keeps what was best on the validation samples.

    Returns:
        Over `seed`: `aligned`, the alignment on the training inputs, `test` loss and `training` loss, at the look with
        the smallest validation loss; `catapults`, steps up to there with $\eta > \eta_{\mathrm{crit}}$ of their batch;
        `over`, the share of all steps that are; `outcome` and `stopped_at`.
    """
    whole = size == setting.samples
    kernel, outer, truth = pair_kernel(net.apply), agop_of(net.apply), TARGETS[setting.target].egop(setting.dim)
    per_epoch = -(-setting.samples // size)
    every = 20 if whole else per_epoch
    steps = max(setting.steps // every, 0 if whole else setting.epochs) * every

    def loss(params: Any, x: Any, y: Any) -> Any:
        return losses.mean_mse(net.apply(params, x), y)

    def system(draw: Draw) -> Map:
        batches = Batches(size, seed=draw.seed)
        return on_batches(loss, draw.x, draw.y, batches, lambda of: gradient_descent(of, draw.lr))

    def critical(state: BatchState, draw: Draw) -> Any:
        rows = Batches(size, seed=draw.seed).indices(setting.samples, state.step)
        return size / largest_eigenvalue(kernel(state.inner, draw.x[rows], None)) / draw.lr

    def look(params: Any, draw: Draw) -> dict[str, Any]:
        return {
            "value": loss(params, draw.x_valid, draw.y_valid),
            "test": loss(params, draw.x_test, draw.y_test),
            "training": loss(params, draw.x, draw.y),
            "aligned": alignment(outer(params, draw.x), truth),
        }

    probes: dict[str, Probe] = {"valid": Probe(look, every)}
    if not whole:  # a full batch is below its critical step by construction
        probes["critical"] = Probe(critical, 1, whole=True)
    run = simulate(
        system,
        lambda draw: draw.start,
        steps,
        probes=probes,
        over={"draw": draws},
        stop=Stop(
            converged=lambda params, draw: loss(params, draw.x, draw.y) < setting.goal,
            diverged=lambda params, draw: ~(loss(params, draw.x, draw.y) < 1e6),
            every=every,
        ),
        label=f"batches of {size:,}",
    ).dataset.rename(draw="seed")
    looks = next(dim for dim in run.valid.dims if dim != "seed")
    best = run.valid.argmin(looks)
    at = {name: run[f"valid_{name}"].isel({looks: best}).values for name in ("test", "training", "aligned")}
    ended = run.stopped_at.values
    over = np.zeros((len(ended), 1), bool) if whole else (run.critical.transpose("seed", "step") < 1 - 1e-8).values
    counted = [int(row[: int(b) * every].sum()) for row, b in zip(over, best.values, strict=True)]
    share = [float(row[: int(n)].mean()) if n else 0.0 for row, n in zip(over, ended, strict=True)]
    found = at | {"catapults": counted, "over": share, "outcome": run.outcome.values, "stopped_at": ended}
    return xr.Dataset({name: ("seed", np.asarray(values)) for name, values in found.items()})


def batch_sizes(net: Network, setting: Setting, sizes: Sequence[int], seeds: range) -> xr.Dataset:
    """The runs of all batch sizes, along `batch`, with the step size `lr` of each draw."""
    for size in sizes:
        Batches(size).check("batches", setting.samples)
    draws = [draw_of(net, setting, seed) for seed in seeds]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *draws)
    runs = [batch_run(net, setting, size, stacked) for size in sizes]
    data = xr.concat(runs, "batch").assign_coords(batch=list(sizes), seed=list(seeds))
    return data.assign(lr=("seed", stacked.lr))


def ended_well(data: xr.Dataset) -> xr.DataArray:
    """Which runs reached the goal."""
    return data.outcome == Outcome.CONVERGED
