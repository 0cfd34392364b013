"""Problem 13.1.3: a ReLU network of depth k without biases is homogeneous of degree k in its parameters."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, options, scaled, sheet, study
from secant.nets import homogeneity
from secant.theory.normalization.scale_invariance import degree

FACTORS = (0.5, 2.0, 10.0)
LOG = r"rounding, over $\log c$"


class Config(Seeded):
    depths: tuple[int, ...] = scaled(
        smoke=(2, 5),
        laptop=(1, 2, 3, 4, 6, 8),
        at_least=1,
        at_most=12,
        distinct=True,
        longest=8,
        help="layers of weights",
    )
    width: int = options.width(8, at_least=4, at_most=256)
    features: int = options.features(4, at_most=256)
    samples: int = options.samples(6, at_most=256)


def measured(net: nets.Network, config: Config, seed: int) -> dict[str, Any]:
    """Degrees of the outputs and of the gradient, by factors and by Euler's identity."""
    x: Any = np.random.default_rng(seed).normal(size=(config.samples, config.features))
    params = net.init(jax.random.key(seed), x.shape)

    def both(p: Any) -> Any:
        outputs, pull = jax.vjp(lambda p: net.apply(p, x), p)
        return outputs, ravel_pytree(pull(jnp.ones_like(outputs)))[0], homogeneity(net.apply, p, x)

    look = jax.jit(both)
    outputs, gradient, euler = look(params)
    # Where every neuron is off, no degree can be measured.
    if not np.any(np.asarray(outputs)) or not np.any(np.asarray(gradient)):
        return dict.fromkeys(("degree", "residual", "slope", "euler", "misfit", "grown"), np.nan)
    of_outputs, of_gradient = (
        degree(functools.partial(lambda i, p: look(p)[i], i), params, factors=FACTORS) for i in (0, 1)
    )
    longer = look(jax.tree.map(lambda w: 1.1 * np.asarray(w), params))[1]
    return {
        "degree": float(of_outputs.degree),
        "residual": float(of_outputs.residual),
        "slope": float(of_gradient.degree),
        "euler": float(euler.degree),
        "misfit": float(euler.residual),
        "grown": float(np.linalg.norm(longer) / np.linalg.norm(gradient)),
    }


@study("book/prob-13.1.3", section="13.1", title="The degree of a ReLU network is its depth")
def run(config: Config) -> xr.Dataset:
    r"""A feed-forward network of depth $k$ with ReLU gates and no biases has degree of homogeneity $k$ as a function of
    its parameters at fixed inputs: $f(c\,\theta) = c^kf(\theta)$ for all $c > 0$, and by Euler $\langle\theta, \nabla
    f\rangle = kf$. Its gradient has degree $k - 1$. In a deep network small changes of scale therefore change gradients
    a lot.
    """
    rows = [measured(nets.mlp([config.width] * (k - 1)), config, config.seed) for k in config.depths]
    biased = measured(nets.mlp([config.width], bias=True), config, config.seed)
    table = {name: ("depth", [row[name] for row in rows]) for name in rows[0]}
    return xr.Dataset(table | {"biased": biased["residual"]}, coords={"depth": list(config.depths)})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    alive: dict[str, Any] = {"given": bool(data.degree.notnull().any()), "otherwise": "no neuron of any network is on"}
    by_degree, grown = data.slope - (data.depth - 1), data.grown / 1.1 ** (data.depth - 1) - 1
    misfit, euler = r"$|f(c\theta) - c^kf(\theta)|/|c^kf|$", r"$|\langle\theta, \nabla f\rangle - kf|$ over its size"
    for key, name, off, within, why in (
        ("scaling", "degree by scaling the parameters less the depth", data.degree - data.depth, 1e-11, LOG),
        ("euler", "degree by Euler's identity less the depth", data.euler - data.depth, 1e-11, LOG),
        ("scaling-misfit", misfit, data.residual, 1e-12, "rounding of a forward pass"),
        ("euler-misfit", euler, data.misfit, 1e-12, "rounding"),
        ("gradient", "degree of the gradient less $k - 1$", by_degree, 1e-11, LOG),
        (
            "longer",
            "gradient of weights 1.1 times as long over $1.1^{k-1}$ times the gradient, less 1",
            grown,
            1e-12,
            "rounding",
        ),
    ):
        yield claim(key, f"{name}, largest", **alive).zero(lambda off=off: np.abs(off).max(), within, why)
    known = bool(np.isfinite(data.biased))
    name = f"with biases, depth 2: {misfit} at the best $k$"
    yield claim("biases", name, given=known, otherwise="no neuron is on").at_least(
        1e-3, lambda: data.biased, "no degree fits; far above rounding"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    k = np.arange(1, max(config.depths) + 1)
    left.plot(data.depth, data.degree, "o", color="C0", label="outputs")
    left.plot(data.depth, data.slope, "s", color="C1", label="gradient")
    sheet.guide(left, k, k, "$k$ and $k - 1$")
    sheet.guide(left, k, k - 1)
    sheet.label(left, "Degree of homogeneity", "depth $k$", "degree", "upper left", xticks=k)
    right.plot(data.depth, data.grown, "s", color="C1", label="measured")
    sheet.guide(right, k, 1.1 ** (k - 1.0), r"$1.1^{k-1}$")
    sheet.label(right, "Weights longer by a tenth", "depth $k$", "gradient, times as long", "upper left", xticks=k)
