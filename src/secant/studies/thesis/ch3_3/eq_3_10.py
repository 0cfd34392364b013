"""Equation (3.10): the quadratic model of a two-layer ReLU network is a bilinear model behind frozen gates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.expansion import expand
from secant.lab import Figure, Findings, Seeded, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.theory.power_law import fit_power_law
from secant.theory.quadratic_model import TwoLayer, gated_bilinear, gates

ACTIVATIONS = ("tanh", "swish")


class Config(Seeded):
    width: int = scaled(smoke=200, laptop=2_000, at_least=2, at_most=10**6, help="neurons of the ReLU network")
    smooth_width: int = scaled(
        smoke=48, laptop=256, paper=1_024, at_least=2, at_most=10**5, help="neurons a layer, smooth networks"
    )
    dim: int = option(10, at_least=1, at_most=10_000, help="input dimension")
    samples: int = option(8, at_least=1, at_most=10_000, help="random inputs")
    directions: int = option(6, at_least=2, at_most=10_000, help="random directions, each taken both ways")
    shortest: float = option(1e-3, at_least=1e-4, below=1, help="smallest change of a weight, root mean square")
    longest: float = option(0.03, above=1e-4, below=1, help="largest change of a weight, root mean square")
    points: int = option(7, at_least=2, at_most=1_000, help="distances")

    def check(self) -> None:
        """Refuses an empty range of distances, and what does not fit the memory."""
        if self.shortest >= self.longest:
            raise ValueError(f"shortest: must be below longest, which is {self.longest:g}, got {self.shortest:g}.")
        weights = self.smooth_width * (self.smooth_width + self.dim + 1)
        fits_memory(8 * 8 * self.points * self.directions * weights, "smooth_width, points or directions")
        fits_memory(8 * 80 * self.width * (self.dim + self.samples), "width, samples or dim")


@study(
    "thesis/eq-3.10", section="3.3", title="Behind frozen gates",
    statement=r"""
    For the two-layer ReLU network the second-order Taylor polynomial in the weights is
    $$g = f(u_0, v_0) + \tfrac{1}{\sqrt{md}} \sum_i G_i \big( v_{0,i} (u_i - u_{0,i})^\top x
    + (v_i - v_{0,i})\, u_{0,i}^\top x + (v_i - v_{0,i}) (u_i - u_{0,i})^\top x \big),
    \qquad G_i = 1\{u_{0,i}^\top x \ge 0\}.$$
    The four terms add up to one: $g(u, v; x) = \frac{1}{\sqrt{md}} \sum_i G_i(x)\, v_i\, u_i^\top x$, a bilinear
    model with the gates of the start. It is exact at every distance, and equals the network until a gate flips.
    For smooth activations the quadratic model misses the network by a term of order $\|w - w_0\|^3$, the linear
    one by a term of order $\|w - w_0\|^2$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed), 4)
    x = jax.random.normal(keys[0], (config.samples, config.dim))
    sizes = np.geomspace(config.shortest, config.longest, config.points)
    found = [_remainders(key, name, x, sizes, config) for key, name in zip(keys[2:], ACTIVATIONS, strict=True)]
    return _relu(keys[1], x, config).assign(
        remainder=(("activation", "order", "size", "direction"), np.stack(found)), activation=list(ACTIVATIONS),
        order=[1, 2], size=sizes,
    )


def _relu(key: jax.Array, x: jax.Array, config: Config) -> xr.Dataset:
    """The four forms of the quadratic model far from the start, and a walk there."""
    net = nets.two_layer(config.width)
    weights, change = jax.random.split(key)
    start = net.init(weights, x.shape)
    flat, unravel = ravel_pytree(start)
    delta = unravel(jax.random.normal(change, flat.shape))  # every weight moves by as much as its own size
    quadratic, linear = expand(net.apply, start, 2, method="general"), expand(net.apply, start, 1)
    first = _pair(start)
    on = gates(first.u, x)
    forms = {
        "autodiff": lambda p: quadratic(p, x), "bilinear": lambda p: gated_bilinear(_pair(p), on, x),
        "printed": lambda p: _printed(_pair(p), first, x),
    }

    def at(distance: jax.Array) -> Any:
        return jax.tree.map(lambda w, d: w + distance * d, start, delta)

    @jax.jit
    def far(distance: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        found = [jax.vjp(form, at(distance)) for form in forms.values()]
        # One gradient, of a sum over the inputs with different weights, stands for those of all outputs.
        weights = jnp.arange(1.0, len(x) + 1)
        return [outputs for outputs, _ in found], [ravel_pytree(pull(weights)[0])[0] for _, pull in found]

    @jax.jit
    @jax.vmap
    def walk(distance: jax.Array) -> dict[str, jax.Array]:
        params = at(distance)
        pair = _pair(params)
        return {
            "network": net.apply(params, x), "linear": linear(params, x), "quadratic": gated_bilinear(pair, on, x),
            "flips": jnp.mean(gates(pair.u, x) != on, axis=-1),
        }

    values, slopes = (np.stack(parts) for parts in far(jnp.array(1.0)))
    distances = np.concatenate([[0.0, 1e-6, 1e-5, 1e-4], np.linspace(0.02, 1.5, 75)])
    line = {name: (("distance", "sample"), np.asarray(value)) for name, value in walk(distances).items()}
    return xr.Dataset(line, {"form": list(forms), "distance": distances}).assign(
        value=(("form", "sample"), values), slope_gap=("form", np.abs(slopes - slopes[0]).max(axis=1)),
        slope_size=np.abs(slopes[0]).max(),
    )


def _pair(params: Any) -> TwoLayer:
    return TwoLayer(params[0]["weight"].T, params[2]["weight"][:, 0])


def _printed(now: TwoLayer, start: TwoLayer, x: jax.Array) -> jax.Array:
    """Equation (3.10), term by term."""
    du, dv, hidden = now.u - start.u, now.v - start.v, jax.nn.relu(x @ start.u.T)
    moved = x @ du.T * gates(start.u, x)
    return (hidden @ start.v + (moved @ start.v + hidden @ dv + moved @ dv)) / jnp.sqrt(start.u.size)


def _remainders(key: jax.Array, activation: str, x: jax.Array, sizes: np.ndarray, config: Config) -> np.ndarray:
    """How far the linear and the quadratic model are from a smooth network, `(order, size, direction)`."""
    net = nets.mlp([config.smooth_width] * 2, activation=activation)
    weights, change = jax.random.split(key)
    start = net.init(weights, x.shape)
    flat, unravel = ravel_pytree(start)
    directions = jax.random.normal(change, (config.directions, flat.size))
    models = [expand(net.apply, start, order) for order in (1, 2)]

    def distances(size: jax.Array, direction: jax.Array) -> jax.Array:
        def one(sign: jax.Array) -> jax.Array:
            params = unravel(flat + sign * size * direction)
            outputs = net.apply(params, x)
            return jnp.stack([model(params, x) - outputs for model in models])

        gaps = jax.vmap(one)(jnp.array([1.0, -1.0]))
        return jnp.sqrt(jnp.mean(gaps**2, axis=(0, 2)))

    over_sizes = jax.jit(jax.vmap(jax.vmap(distances, (None, 0)), (0, None)))
    return np.moveaxis(np.asarray(over_sizes(sizes, directions)), -1, 0)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = Tolerance(
        8 * np.finfo(float).eps * np.sqrt(config.width * config.dim),
        why="8 units in the last place, times the root of the number of terms in the sum",
    )
    value = data.value.sel(form="autodiff")
    for form, name in (("bilinear", "gated bilinear model"), ("printed", "equation (3.10) term by term")):
        for what, gap in (
            ("values", np.abs(data.value.sel(form=form) - value).max() / np.abs(value).max()),
            ("gradients", data.slope_gap.sel(form=form) / data.slope_size),
        ):
            yield claims.zero(f"{name} against autodiff: largest difference of the {what}, relative", gap, rounding)
    same = data.flips == 0
    yield claims.zero(
        "network against its quadratic model while no gate has flipped: largest difference",
        np.abs(data.network - data.quadratic).where(same).max(), rounding,
        note=f"{int(same.sum())} of {same.size} points of the walk",
    )
    bend, lever = 10 * config.longest**2, np.log(config.longest / config.shortest)
    for activation in ACTIVATIONS:
        for order, name in ((1, "linear"), (2, "quadratic")):
            law = fit_power_law(data.size, data.remainder.sel(activation=activation, order=order))
            rough = 8 * np.finfo(float).eps * config.smooth_width / config.shortest ** (order + 1)
            yield claims.equal(
                f"{activation}: exponent of the {name} model's remainder in the distance", order + 1.0, law.exponent,
                bend + rough / lever,
                "over both signs of a direction the next term is s^2 relative, times ten; rounding of outputs "
                "at the smallest distance",
            )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    walk = data.isel(sample=int(np.abs(data.network - data.linear).isel(distance=-1).argmax("sample")))
    left.plot(walk.distance, walk.network, color="C0", label="ReLU network")
    left.plot(walk.distance, walk.quadratic, color="C1", label="quadratic model: gates frozen")
    left.plot(walk.distance, walk.linear, color="C7", label="linear model")
    autodiff = {"marker": "o", "ms": 7, "mfc": "none", "color": sheet.ink(), "label": "quadratic, by autodiff"}
    left.plot(1.0, walk.value.sel(form="autodiff"), ls="none", **autodiff)
    sheet.label(left, "A walk away from the start", "root-mean-square change of a weight", "output", {"fontsize": 8})
    means = np.exp(np.log(data.remainder).mean("direction"))
    for i, activation in enumerate(ACTIVATIONS):
        for order, name, marker in ((1, "linear", "s"), (2, "quadratic", "o")):
            mean = means.sel(activation=activation, order=order)
            right.loglog(data.size, mean, marker, ms=5, color=f"C{i}", label=f"{activation}, {name}")
            if i == 0:
                power = mean[-1].item() * (data.size / data.size[-1]) ** (order + 1)
                sheet.guide(right, data.size, power, lw=1)
                place = (float(data.size[1]), 2.2 * float(power[1]))
                right.annotate(rf"$|\delta|^{order + 1}$", place, color=sheet.ink(), ha="right")
    right.set(title="What a smooth network's models miss", ylabel="distance to the network")
    right.set_xlabel("root-mean-square change of a weight")
    right.legend(fontsize=8, loc="lower right")
