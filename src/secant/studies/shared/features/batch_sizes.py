"""Training on batches to a goal, as in table 4.1 and figures 4.9 to 4.11: what the best look on the way has found."""

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
from secant.lab import fits_memory
from secant.optim import Batches, Problem, gradient_descent, train
from secant.optim.batches import params_of
from secant.studies.shared.features.tasks import Draw, FeatureTask

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
        count: whether to compare steps with the critical one of their batch: every step, of all samples at each look.
        label: what progress calls it.

    Returns:
        A function of draws with their step sizes, stacked; for as many of them as before it compiles nothing. It gives
        over `seed`: `aligned`, the alignment on the training inputs, `test` score and `training` loss, at the look with
        the smallest validation score; `catapults`, steps up to there with $\eta > \eta_{\mathrm{crit}}$ of their batch,
        where each look at all samples stands for the steps to the next; `over`, the share of all steps that are;
        `outcome` and `stopped_at`; and over `look` the validation score `curve` at the steps `at`.
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
            batches=None if whole else batches,  # of all samples there is nothing to shuffle
            probes=probes,
            over={"trial": trials},
            stop=stop,
            label=name,
        )
        return _best(found.dataset.rename(trial="seed"), every, between if count else None)

    return run


def _best(run: xr.Dataset, every: int, between: int | None) -> xr.Dataset:
    """What a run had found at the look with the smallest validation score; steps were compared every `between`."""
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
    """Which steps are beyond the critical one, `(seed, step)`."""
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
    """Runs with batches of several sizes, along `batch`, each with the same step sizes.

    Those are some shares of the critical one of all samples, along `share`, or all are `lr`.
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

    It is `share` of the critical one of all samples, in every draw by itself halved as often as needed. Whether a run
    reaches the goal of the training loss decides, and nothing else; all batch sizes take the same.

    Returns:
        As `batch_sizes`, without shares; with `taken`, the share, over `seed`, and along `halving` how many draws had
        `trained`.
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


def check_batches(name: str, largest: int, samples: int) -> None:
    """Refuses a batch size that there are too few samples for."""
    if largest > samples:
        raise ValueError(f"{name}: must be at most the number of samples, {samples}, got {largest}.")


def check_runs(config: Any, *, deep: bool = False) -> None:
    """Refuses batches of more samples than there are, and runs of several batch sizes that no memory holds."""
    check_batches("batches", config.batches[-1], config.samples)
    check_memory(
        draws=config.draws,
        samples=config.samples,
        held_out=config.held_out,
        dim=config.dim,
        width=config.width,
        steps=max(config.steps, config.epochs * -(-config.samples // config.batches[0])),
        deep=deep,
    )


def check_memory(*, draws: int, samples: int, held_out: int, dim: int, width: int, steps: int, deep: bool) -> None:
    """Refuses sizes that no memory holds: data, weights and what a step makes of them, and a number for every step."""
    weights = width * (dim + 2 * width * deep)
    each = (samples + 2 * held_out) * (dim + 4 * width) + 8 * weights + samples**2 + steps
    fits_memory(4.0 * draws * each, "draws, samples, held_out, dim, width or steps")


def ended_well(data: xr.Dataset) -> xr.DataArray:
    """Which runs reached the goal."""
    return data.outcome == Outcome.CONVERGED
