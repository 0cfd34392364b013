"""Theorem 3.1: at a random start the largest kernel eigenvalue accelerates upwards on average."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.studies.quadreg._random import each_draw, kernel, largest, mirrored, path, sizes, standard_error
from secant.theory import quadratic_regression as qr
from secant.theory import random_regression as rr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONVENTIONS: tuple[qr.Convention, ...] = ("averaged", "goe", "independent")


@dataclass(frozen=True)
class Config:
    outputs: tuple[int, ...] = scaled(
        smoke=(10, 20, 30), laptop=(10, 20, 30, 60, 60), paper=(10, 20, 30, 60, 60, 120), at_least=2, help="residuals D"
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(20, 40, 60), laptop=(20, 40, 60, 120, 60), paper=(20, 40, 60, 120, 60, 240), at_least=2,
        help="parameters P, as many entries",
    )  # fmt: skip
    jacobians: int = scaled(smoke=600, laptop=3_000, paper=20_000, at_least=10, help="random Jacobians a size")
    draws: int = scaled(smoke=2_000, laptop=8_000, paper=40_000, at_least=10, help="residuals and tensors for one J")
    direct: int = scaled(smoke=128, laptop=400, paper=2_000, at_least=10, help="draws of everything, at the third size")
    runs: int = scaled(smoke=16, laptop=400, paper=1_000, at_least=2, help="gradient flows, D = 8 and P = 16")
    sigma_z: float = option(1.0, above=0, help="standard deviation of the residuals")
    sigma_J: float = option(0.3, above=0, help="standard deviation of the Jacobian's entries")
    seed: int = option(0, at_least=0, help="random seed")


def unsymmetric_acceleration(J: np.ndarray, sigma_z: float) -> np.ndarray:
    r"""$\mathbb E[\ddot\lambda\mid J]$ for $Q_\alpha$ of independent entries, not symmetric."""
    values = np.linalg.eigvalsh(J @ J.swapaxes(-1, -2))
    first, rest, trace = values[..., -1], values[..., :-1], values.sum(axis=-1)
    pulls = ((first[..., None] + rest) / (first[..., None] - rest)).sum(axis=-1)
    return 2 * sigma_z**2 * (first + J.shape[-1] * trace + pulls * trace)


def conditional_mean(J: np.ndarray, sigma_z: float, convention: qr.Convention) -> np.ndarray:
    """Mean acceleration for each of some Jacobians in any of the conventions."""
    if convention == "independent":
        return unsymmetric_acceleration(J, sigma_z)
    return np.asarray(jax.jit(jax.vmap(lambda J: rr.mean_acceleration(J, sigma_z, rr.VARIANCE[convention])))(J))


@study(
    "quadreg/thm-3.1",
    section="3.2",
    title="Curvature accelerates upwards on average",
    statement=r"""
    Let residuals, Jacobian and second derivative be random and independent with variances $\sigma_z^2$, $\sigma_J^2$
    and, off the diagonal of every symmetric $Q_\alpha$, $s$. Under gradient flow, at the start,
    $\mathbb E[\dot\lambda_{\max}] = 0$ and for large $D$ and $P$
    $$\mathbb E[\ddot\lambda_{\max}] / \mathbb E[\lambda_{\max}] \to 2s\,DP\,\sigma_z^2.$$
    The constant depends on the convention for $Q$. With $Q_\alpha = \tfrac12(A + A^\top)$ and $A$ of unit variance,
    $s = \tfrac12$, it is $DP\sigma_z^2$ and agrees with equation (147); with $s = 1$ it is twice that. Most of it is
    the repulsion of the eigenvalues below and the motion of the Jacobian in all $P$ directions.""",
)
def run(config: Config) -> xr.Dataset:
    pairs = sizes(config.outputs, config.parameters)
    variables = {**_flows(config), **_one_jacobian(config), **_everything_random(config)}
    moments = [_random_jacobians(config, D, P) for D, P in pairs]
    for name in moments[0]:
        variables[name] = ("size", np.array([float(one[name]) for one in moments]))
    coords = {
        "size": [f"({D}, {P})" for D, P in pairs],
        "D": ("size", list(config.outputs)),
        "P": ("size", list(config.parameters)),
        "convention": list(CONVENTIONS),
    }
    return xr.Dataset(variables, coords=coords)


def _flows(config: Config) -> dict:
    """Gradient flows from small random starts: their mean curvature, and their derivatives at one time."""
    D, P = 8, 16

    unit = 1 / (np.sqrt(D * P) * config.sigma_z)
    h = 0.025 * min(unit, 1 / (config.sigma_J**2 * rr.edge(D, P)))

    def one(Q: Array, start: qr.Regression) -> dict[str, Array]:
        field, states = qr.flow_field(Q), mirrored(start, config.sigma_z, config.sigma_J)
        close = path(field, jax.tree.map(lambda leaf: leaf[0], states), h / 4, 4, 4)
        formulas = rr.eigenvalue_derivatives(jax.tree.map(lambda leaf: leaf[2], close), Q)
        return {
            "far": kernel(jax.vmap(lambda state: path(field, state, unit / 120, 4, 30).J)(states)),
            "close": kernel(close.J),
            "formula": jnp.stack(formulas),
        }

    found = each_draw(one, config.seed, config.runs, D, P)
    tops, close = largest(found["far"]), largest(found["close"])
    difference = np.stack(
        [
            close @ np.array([1.0, -8, 0, 8, -1]) / (12 * h),
            close @ np.array([-1.0, 16, -30, 16, -1]) / (12 * h**2),
        ],
        axis=1,
    )
    size = np.sqrt(np.mean(found["formula"] ** 2, axis=0))
    # The flows of z and -z together: what is odd in z drops out of their mean exactly.
    growth = tops.mean(axis=1) / tops[..., 0].mean()
    return {
        "growth": ("time", growth.mean(axis=0), {"long_name": "mean curvature over its mean at the start"}),
        "growth_error": ("time", standard_error(growth)),
        "time": ("time", np.linspace(0, 1, growth.shape[1]), {"long_name": "time", "units": "1/(sigma_z sqrt(D P))"}),
        "gap": (("run", "order"), np.abs(found["formula"] - difference) / size),
    }


def _one_jacobian(config: Config) -> dict:
    """Many residuals and tensors for one Jacobian."""
    D, P = 8, 16
    J = config.sigma_J * np.random.default_rng([config.seed, 1]).normal(size=(D, P))

    def both_signs(Q: Array, start: qr.Regression) -> Array:
        states = mirrored(qr.Regression(start.z, jnp.asarray(J)), config.sigma_z)
        return jax.vmap(rr.eigenvalue_derivatives, (0, None))(states, Q).second.mean()

    found = np.stack(
        [
            each_draw(both_signs, config.seed + i, config.draws, D, P, convention, 250)
            for i, convention in enumerate(CONVENTIONS, 1)
        ]
    )
    means = np.array([float(conditional_mean(J[None], config.sigma_z, c)[0]) for c in CONVENTIONS])
    return {
        "given_J": ("convention", found.mean(axis=1), {"long_name": "mean acceleration for one Jacobian"}),
        "given_J_error": ("convention", standard_error(found, axis=1)),
        "given_J_formula": ("convention", means),
    }


def _everything_random(config: Config) -> dict:
    """Residuals, tensors and Jacobians all drawn, entries of unit variance off the diagonal."""
    D, P = sizes(config.outputs, config.parameters)[min(2, len(config.outputs) - 1)]

    def one(Q: Array, start: qr.Regression) -> dict[str, Array]:
        state = qr.Regression(config.sigma_z * start.z, config.sigma_J * start.J)
        w = state.J.T @ state.z
        # The part of the second derivative of J that is even in z: Q(Q(w, .)^T z, .).
        bend = Q @ ((Q @ w).T @ state.z)
        both = jax.vmap(rr.eigenvalue_derivatives, (0, None))(mirrored(state), Q)
        return {
            "velocity": both.first[0],
            "parity": jnp.abs(both.first.sum() / both.first[0]),
            "acceleration": both.second.mean(),
            "one_sign": both.second[0],
            "bend": bend @ state.J.T,
            "kernel": kernel(state.J),
        }

    found = each_draw(one, config.seed, config.direct, D, P, "goe")
    vectors = np.linalg.eigh(found.pop("kernel"))[1][..., -1]
    found["bending"] = np.einsum("na,nab,nb->n", vectors, found.pop("bend"), vectors)
    return {name: ("draw", values) for name, values in found.items()} | {"direct_D": D, "direct_P": P}


def _random_jacobians(config: Config, D: int, P: int) -> dict[str, float]:
    """Mean acceleration over many Jacobians, each averaged over the rest in closed form."""

    J = config.sigma_J * np.random.default_rng([config.seed, D, P]).normal(size=(config.jacobians, D, P))
    means, unsymmetric = (conditional_mean(J, config.sigma_z, c) for c in ("averaged", "independent"))
    tops = largest(J @ J.swapaxes(1, 2))
    limit = rr.acceleration_limit(D, P, config.sigma_z, config.sigma_J)
    return {
        "ratio": means.mean() / limit,
        "ratio_error": standard_error(means / limit),
        "ratio_median": float(np.median(means)) / limit,
        "unsymmetric": unsymmetric.mean() / limit,
        "unsymmetric_error": standard_error(unsymmetric / limit),
        "relative": means.mean() / tops.mean() / config.sigma_z**2,
        "relative_error": standard_error(means / tops.mean()) / config.sigma_z**2,
        "top": tops.mean() / config.sigma_J**2,
        "top_error": standard_error(tops) / config.sigma_J**2,
    }


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    for order, name in enumerate(("first", "second")):
        yield Finding(
            f"{name} derivative of the largest eigenvalue against differences along the flow, median",
            predicted=0.0,
            measured=float(data.gap.isel(order=order).median()),
            tolerance=Tolerance(
                1e-4, why="fourth power of the differences' step, 4e-7, times ratios of derivatives; over the rms"
            ),
        )
    for convention in CONVENTIONS:
        one = data.sel(convention=convention)
        yield Finding(
            f"mean acceleration for one Jacobian over the formula, {convention} Q",
            predicted=1.0,
            measured=float(one.given_J / one.given_J_formula),
            tolerance=Tolerance(
                4 * float(one.given_J_error / one.given_J_formula), why="four standard errors of the mean over draws"
            ),
        )
    yield Finding(
        "mean velocity of the largest eigenvalue, in standard errors",
        predicted=0.0,
        measured=float(data.velocity.mean()) / float(standard_error(data.velocity.values)),
        tolerance=Tolerance(4.0, why="four standard errors"),
        note=f"odd in the residuals: z and -z cancel to {float(data.parity.max()):.0e} of it in every draw",
    )
    n = data.sizes["draw"]
    yield Finding(
        f"share of {n} draws in which the acceleration, averaged over z and -z, is upwards",
        predicted=1.0,
        measured=float((data.acceleration > 0).mean()),
        tolerance=Tolerance(3 / n, why="rule of three: what so many draws can tell from always"),
        note=f"without that average: {float((data.one_sign > 0).mean()):.3f}",
    )
    for size in data.size.values:
        one = data.sel(size=size)
        D, P = int(one.D), int(one.P)
        yield Finding(
            f"mean acceleration over its limit, (D, P) = {size}",
            predicted=1.0,
            measured=float(one.ratio),
            tolerance=Tolerance(
                D ** (-2 / 3) + 5 * float(one.ratio_error),
                why="the edge of a finite spectrum is D^(-2/3) away; five standard errors, because 1/(gap to the "
                "second eigenvalue) has a mean but no variance",
            ),
            uncertainty=float(one.ratio_error),
            note=f"median {float(one.ratio_median):.3f}; averaged over z and Q in closed form, over Jacobians by draws",
        )
    for size in data.size.values:
        one = data.sel(size=size)
        D, P = int(one.D), int(one.P)
        yield Finding(
            f"mean largest eigenvalue over the Tracy-Widom mean, (D, P) = {size}",
            predicted=1.0,
            measured=float(one.top) / rr.mean_top(D, P),
            tolerance=Tolerance(
                D ** (-4 / 3) + 4 * float(one.top_error) / rr.mean_top(D, P),
                why="the next order is D^(-4/3) of it; four standard errors",
            ),
            note=f"{float(one.top) / rr.edge(D, P):.3f} of the Marchenko-Pastur edge",
        )
    yield from _errata(data, config)


def _errata(data: xr.Dataset, config: Config) -> Iterator[Erratum]:
    largest = data.isel(size=int(np.argmax((data.D * data.P).values)))
    D, P = int(largest.D), int(largest.P)
    yield Erratum(
        f"relative acceleration over sigma_z^2, (D, P) = ({D}, {P})",
        printed=r"\mathbb E[\ddot\lambda_{\max}]/\mathbb E[\lambda_{\max}] = \sigma_z^2",
        corrected=r"\mathbb E[\ddot\lambda_{\max}]/\mathbb E[\lambda_{\max}] \to DP\,\sigma_z^2",
        printed_value=1.0,
        corrected_value=float(D * P),
        measured=float(largest.relative),
        tolerance=Tolerance(
            5 * float(largest.relative_error),
            (D**-0.5 + P**-0.5) ** 2,
            why="the next order, lambda_max over the trace; five standard errors",
        ),
        why="(147) divided by the mean eigenvalue leaves the factor DP",
        where="Theorem 3.1, equations (23) and (148)",
    )
    D, P = int(data.direct_D), int(data.direct_P)
    right = config.sigma_z**2 * config.sigma_J**2 * P * rr.edge(D, P)
    yield Erratum(
        f"mean of sigma_0 times its second derivative, (D, P) = ({D}, {P})",
        printed=r"\sigma_z^2\sigma_J^2P^2D\,(1 + \sqrt{D/P})^2",
        corrected=r"\sigma_z^2\sigma_J^2P^2\,(1 + \sqrt{D/P})^2",
        printed_value=D * right,
        corrected_value=right,
        measured=float(data.bending.mean()),
        tolerance=Tolerance(
            5 * float(standard_error(data.bending.values)),
            D ** (-2 / 3),
            why="five standard errors; the edge of a finite spectrum is D^(-2/3) away",
        ),
        why="the mean of sigma_0^2 is sigma_J^2 P (1 + sqrt(D/P))^2. The total (147) is right for averaged Q because "
        "the terms left out, all other directions and eigenvalues, are D times larger",
        where="equation (146)",
    )
    D, P = int(largest.D), int(largest.P)
    yield Erratum(
        f"mean acceleration over (147) when Q has independent entries of unit variance, (D, P) = ({D}, {P})",
        printed=r"\sigma_z^2\sigma_J^2DP\,(P(1 + \sqrt{D/P})^2 + 1)",
        corrected=r"2\,\sigma_z^2\sigma_J^2DP\cdot P(1 + \sqrt{D/P})^2",
        printed_value=1.0,
        corrected_value=2.0,
        measured=float(largest.unsymmetric),
        tolerance=Tolerance(
            5 * float(largest.unsymmetric_error),
            D ** (-2 / 3),
            why="five standard errors; the edge of a finite spectrum is D^(-2/3) away",
        ),
        why="(147) holds for the symmetric part of such a tensor, whose entries have variance 1/2, not for entries of "
        "variance 1 as the theorem asks",
        where="Theorem 3.1, equation (147)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(12, 4.0)
    left, middle, right = figure.subplots(1, 3)
    growth, error = data.growth.values, data.growth_error.values
    left.fill_between(data.time, growth - 2 * error, growth + 2 * error, color="C0", alpha=0.25, lw=0)
    left.plot(data.time, growth, color="C0", label=f"gradient flow, {config.runs} draws")
    D, P = 8, 16
    factor = 1 + rr.mean_top(D, P) / (D * P)
    early = data.time.values[data.time.values <= 0.8]
    left.plot(early, 1 + factor * early**2 / 2, "--", color=ink, lw=1.2, label=r"$1 + \frac{1}{2}\ddot\lambda t^2$")
    left.set(
        title=f"Mean curvature, ({D}, {P})",
        xlabel=r"time $\cdot\ \sigma_z\sqrt{DP}$",
        ylabel=r"$\mathbb{E}\,\lambda_{\max}(t)/\mathbb{E}\,\lambda_{\max}(0)$",
    )
    left.legend(loc="upper left")
    x = np.arange(data.sizes["size"])
    middle.axhline(1.0, ls="--", color=ink, lw=1.2)
    middle.axhline(2.0, ls="--", color=ink, lw=1.2)
    for name, colour, label in (("ratio", "C0", r"symmetric, $s = 1/2$"), ("unsymmetric", "C1", "independent entries")):
        middle.errorbar(x, data[name], 2 * data[f"{name}_error"], fmt="o", ms=6, color=colour, capsize=3, label=label)
    middle.set(title="Mean acceleration", ylabel="over equation (147)", ylim=(0, 2.5))
    middle.legend(loc="lower left")
    edges = np.array([rr.edge(int(D), int(P)) for D, P in zip(data.D, data.P, strict=True)])
    predicted = np.array([rr.mean_top(int(D), int(P)) for D, P in zip(data.D, data.P, strict=True)]) / edges
    right.axhline(1.0, ls="--", color=ink, lw=1.2)
    right.plot(x, predicted, "_", ms=22, mew=2, color="C2", label="Tracy-Widom mean")
    right.errorbar(x, data.top / edges, 2 * data.top_error / edges, fmt="o", ms=5, color="C0", capsize=3, label="draws")
    right.set(title="Largest eigenvalue", ylabel="over the Marchenko-Pastur edge", ylim=(0.8, 1.02))
    right.legend(loc="lower right")
    for axes in (middle, right):
        axes.set_xticks(x, data.size.values, fontsize=8)
        axes.set(xlabel="(D, P)", xlim=(-0.5, len(x) - 0.5))
