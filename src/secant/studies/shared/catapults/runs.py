"""Gradient descent, on all samples or on batches, with all records that the figures of catapults need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.memo import kept
from secant.curvature import hessian, kernel_critical_lr
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.dynamics import Map, Outcome, Probe, Stop
from secant.linalg.norm import spectral_norm
from secant.losses import Loss
from secant.nets.network import Network
from secant.optim import Batches, Problem, optimisers, train
from secant.optim.batches import params_of
from secant.studies.shared.catapults.panels import Start, curvature_of

CEILING = 1e6
"""A run with a larger loss has diverged."""


class Draw(NamedTuple):
    """One run: weights, data, and a step size for every step. `seed` is the seed of the batches."""

    seed: Any
    start: Any
    x: Any
    y: Any
    lr: Any


class Looks(NamedTuple):
    """The measurements at every step, beside the loss.

    Attributes:
        split: numbers of leading kernel directions, on all samples, within which the loss is measured, together with
            the kernel's norm; empty for none.
        batch: whether to measure the batch's critical step size, and its own loss before and after the step.
        hessian: steps between two measurements of the critical step size by the Hessian of the batch's loss.
    """

    split: tuple[int, ...] = ()
    batch: bool = False
    hessian: int | None = None


def descend(
    starts: Sequence[Start],
    lrs: Any,
    *,
    steps: int,
    looks: Looks,
    batch: int | None = None,
    goal: float | None = None,
    seeds: Sequence[int] | None = None,
    together: bool = True,
    label: str = "descent",
) -> xr.Dataset:
    r"""Gradient descent from several starts of one network.

    Args:
        starts: the starts, all with the same `net`.
        lrs: step sizes, one for each start or `(starts, steps)`.
        steps: the most steps.
        looks: what to measure.
        batch: samples a step; by default all.
        goal: loss of all samples at which a run ends.
        seeds: seeds of the batches.
        together: whether all starts run at once. Convolutions are faster one start after the other.
        label: the name of the run in the progress bar.

    Returns:
        A dataset over `run` and `step` with `loss`, `lr`, `outcome` and `stopped_at`. With `split` it has `critical`,
        the critical step of all samples, and over `s` also `within` and `beyond`. With `batch` it has `own`, the
        critical step of the batch, and `before` and `after`, the batch's loss. With `hessian` it has the critical step
        by the Hessian.
    """
    sizes = np.asarray(lrs, np.float32)
    sizes = np.broadcast_to(sizes[:, None] if sizes.ndim == 1 else sizes, (len(starts), steps))
    # The step after the last is never made, but is looked at.
    sizes = np.concatenate([sizes, sizes[:, -1:]], axis=1)
    first = starts[0]
    program = _program(first.net, first.loss, curvature_of(first.loss, first.y), looks, batch, goal)
    seeds = range(len(starts)) if seeds is None else seeds
    draws = [
        Draw(np.uint32(seed), start.params, start.x, start.y, size)
        for seed, start, size in zip(seeds, starts, sizes, strict=True)
    ]
    groups = [draws] if together else [[draw] for draw in draws]
    runs = [
        train(
            program.problem,
            program.start,
            steps=steps,
            rule=program.rule,
            batches=program.batches,
            probes=program.probes,
            over={"draw": jax.tree.map(lambda *leaves: np.stack(leaves), *group)},
            stop=program.stop,
            label=label,
        ).dataset
        for group in groups
    ]
    found = xr.concat(runs, "draw", join="outer").rename(draw="run").drop_vars("run", errors="ignore")
    names = {"critical_within": "within", "critical_beyond": "beyond", "own_before": "before", "own_after": "after"}
    found = found.rename({old: new for old, new in names.items() if old in found})
    if looks.split:
        found = found.assign_coords(s=list(looks.split))
    lr = xr.DataArray(sizes, dims=("run", "step"), coords={"step": np.arange(steps + 1)})
    return found.assign(lr=lr.sel(step=found.step))


class Program(NamedTuple):
    """The arguments of `train` beside the draws."""

    problem: Callable[[Draw], Problem]
    start: Callable[[Draw], Any]
    rule: Callable[..., Map]
    batches: Callable[[Draw], Batches] | None
    probes: dict[str, Probe]
    stop: Stop


@kept
def _program(
    net: Network, loss: Loss, curvature: float, looks: Looks, batch: int | None, goal: float | None
) -> Program:
    """The functions of a descent. Equal arguments give the same functions, so that calls share compiled code."""
    kernel, critical = pair_kernel(net.apply), kernel_critical_lr(net.apply, loss)

    @jax.jit  # traced once for the looks and for both reasons to stop, at the start and later
    def objective(params: Any, x: Any, y: Any) -> Any:
        return loss(net.apply(params, x), y)

    def problem(draw: Draw) -> Problem:
        return Problem(net.apply, draw.x, draw.y, loss)

    def start(draw: Draw) -> Any:
        return draw.start

    def rule(loss: Callable[..., Any], draw: Draw) -> Map:
        return optimisers.gd(lambda step: draw.lr[step])(loss)

    def batches(draw: Draw) -> Batches:
        assert batch is not None
        return Batches(batch, seed=draw.seed)

    def seen(state: Any, draw: Draw) -> tuple[Any, Any, Any, Any]:
        """Parameters, inputs, targets and size of the next step."""
        if batch is None:
            return state.params, draw.x, draw.y, draw.lr[state.inner.count]
        return params_of(state), draw.x[state.rows], draw.y[state.rows], draw.lr[state.step]

    def split(params: Any, draw: Draw) -> dict[str, Any]:
        values, directions = jnp.linalg.eigh(kernel(params, draw.x, None))
        residual = (net.apply(params, draw.x) - draw.y).reshape(-1)
        parts = jnp.cumsum(curvature / 2 * (directions.T @ residual)[::-1] ** 2)
        within = parts[jnp.asarray(looks.split) - 1]
        return {"value": 2 / (curvature * values[-1]), "within": within, "beyond": parts[-1] - within}

    def own(state: Any, draw: Draw) -> dict[str, Any]:
        params, x, y, lr = seen(state, draw)
        before, gradient = jax.value_and_grad(objective)(params, x, y)
        after = jax.tree.map(lambda p, g: p - lr * g, params, gradient)
        return {"value": critical(params, x), "before": before, "after": objective(after, x, y)}

    def exact(state: Any, draw: Draw) -> Any:
        params, x, y, _ = seen(state, draw)
        flat = hessian(net.apply, params, x, y, loss)
        start = jax.random.normal(jax.random.key(0), (sum(leaf.size for leaf in jax.tree.leaves(params)),))
        return 2 / spectral_norm(flat.flat_product(), start, 16).value

    probes: dict[str, Probe] = {"loss": Probe(lambda params, draw: objective(params, draw.x, draw.y))}
    if looks.split:
        probes["critical"] = Probe(split, dims=("s",))
    if looks.batch:
        probes["own"] = Probe(own, whole=True)
    if looks.hessian is not None:
        probes["exact"] = Probe(exact, looks.hessian, whole=True)
    stop = Stop(
        converged=None if goal is None else lambda params, draw: objective(params, draw.x, draw.y) < goal,
        diverged=lambda params, draw: ~(objective(params, draw.x, draw.y) < CEILING),
    )
    return Program(problem, start, rule, None if batch is None else batches, probes, stop)


def until_its_end(run: xr.Dataset) -> xr.Dataset:
    """The records of one run up to where it stopped."""
    if int(run.outcome) == Outcome.UNFINISHED:
        return run
    return run.sel(step=slice(0, int(run.stopped_at)))


def ended(run: xr.Dataset) -> xr.Dataset:
    """The records of one run up to where it stopped, without the steps that only other runs made."""
    return until_its_end(run.dropna("step", subset=["loss"]))
