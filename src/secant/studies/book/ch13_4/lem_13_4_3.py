"""Lemma 13.4.3: bounds on the gradients and on the range of a scale-invariant loss."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, options, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.studies.shared.scale_invariant import Cosine, Loss, three_losses
from secant.theory.normalization.scale_invariance import sphere_smoothness

DISTANCES = (1e-1, 1e-2, 1e-3)
"""Distances of unit weights from equal weights."""


class Config(Seeded):
    dim: int = options.dim(5, at_least=3, at_most=30)
    samples: int = options.samples(40, at_least=10, at_most=1_000)
    points: int = scaled(smoke=2_000, laptop=100_000, at_least=100, at_most=10**6, help="random points on the sphere")


def best(loss: Loss, points: np.ndarray) -> tuple[float, float, float]:
    """The largest gradient of all points, and the least and largest loss on the sphere, found by descent."""
    from scipy.optimize import minimize

    values = loss.value(points)
    ends = []
    for sign in (1, -1):
        start = points[np.argmin(sign * values)]
        found = minimize(lambda w, sign=sign: (sign * loss.value(w), sign * loss.gradient(w)), start, jac=True)
        ends.append(sign * float(found.fun))
    return float(np.linalg.norm(loss.gradient(points), axis=1).max()), ends[0], ends[1]


def curvature_near_equal(distance: float, random: np.random.Generator, width: int) -> float:
    r"""Curvature of $b\cdot\mathrm{layernorm}(w)$ at unit weights near equal ones, by differences of gradients."""
    b, off = random.normal(size=(2, width))
    b, off = b - b.mean(), off - off.mean()
    off *= distance / np.linalg.norm(off)
    w = np.ones(width) * math.sqrt((1 - distance**2) / width) + off
    step, basis = 1e-4 * distance, np.eye(width)

    def gradient(w: np.ndarray) -> np.ndarray:
        return Cosine(b).gradient(w - w.mean(-1, keepdims=True))

    rows = (gradient(w + step * basis) - gradient(w - step * basis)) / (2 * step)
    return float(np.linalg.norm((rows + rows.T) / 2, 2))


@study("book/lem-13.4.3", section="13.4", title="Gradients and range on the sphere")
def run(config: Config) -> xr.Dataset:
    r"""With $\rho = \max_{|w|=1}\|\nabla^2L(w)\|_2$: (1) $|\nabla L(w)| \le \pi\rho$ for all unit $w$; (2) $L(w) - \min
    L \le \pi^2\rho/2$ for all $w \ne 0$. The slope vanishes at both ends of the way from the least to the largest
    value, so the range is even at most $\pi^2\rho/4$. A layer norm without $\epsilon$ has no $\rho$: near weights that
    make all features of a sample equal, curvature grows as one over the squared distance.
    """
    import jax.numpy as jnp

    random = np.random.default_rng(config.seed)
    found = three_losses(random, config.dim, config.samples)
    points = random.normal(size=(config.points, config.dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    rows = {name: best(loss, points) for name, loss in found.items()}
    spectrum = found["quotient"].spectrum  # type: ignore[attr-defined]
    ascent = sphere_smoothness(lambda w: jnp.sum(spectrum * w**2) / jnp.sum(w**2), np.ones(config.dim), starts=4)
    seeds = random.integers(2**31)
    near = [curvature_near_equal(d, np.random.default_rng(seeds), max(config.dim, 4)) for d in DISTANCES]
    slopes = np.array([loss.gradient(points[:500]) for loss in found.values()])
    return xr.Dataset(
        {
            "rho": ("loss", [loss.smoothness for loss in found.values()]),
            "ascent": ascent,
            "gradient": ("loss", [row[0] for row in rows.values()]),
            "range": ("loss", [row[2] - row[1] for row in rows.values()]),
            "value": (("loss", "point"), [loss.value(points[:500]) - rows[name][1] for name, loss in found.items()]),
            "size": (("loss", "point"), np.linalg.norm(slopes, axis=-1)),
            "near": ("distance", near),
        },
        coords={"loss": list(found), "distance": list(DISTANCES)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rho = data.rho
    yield claim("quotient-rho", r"quotient: $\rho$ by ascent over twice the range of eigenvalues").equal(
        1.0, data.ascent / rho.sel(loss="quotient"), 1e-5, "where the ascent stops"
    )
    for name in data.loss.values:
        one = data.sel(loss=name)
        yield claim(f"{name}-gradient", rf"{name}: largest $|\nabla L|$ over $\pi\rho$").at_most(
            1.0, one.gradient / (math.pi * one.rho)
        )
        yield claim(f"{name}-range", rf"{name}: range of $L$ over $\pi^2\rho/4$").at_most(
            1.0, one.range / (math.pi**2 * one.rho / 4), "half of what the lemma allows"
        )
    yield claim("quotient-share", r"quotient: range over $\rho$").equal(
        0.5, data.range[0] / rho[0], 1e-6, "its eigenvalues", relative=1e-6
    )
    share, note = data.range[1] / rho[1], r"0.70 of $\pi^2/4$: not far below the bound"
    yield claim("cosine-share", r"cosine: range over $\rho$").equal(
        math.sqrt(3), share, 1e-6, r"$2|b|$ over $2|b|/\sqrt3$", note=note
    )
    found, note = rate(data.distance, data.near), r"So there is no $\rho$, and the theorem does not apply."
    yield claim("layer-norm", "layer norm: exponent of the curvature in the distance from equal features").equal(
        -2.0, found, 1e-3, "differences of the gradient", note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, name in enumerate(data.loss.values):
        one = data.sel(loss=name)
        left.plot(one.value / one.rho, one["size"] / one.rho, ".", ms=4, color=f"C{i}", alpha=0.7, label=name)
    sheet.mark(left, x=math.pi**2 / 4, y=math.pi, label=r"$\pi^2/4$ and $\pi$")
    left.set(xlim=(-0.05, 2.8), ylim=(0, 3.6))
    sheet.label(left, "Points on the sphere", r"$(L - \min L)/\rho$", r"$|\nabla L|/\rho$", "center")
    right.plot(data.distance, data.near, "o", color="C0", label="largest curvature")
    sheet.guide(right, data.distance, data.near[0] * (data.distance / data.distance[0]) ** -2.0, "slope $-2$")
    right.set(xscale="log", yscale="log")
    x = "distance from equal features"
    sheet.label(right, r"A layer norm has no $\rho$", x, r"$\|\nabla^2L\|_2$", "upper right")
