"""Lecture of 9/19: variances of weights and biases with which depth does no harm."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.kernels import critical_points, dual, next_covariance, next_variance, susceptibilities
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, options, scaled, sheet, study

HE = {"weights": 2.0, "biases": 0.0}
OFF = {"weights": 1.5, "biases": 0.1}
"""Variances with which ReLU is critical, and variances with which tanh is not."""


class Config(Seeded):
    depth: int = scaled(smoke=1_000, laptop=10_000, at_least=100, at_most=10**6, help="layers of infinite width")
    width: int = options.width(64, 512, at_least=16, at_most=10**4)
    layers: int = options.layers(8, at_least=2, at_most=100)
    draws: int = options.draws(100, 200, at_least=10, at_most=10**5)

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(16.0 * self.width**2 * self.layers, "width or layers")


@study("lectures/09-19-criticality", section="09-19", title="Tuning a network to criticality")
def run(config: Config) -> xr.Dataset:
    r"""With weights of variance $C_w$ over the fan-in and biases of variance $C_b$, the covariance of two inputs in a
    wide network goes from layer to layer as $K_{ab} \mapsto C_b + C_w\,\mathbb E\,\sigma(z_a)\sigma(z_b)$. Near a fixed
    point a layer multiplies a small difference in size by $\chi_\parallel = \frac{C_w}2\,\mathbb E\,(\sigma^2)''$ and
    a small difference in direction by $\chi_\perp = C_w\,\mathbb E\,\sigma'^2$. A deep network needs both to be 1.

    ReLU is critical with $C_w = 2$, $C_b = 0$ at every variance. The correlation $c$ of two inputs then tends to 1 as
    $1 - c_\ell \sim 9\pi^2/(2\ell^2)$. Tanh is critical only with $C_w = 1$, $C_b = 0$, where variances fall as
    $1/(2\ell)$. Elsewhere differences change exponentially, by $\chi_\parallel$ a layer.
    """

    def down(layer: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a start and of variances, which gives the start and what every layer makes of it."""

        def scan(x: Any, variances: dict[str, Any]) -> Any:
            return jax.lax.scan(lambda x, _: (layer(x, **variances), x), x, None, length=config.depth + 1)[1]

        compiled = jit(scan, quick=True)
        return lambda x, variances: jax.tree.map(np.asarray, compiled(jax.tree.map(jnp.float64, x), variances))

    he = nets.Parametrization("ntk", gain=2**0.5)
    net = nets.mlp([config.width] * config.layers, activation="relu", parametrization=he)
    x = jnp.ones((1, config.width))

    def squares(key: jax.Array) -> jax.Array:
        signals = net.pre_activations(net.init(key, x.shape), x)[:-1]
        return jnp.stack([jnp.mean(z**2) for z in signals])

    keys = jax.random.split(jax.random.key(config.seed), config.draws)
    found = jit(lambda keys: jax.lax.map(squares, keys), quick=True)(keys)
    size, _, product = down(lambda state, **by: next_covariance("relu", *state, **by))((1.0, 1.0, 0.0), HE)
    deep = down(lambda K, **by: next_variance("tanh", K, **by))
    tanh = deep(1.0, {"weights": 1.0, "biases": 0.0})
    fixed = deep(1.0, OFF)[-1]
    return xr.Dataset(
        {
            "tanh": ("layer", tanh),
            "relu": ("layer", product / size),
            "fixed": fixed,
            "near": ("step", deep(fixed + 1e-4, OFF)[:6] - fixed),
            "squares": (("draw", "hidden"), np.asarray(found)),
        },
        coords={"layer": np.arange(config.depth + 1), "hidden": np.arange(1, config.layers + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    depth, half = config.depth, config.depth // 2
    for name, weights in (("relu", 2.0), ("tanh", 1.0)):
        points, all_of = critical_points(name), "all there are, or a family of one kind"
        yield claim(f"{name}-points", f"{name}: critical points").count(1, len(points), all_of)
        variance = points[0].weights
        yield claim(f"{name}-weights", f"{name}: variance of the weights").equal(weights, variance, 1e-10, "rounding")
        yield claim(f"{name}-biases", f"{name}: variance of the biases").zero(points[0].biases, 1e-12, "exact")
    (gelu,) = critical_points("gelu")
    yield claim("gelu-variance", "gelu: critical variance").equal(
        (3 + math.sqrt(17)) / 2, gelu.variance, 1e-9, "rounding"
    )
    # Derivatives of the map itself, by differences.
    K, step = 0.7, 1e-4
    sizes, products = np.array([K - step, K + step, K, K]), np.array([K - step, K + step, K - step, K - 2 * step])
    values = np.asarray(dual("tanh", sizes, sizes, products).value)
    parallel, perpendicular = map(float, susceptibilities("tanh", K))
    yield claim("chi-parallel", r"tanh: $\chi_\parallel$ against the slope of the map of variances").equal(
        parallel, (values[1] - values[0]) / (2 * step), 1e-6, "the third derivative times the square of the step"
    )
    yield claim("chi-perpendicular", r"tanh: $\chi_\perp$ against the slope of the map of covariances").equal(
        perpendicular, (values[2] - values[3]) / step, 1e-3, "the second derivative times the step"
    )
    why = r"the next order of 1/K is $(5/6) \log\ell$"
    yield claim("tanh-variance", rf"tanh: $2\ell K$ behind {depth:,} layers").equal(
        1.0, 2 * depth * data.tanh[-1], 3 * np.log(depth) / depth, why
    )
    # (1 - c)^(-1/2) grows by sqrt 2/(3 pi) a layer. Its next order, 3/2 log l, does not depend on the start.
    roots = (1 - data.relu.sel(layer=[half, depth]).values) ** -0.5
    name = r"growth of $(1 - c)^{-1/2}$ a layer over $\sqrt{2}/(3\pi)$"
    yield claim("relu-correlation", f"relu, layers {half:,} to {depth:,}: {name}").equal(
        1 + 1.5 * np.log(depth / half) / (depth - half),
        np.diff(roots)[0] / (depth - half) * 3 * np.pi / np.sqrt(2),
        (3 * np.log(depth) / depth) ** 2,
        r"the square of the next order of $1 - c$, $3 \log\ell/\ell$",
    )
    rate = float(susceptibilities("tanh", float(data.fixed), OFF["weights"]).parallel)
    yield claim("off-critical", "tanh off the critical point: factor of a difference in a layer").equal(
        rate, data.near[-1] / data.near[-2], 1e-3, "the square of differences of at most 1e-4"
    )
    for hidden in (1, config.layers):
        name = f"networks of {config.width} neurons: mean square of a signal in hidden layer {hidden}"
        found = estimate(data.squares.sel(hidden=hidden))
        yield claim(f"finite-width-{hidden}", name).equal(2.0, found, 0, "exact at every width")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    layers = data.layer.values[1:]
    left.loglog(layers, data.tanh[1:], color="C0", label="tanh: variance")
    sheet.guide(left, layers, 1 / (2 * layers), r"$1/(2\ell)$")
    left.loglog(layers, 1 - data.relu[1:], color="C1", label="ReLU: 1 minus correlation")
    sheet.guide(left, layers[9:], 9 * np.pi**2 / 2 / layers[9:] ** 2.0, r"$9\pi^2/(2\ell^2)$", ls=":", lw=1.6)
    sheet.label(left, "Critical networks in depth", r"layer $\ell$", None, "lower left")
    (gelu,) = critical_points("gelu")
    variances = np.geomspace(0.05, 100, 200)
    both = susceptibilities("gelu", variances, gelu.weights)
    for chi, label in zip(both, (r"$\chi_\parallel$", r"$\chi_\perp$"), strict=True):
        right.semilogx(variances, chi, label=label)
    right.plot([gelu.variance], [1.0], "o", color="C3", label="critical")
    sheet.label(right, "GELU with its critical weights", "variance $K$", "factor a layer", "lower right")
