"""Stochastic gradient descent under schedules and controllers of the step size, for many sizes and seeds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from secant import data, losses, nets
from secant.curvature import ntk
from secant.dynamics import Map, Outcome, Probe, Stop
from secant.nets.network import Network
from secant.optim import Batches, Problem, control, optimisers, train

SCHEDULES = ("constant", "warm-up", "cosine", "below critical")
"""Rules with a given step size."""

CONTROLLED = "below critical"
"""The controller among the rules."""


class Draw(NamedTuple):
    """Data, weights and the unit of the step size, for one seed."""

    seed: Any
    start: Any
    critical: Any
    x: Any
    y: Any
    x_valid: Any
    y_valid: Any
    x_test: Any
    y_test: Any


class Setting(NamedTuple):
    """The settings that all runs of a panel share.

    Attributes:
        task: a target of `secant.data.TARGETS` or the name of a data set.
        width: neurons of each hidden layer.
        samples: training samples.
        held_out: validation samples, and as many test samples.
        dim: features of a synthetic target.
        batch: samples a step.
        steps: how many steps.
        look: steps between two looks at the held-out samples.
    """

    task: str
    width: int
    samples: int
    held_out: int
    dim: int
    batch: int
    steps: int
    look: int


def is_regression(task: str) -> bool:
    """Whether a task is judged by its loss; other tasks are judged by their error."""
    return task in data.TARGETS


def network_for(setting: Setting) -> Network:
    """The network: two layers for a synthetic target; three layers with one output a class for images."""
    return nets.mlp([setting.width]) if is_regression(setting.task) else nets.mlp([setting.width] * 2, outputs=10)


def draw(net: Network, setting: Setting, seed: int) -> Draw:
    """The draw of one seed. The unit of the step size is the tangent-kernel critical step of all samples."""
    of_data, of_net = jax.random.split(jax.random.key(seed))
    counts: dict[str, Any] = {
        "samples": setting.samples,
        "validation_samples": setting.held_out,
        "test_samples": setting.held_out,
    }
    if is_regression(setting.task):
        task = data.regression(setting.task, of_data, dim=setting.dim, **counts)
    else:
        task = data.load(setting.task, labels="one-hot", seed=seed, **counts)
    assert task.validation is not None
    start = net.init(of_net, task.train.x.shape)
    top = float(ntk(net.apply, start, task.train.x).top(1).values[0])
    splits = (*task.train, *task.validation, *task.test)
    return Draw(np.uint32(seed), start, np.float32(setting.samples / top), *splits)


Rule = Callable[[Any, Any], optimisers.Optimiser]
"""Step size, number of a variant -> the optimiser that makes the steps."""


def scheduled(steps: int) -> Rule:
    """A constant step, a warm-up over the first tenth, or a cosine, chosen by its number in `SCHEDULES`."""

    def rule(size: Any, kind: Any) -> optimisers.Optimiser:
        def schedule(step: Any) -> Any:
            shapes = 1.0, jnp.minimum(1.0, 10 * (step + 1) / steps), (1 + jnp.cos(jnp.pi * step / steps)) / 2
            return size * jnp.stack([jnp.asarray(shape, size.dtype) for shape in shapes])[kind]

        return optimisers.gd(schedule)

    return rule


def below_critical(size: Any, kind: Any) -> optimisers.Optimiser:
    """The controller `below_critical`, with steps of at most the given size."""
    return _behind(control.below_critical(lr=size, share=0.9))


def thrown(over: float, rest: int) -> Rule:
    """Catapults on purpose, as many as the variant's number; outside of catapults the step is just below critical."""
    return lambda size, count: _behind(control.catapults(count, over=over, rest=rest, patience=4 * rest))


def _behind(transformation: Any) -> optimisers.Optimiser:
    # As `from_optax`, but without the trial of the chain's order at every call, which costs seconds while traced.
    chain = optax.chain(optax.sgd(1.0), transformation)
    return optimisers.Optimiser("optax", (("transformation", chain),), chain)


def runs(
    net: Network,
    setting: Setting,
    rule: Rule,
    ratios: Sequence[float],
    variants: Sequence[int],
    draws: Draw,
    label: str,
) -> xr.Dataset:
    r"""Trains with every variant of a rule, for every step size in units of the critical one, from every draw.

    Returns:
        Over `variant`, `seed` and `ratio`: `score`, the test loss or error, and `valid`, the validation loss, both at
        the look with the smallest validation loss; `training` loss at the end; `outcome`. A run that has diverged gets
        the score of guessing (the best constant, or one class of ten) and an infinite validation loss.
    """
    regression = is_regression(setting.task)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return losses.mean_mse(net.apply(params, x), y)

    def made(loss: Callable[..., Any], draw: Draw, ratio: Any, variant: Any) -> Map:
        return rule(ratio * draw.critical, variant)(loss)

    def look(params: Any, draw: Draw) -> dict[str, Any]:
        outputs = net.apply(params, draw.x_test)
        wrong = jnp.mean((jnp.argmax(outputs, -1) != jnp.argmax(draw.y_test, -1)).astype(outputs.dtype))
        return {
            "value": loss(params, draw.x_valid, draw.y_valid),
            "score": losses.mean_mse(outputs, draw.y_test) if regression else wrong,
            "training": loss(params, draw.x, draw.y),
        }

    run = train(
        lambda draw: Problem(net.apply, draw.x, draw.y, losses.mean_mse),
        lambda draw: draw.start,
        steps=setting.steps - setting.steps % setting.look,
        rule=made,
        batches=lambda draw: Batches(setting.batch, seed=draw.seed),
        probes={"valid": Probe(look, setting.look)},
        over={"variant": np.asarray(variants), "draw": draws, "ratio": np.asarray(ratios, np.float32)},
        stop=Stop(diverged=lambda params, draw: ~(loss(params, draw.x, draw.y) < 1e6), every=setting.look),
        label=label,
    ).dataset.rename(draw="seed")
    lost = run.outcome == Outcome.DIVERGED
    best = run.valid.fillna(np.inf).argmin("step")
    guess = xr.DataArray(np.var(draws.y_test, axis=1) if regression else np.full(len(draws.seed), 0.9), dims="seed")
    found = {
        "score": run.valid_score.isel(step=best).where(~lost, guess),
        "valid": run.valid.isel(step=best).where(~lost, np.inf),
        "training": run.valid_training.isel(step=-1),
        "outcome": run.outcome,
    }
    dims = ("variant", "seed", "ratio")
    return xr.Dataset({name: (dims, values.transpose(*dims).values) for name, values in found.items()})


def tuned(data: xr.Dataset) -> xr.DataArray:
    """The score at the step size with the smallest validation loss, chosen for each seed separately."""
    return data.score.isel(ratio=data.valid.argmin("ratio"))
