"""Lemma 13.4.3: how large gradients and how wide the range of a scale-invariant loss can be."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.scale_invariant import Cosine, Loss, three_losses
from secant.theory.normalization.scale_invariance import sphere_smoothness

DISTANCES = (1e-1, 1e-2, 1e-3)


class Config(Seeded):
    dim: int = options.dim(5, at_least=3, at_most=30)
    samples: int = option(40, at_least=10, at_most=1_000, help="data of the neuron")
    points: int = scaled(smoke=2_000, laptop=100_000, at_least=100, at_most=10**6, help="random points on the sphere")


def best(loss: Loss, points: np.ndarray) -> tuple[float, float, float]:
    """The largest gradient and the ends of the loss on the sphere: the best of the points, improved by descent."""
    from scipy.optimize import minimize

    values = loss.value(points)
    ends = []
    for sign in (1, -1):
        start = points[np.argmin(sign * values)]
        found = minimize(lambda w, sign=sign: (sign * loss.value(w), sign * loss.gradient(w)), start, jac=True)
        ends.append(sign * float(found.fun))
    return float(np.linalg.norm(loss.gradient(points), axis=1).max()), ends[0], ends[1]


def curvature_near_equal(distance: float, random: np.random.Generator, width: int) -> float:
    """Curvature of b . layer_norm(w) at unit weights equal up to a distance, by differences of its gradient."""
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
    r"""With $\rho = \max_{|w|=1}\|\nabla^2L(w)\|_2$: (1) $|\nabla L(w)| \le \pi\rho$ for all unit $w$; (2)
    $L(w) - \min L \le \pi^2\rho/2$ for all $w \ne 0$. Since the slope vanishes at both ends of the way from the least
    to the largest value, the range is even at most $\pi^2\rho/4$. A layer norm without $\epsilon$ has no $\rho$: near
    weights that make all features of a sample equal, curvature grows as one over the squared distance.
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
    return xr.Dataset(
        {
            "rho": ("loss", [loss.smoothness for loss in found.values()]),
            "ascent": ascent,
            "gradient": ("loss", [row[0] for row in rows.values()]),
            "range": ("loss", [row[2] - row[1] for row in rows.values()]),
            "value": (("loss", "point"), [loss.value(points[:500]) - rows[name][1] for name, loss in found.items()]),
            "size": (
                ("loss", "point"),
                [np.linalg.norm(loss.gradient(points[:500]), axis=1) for loss in found.values()],
            ),
            "near": ("distance", near),
        },
        coords={"loss": list(found), "distance": list(DISTANCES)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rho = data.rho
    yield claim("quotient-rho-ascent", "quotient: rho by ascent over twice the range of eigenvalues").equal(
        1.0, data.ascent / rho.sel(loss="quotient"), 1e-5, "where the ascent stops"
    )
    for name in data.loss.values:
        one = data.sel(loss=name)
        yield claim(f"{name}-grad-l-pi", f"{name}: largest |grad L| over pi rho").at_most(
            1.0, one.gradient / (math.pi * one.rho)
        )
        yield claim(f"{name}-range-l-pi", f"{name}: range of L over pi^2 rho/4").at_most(
            1.0, one.range / (math.pi**2 * one.rho / 4), "half of what the lemma allows"
        )
    yield claim("quotient-range-rho", "quotient: range over rho").equal(
        0.5, data.range[0] / rho[0], 1e-6, "its eigenvalues", relative=1e-6
    )
    yield claim("cosine-range-rho", "cosine: range over rho").equal(
        math.sqrt(3),
        data.range[1] / rho[1],
        1e-6,
        "2|b| over 2|b|/sqrt 3",
        note="0.70 of pi^2/4: not far below the bound",
    )
    slope = np.polyfit(np.log(data.distance), np.log(data.near), 1)[0]
    yield claim(
        "layer-norm-exponent", "layer norm: exponent of the curvature in the distance from equal features"
    ).equal(
        -2.0, slope, 1e-3, "differences of the gradient", note="so there is no rho, and the theorem says nothing of it"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, name in enumerate(data.loss.values):
        one = data.sel(loss=name)
        left.plot(one.value / one.rho, one["size"] / one.rho, ".", ms=4, color=f"C{i}", alpha=0.7, label=name)
    sheet.mark(left, x=math.pi**2 / 4, y=math.pi, label=r"$\pi^2/4$ and $\pi$")
    sheet.label(
        left,
        "Points on the sphere",
        r"$(L - \min L)/\rho$",
        r"$|\nabla L|/\rho$",
        "center",
        xlim=(-0.05, 2.8),
        ylim=(0, 3.6),
    )
    right.plot(data.distance, data.near, "o", color="C0", label="largest curvature")
    sheet.guide(right, data.distance, data.near[0] * (data.distance / data.distance[0]) ** -2.0, "slope $-2$")
    sheet.label(
        right,
        "A layer norm has no $\\rho$",
        "distance from equal features",
        r"$\|\nabla^2L\|_2$",
        "upper right",
        xscale="log",
        yscale="log",
    )
