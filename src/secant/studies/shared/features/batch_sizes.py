"""Training on batches to a goal, as in table 4.1 and figures 4.9 to 4.11. The best look of a run is its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from secant import losses
from secant.core.device import jit
from secant.curvature import kernel_critical_lr
from secant.dynamics import Map, Outcome, Probe, Stop
from secant.features import agop_of, alignment
from secant.optim import Batches, Problem, gradient_descent, train
from secant.optim.batches import params_of
from secant.studies.shared.features.tasks import Draw, FeatureTask

Rule = Callable[[Callable[[Any], Any], Any], Map]
"""`(loss, step size) -> Map`."""

PASS = 20
"""Steps between two looks at a full-batch run."""


class Setting(NamedTuple):
    """The settings that all runs share.

    Attributes:
        goal: training loss at which a run has converged.
        epochs: the most passes over the data.
        steps: the most steps; the larger of both limits counts.
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
    """The tangent-kernel critical step size of all samples at the start, for every draw."""
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
    r"""Training on batches of one size, which keeps the results of the best look by validation samples.

    Args:
        task: the task that is learned.
        setting: when a run ends.
        size: samples a step, without replacement, epoch by epoch; with all samples it is gradient descent.
        samples: how many training samples there are.
        rule: the update rule.
        count: whether to compare steps with the critical step of their batch: at every step, in full-batch runs at each
            look.
        label: the name of the run in the progress bar.

    Returns:
        A function of stacked draws with their step sizes. It compiles nothing if it has seen as many draws before. It
        gives

        - over `seed`, at the look with the smallest validation score: `aligned`, the alignment on the training inputs,
          `test` score and `training` loss;
        - over `seed`: `catapults`, the steps up to this look with $\eta > \eta_{\mathrm{crit}}$ of their batch (in
          full-batch runs each look stands for the steps to the next); `over`, their share among all steps; `outcome`
          and `stopped_at`;
        - over `look`: the validation score `curve` at the steps `at`.
    """
    whole = size == samples
    apply = task.net.apply
    by_kernel, outer = kernel_critical_lr(apply, losses.mean_mse), agop_of(apply)
    every = PASS if whole else -(-samples // size) * setting.pause
    steps = max(1, setting.steps // every, 0 if whole else setting.epochs // setting.pause) * every

    def problem(trial: Trial) -> Problem:
        return Problem(apply, trial.draw.x, trial.draw.y, losses.mean_mse)

    def made(loss: Callable[..., Any], trial: Trial) -> Map:
        return rule(loss, trial.lr)

    def batches(trial: Trial) -> Batches:
        return Batches(size, seed=trial.draw.seed)

    def critical(state: Any, trial: Trial) -> Any:
        x = trial.draw.x if whole else trial.draw.x[state.rows]
        return by_kernel(state if whole else params_of(state), x) / trial.lr

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
    between = every if whole else 1
    if count:
        probes["critical"] = Probe(critical, between, whole=True)
    stop = Stop(converged, diverged, every)
    name = f"{task.name}, {label or f'batches of {size:,}'}"

    def run(trials: Trial) -> xr.Dataset:
        found = train(
            problem,
            start,
            steps=steps,
            rule=made,
            batches=None if whole else batches,  # a full batch needs no shuffling
            probes=probes,
            over={"trial": trials},
            stop=stop,
            label=name,
        )
        return _best(found.dataset.rename(trial="seed"), every, between if count else None)

    return run


def _best(run: xr.Dataset, every: int, between: int | None) -> xr.Dataset:
    """The results of a run at the look with the smallest validation score; steps were compared every `between`."""
    looks = next(dim for dim in run.valid.dims if dim != "seed")
    best = run.valid.where(np.isfinite(run.valid), np.inf).argmin(looks)
    at = {name: run[f"valid_{name}"].isel({looks: best}).values for name in ("test", "training", "aligned")}
    ended = run.stopped_at.values
    over = _over(run, between or 1) if between else np.zeros((len(ended), 1), bool)
    counted = [int(row[: int(b) * every].sum()) for row, b in zip(over, best.values, strict=True)]
    share = [float(row[: int(n)].mean()) if n else 0.0 for row, n in zip(over, ended, strict=True)]
    kept = at | {"catapults": counted, "over": share, "outcome": run.outcome.values, "stopped_at": ended}
    found = xr.Dataset({name: ("seed", np.asarray(values)) for name, values in kept.items()})
    curve, count_of_looks = run.valid.transpose("seed", looks).values, run.sizes[looks]
    numbers = np.arange(count_of_looks)
    return found.assign(curve=(("seed", "look"), curve), at=("look", every * numbers)).assign_coords(look=numbers)


def _over(run: xr.Dataset, between: int) -> np.ndarray:
    """Truth values `(seed, step)`: whether a step is beyond the critical one."""
    return np.repeat((run.critical.transpose("seed", ...) < 1 - 1e-8).values, between, axis=1)


def batch_sizes(
    task: FeatureTask,
    setting: Setting,
    sizes: Sequence[int],
    seeds: range,
    *,
    shares: Sequence[float] = (),
    lr: float | None = None,
    count: bool = True,
) -> xr.Dataset:
    """Runs with batches of several sizes, along `batch`, all with the same step sizes.

    The step sizes are shares of the critical step of all samples, along `share`, or all are `lr`.
    """
    draws = task.draws(seeds)
    critical = critical_steps(task, draws)
    steps = np.multiply.outer(shares, critical) if lr is None else np.full((1, len(critical)), lr)
    found = [_sized(task, setting, size, draws, steps, count=count) for size in sizes]
    data = xr.concat(found, "batch", join="outer").assign_coords(batch=list(sizes), seed=list(seeds))
    data = data.assign_coords(share=list(shares) if lr is None else [np.nan])
    return data.assign(lr=(("share", "seed"), steps.astype(np.float32)), critical=("seed", critical))


def largest_that_trains(
    task: FeatureTask, setting: Setting, sizes: Sequence[int], seeds: range, *, share: float, halvings: int
) -> xr.Dataset:
    """Runs with batches of several sizes, and the largest step size at which the smallest batches train.

    The step size starts at `share` of the critical step of all samples. In each draw separately it is halved until the
    run with the smallest batches reaches the goal of the training loss; nothing else decides. All batch sizes of a draw
    take the same step size.

    Returns:
        A dataset as from `batch_sizes`, without shares, with `taken`, the share, over `seed`, and `trained`, the number
        of draws that trained, along `halving`.
    """
    draws = task.draws(seeds)
    critical = critical_steps(task, draws)
    taken, trained = np.full(len(seeds), share), []
    training = batch_training(task, setting, sizes[0], draws.y.shape[1])
    while True:
        smallest = training(Trial(draws, (taken * critical).astype(np.float32)))
        good = ended_well(smallest).values
        trained.append(int(good.sum()))
        if good.all() or len(trained) > halvings:
            break
        taken = np.where(good, taken, taken / 2)
    others = [_sized(task, setting, size, draws, (taken * critical)[None]).isel(share=0) for size in sizes[1:]]
    data = xr.concat([smallest, *others], "batch", join="outer")
    data = data.assign_coords(batch=list(sizes), seed=list(seeds))
    return data.assign(
        taken=("seed", taken), lr=("seed", taken * critical), critical=("seed", critical), trained=("halving", trained)
    )


def _sized(
    task: FeatureTask, setting: Setting, size: int, draws: Draw, steps: np.ndarray, *, count: bool = True
) -> xr.Dataset:
    """Runs with batches of one size, for every row of step sizes along `share`."""
    training = batch_training(task, setting, size, draws.y.shape[1], count=count)
    return xr.concat([training(Trial(draws, row)) for row in steps.astype(np.float32)], "share", join="outer")


def ended_well(data: xr.Dataset) -> xr.DataArray:
    """Whether a run reached the goal, as truth values."""
    return data.outcome == Outcome.CONVERGED
