"""Equation (3.4): how far a wide network is from its linear and its quadratic model, on the way down and at worst."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.dynamics import Probe, simulate
from secant.lab import Figure, Findings, claims, option, scaled, sheet, study
from secant.losses import half_sum
from secant.optim import gradient_descent
from secant.setups.width import (
    WidthConfig,
    exponent,
    law,
    mark_widths,
    next_order,
    refuse_dependent,
    refuse_oversized,
)
from secant.theory.quadratic_model import TwoLayer

Activation = Callable[[jax.Array], jax.Array]

ACTIVATIONS: dict[str, Activation] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
WAYS = ("training", "unseen", "together")
"""On training and on unseen inputs along gradient descent, and where all neurons move alike."""

PAIRS = ("network - linear", "quadratic - linear", "network - quadratic")

GROUP = 4
"""So many networks make one measurement: in a single narrow one it may be that no neuron crosses its border."""

EXPONENTS: dict[tuple[str, str], tuple[float | None, float, float]] = {
    ("tanh", "training"): (-1.0, -1.0, -1.0), ("tanh", "together"): (-0.5, -0.5, -1.5),
    ("relu", "training"): (None, -1.0, -0.5), ("relu", "unseen"): (None, -1.0, -0.75),
    ("relu", "together"): (-0.5, -0.5, -0.75),
}
"""Derived in the statement, in the order of `PAIRS`; none where two powers compete."""


@dataclass(frozen=True)
class Config(WidthConfig):
    """Widths, networks, data and the run."""

    widths: tuple[int, ...] = scaled(
        smoke=(256, 4_096), laptop=(256, 1_024, 4_096, 16_384), paper=(256, 1_024, 4_096, 16_384, 65_536),
        at_least=8, shortest=2, ascending=True, help="hidden neurons, increasing",
    )  # fmt: skip
    seeds: int = scaled(
        smoke=64, laptop=32, paper=64, at_least=2 * GROUP, at_most=10_000, help="random networks of each width"
    )
    size: float = option(1.0, at_least=1e-3, at_most=100, help="root mean square of the inputs")
    samples: int = option(
        4, at_least=1, at_most=1_000, help="orthogonal inputs that gradient descent fits, and as many random ones"
    )
    ratio: float = option(0.5, at_least=1e-3, at_most=0.99, help="step size over the critical one")
    steps: int = scaled(smoke=20, laptop=60, paper=100, at_least=10, at_most=100_000, help="gradient-descent steps")
    radius: float = option(1.0, at_least=1e-3, at_most=100, help="distance from the start where all neurons move alike")

    def check(self) -> None:
        """Refuses more orthogonal inputs than there are dimensions."""
        refuse_dependent(self.samples, self.dim)


class Start(NamedTuple):
    """An untrained network.

    Attributes:
        params: its weights.
        lr: the step size.
    """

    params: TwoLayer
    lr: jax.Array


@study(
    "thesis/eq-3.4", section="3.1", title="A network, its linear and its quadratic model",
    statement=r"""
    In a ball of fixed radius around the start $\|f - f_{\mathrm{lin}}\|$, and so
    $\|f_{\mathrm{quad}} - f_{\mathrm{lin}}\|$, is $\tilde O(1/\sqrt m)$. Below the critical step size gradient descent
    stays in such a ball.

    The rate is attained where all neurons of $f = \frac{1}{\sqrt m}\sum_i v_i\,\sigma(z_i)$,
    $z_i = u_i^\top x/\sqrt d$, move alike, by $O(1/\sqrt m)$ each: $\frac{1}{\sqrt m}\sum_i \delta v_i\,\sigma'(z_i)\,
    \delta z_i$ has $m$ terms of one sign. Gradient descent does not go there. It moves
    $\delta z_i \propto v_i/\sqrt m$ and $\delta v_i \propto \sigma/\sqrt m$, which makes every term of second order odd
    in the random $v_i$: the sum has $\sqrt m$ of its $m$ terms left, and
    $f_{\mathrm{quad}} - f_{\mathrm{lin}} = O(1/m)$. At third order $\frac{1}{2\sqrt m}\sum_i\delta v_i\,\sigma''\,
    \delta z_i^2$ is even in $v_i$ and adds up, to $1/m$ as well. So for a smooth activation all three models differ by
    $1/m$, and the quadratic model is closer than the linear one by a factor only, not by a power of the width. Where
    all neurons move alike it is closer by $1/m$ ($\sigma''$ odd).

    For ReLU $f - f_{\mathrm{quad}}$ is all in the gates: of the $m$ neurons about $\sqrt m$ are so near their border
    that they cross it, and each then makes an error $\frac{v_i}{\sqrt m}|z_i + \delta z_i|$ of order $1/m$. If their
    signs are random that is $m^{-3/4}$. On a training input they are not: the input pulls only on neurons that are on,
    so that those with one sign of $v_i$ are pushed over the border and their errors add up to $1/\sqrt m$. There the
    rate of (3.4) is attained by gradient descent too, and the quadratic model is no closer to the network than the
    linear one.""",
)
def run(config: Config) -> xr.Dataset:
    refuse_oversized(
        "thesis/eq-3.4", lambda m: nets.mlp([m]), config.dim, config.widths,
        copies=6 * len(ACTIVATIONS) * len(config.widths) * config.seeds, itemsize=8,
    )
    random = np.random.default_rng(config.seed)  # on the host: nothing is compiled for it
    inputs = random.normal(size=(2 * config.samples, config.dim))
    # Orthogonal ones do not pull on each other's neurons, which would hide the sign of the errors in narrow networks.
    inputs[: config.samples] = np.linalg.qr(inputs[: config.samples].T)[0].T
    inputs *= config.size * np.sqrt(config.dim) / np.linalg.norm(inputs, axis=1, keepdims=True)
    y, x = random.choice([-1.0, 1.0], config.samples), inputs[: config.samples]
    found = [_followed(name, start, inputs, y, config) for (name, _), start in _starts(x, config, random).items()]
    table = {name: np.stack([one[name] for one in found]) for name in found[0]}
    shape, dims = (len(ACTIVATIONS), len(config.widths), config.seeds), ("activation", "width", "network")
    return xr.Dataset(
        {
            "apart": ((*dims, "way", "pair"), table["apart"].reshape(*shape, len(WAYS), len(PAIRS))),
            "distance": (dims, table["distance"].reshape(shape)), "rise": (dims, table["rise"].reshape(shape)),
        },
        coords={
            "activation": list(ACTIVATIONS), "way": list(WAYS), "pair": list(PAIRS), "width": list(config.widths),
        },
    )


def _followed(name: str, starts: Start, inputs: np.ndarray, y: np.ndarray, config: Config) -> dict[str, np.ndarray]:
    """Networks of one activation and width, a row each: gaps by way and pair, largest distance, rise of the loss."""
    activation, x = ACTIVATIONS[name], inputs[: len(y)]
    found = simulate(
        lambda start: gradient_descent(lambda params: half_sum(_outputs(activation, params, x), y), start.lr),
        lambda start: start.params, config.steps, over={"start": starts},
        probes={
            "apart": Probe(
                lambda params, start: _look(activation, params, start, inputs, y), 5, dims=("pair", "inputs")
            )
        },
    ).dataset
    along = found["apart"].max("step").transpose("start", "inputs", "pair").values
    alike = jax.jit(jax.vmap(lambda start: _together(activation, start, jnp.asarray(x), config.radius)))(starts)
    return {
        "apart": np.concatenate([along, np.asarray(alike)[:, None]], axis=1),
        "distance": found.apart_distance.max("step").values, "rise": found.apart_loss.diff("step").max("step").values,
    }


def _starts(x: np.ndarray, config: Config, random: np.random.Generator) -> dict[tuple[str, int], Start]:
    """All networks by activation and width, stacked. Both activations have the same weights."""
    widest, count = max(config.widths), len(config.widths) * config.seeds
    u, v = random.normal(size=(count, widest, config.dim)), random.choice([-1.0, 1.0], (count, widest))
    found = {}
    for name, number in itertools.product(ACTIVATIONS, range(len(config.widths))):
        rows, width = slice(number * config.seeds, (number + 1) * config.seeds), config.widths[number]
        inner, outer = u[rows, :width], v[rows, :width]
        z = np.einsum("nd,kmd->knm", x, inner) / np.sqrt(config.dim)
        hidden, slope = (np.tanh(z), 1 - np.tanh(z) ** 2) if name == "tanh" else (np.maximum(z, 0), 1.0 * (z > 0))
        pull = slope * outer[:, None]
        kernel = pull @ pull.swapaxes(1, 2) * (x @ x.T / config.dim) + hidden @ hidden.swapaxes(1, 2)
        lr = 2 * config.ratio * width / np.linalg.eigvalsh(kernel)[:, -1]
        found[name, width] = Start(TwoLayer(jnp.asarray(inner), jnp.asarray(outer)), jnp.asarray(lr))
    return found


def _outputs(activation: Activation, params: TwoLayer, x: jax.Array | np.ndarray) -> jax.Array:
    return activation(x @ params.u.T / np.sqrt(x.shape[1])) @ params.v / np.sqrt(len(params.v))


def _gaps(activation: Activation, start: Start, change: TwoLayer, x: jax.Array | np.ndarray) -> jax.Array:
    """Differences of the three models as far from the start as `change`, one row each, as in `PAIRS`."""

    def slope(params: TwoLayer) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(lambda p: _outputs(activation, p, x), (params,), (change,))

    (value, first), (_, second) = jax.jvp(slope, (start.params,), (change,))
    rest = _outputs(activation, jax.tree.map(jnp.add, start.params, change), x) - value - first
    return jnp.stack([rest, second / 2, rest - second / 2])


def _look(
    activation: Activation, params: TwoLayer, start: Start, inputs: np.ndarray, y: np.ndarray
) -> dict[str, jax.Array]:
    """Root mean squares over the training inputs and over the others, and how the run stands."""
    change = jax.tree.map(jnp.subtract, params, start.params)
    squares = _gaps(activation, start, change, inputs).reshape(len(PAIRS), 2, len(y)) ** 2
    return {
        "value": jnp.sqrt(jnp.mean(squares, axis=-1)),
        "distance": jnp.sqrt(jnp.sum(change.u**2) + jnp.sum(change.v**2)),
        "loss": half_sum(_outputs(activation, params, inputs[: len(y)]), y),
    }


def _together(activation: Activation, start: Start, x: jax.Array, radius: float) -> jax.Array:
    """The same where each neuron has moved as far in its inner weights, towards the input, as in its outer weight."""
    step = jnp.full_like(start.params.v, radius / np.sqrt(2 * len(start.params.v)))

    def at(sample: jax.Array) -> jax.Array:
        towards = TwoLayer(step[:, None] * sample / jnp.linalg.norm(sample), step)
        return _gaps(activation, start, towards, sample[None])[:, 0]

    return jnp.sqrt(jnp.mean(jax.vmap(at)(x) ** 2, axis=0))


def _grouped(values: xr.DataArray) -> xr.DataArray:
    """Root mean squares over groups of networks."""
    whole = values.isel(network=slice(0, values.sizes["network"] // GROUP * GROUP))
    squares: xr.DataArray = (whole**2).coarsen(network=GROUP).mean()
    return squares**0.5


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for (activation, way), exponents in EXPONENTS.items():
        where = {"training": "on training inputs", "unseen": "on unseen inputs", "together": "all neurons alike"}[way]
        for pair, power in zip(PAIRS, exponents, strict=True):
            if power is None:
                continue
            yield claims.equal(
                f"{activation}, {where}: exponent of {pair} in the width", power,
                exponent(_grouped(data["apart"].sel(activation=activation, way=way, pair=pair))),
                next_order(config.widths, 0.25),
            )
    largest = max(
        (exponent(_grouped(data["apart"].sel(activation=a, way=w, pair=p))), f"{a}, {w}, {p}")
        for a in ACTIVATIONS
        for w in WAYS
        for p in PAIRS
    )
    yield claims.equal(
        "largest exponent of all: the rate of (3.4), which is attained", -0.5, largest[0],
        next_order(config.widths, 0.25), note=largest[1],
    )
    for activation in ACTIVATIONS:
        yield claims.zero(
            f"{activation}: exponent of the distance from the start in the width",
            exponent(data.distance.sel(activation=activation)), next_order(config.widths, 0.5),
            note="a ball of fixed radius; outputs that move by one need a move of order one",
        )
    yield claims.at_most(
        "largest rise of the loss in five steps", 0.0, data.rise.max(),
        "half of the critical step size is below it; squares of rounding errors", slack=1e-28,
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (11, 8.4), 2, 2, sharex=True)
    titles = {"training": "gradient descent, training inputs", "together": "all neurons move alike"}
    for row, activation in zip(panels, ACTIVATIONS, strict=True):
        for axes, (way, title) in zip(row, titles.items(), strict=True):
            shown = [(way, pair) for pair in PAIRS]
            if (activation, way) == ("relu", "training"):
                shown.append(("unseen", PAIRS[2]))
            for i, (where, pair) in enumerate(shown):
                values = data["apart"].sel(activation=activation, way=where, pair=pair).transpose("width", "network")
                found = law(_grouped(values))
                label = f"{_symbols(pair)}{', unseen' if where == 'unseen' else ''}: {found.exponent:.2f}"
                middle = np.exp(np.log(values.values).mean(axis=1))
                axes.plot(data.width, middle, "osDv"[i], ms=6, mfc="none", mew=1.4, color=f"C{i}", label=label)
                axes.plot(data.width, found(data.width), color=f"C{i}", lw=1)
            mark_widths(axes, data.width)
            axes.set(title=f"{activation}: {title}", xlabel="width $m$" if activation == list(ACTIVATIONS)[-1] else "")
            axes.legend(fontsize=8, title="exponent in the width", title_fontsize=8, loc="lower left")
    for axes in panels[:, 0]:
        axes.set_ylabel("difference, root mean square")


def _symbols(pair: str) -> str:
    symbols = {"network": "f", "linear": r"f_{\mathrm{lin}}", "quadratic": r"f_{\mathrm{quad}}"}
    first, second = (symbols[name] for name in pair.split(" - "))
    return f"${first} - {second}$"
