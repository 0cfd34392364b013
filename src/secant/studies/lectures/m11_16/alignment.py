r"""Lecture of 11/16: is the noise of a trained network a multiple of its Hessian?"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import data as datasets
from secant import losses, nets
from secant.core.device import jit
from secant.dynamics import Probe
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.optim import Batches, Problem, train

LOOKS = 8
"""Times of a comparison of the noise with the Hessian, beside the start."""

LARGE = 128
"""Hidden units from which the claim about networks is judged."""


class Config(Seeded):
    samples: int = options.samples(64, 256, at_least=20, at_most=300)
    width: int = options.width(64, 256, at_least=4, at_most=2_048)
    batch: int = options.batch(8, at_most=20)
    lr: float = options.lr(0.2, at_least=0.01, at_most=0.5)
    steps: int = options.steps(400, 8_000, at_least=LOOKS, at_most=100_000)
    directions: int = option(10, at_least=2, at_most=15, help="leading directions of curvature")


def compared(net: nets.Network, k: int) -> Any:
    """`(points, x, y) -> ` residuals, slopes and Hessian in the leading directions of the Gauss-Newton matrix."""

    def run(points: Any, x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
        def one(params: Any) -> dict[str, jax.Array]:
            flat, unravel = ravel_pytree(params)

            def outputs(at: jax.Array) -> jax.Array:
                return net.apply(unravel(at), x)

            J = jax.jacrev(outputs)(flat)
            values, vectors = jnp.linalg.eigh(J @ J.T)
            V = (vectors[:, ::-1][:, :k] / jnp.sqrt(values[::-1][:k])).T @ J
            bend = jax.linearize(jax.grad(lambda at: jnp.mean((outputs(at) - y) ** 2) / 2), flat)[1]
            return {"residual": outputs(flat) - y, "slopes": J @ V.T, "hessian": V @ jax.lax.map(bend, V).T}

        return jax.lax.map(one, points)

    return jit(run)


def fit(noise: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    r"""$R^2$ of the fit of matrices by a multiple of others, through the origin."""
    inner = (noise * curvature).sum((-2, -1))
    return inner**2 / ((noise**2).sum((-2, -1)) * (curvature**2).sum((-2, -1)))


def covariance(gradients: np.ndarray) -> np.ndarray:
    """Over samples, for every time, `(..., sample, direction)`."""
    rest = gradients - gradients.mean(-2, keepdims=True)
    return np.swapaxes(rest, -1, -2) @ rest / gradients.shape[-2]


@study("lectures/11-16-alignment", section="11-16", title="Is the noise a multiple of the Hessian?")
def run(config: Config) -> xr.Dataset:
    r"""The lecture claims, without proof, that late in training the covariance of the gradient over batches is a
    multiple of the Hessian, $C = \alpha H$. With squared loss
    $C = \frac1n\sum_ir_i^2\,\nabla f_i\nabla f_i^\top - \nabla L\nabla L^\top$ up to the law of the batches, and near
    interpolation $H = \frac1n\sum_i\nabla f_i\nabla f_i^\top$. The claim would hold if all residuals had one size. The
    study compares both matrices in the leading directions of curvature, along a run on the digits 0 and 1, by the $R^2$
    of a fit through the origin.
    """
    task = datasets.load(
        "digits", classes=(0, 1), samples=config.samples, test_samples=1, seed=config.seed, dtype=np.float64
    )
    x, y = jnp.asarray(task.train.x), jnp.asarray(task.train.y)
    net = nets.mlp([config.width], activation="tanh")
    params = net.init(jax.random.key(config.seed), x.shape, x.dtype)
    every = config.steps // LOOKS
    problem = Problem(net.apply, x, y, losses.half_mean)
    ran = train(
        problem,
        params,
        lr=config.lr,
        steps=every * LOOKS,
        batches=Batches(config.batch, seed=config.seed),
        probes={"point": Probe(lambda params: ravel_pytree(params)[0], every)},
        reduce=False,
    )
    points = jax.vmap(ravel_pytree(params)[1])(jnp.asarray(ran.dataset.point.values))
    found = compared(net, config.directions)(points, x, y)
    residual, slopes = (np.asarray(found[name]) for name in ("residual", "slopes"))
    mixed = np.random.default_rng(config.seed).permuted(residual, axis=1)
    square = ("time", "row", "column")
    return xr.Dataset(
        {
            "noise": (square, covariance(residual[..., None] * slopes)),
            "hessian": (square, found["hessian"]),
            "mixed": (square, covariance(mixed[..., None] * slopes)),
            "residual": (("time", "sample"), residual),
            "slopes": (("time", "sample", "row"), slopes),
        },
        coords={"time": every * np.arange(LOOKS + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    A, noise, hessian = data.slopes.values[-1], data.noise.values, data.hessian.values
    flat = A.T @ A / len(A)
    signs = np.where(np.arange(len(A)) % 3 == 0, -0.3, 0.3)
    second = (signs[:, None] * A).T @ (signs[:, None] * A) / len(A)
    name = "residuals of one size: second moment less its multiple of the Gauss-Newton matrix, over it"
    yield claim("one-size", name).zero(
        np.abs(second - 0.09 * A.T @ A / len(A)).max() / second.max(), 1e-12, "an identity: rounding"
    )
    why = "what the network's own curvature adds is small beside it"
    yield claim("gauss-newton", "$R^2$ of the Hessian as a multiple of the Gauss-Newton matrix, at the end").at_least(
        0.9, fit(hessian[-1], flat), why
    )
    large, few = config.width >= LARGE, f"a claim about networks, judged from {LARGE} hidden units on"
    note = "Samples with large residuals have directions of their own. With residuals exchanged the fit is better."
    yield claim("hessian", r"$R^2$ of $C = \alpha H$ at the end", given=large, otherwise=few).equal(
        1.0, fit(noise[-1], hessian[-1]), 0.1, "an equality; a tenth allows for directions that it may miss", note=note
    )
    name = r"$R^2$ of $C = \alpha H$ at the end less the $R^2$ of $C = \alpha I$"
    gain = lambda: fit(noise[-1], hessian[-1]) - fit(noise[-1], np.eye(config.directions))  # noqa: E731
    why = "the noise has the shape of the Hessian rather than none"
    yield claim("shape", name, given=large, otherwise=few).at_least(0.0, gain, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    noise, hessian, eye = data.noise.values, data.hessian.values, np.eye(config.directions)
    fits = {
        "Hessian": fit(noise, hessian),
        "no shape": fit(noise, np.broadcast_to(eye, noise.shape)),
        "Hessian, residuals exchanged": fit(data.mixed.values, hessian),
    }
    for i, (name, one) in enumerate(fits.items()):
        left.plot(data.time, one, "o-" if i < 2 else "o:", ms=4, color=f"C{i}", label=name)
    sheet.label(left, r"How well $\alpha H$ fits the noise", "step", "$R^2$", "best", ylim=(0, 1.05))
    C, H = np.diag(noise[-1]), np.diag(hessian[-1])
    up = (C > 0) & (H > 0)
    middle.loglog(H[up], C[up], "o", color="C0", ms=6)
    alpha = (noise[-1] * hessian[-1]).sum() / (hessian[-1] ** 2).sum()
    ends = np.array([H[up].min(), H[up].max()])
    sheet.guide(middle, ends, abs(alpha) * ends, r"$\alpha H$")
    sheet.label(middle, "At the end, direction by direction", "$H_{ii}$", "$C_{ii}$", "best")
    size = np.abs(noise[-1]).max()
    right.imshow(noise[-1] / size, cmap="RdBu_r", vmin=-1, vmax=1)
    right.grid(False)
    sheet.label(right, "The noise there, over its largest entry", "direction", "direction")
