"""Equation (3.4): how far a wide network is from its linear and its quadratic model, on the way down and at worst."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import to_device
from secant.dynamics import Probe, simulate
from secant.lab import Figure, Findings, claim, option, options, sheet, study, unfold
from secant.losses import half_sum
from secant.optim import gradient_descent
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.two_layer import taylor
from secant.theory.regression.quadratic_model import TwoLayer

ACTIVATIONS: dict[str, taylor.Activation] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
# Gradient descent on training and on unseen inputs, and a move of all neurons alike.
WAYS = {"training": "on training inputs", "unseen": "on unseen inputs", "together": "all neurons alike"}
PAIRS = {
    "network - linear": r"$f - f_{\mathrm{lin}}$",
    "quadratic - linear": r"$f_{\mathrm{quad}} - f_{\mathrm{lin}}$",
    "network - quadratic": r"$f - f_{\mathrm{quad}}$",
}
# Networks per measurement: in a single narrow one perhaps no neuron crosses its border.
GROUP = 4
# The statement derives these, in the order of `PAIRS`; none where two powers compete.
EXPONENTS: dict[tuple[str, str], tuple[float | None, float, float]] = {
    ("tanh", "training"): (-1.0, -1.0, -1.0),
    ("tanh", "together"): (-0.5, -0.5, -1.5),
    ("relu", "training"): (None, -1.0, -0.5),
    ("relu", "unseen"): (None, -1.0, -0.75),
    ("relu", "together"): (-0.5, -0.5, -0.75),
}


class Config(wide.WidthConfig):
    widths: tuple[int, ...] = options.widths(
        (256, 4_096), (256, 1_024, 4_096, 16_384), (256, 1_024, 4_096, 16_384, 65_536), **wide.SWEPT
    )
    draws: int = options.draws(64, 32, 64, at_least=2 * GROUP, at_most=10_000)
    size: float = option(1.0, at_least=1e-3, at_most=100, help="root mean square of the inputs")
    samples: int = options.samples(4, at_most=1_000)
    ratio: float = options.ratio(0.5, at_least=1e-3, at_most=0.99)
    steps: int = options.steps(20, 60, 100, at_least=10, at_most=100_000)
    radius: float = option(1.0, at_least=1e-3, at_most=100, help="distance from the start where all neurons move alike")

    def check(self) -> None:
        """Refuses more orthogonal inputs than there are dimensions."""
        wide.refuse_dependent(self.samples, self.dim)


@study("thesis/eq-3.4", section="3.1", title="A network, its linear and its quadratic model")
def run(config: Config) -> xr.Dataset:
    r"""In a ball of fixed radius around the start $\|f - f_{\mathrm{lin}}\|$, and so
    $\|f_{\mathrm{quad}} - f_{\mathrm{lin}}\|$, is $\tilde O(1/\sqrt m)$. Below the critical step size gradient descent
    stays in such a ball.

    The rate is attained where all neurons of $f = \frac{1}{\sqrt m}\sum_i v_i\,\sigma(z_i)$,
    $z_i = u_i^\top x/\sqrt d$, move alike, by $O(1/\sqrt m)$ each: $\frac{1}{\sqrt m}\sum_i \delta v_i\,\sigma'(z_i)\,
    \delta z_i$ has $m$ terms of one sign. Gradient descent does not go there. It moves
    $\delta z_i \propto v_i/\sqrt m$ and $\delta v_i \propto \sigma/\sqrt m$, so every term of second order is odd in
    the random $v_i$. The sum keeps $\sqrt m$ of its $m$ terms, and
    $f_{\mathrm{quad}} - f_{\mathrm{lin}} = O(1/m)$. At third order $\frac{1}{2\sqrt m}\sum_i\delta v_i\,\sigma''\,
    \delta z_i^2$ is even in $v_i$ and adds up, to $1/m$ as well. For a smooth activation all three models therefore
    differ by $1/m$: the quadratic model is closer than the linear one by a factor, not by a power of the width. Where
    all neurons move alike the quadratic model is closer by $1/m$ ($\sigma''$ odd).

    For ReLU $f - f_{\mathrm{quad}}$ comes from the gates alone. About $\sqrt m$ of the $m$ neurons are so near their
    border that they cross it. Each then makes an error $\frac{v_i}{\sqrt m}|z_i + \delta z_i|$ of order $1/m$. With
    random signs these errors add up to $m^{-3/4}$. On a training input the signs are not random: the input pulls only
    on neurons that are on. It pushes neurons with one sign of $v_i$ over the border, and their errors add up to
    $1/\sqrt m$. There gradient descent attains the rate of (3.4) too, and the quadratic model is no closer to the
    network than the linear one.
    """
    widths, copies = config.widths, 6 * len(ACTIVATIONS) * len(config.widths) * config.draws
    wide.refuse_oversized("thesis/eq-3.4", lambda m: nets.mlp([m]), config.dim, widths, copies=copies, itemsize=8)
    random = np.random.default_rng(config.seed)  # on the host: nothing is compiled for it
    inputs = random.normal(size=(2 * config.samples, config.dim))
    # The first half is orthogonal: such inputs do not pull on each other's neurons. In narrow networks this pull would
    # hide the sign of the errors.
    inputs[: config.samples] = np.linalg.qr(inputs[: config.samples].T)[0].T
    inputs *= config.size * np.sqrt(config.dim) / np.linalg.norm(inputs, axis=1, keepdims=True)
    y, shape = random.choice([-1.0, 1.0], config.samples), (len(widths), config.draws, max(widths))
    u, v = random.normal(size=(*shape, config.dim)), random.choice([-1.0, 1.0], shape)  # the same for both activations
    cases = product(ACTIVATIONS, enumerate(widths))
    found = [_followed(name, u[i, :, :width], v[i, :, :width], inputs, y, config) for name, (i, width) in cases]
    return unfold(xr.concat(found, "row"), "row", activation=ACTIVATIONS, width=widths)


def _followed(name: str, u: np.ndarray, v: np.ndarray, inputs: np.ndarray, y: np.ndarray, config: Config) -> xr.Dataset:
    """Networks of one activation and width: gaps by way and pair, largest distance, rise of the loss."""
    activation, x = ACTIVATIONS[name], inputs[: len(y)]
    z = np.einsum("nd,kmd->knm", x, u) / np.sqrt(config.dim)
    hidden, slope = (np.tanh(z), 1 - np.tanh(z) ** 2) if name == "tanh" else (np.maximum(z, 0), 1.0 * (z > 0))
    pull = slope * v[:, None]
    kernel = pull @ pull.swapaxes(1, 2) * (x @ x.T / config.dim) + hidden @ hidden.swapaxes(1, 2)
    lr = 2 * config.ratio * v.shape[1] / np.linalg.eigvalsh(kernel)[:, -1]
    networks = {"params": TwoLayer(to_device(u), to_device(v)), "lr": to_device(lr)}

    def loss(params: TwoLayer) -> jax.Array:
        return half_sum(taylor.outputs(activation, params, x), y)

    def look(params: TwoLayer, network: dict[str, Any]) -> dict[str, jax.Array]:
        """Root mean squares over the training inputs and over the others, and how the run stands."""
        change = jax.tree.map(jnp.subtract, params, network["params"])
        apart = taylor.gaps(activation, network["params"], change, inputs)
        squares = apart.reshape(len(PAIRS), 2, len(y)) ** 2
        distance = jnp.sqrt(jnp.sum(change.u**2) + jnp.sum(change.v**2))
        return {"value": jnp.sqrt(jnp.mean(squares, axis=-1)), "distance": distance, "loss": loss(params)}

    found = simulate(
        lambda network: gradient_descent(loss, network["lr"]),
        lambda network: network["params"],
        config.steps,
        over={"network": networks},
        probes={"apart": Probe(look, 5, dims=("pair", "way"))},
    ).dataset
    together = jax.jit(jax.vmap(lambda start: taylor.gaps_alike(activation, start, jnp.asarray(x), config.radius)))
    alike = xr.DataArray(np.asarray(together(networks["params"])), dims=("network", "pair"))
    apart = xr.concat([found.apart.max("step"), alike], "way").assign_coords(way=list(WAYS), pair=list(PAIRS))
    rise = found.apart_loss.diff("step").max("step")
    return xr.Dataset({"apart": apart, "distance": found.apart_distance.max("step"), "rise": rise})


def _grouped(values: xr.DataArray) -> xr.DataArray:
    """Root mean squares over groups of networks."""
    squares: xr.DataArray = (values**2).coarsen(network=GROUP, boundary="trim").mean()
    return squares**0.5


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    cases = (dict(zip(("activation", "way", "pair"), at, strict=True)) for at in product(ACTIVATIONS, WAYS, PAIRS))
    found = {tuple(at.values()): exponent(_grouped(data.apart.sel(at))) for at in cases}
    near, ball = (wide.next_order(config.widths, power) for power in (0.25, 0.5))
    for (activation, way), powers in EXPONENTS.items():
        for (pair, name), power in zip(PAIRS.items(), powers, strict=True):
            if power is not None:
                name = f"{activation}, {WAYS[way]}: exponent of {name} in the width"
                key = f"{activation}-{way}-{pair.replace(' - ', '-')}"
                yield claim(key, name).equal(power, found[activation, way, pair], near)
    largest = max(found, key=lambda at: found[at])
    yield claim("largest", "largest exponent of all: the rate of (3.4), which is attained").equal(
        -0.5, found[largest], near, note=", ".join(largest)
    )
    note = "the ball has a fixed radius: outputs that move by one need a move of order one"
    for activation in ACTIVATIONS:
        name = f"{activation}: exponent of the distance from the start in the width"
        grows = exponent(data.distance.sel(activation=activation))
        yield claim(f"{activation}-distance", name).zero(grows, ball, note=note)
    why = "the step size is below the critical one; squares of rounding errors"
    yield claim("rise", "largest rise of the loss in five steps").at_most(0.0, data.rise.max(), why, slack=1e-28)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (11, 8.4), 2, 2, sharex=True)
    titles = {"training": "gradient descent, training inputs", "together": "all neurons move alike"}
    legend = {"fontsize": 8, "title": "exponent in the width", "title_fontsize": 8, "loc": "lower left"}
    for axes, (activation, (way, title)) in zip(panels.flat, product(ACTIVATIONS, titles.items()), strict=True):
        shown = [(way, pair, name) for pair, name in PAIRS.items()]
        if (activation, way) == ("relu", "training"):
            shown.append(("unseen", shown[-1][1], f"{shown[-1][2]}, unseen"))
        for i, (where, pair, name) in enumerate(shown):
            values = data.apart.sel(activation=activation, way=where, pair=pair)
            wide.plot_law(axes, _grouped(values), "osDv"[i], name, color=f"C{i}")
        wide.mark_widths(axes, data.width)
        sheet.label(axes, f"{activation}: {title}", legend=legend)
    for axes in panels[0]:
        axes.set_xlabel("")
    for axes in panels[:, 0]:
        axes.set_ylabel("difference, root mean square")
