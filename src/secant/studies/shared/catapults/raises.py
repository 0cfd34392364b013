"""Gradient descent whose step size is raised again and again, as in figures 4.8 and C.13 to C.17.

A run with some of the raises and a run with one raise more are the same until that raise: the runs form a tree. Each
branch begins where the branch before it would be raised, and no step is made twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses
from secant.core.device import jit
from secant.curvature import kernel_critical_lr
from secant.dynamics import Map, Outcome, Probe, Stop, simulate
from secant.features import agop_of, alignment
from secant.lab import Finding, claim, estimate
from secant.optim import gradient_descent
from secant.studies.shared.features.tasks import Draw, FeatureTask

CEILING = 1e8
"""A run with a larger training loss has diverged: catapults of these tasks peak below a thousand."""

RISE = 1.2
"""A loss has risen if it exceeds this many times its value at the raise."""

BLOCK = 10
"""How many rows and columns of the gradient outer product are kept."""

Raises = tuple[tuple[int, float], ...]
"""Steps, and the step size from each of these steps on."""


class Branch(NamedTuple):
    """The state of a run.

    Attributes:
        params: weights.
        fork: weights at the step of the next raise, from which the next branch continues.
        step: the number of steps, counted from the start of the first branch.
    """

    params: Any
    fork: Any
    step: Any


class Size(NamedTuple):
    """The numbers of a branch: its step size, the step of the next raise, where it begins, and where it may end."""

    lr: Any
    fork: Any
    begin: Any
    least: Any


def check_schedule(last: int, steps: int) -> None:
    """Raises an error if the last raise would never come."""
    if last >= steps:
        raise ValueError(f"steps: must be more than the step of the last raise, {last}, got {steps}.")


def raised(
    task: FeatureTask, *, lr: float, raises: Raises, steps: int, every: int, seeds: range, goal: float = 0.0
) -> xr.Dataset:
    r"""Networks trained with the first $0, 1, \dots$ of some raises of the step size, from the same starts.

    Args:
        task: the task that the networks learn.
        lr: the step size at the start.
        raises: the steps of the raises, and the step size from each of these steps on.
        steps: the most steps, counted from the start.
        every: steps between two looks at validation samples and alignment, and at the goal.
        seeds: seeds of data and weights.
        goal: the training loss at which a run ends. Its last raise must then be as many steps behind it as lie between
            any two raises, because from so small a loss a catapult takes some steps to rise.

    Returns:
        A dataset over `seed` and `raises` with

        - counted from the last raise `begin`: `loss` along `step`; `valid`, `aligned` and the critical step size
          `critical_along` along `look`;
        - the critical step sizes `before`, where the branch begins, and `critical`, where it ends;
        - at the end `test`, `training`, `alignment`, `block` (the first rows and columns of the gradient outer
          product), `ended` (the step), and `outcome`.

        The task's score judges validation and test samples.
    """
    apply = task.net.apply
    outer, by_kernel = agop_of(apply), kernel_critical_lr(apply, losses.mean_mse)

    def system(draw: Draw, branch: Size) -> Map:
        descent = gradient_descent(lambda params: task.loss(params, draw.x, draw.y), branch.lr)

        def step(state: Branch) -> Branch:
            keep = state.step == branch.fork
            fork = jax.tree.map(lambda new, old: jnp.where(keep, new, old), state.params, state.fork)
            return Branch(descent.step(state.params), fork, state.step + 1)

        return Map(lambda params: Branch(params, params, branch.begin), step)

    def start(draw: Draw) -> Any:
        return draw.start

    def look(state: Branch, draw: Draw) -> dict[str, Any]:
        return {
            "value": task.score(apply(state.params, draw.x_valid), draw.y_valid),
            "aligned": alignment(outer(state.params, draw.x), task.truth),
            "critical": critical(state.params, draw),
        }

    def training(state: Branch, draw: Draw) -> Any:
        return task.loss(state.params, draw.x, draw.y)

    def ended(state: Branch, draw: Draw, branch: Size) -> Any:
        return (state.step >= steps) | ((state.step >= branch.least) & (training(state, draw) < goal))

    def critical(params: Any, draw: Draw) -> Any:
        return by_kernel(params, draw.x)

    def end(params: Any, draw: Draw) -> dict[str, Any]:
        found = outer(params, draw.x)
        return {
            "critical": critical(params, draw),
            "test": task.score(apply(params, draw.x_test), draw.y_test),
            "training": task.loss(params, draw.x, draw.y),
            "alignment": alignment(found, task.truth),
            "block": found[:BLOCK, :BLOCK],
        }

    stop = Stop(ended, lambda state, draw: ~(training(state, draw) < CEILING), every)
    at_end = jit(jax.vmap(end))
    probes = {"loss": Probe(training), "valid": Probe(look, every)}
    draws, found = task.draws(seeds), []
    states, lost = draws.start, np.zeros(len(seeds), bool)
    at, sizes = [0, *(step for step, _ in raises), steps], [lr, *(size for _, size in raises)]
    before, rest = at_end(states, draws)["critical"], max(np.diff(at[:-1]), default=0)
    for number, size in enumerate(sizes):
        last = number == len(raises)
        fork = -1 if last else at[number + 1]  # the last branch has no raise to wait for
        least = max(fork + 1, at[number] + rest)
        branch = Size(np.float32(size), *map(np.int32, (fork, at[number], least)))
        run = simulate(
            system,
            start,  # one function for all branches, which so share their compiled code
            -(-steps // every) * every,
            probes=probes,
            over={"draw": draws._replace(start=states), "branch": jax.tree.map(lambda leaf: leaf[None], branch)},
            stop=stop,
            label=f"{task.name}, {number} of {len(raises)} raises",
        )
        records = run.dataset.isel(branch=0, drop=True).rename(draw="seed")
        state = jax.tree.map(lambda leaf: leaf[:, 0], run.state)
        diverged = (records.outcome == Outcome.DIVERGED).values
        outcome = np.where(diverged | lost, Outcome.DIVERGED, np.where(goal > 0, Outcome.CONVERGED, 0))
        values = {name: np.asarray(value) for name, value in at_end(state.params, draws).items()}
        short = (outcome == Outcome.CONVERGED) & (values["training"] >= goal)
        found.append(
            records.drop_vars("stopped_at").assign(
                {
                    name: (("seed", "row", "column") if value.ndim > 1 else "seed", value)
                    for name, value in values.items()
                }
                | {
                    "before": ("seed", np.asarray(before)),
                    "ended": ("seed", np.asarray(state.step)),
                    "outcome": ("seed", np.where(short, Outcome.UNFINISHED, outcome)),
                    "begin": at[number],
                }
            )
        )
        if not last:
            # A run that diverged before the next raise has no weights from which to continue. Looks are rare, and it
            # may have continued with NaN.
            finite = np.all(
                [np.isfinite(leaf).reshape(len(seeds), -1).all(1) for leaf in jax.tree.leaves(state.fork)], 0
            )
            lost = lost | (diverged & (np.asarray(state.step) <= at[number + 1])) | ~finite
            # Its start is run again in its place, and left out as diverged.
            states = jax.tree.map(
                lambda fork, start, gone=lost: np.where(gone.reshape(-1, *[1] * (fork.ndim - 1)), start, fork),
                state.fork,
                draws.start,
            )
            before = np.where(lost, np.nan, at_end(states, draws)["critical"])
    return _joined(found, every, seeds)


def _joined(found: list[xr.Dataset], every: int, seeds: range) -> xr.Dataset:
    """Branches side by side; a shorter branch repeats its last values."""
    longest = {dim: max(one.sizes[dim] for one in found) for dim in found[0].sizes if str(dim).startswith("step")}
    parts = []
    for one in found:
        for dim, size in longest.items():
            one = one.isel({dim: np.minimum(np.arange(size), one.sizes[dim] - 1)})
            one = one.assign_coords({dim: np.arange(size) * (1 if dim == "step" else every)})
        parts.append(one)
    names = {f"step_{every}": "look", "valid_aligned": "aligned", "valid_critical": "critical_along"}
    data = xr.concat(parts, "raises", join="outer").rename(names)
    return data.assign_coords(seed=list(seeds), raises=np.arange(len(found)))


def trained(data: xr.Dataset) -> xr.Dataset:
    """The data with NaN for runs that have not reached the goal, because they have no end to compare."""
    return data.where(data.outcome == Outcome.CONVERGED)


def catapults_finding(title: str, data: xr.Dataset, key: str = "") -> Finding:
    """The finding that there are catapults; without catapults there would be nothing to judge."""
    happened = catapults(data).where(data.outcome == Outcome.CONVERGED)
    sentence = f"{title}: catapults in a run that is trained, the most of a draw, the fewest over draws"
    return claim(f"{key or title}-catapults", sentence).at_least(
        1.0,
        happened.max("raises").min(),
        "otherwise there would be no catapults to judge",
        note="on average " + ", ".join(f"{value:.2g}" for value in happened.mean("seed").values) + " by raises",
    )


def trained_finding(title: str, data: xr.Dataset, key: str = "") -> Finding:
    """The finding that most runs reach the goal: the others are left out, and the comparison must be no selection."""
    reached, lost = (data.outcome == Outcome.CONVERGED).values, int((data.outcome == Outcome.DIVERGED).sum())
    return claim(f"{key or title}-goal", f"{title}: share of the runs that reach the goal, and are compared").at_least(
        0.5,
        estimate(reached),
        "runs of different training losses are not compared; most are trained as far",
        note=f"{int(reached.sum())} of {reached.size}; {lost} diverge",
    )


def catapults(data: xr.Dataset) -> xr.DataArray:
    """How many of the raises of a run were followed by a catapult, over `seed` and `raises`."""
    return catapulted(data).cumsum("raises")


def catapulted(data: xr.Dataset) -> xr.DataArray:
    """Truth values: whether the loss after a raise rises above its value at the raise and falls again."""
    first, peak, last = data.loss.isel(step=0), data.loss.max("step"), data.loss.isel(step=-1)
    return (peak > RISE * first) & (peak > RISE * last) & (data.raises > 0)
