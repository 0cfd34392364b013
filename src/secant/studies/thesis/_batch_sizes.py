"""Training on batches to a goal, as in table 4.1 and figures 4.9 to 4.11: what the best look on the way has found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from secant import losses
from secant._device import jit
from secant.curvature import kernel_critical_lr
from secant.dynamics import Batches, Map, Outcome, Probe, Stop, gradient_descent, simulate
from secant.dynamics.batches import BatchState, on_batches, params_of
from secant.features import agop_of, alignment
from secant.studies.thesis._feature_tasks import Draw, FeatureTask

Rule = Callable[[Callable[[Any], Any], Any], Map]
"""`(loss, step size) -> Map`."""

PASS = 20
"""Steps between two looks at a run on all samples at once."""


class Setting(NamedTuple):
    """What all runs share.

    Attributes:
        goal: training loss at which a run has converged.
        epochs: passes over the data, at most, or
        steps: so many steps, where that is more.
        pause: epochs between two looks.
    """

    goal: float
    epochs: int
    steps: int
    pause: int = 1


class Trial(NamedTuple):
    """Data and weights, and the step size."""

    draw: Draw
    lr: Any


def critical_steps(task: FeatureTask, draws: Draw) -> np.ndarray:
    """The critical step size of all samples at the start, of every draw, by the tangent kernel."""
    critical = kernel_critical_lr(task.net.apply, losses.mean_mse)
    return np.asarray(jit(jax.vmap(lambda draw: critical(draw.start, draw.x)))(draws))


def batch_training(
    task: FeatureTask,
    setting: Setting,
    size: int,
    samples: int,
    rule: Rule = gradient_descent,
    *,
    count: bool = True,
    label: str = "",
) -> Callable[[Trial], xr.Dataset]:
    r"""Training on batches of one size, which keeps what was best on the validation samples.

    Args:
        task: what is learned.
        setting: when it ends.
        size: samples a step, without replacement, epoch by epoch; all of them is gradient descent.
        samples: how many there are.
        rule: how steps are made.
        count: whether to compare every step with the critical one of its batch.
        label: what progress calls it.

    Returns:
        A function of draws with their step sizes, stacked; for as many of them as before it compiles nothing. It gives
        over `seed`: `aligned`, the alignment on the training inputs, `test` score and `training` loss, at the look with
        the smallest validation score; `catapults`, steps up to there with $\eta > \eta_{\mathrm{crit}}$ of their batch;
        `over`, the share of all steps that are; `outcome` and `stopped_at`; and over `look` the validation score
        `curve` at the steps `at`.
    """
    whole = size == samples
    apply = task.net.apply
    by_kernel, outer = kernel_critical_lr(apply, losses.mean_mse), agop_of(apply)
    every = PASS if whole else -(-samples // size) * setting.pause
    steps = max(setting.steps // every, 0 if whole else setting.epochs // setting.pause) * every
    count = count and not whole  # a full batch is below its critical step by construction

    def system(trial: Trial) -> Map:
        draw = trial.draw
        batches = Batches(size, seed=draw.seed)
        if whole:  # nothing to shuffle
            return rule(lambda params: task.loss(params, draw.x, draw.y), trial.lr)
        return on_batches(task.loss, draw.x, draw.y, batches, lambda loss: rule(loss, trial.lr))

    def critical(state: BatchState, trial: Trial) -> Any:
        rows = Batches(size, seed=trial.draw.seed).indices(samples, state.step)
        return by_kernel(params_of(state), trial.draw.x[rows]) / trial.lr

    def look(params: Any, trial: Trial) -> dict[str, Any]:
        draw = trial.draw
        return {
            "value": task.score(apply(params, draw.x_valid), draw.y_valid),
            "test": task.score(apply(params, draw.x_test), draw.y_test),
            "training": training(params, trial),
            "aligned": alignment(outer(params, draw.x), task.truth),
        }

    def training(params: Any, trial: Trial) -> Any:
        return task.loss(params, trial.draw.x, trial.draw.y)

    def converged(params: Any, trial: Trial) -> Any:
        return training(params, trial) < setting.goal

    def diverged(params: Any, trial: Trial) -> Any:
        return ~(training(params, trial) < 1e6)

    def start(trial: Trial) -> Any:
        return trial.draw.start

    probes: dict[str, Probe] = {"valid": Probe(look, every)}
    if count:
        probes["critical"] = Probe(critical, 1, whole=True)
    stop = Stop(converged, diverged, every)
    name = f"{task.name}, {label or f'batches of {size:,}'}"

    def run(trials: Trial) -> xr.Dataset:
        found = simulate(system, start, steps, probes=probes, over={"trial": trials}, stop=stop, label=name)
        return _best(found.dataset.rename(trial="seed"), every, count)

    return run


def _best(run: xr.Dataset, every: int, count: bool) -> xr.Dataset:
    """What a run had found at the look with the smallest validation score."""
    looks = next(dim for dim in run.valid.dims if dim != "seed")
    best = run.valid.where(np.isfinite(run.valid), np.inf).argmin(looks)
    at = {name: run[f"valid_{name}"].isel({looks: best}).values for name in ("test", "training", "aligned")}
    ended = run.stopped_at.values
    over = (run.critical.transpose("seed", "step") < 1 - 1e-8).values if count else np.zeros((len(ended), 1), bool)
    counted = [int(row[: int(b) * every].sum()) for row, b in zip(over, best.values, strict=True)]
    share = [float(row[: int(n)].mean()) if n else 0.0 for row, n in zip(over, ended, strict=True)]
    kept = at | {"catapults": counted, "over": share, "outcome": run.outcome.values, "stopped_at": ended}
    found = xr.Dataset({name: ("seed", np.asarray(values)) for name, values in kept.items()})
    curve, count_of_looks = run.valid.transpose("seed", looks).values, run.sizes[looks]
    numbers = np.arange(count_of_looks)
    return found.assign(curve=(("seed", "look"), curve), at=("look", every * numbers)).assign_coords(look=numbers)


def batch_sizes(
    task: FeatureTask,
    setting: Setting,
    sizes: Sequence[int],
    seeds: range,
    *,
    shares: Sequence[float],
    lr: float | None = None,
    count: bool = True,
) -> xr.Dataset:
    """Runs with batches of several sizes, along `batch`, each with the same step sizes.

    Those are some shares of the critical one of all samples, along `share`, or all are `lr`.
    """
    draws = task.draws(seeds)
    samples = draws.y.shape[1]
    for size in sizes:
        Batches(size).check("batches", samples)
    critical = critical_steps(task, draws)
    steps = np.multiply.outer(shares, critical) if lr is None else np.full((1, len(critical)), lr)
    steps = steps.astype(np.float32)
    runs = []
    for size in sizes:
        training = batch_training(task, setting, size, samples, count=count)
        runs.append(xr.concat([training(Trial(draws, sized)) for sized in steps], "share", join="outer"))
    data = xr.concat(runs, "batch", join="outer").assign_coords(batch=list(sizes), seed=list(seeds))
    data = data.assign_coords(share=list(shares) if lr is None else [np.nan])
    return data.assign(lr=(("share", "seed"), steps), critical=("seed", critical))


def rising(batches: tuple[int, ...], samples: int) -> None:
    """Refuses batch sizes that do not rise, or that there are too few samples for."""
    if (np.diff(batches) <= 0).any() or len(batches) < 2:
        raise ValueError(f"batches: at least two sizes, rising; got {batches}.")
    if batches[-1] > samples:
        raise ValueError(f"batches: {batches[-1]} is larger than the data, {samples} samples.")


def ended_well(data: xr.Dataset) -> xr.DataArray:
    """Which runs reached the goal."""
    return data.outcome == Outcome.CONVERGED
