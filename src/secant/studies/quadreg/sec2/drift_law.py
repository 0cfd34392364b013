"""Any spectrum at the edge: the drift is minus the variance of the eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Estimate, Figure, Findings, claims, estimate, option, scaled, sheet, study
from secant.theory import edge_limit, quartic, two_eigenvalue


@dataclass(frozen=True)
class Config:
    modes: int = option(5, at_least=2, at_most=50, help="eigenvalues of the random spectra")
    spectra: int = scaled(smoke=12, laptop=40, paper=200, at_least=3, at_most=10_000, help="random spectra a width")
    widths: tuple[float, ...] = option(
        (0.15, 0.3, 0.45), at_least=0.1, at_most=0.6, longest=20, distinct=True,
        help="eigenvalues lie between 1 - width and 1",
    )
    residual: float = option(0.25, at_least=0.1, at_most=0.4, help="residual at the start of the long runs")
    small: float = option(1e-4, at_least=1e-6, at_most=0.01, help="residual of the drift measurements")
    epsilon: float = option(0.005, at_least=1e-3, at_most=0.05, help="for eigenvalues {1, -epsilon}")
    offsets: tuple[float, ...] = option(
        (-1.0, -0.5, 0.0, 0.5, 1.0), above=-1.5, below=1.5, longest=50, distinct=True, help="rescaled offsets"
    )
    seed: int = option(0, at_least=0, at_most=2**31 - 1, help="random seed")


@study(
    "quadreg/drift-law", section="2.2", title="At the edge, sharpness falls at the rate of the spectral variance",
    new=True,
    statement=r"""
    For the quartic loss with any spectrum, the residual's two-step nullcline through the edge is
    $T(0) = 2 + T(1)\tilde z + O(\tilde z^3)$, and on it $\hat y = T(0) - 2 - T(1)\tilde z$ changes in two steps by
    $$-\bigl(T(0)T(2) - T(1)^2\bigr)\tilde z^2 = -T(0)^2\,\mathrm{Var}_J(\omega)\,\tilde z^2 \le 0,$$
    with the variance of the eigenvalues under the weights $\tilde J_i^2$. Sharpness at the edge always falls. For
    small variance it ends at
    $$\eta\lambda_\infty - 2 \approx -\tfrac12\,\frac{\mathrm{Var}_J(\omega)}{\langle\omega^2\rangle_J},$$
    which for eigenvalues $\{1, -\epsilon\}$ and offset $\tilde E$ is $-\tfrac\epsilon2(1 - \tfrac12\tilde E)$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed), 4)
    count, modes = config.spectra, config.modes

    # (a) one pair of steps from the nullcline, spectra of both signs
    wild = jax.random.uniform(keys[0], (200 * modes,), minval=-1.0, maxval=1.0).reshape(200, modes)
    weights = jax.random.uniform(keys[1], (200 * modes,), minval=0.1, maxval=1.0).reshape(200, modes)
    z = config.small

    @jax.jit
    @jax.vmap
    def pair(spectrum: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        scale = 2 / (weight.sum() - z * (spectrum @ weight))
        state = quartic.Modes(jnp.asarray(z), jnp.sqrt(scale * weight))
        step = quartic.quartic_modes(spectrum).step
        after = step(step(state))
        T = [quartic.moment(k, spectrum, state.J) for k in range(3)]
        height = lambda s: jnp.sum(s.J**2) - 2 - jnp.sum(spectrum * s.J**2) * s.z  # noqa: E731
        return (height(after) - height(state)) / z**2, quartic.edge_drift(1.0, *T)

    drift, law = pair(wild, weights)

    # (b) all the way down, spectra of small variance
    shape = (len(config.widths), count, modes)
    spectra = 1 - jnp.array(config.widths)[:, None, None] * jax.random.uniform(keys[2], (math.prod(shape),)).reshape(
        shape
    )
    weights = jax.random.uniform(keys[3], (math.prod(shape),), minval=0.2, maxval=1.0).reshape(shape)
    weights = weights / weights.sum(-1, keepdims=True)
    mean = jnp.sum(weights * spectra, -1, keepdims=True)
    J = jnp.sqrt(weights * (2 + 2 * mean * config.residual + config.residual**2 / 2))
    flat = {"spectrum": spectra.reshape(-1, modes), "J": J.reshape(-1, modes)}
    ran = simulate(
        lambda case: quartic.quartic_modes(case["spectrum"]),
        lambda case: quartic.Modes(jnp.asarray(config.residual), case["J"]), 60_000, over={"case": flat},
        stop=Stop(converged=lambda s: jnp.abs(s.z) < 1e-9, every=100),
    )
    T0, T1, T2 = (quartic.moment(k, flat["spectrum"], ran.state.J) for k in range(3))
    done = ran.dataset.outcome.values == Outcome.CONVERGED

    # (c) the two-eigenvalue model with an offset
    offsets = jnp.array(config.offsets)
    z0 = 0.3
    ends = simulate(
        lambda E: two_eigenvalue.two_eigenvalue(-config.epsilon, E),
        two_eigenvalue.Point(jnp.asarray(z0), jnp.asarray(2 / (1 - z0) + 0.02)), int(120 / config.epsilon),
        over={"E": offsets}, stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=100),
    )
    E1, E2 = two_eigenvalue.higher_moments(ends.state.z, ends.state.T, -config.epsilon, offsets)
    case = ("width", "spectrum")
    return xr.Dataset(
        {
            "drift": ("sample", np.asarray(drift), {"long_name": "two-step change of y over z^2"}),
            "law": ("sample", np.asarray(law)),
            "limit": (case, np.asarray(T0 - 2).reshape(shape[:2]), {"long_name": "final eta lambda - 2"}),
            "predicted": (case, np.asarray(quartic.edge_limit(T0, T1, T2)).reshape(shape[:2])),
            "done": (case, done.reshape(shape[:2])), "offset_limit": ("E", np.asarray(ends.state.T) - 2),
            "offset_done": ("E", ends.dataset.outcome.values == Outcome.CONVERGED),
            "offset_predicted": ("E", np.asarray(quartic.edge_limit(ends.state.T, E1, E2))),
        },
        coords={"width": np.array(config.widths), "E": np.asarray(offsets)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claims.zero(
        "two-step drift on the nullcline against the variance law: largest difference",
        np.abs(data.drift - data.law).max(), 4 * config.small + 1e-15 / config.small**2,
        "next order in the residual, with moments of at most two; and rounding over its square",
    )
    yield claims.at_most(
        "largest drift over random spectra: sharpness always falls", 0.0, data.drift.max(), "the same",
        slack=4 * config.small + 1e-15 / config.small**2,
    )
    share = float(data.done.mean())
    yield claims.at_least(
        "share of the long runs that converged: most of them", 0.5,
        Estimate(share, float(np.sqrt(max(share * (1 - share), 1 / data.done.size) / data.done.size))),
        "an inequality; the rest lose their variance first and go on oscillating",
    )
    ratio = (data.limit / data.predicted).where(data.done)
    for width in data.width.values:
        one = ratio.sel(width=width)
        # Twice the distance is the relative variance of the spectrum at the end. One spectrum is off by its skewness,
        # of the order of its relative width; over spectra that averages out, and the variance is left.
        variance = float(2 * np.abs(data.predicted.sel(width=width).where(data.done.sel(width=width))).max())
        name = f"final distance over half the relative variance, eigenvalues within {width:g}: mean"
        if int(np.isfinite(one).sum()) > 1:
            yield claims.equal(
                name, 1.0, estimate(one.values), 2 * variance,
                "the next term that does not average out, the relative variance",
            )
        else:
            yield claims.undecided(name, 1.0, "fewer than two of these spectra converge")
    settled = data.isel(E=np.flatnonzero(data.offset_done.values))
    name = "final distance over half the relative variance with an offset: farthest from one"
    if settled.sizes["E"]:
        seen = (settled.offset_limit / settled.offset_predicted).values
        yield claims.equal(
            name, 1.0, seen[np.argmax(np.abs(seen - 1))], 4 * config.epsilon, "the next term is O(eps) of the first"
        )
    else:
        yield claims.undecided(name, 1.0, "no run with an offset converges")
    for E in config.offsets:
        one = data.sel(E=E)
        predicted = float(edge_limit.limit_with_offset(config.epsilon, E)) / (config.epsilon / 2)
        name = f"final distance for offset {E:g} over epsilon/2"
        if bool(one.offset_done):
            yield claims.equal(
                name, predicted, float(one.offset_limit) / (config.epsilon / 2), 0,
                "the next term is O(eps) of the first", relative=4 * config.epsilon,
            )
        else:
            yield claims.undecided(name, predicted, "this run does not converge")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = sheet.panels(figure, (12, 4.2), 3)
    left.plot(-data.law, -data.drift, "o", ms=3.5, color="C0", alpha=0.7)
    top = float(-data.law.min()) * 1.05
    left.plot([0, top], [0, top], "--", color=ink, lw=1.2)
    left.set(
        title="Drift at the edge", xlabel=r"$T(0)^2\,\mathrm{Var}_J(\omega)$",
        ylabel=r"$-(\hat y_{t+2} - \hat y_t)/\tilde z^2$",
    )
    for i, width in enumerate(data.width.values):
        one = data.sel(width=width)
        keep = one.done.values
        label = rf"$\omega\in[{1 - width:g}, 1]$"
        middle.loglog(
            -one.predicted.values[keep], -one.limit.values[keep], "o", ms=4.5, color=f"C{i}", alpha=0.75, label=label
        )
    low, high = 0.7 * float(-data.predicted.where(data.done).max()), 1.4 * float(-data.predicted.where(data.done).min())
    middle.loglog([low, high], [low, high], "--", color=ink, lw=1.2)
    middle.set(
        title="Where sharpness ends", xlabel=r"$\frac{1}{2}\mathrm{Var}_J(\omega)/\langle\omega^2\rangle_J$",
        ylabel=r"$2 - \eta\lambda_\infty$",
    )
    middle.legend(loc="upper left")
    E = np.linspace(min(config.offsets), max(config.offsets), 20)
    right.plot(
        E, -np.asarray(edge_limit.limit_with_offset(config.epsilon, E)) / config.epsilon, "--", color=ink, lw=1.2,
        label=r"$\frac{1}{2}(1 - \frac{1}{2}\tilde E)$",
    )
    right.plot(data.E, -data.offset_limit / config.epsilon, "o", ms=7, color="C3", label="gradient descent")
    right.set(
        title=rf"An offset moves it, $\epsilon = {config.epsilon:g}$", xlabel=r"offset $\tilde E$",
        xticks=sorted(config.offsets), ylabel=r"$(2 - \eta\lambda_\infty)/\epsilon$",
    )
    right.legend()
