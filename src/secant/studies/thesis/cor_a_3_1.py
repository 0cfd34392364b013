"""Corollary A.3.1: a wide network with several outputs turns linear in all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.curvature import second_derivative
from secant.lab import Finding, Tolerance, option, study
from secant.linalg.norm import leading_pair
from secant.linalg.spaces import unravel_like
from secant.nets import Network, dag, graphs
from secant.nets.network import Params
from secant.studies.thesis._width import (
    LANCZOS,
    WidthConfig,
    direction,
    drawn,
    law,
    mark_widths,
    one_input,
    refuse_oversized,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config(WidthConfig):
    """Widths, networks, outputs and the input."""

    outputs: int = option(3, at_least=2, help="outputs")
    rounds: int = option(6, at_least=1, help="alternations between the direction of outputs and that of weights")


@study(
    "thesis/cor-A.3.1",
    section="A.3",
    title="Several outputs turn linear together",
    statement=r"""
    The second derivative of $d_L$ outputs is a tensor of three indices, with the norm
    $\|H_f\| = \sup \sum_{ijk} H_{ijk}\,v_iu_js_k$ over unit vectors. It is at most $d_L \max_k \|H_{f_k}\|$, so for a
    fixed number of outputs it is $\tilde O(1/\sqrt m)$ too.

    The supremum over $s$ is the norm of $\sum_k s_k H_{f_k}$, which by the inequality of Cauchy and Schwarz is at most
    $\sqrt{d_L}$ times the largest of the outputs' own: the corollary could say so. It is found by turns: the leading
    eigenvector $u$ for a given $s$, then $s_k \propto u^\top H_{f_k} u$, which never lowers the value.""",
)
def run(config: Config) -> xr.Dataset:
    def make(m: int) -> Network:
        return dag(graphs.fully_connected(config.dim, [m, m], config.outputs), "tanh")

    refuse_oversized("thesis/cor-A.3.1", make, config.dim, config.widths, itemsize=8)
    x = one_input(jax.random.key(config.seed), config.dim, config.size)
    own, joint = np.empty((2, len(config.widths), config.seeds, config.outputs))
    for j, width in enumerate(config.widths):
        net = make(width)
        climb = _climber(net, x)
        for k, params in enumerate(drawn(net, x, (config.seed, j), config.seeds)):
            for output, start in enumerate(np.eye(config.outputs)):
                own[j, k, output], joint[j, k, output] = climb(params, start, config.rounds)
    dims = ("width", "network", "output")
    return xr.Dataset({"own": (dims, own), "joint": (dims, joint)}, coords={"width": list(config.widths)})


def _climber(net: Network, x: jax.Array) -> Callable[[Params, np.ndarray, int], tuple[float, float]]:
    """From one output's own norm up to one of the tensor: both, by alternating maximisation."""

    @jax.jit
    def turn(params: Params, mix: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        pair = leading_pair(second_derivative(net.apply, params, x, mix[None]).flat_product(), start, LANCZOS)
        way = unravel_like(params)(pair.vector)

        def slope(p: Params) -> jax.Array:
            return jax.jvp(lambda p: net.apply(p, x)[0], (p,), (way,))[1]

        bend = jax.jvp(slope, (params,), (way,))[1]
        return jnp.abs(pair.value), bend / jnp.linalg.norm(bend)

    def climb(params: Params, mix: np.ndarray, rounds: int) -> tuple[float, float]:
        start, now = direction(params), jnp.asarray(mix)
        values = []
        for _ in range(rounds + 1):
            value, now = turn(params, now, start)
            values.append(float(value))
        return values[0], values[-1]

    return climb


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    own, joint = data.own.max("output"), data.joint.max("output")
    yield Finding(
        "norm of the tensor over the largest of the outputs' own: largest",
        predicted=float(config.outputs),
        measured=float((joint / own).max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="the corollary's bound, which holds for every matrix"),
    )
    yield Finding(
        "the same, with the root of the number of outputs",
        predicted=float(np.sqrt(config.outputs)),
        measured=float((joint / own).max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="Cauchy and Schwarz"),
    )
    yield Finding(
        "the same: smallest",
        predicted=1.0,
        measured=float((joint / own).min()),
        relation="at least",
        tolerance=Tolerance(1e-3, why="one output alone is allowed as well; eigenvalues from 32 products"),
    )
    found = law(joint)
    yield Finding(
        "exponent of the tensor's norm in the width",
        predicted=-0.5,
        measured=found.exponent,
        relation="at most",
        tolerance=Tolerance(
            0.15, why="a maximum of m Gaussian weights adds 1/(2 log m) = 0.1 to the exponent; half of that again"
        ),
        uncertainty=found.error,
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(7.6, 4.4)
    axes, ink = figure.subplots(), plt.rcParams["text.color"]
    own, joint = data.own.max("output"), data.joint.max("output")
    for label, values, mark in (("largest of the outputs", own, "o"), ("all outputs together", joint, "s")):
        found = law(values)
        (points,) = axes.plot(
            data.width, np.exp(np.log(values).mean("network")), mark, ms=6, label=f"{label}: {found.exponent:.2f}"
        )
        axes.plot(data.width, found(data.width), color=points.get_color(), lw=1)
    mean = np.exp(np.log(own).mean("network"))
    axes.plot(data.width, np.sqrt(config.outputs) * mean, ":", color=ink, lw=1.4, label=r"$\sqrt{d_L}\,\max_k \|H_k\|$")
    axes.plot(data.width, config.outputs * mean, "--", color=ink, lw=1.2, label=r"$d_L \max_k \|H_k\|$")
    mark_widths(axes, data.width)
    axes.set(title=f"Hessian of {config.outputs} outputs", ylabel="norm")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), title="exponent", title_fontsize=8)
