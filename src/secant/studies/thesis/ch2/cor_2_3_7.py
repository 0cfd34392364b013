"""Corollary 2.3.7: around its start a wide network is close to its linearisation, and gradient descent stays there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.special import roots_jacobi

from secant import nets
from secant.core.types import Params
from secant.curvature import output_hessian
from secant.dynamics import Probe
from secant.lab import Figure, Findings, claims, option, scaled, sheet, study
from secant.linalg.norm import Norm, leading_pair
from secant.linalg.spaces import unravel_like
from secant.nets import Network
from secant.setups.width import (
    COPIES,
    KINDS,
    LANCZOS,
    WidthConfig,
    descend,
    direction,
    drawn,
    exponent,
    global_minimum,
    hessian_norm,
    logarithm,
    mark_widths,
    next_order,
    orthogonal_inputs,
    refuse_dependent,
    refuse_oversized,
    resolved,
)
from secant.theory.power_law import fit_power_law

NODES = 5
"""Points on the way from the start to the sphere at which the Hessian is looked at."""

LOOKS = 4
"""Looks at the Hessian along a run, beside that at its start."""

CLOSE = 1e-2
"""A distance from the start at which a network is its quadratic model, to its square; less for large inputs."""

WAYS = ("top", "random")
"""Along the leading eigenvector of the Hessian at the start, and along a random direction."""


@dataclass(frozen=True)
class Config(WidthConfig):
    """Widths, networks, the ball and the run."""

    seeds: int = scaled(smoke=24, laptop=12, at_least=2, at_most=10_000, help="random networks of each width")
    radius: float = option(1.0, at_least=1e-3, at_most=100, help="distance from the start")
    directions: int = option(
        16, at_least=2, at_most=10_000, help="random directions in which the remainder is measured"
    )
    samples: int = option(4, at_least=1, at_most=1_000, help="orthogonal points that gradient descent fits")
    steps: int = option(120, at_least=10, at_most=100_000, help="gradient-descent steps")

    def check(self) -> None:
        """Refuses more orthogonal points than there are dimensions."""
        refuse_dependent(self.samples, self.dim)


@study(
    "thesis/cor-2.3.7", section="2.3", title="A wide network and its linearisation, in a ball and on the way down",
    statement=r"""
    In the ball of radius $R$ around the start, $|f(w) - f_{\mathrm{lin}}(w)| \le \frac12 R^2 \sup \|H_f\| =
    \tilde O(1/\sqrt m)$ with $f_{\mathrm{lin}}(w) = f(w_0) + (w - w_0)^\top \nabla f(w_0)$. The remainder is exactly
    $\int_0^1 (1 - s)\,\delta^\top H_f(w_0 + s\delta)\,\delta\,ds$ with $\delta = w - w_0$, so no point of the way has
    more to say than its $\|H_f\|$.

    Along the leading eigenvector of the Hessian the remainder falls as $1/\sqrt m$: the rate is attained. Along a
    random direction it is the mean curvature over all $p$ weights, of order $\|H_f\|_F/p$, and falls as $1/p$,
    nearly $1/m^2$. The norm of the Hessian has the same rate on the sphere, and along gradient descent to a global
    minimum, as at the start.

    Two hidden layers of $m$ tanh neurons. The points that are fitted are orthogonal, so that the condition number of
    their tangent kernel is a few units whatever the draw. The rate $(1 - \eta\lambda_{\min})^t$ of section 2.4 then
    reaches a global minimum, a millionth of the first loss, within the steps of the run.""",
)
def run(config: Config) -> xr.Dataset:
    key_input, key_labels = jax.random.split(jax.random.key(config.seed))
    make = KINDS["fcn"].make
    refuse_oversized(
        "thesis/cor-2.3.7", KINDS["fcn"].by_width(config.dim, key_input), config.dim, config.widths,
        copies=2 * COPIES + config.seeds,  # a norm, one on the way of a run, and all starts
        itemsize=8,
    )
    x = orthogonal_inputs(jax.random.split(key_input, config.samples), config.dim, config.size)
    y = jax.random.rademacher(key_labels, (config.samples,)).astype(float)
    found = []
    for j, width in enumerate(config.widths):
        net = make(width, config.dim, key_input)
        starts = drawn(net, x, (config.seed, j), config.seeds)
        around, along = _ball(net, x[:1], starts, config), _descent(net, x, y, starts, config)
        found.append(xr.merge([around, along]).assign(weights=nets.count_parameters(starts[0])))
    return xr.concat(found, "width").assign_coords(width=list(config.widths))


def _ball(net: Network, x: jax.Array, starts: list[Params], config: Config) -> xr.Dataset:
    """Norms of the Hessian on the way to the sphere, and the remainder of the linearisation there."""
    # A Gauss rule for the weight 1 - s on [0, 1]: the remainder is a sum of curvatures at these points.
    places = np.array([0.0, *(roots_jacobi(NODES, 1.0, 0.0)[0] + 1) / 2, 1.0])
    lanczos, unravel = direction(starts[0]), unravel_like(starts[0])

    @jax.jit
    def leading(params: Params, x: jax.Array, lanczos: jax.Array) -> jax.Array:
        return leading_pair(output_hessian(net.apply, params, x).flat_product(), lanczos, LANCZOS).vector

    @jax.jit
    def norms(params: Params, way: jax.Array, x: jax.Array, lanczos: jax.Array) -> Norm:
        delta = unravel(way)

        def at(place: jax.Array) -> Norm:
            return hessian_norm(net.apply, jax.tree.map(lambda p, d: p + place * d, params, delta), x, lanczos)

        return jax.lax.map(at, places)

    @jax.jit
    def remainder(params: Params, way: jax.Array, x: jax.Array) -> jax.Array:
        delta = unravel(way)
        value, slope = jax.jvp(lambda p: net.apply(p, x)[0], (params,), (delta,))
        return net.apply(jax.tree.map(jnp.add, params, delta), x)[0] - value - slope

    found: dict[str, list[Any]] = {"norm": [], "residual": [], "remainder": [], "drawn": [], "bend": []}
    for number, params in enumerate(starts):
        random = np.random.default_rng([config.seed, lanczos.size, number])

        def away(random: np.random.Generator = random) -> np.ndarray:
            step = random.normal(size=lanczos.size)
            return config.radius * step / np.linalg.norm(step)

        ways = [config.radius * leading(params, x, lanczos), away()]
        values = np.array([norms(params, way, x, lanczos) for way in ways])
        found["norm"].append(values[:, 0])
        found["residual"].append(values[:, 1])
        found["remainder"].append([float(remainder(params, way, x)) for way in ways])
        # The same close to the start, on both sides: what is left there is curvature alone, with an error of CLOSE^2.
        close = CLOSE / max(1.0, config.size)
        bends = [float(remainder(params, way * close / config.radius, x)) for way in (ways[0], -ways[0])]
        found["bend"].append(sum(bends) / close**2)
        others = [float(remainder(params, away(), x)) for _ in range(config.directions)]
        found["drawn"].append(np.sqrt(np.mean(np.square(others))))
    dims = {"norm": ("way", "place"), "residual": ("way", "place"), "remainder": ("way",), "drawn": (), "bend": ()}
    return xr.Dataset(
        {name: (("network", *dims[name]), np.array(values)) for name, values in found.items()},
        coords={"way": list(WAYS), "place": places},
    )


def _descent(net: Network, x: jax.Array, y: jax.Array, starts: list[Params], config: Config) -> xr.Dataset:
    """The Hessian of the first output along gradient descent to a global minimum."""
    lanczos = direction(starts[0])
    look = Probe(lambda params: hessian_norm(net.apply, params, x, lanczos).value, every=config.steps // LOOKS)
    data = descend(net.apply, x, y, starts, config.steps, {"path_norm": look})
    return xr.Dataset(
        {
            "path_norm": (("network", "look"), data.path_norm.values),
            "end": ("network", (data.loss.isel(step=-1) / data.loss.isel(step=0)).values),
            "slowest": ("network", data.slowest.values),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    logs = logarithm(config.widths)
    at = {
        "at random points of the sphere": data.norm.sel(way="random").isel(place=-1),
        "on the sphere, along the leading eigenvector": data.norm.sel(way="top").isel(place=-1),
        "along gradient descent, largest": data.path_norm.max("look"),
    }
    for place, norms in at.items():
        yield claims.at_most(f"norm of the Hessian {place}: exponent in the width", -0.5, exponent(norms), slack=logs)
    yield claims.equal(
        "remainder along the leading eigenvector: exponent in the width", -0.5,
        exponent(np.abs(data.remainder.sel(way="top"))), logs,
    )
    growth = np.polyfit(np.log(data.width.values), np.log(data.weights.values), 1)[0]
    yield claims.equal(
        "remainder along random directions, root mean square: exponent in the width", -growth, exponent(data.drawn),
        next_order(config.widths, 0.5), note="minus the exponent of the number of weights",
    )
    largest = data.norm.max("place")
    yield claims.at_most(
        "remainder over half the squared radius times the largest norm on the way: largest", 1.0,
        (np.abs(data.remainder) / (config.radius**2 / 2 * largest)).max(),
        "a Gauss rule with positive weights at the points looked at, of degree nine", slack=1e-6,
    )
    ratios = (np.abs(data.bend) / data.norm.sel(way="top").isel(place=0)).values.ravel()
    yield claims.equal(
        "second difference of the network along the leading eigenvector over the norm at the start: furthest from 1",
        1.0, ratios[np.argmax(np.abs(ratios - 1))], 10 * CLOSE**2,
        "the next even order, at a distance of 0.01, times some units",
    )
    name = "loss at the end of gradient descent over the first: largest"
    yield global_minimum(name, data.end, (1 - data.slowest) ** config.steps, 1e-6)
    yield resolved(data)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 5.4), 2)
    ink = sheet.ink()
    norms = {
        "at the start": data.norm.sel(way="top").isel(place=0),
        "sphere, random point": data.norm.sel(way="random").isel(place=-1),
        "sphere, along the leading eigenvector": data.norm.sel(way="top").isel(place=-1),
        "gradient descent, largest": data.path_norm.max("look"),
    }
    remainders = {
        r"bound, $\frac{1}{2}R^2 \max\,\|H_f\|$": config.radius**2 / 2 * data.norm.sel(way="top").max("place"),
        "along the leading eigenvector": np.abs(data.remainder.sel(way="top")), "along random directions": data.drawn,
    }
    for axes, curves, marks in ((left, norms, "osD^"), (right, remainders, "^sD")):
        for (label, values), mark in zip(curves.items(), marks, strict=True):
            found = fit_power_law(data.width, values.transpose("width", "network"))
            (points,) = axes.plot(
                data.width, np.exp(np.log(values).mean("network")), mark, ms=6, mfc="none", mew=1.4,
                label=f"{label}: {found.exponent:.2f}",
            )  # fmt: skip
            axes.plot(data.width, found(data.width), color=points.get_color(), lw=1)
        mark_widths(axes, data.width)
        axes.legend(
            fontsize=8, title="exponent in the width", title_fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16)
        )
    first = float(norms["at the start"].isel(width=0).mean())
    left.plot(data.width, 0.75 * first * (data.width / data.width[0]) ** -0.5, "--", color=ink, lw=1.2)
    middle = float(data.width[data.width.size // 2])
    height = 0.75 * first * (middle / float(data.width[0])) ** -0.5
    left.annotate(
        r"$1/\sqrt{m}$", (middle, height), xytext=(-8, -8), textcoords="offset points", color=ink, ha="right", va="top"
    )
    left.set(title="Norm of the Hessian", ylabel=r"$\|H_f\|$")
    right.set(title=f"Remainder of the linearisation at distance {config.radius:g}", ylabel=r"$|f - f_{\mathrm{lin}}|$")
