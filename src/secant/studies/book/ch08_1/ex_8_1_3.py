"""Book, examples 8.1.3 to 8.1.5: how fast a parametrisation moves its weights, and whether that is mirror flow."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, sheet, study
from secant.theory.bias.reparametrization import metric


class Config(Seeded):
    dimension: int = option(5, at_least=1, at_most=100, help="weights")
    curves: int = option(60, at_least=2, at_most=1_000, help="points of a curve of equal weight")


def difference(theta: jnp.ndarray) -> jnp.ndarray:
    """Squares of one half of the parameters less those of the other."""
    return theta[: len(theta) // 2] ** 2 - theta[len(theta) // 2 :] ** 2


@study("book/ex-8.1.3", section="8.1", title="Which parametrisations are potentials in disguise")
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow on $\theta$ moves the weights $w = G(\theta)$ by $-\partial G\,\partial G^\top\nabla L$. It is
    mirror flow with a potential $R$ where $\partial G\,\partial G^\top = (\nabla^2R)^{-1}$. Such a potential is
    $R = \frac12w^\top\Sigma^{-1}w$ for $\sqrt\Sigma\,\theta$, and $R = \frac14\sum_i(w_i\log w_i - w_i)$ for
    $\theta^{\odot2}$. For $\theta_+^2 - \theta_-^2$ there is none: at $(1, 0)$ and $(\sqrt2, 1)$ the weight is 1, and
    $\partial G\,\partial G^\top$ is 4 and 12.
    """
    rng, d = np.random.default_rng(config.seed), config.dimension
    root = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    theta = rng.normal(size=d) + np.sign(rng.normal(size=d))
    height = np.linspace(-1.5, 1.5, config.curves)
    pairs = np.stack([np.sqrt(1 + height**2), height], 1)  # all of weight 1
    return xr.Dataset(
        {
            "linear": (("i", "j"), metric(lambda t: jnp.asarray(root) @ t, theta)),
            "sigma": (("i", "j"), root @ root.T),
            "square": (("i", "j"), metric(lambda t: t**2, theta)),
            "theta": ("i", theta),
            "named": ("point", [metric(difference, p)[0, 0] for p in np.array([[1.0, 0.0], [np.sqrt(2), 1.0]])]),
            # One call for all points: they are the parameters of many weights of 1, whose metric is diagonal.
            "along": ("height", np.diagonal(metric(difference, pairs.T.ravel()))),
        },
        coords={"height": height},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding, speed = "rounding of float64", r"$\partial G\,\partial G^\top$"
    sigma = data.sigma.values
    yield claim(
        "linear", f"linear parametrisation: {speed} less the inverse Hessian of its potential, over its largest entry"
    ).zero(np.abs(data.linear - sigma).max() / np.abs(sigma).max(), 1e-14 * config.dimension, rounding)
    inverse = np.diag(4 * data.theta.values**2)  # the Hessian of w log w / 4 is 1 / 4w, at w = theta^2
    yield claim("squares", f"squares: {speed} less the inverse Hessian of the entropy, over its largest entry").zero(
        np.abs(data.square - inverse).max() / inverse.max(), 1e-14, rounding
    )
    for key, at, value, found in zip(
        ("named-1", "named-2"), ("(1, 0)", r"(\sqrt2, 1)"), (4.0, 12.0), data.named.values, strict=True
    ):
        yield claim(key, f"difference of squares at ${at}$: {speed}").equal(value, found, 1e-13, rounding)
    wanted = 4 * (1 + 2 * data.height**2)
    name = rf"difference of squares at parameters of weight 1: {speed} less $4 + 8\theta_-^2$, largest"
    left, note = np.abs(data.along - wanted).max(), "no function of the weight alone"
    yield claim("curve", name).zero(left, 1e-13, rounding, note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4), 2)
    order = np.argsort(data.theta.values**2)
    weights = data.theta.values[order] ** 2
    w = np.linspace(0, weights[-1], 2)
    left.plot(w, 4 * w, color="C0", label=r"$(\nabla^2R)^{-1} = 4w$")
    left.plot(weights, np.diag(data.square)[order], "o", color="C1", label=r"$\partial G\,\partial G^\top$")
    left.set_xlim(left=0)
    sheet.label(left, "Squares: a function of the weight", "weight", "speed of the weight", "upper left")
    right.plot(data.height, data.along, color="C0", label="weight 1")
    right.plot([0, 1], data.named, "o", color="C1", label="the two points named")
    sheet.label(
        right, "A difference of squares: no such function", r"$\theta_-$", "speed of the weight", "upper center"
    )
