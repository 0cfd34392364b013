"""Gradient descent whose step size is raised again and again, as in figures 4.8 and C.13 to C.17."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses
from secant.curvature.tangent_kernel import pair_kernel
from secant.data import TARGETS, regression
from secant.dynamics import Map, Outcome, Probe, Stop, optimisers, simulate
from secant.features import agop_of, alignment
from secant.linalg.norm import largest_eigenvalue
from secant.nets.network import Network

CEILING = 1e8
"""The training loss beyond which a run has diverged: a catapult of these tasks peaks below a thousand."""

RISE = 1.2
"""A loss has risen if it passes this many times its value at the raise."""

Raises = tuple[tuple[int, float], ...]
"""Steps, and the step size from each of them on."""


class Draw(NamedTuple):
    """Data and weights of one seed."""

    start: Any
    x: Any
    y: Any
    x_test: Any
    y_test: Any


def raised(
    net: Network,
    target: str,
    *,
    samples: int,
    tests: int,
    dim: int,
    lr: float,
    raises: Raises,
    steps: int,
    every: int,
    seeds: range,
) -> xr.Dataset:
    r"""Networks trained with the first $0, 1, \dots$ of some raises of the step size, side by side from each start.

    Args:
        net: the network.
        target: one of `secant.data.TARGETS`, whose expected gradient outer product is the truth.
        samples: for training.
        tests: for testing.
        dim: features.
        lr: the step size at the start.
        raises: from which step on it is how large.
        steps: how many, all of them also after the loss has become small: a raise may come later.
        every: steps between two looks at kernel, test loss and alignment.
        seeds: of data and weights.

    Returns:
        Over `seed` and `raises`: `loss` along `step`; `critical` step size, `test` loss and `aligned` along `look`, a
        coordinate of steps; `outcome`.
    """
    kernel, outer = pair_kernel(net.apply), agop_of(net.apply)
    truth = TARGETS[target].egop(dim)
    times = np.asarray([0, *(step for step, _ in raises)])
    sizes = np.asarray([lr, *(size for _, size in raises)], np.float32)

    def draw(seed: int) -> Draw:
        of_data, of_net = jax.random.split(jax.random.key(seed))
        task = regression(target, of_data, samples=samples, test_samples=tests, dim=dim)
        return Draw(net.init(of_net, (samples, dim)), *task.train, *task.test)

    def system(draw: Draw, raises: Any) -> Map:
        def size(step: Any) -> Any:
            reached = jnp.searchsorted(jnp.asarray(times), step, side="right") - 1
            return jnp.asarray(sizes)[jnp.minimum(reached, raises)]

        return optimisers.gd(size)(lambda params: loss(params, draw))

    def loss(params: Any, draw: Draw) -> Any:
        return losses.mean_mse(net.apply(params, draw.x), draw.y)

    def look(params: Any, draw: Draw) -> dict[str, Any]:
        return {
            "value": losses.mean_mse(net.apply(params, draw.x_test), draw.y_test),
            "critical": samples / largest_eigenvalue(kernel(params, draw.x, None)),
            "aligned": alignment(outer(params, draw.x), truth),
        }

    run = simulate(
        system,
        lambda draw: draw.start,
        steps - steps % every,
        probes={"loss": loss, "test": Probe(look, every)},
        over={
            "draw": jax.tree.map(lambda *leaves: np.stack(leaves), *map(draw, seeds)),
            "raises": np.arange(len(raises) + 1),
        },
        stop=Stop(diverged=lambda params, draw: ~(loss(params, draw) < CEILING), every=every),
        label=f"{target}, {len(raises)} raises",
    ).dataset.rename(draw="seed", test_critical="critical", test_aligned="aligned")
    if every > 1:
        run = run.rename({f"step_{every}": "look"})
    return run.drop_vars("stopped_at").assign_coords(seed=list(seeds))


def survived(data: xr.Dataset) -> xr.Dataset:
    """The same, with NaN for runs that have diverged: they have no end to compare."""
    return data.where(data.outcome != Outcome.DIVERGED)


def catapults(data: xr.Dataset, raises: Raises) -> xr.DataArray:
    """After how many of the raises the loss rose, over `seed` and `raises`."""
    count = xr.zeros_like(data.outcome, dtype=int)
    bounds = [step for step, _ in raises] + [int(data.step[-1])]
    for number, (begin, end) in enumerate(itertools.pairwise(bounds), start=1):
        window = data.loss.sel(step=slice(begin, end))
        rose = window.max("step") > RISE * window.isel(step=0)
        count = count + (rose & (data.raises >= number))
    return count
