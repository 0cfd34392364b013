"""Figure 8: the symmetric model sharpens, at most, without ever seeking the edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Finding, Findings, claims, fits_memory, option, scaled, sheet, study
from secant.theory import skeleton, two_eigenvalue

NEAR = 0.1
"""A curvature this close to 2 is at the edge."""

AWAY = 0.5
"""A start this far from curvature 2 is away from it."""


@dataclass(frozen=True)
class Config:
    offsets: tuple[float, ...] = option(
        (0.0, 0.5, -0.5), at_least=-2, at_most=2, longest=20, distinct=True, help="rescaled offsets, zero among them"
    )
    epsilon: float = option(0.005, at_least=1e-4, at_most=0.1, help="minus the second eigenvalue, contrasting model")
    residuals: int = scaled(smoke=25, laptop=81, at_least=5, help="grid points in the residual, -1 to 1")
    curvatures: int = scaled(smoke=30, laptop=90, at_least=5, help="grid points in the curvature, up to 4.5")
    steps: int = scaled(
        smoke=3_000, laptop=8_000, paper=20_000, at_least=100, at_most=10_000_000, help="gradient-descent steps"
    )

    def check(self) -> None:
        """A grid that a machine holds."""
        fits_memory(400 * self.residuals * self.curvatures * (len(self.offsets) + 1), "residuals or curvatures")


@study(
    "quadreg/fig-8", section="B.1", title="The symmetric model has no edge of stability",
    statement=r"""
    With eigenvalues $\{1, -1\}$ and no offset, $T_{t+1} - T_t = \tilde z_t^2(T_t - 4)$: the curvature of every
    convergent run falls, and there is no sharpening. An offset splits the nullclines and opens a small region of
    sharpening, but no set of starts away from $T = 2$ gathers there; eigenvalues $\{1, -\epsilon\}$ with small
    $\epsilon$ do gather.""",
)
def run(config: Config) -> xr.Dataset:
    half = (config.residuals - 1) / 2
    z = (jnp.arange(config.residuals) - half) / half  # exactly antisymmetric, as linspace is not
    T = jnp.linspace(0.0, 4.5, config.curvatures + 1)[1:]
    stop = Stop(
        converged=lambda p: jnp.abs(p.z) < 1e-9, diverged=lambda p: (jnp.abs(p.z) > 1e3) | (p.T > 1e3), every=10
    )
    start = lambda z, T: two_eigenvalue.Point(z, T)  # noqa: E731

    def final(system, over):  # type: ignore[no-untyped-def]
        trajectory = simulate(system, start, config.steps, over=over, stop=stop)
        return np.asarray(trajectory.state.T), np.asarray(trajectory.state.z), trajectory.dataset.outcome.values

    offsets = jnp.array(config.offsets)
    end_T, end_z, outcome = final(lambda E: two_eigenvalue.symmetric(E), {"E": offsets, "z": z, "T": T})
    other_T, other_z, other = final(two_eigenvalue.two_eigenvalue(-config.epsilon), {"z": z, "T": T})
    E, zz, TT = jnp.meshgrid(offsets, z, T, indexing="ij")
    after = two_eigenvalue.symmetric().step(two_eigenvalue.Point(zz[0], TT[0]))
    dims, plane = ("E", "z", "T"), ("z", "T")
    # A run has settled once its residual is too small to move the curvature in the figure's resolution.
    settled = (outcome == Outcome.CONVERGED) | ((outcome == Outcome.UNFINISHED) & (np.abs(end_z) < 1e-2))
    other_settled = (other == Outcome.CONVERGED) | ((other == Outcome.UNFINISHED) & (np.abs(other_z) < 1e-2))
    return xr.Dataset(
        {
            "final": (dims, end_T, {"long_name": "final rescaled curvature"}),
            "settled": (dims, settled & np.asarray(two_eigenvalue.admissible(zz, TT, -1.0, E))),
            "admissible": (dims, np.asarray(two_eigenvalue.admissible(zz, TT, -1.0, E))), "outcome": (dims, outcome),
            "other_final": (plane, other_T),
            "other_settled": (
                plane, other_settled & np.asarray(two_eigenvalue.admissible(zz[0], TT[0], -config.epsilon)),
            ),
            "law": (plane, np.asarray(after.T - TT[0] - zz[0] ** 2 * (TT[0] - 4))),
        },
        coords={"E": np.asarray(offsets), "z": np.asarray(z), "T": np.asarray(T)},
    )


def _share(hits: Any, among: xr.DataArray) -> float:
    """Of `among`, how many are `hits`; NaN if there are none."""
    return float((hits & among).sum() / among.sum()) if among.any() else float("nan")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claims.zero(
        "curvature change without offset, against z^2 (T - 4): largest difference", np.abs(data.law).max(), 1e-12,
        "an identity: rounding of float64",
    )
    yield from _sharpening(data, config)
    chance = 2 * NEAR / 4.5
    away = np.abs(data["T"] - 2) > AWAY
    for i, E in enumerate(config.offsets):
        one = data.isel(E=i)
        yield claims.at_most(
            f"share of starts away from the edge that end within {NEAR:g} of it, offset {E:g}", chance,
            _share(np.abs(one.final - 2) < NEAR, one.settled & away),
            "by chance this share of all curvatures from 0 to 4.5 would",
        )
    yield _gathering(data, config, away)
    yield _mirror(data, config)


def _sharpening(data: xr.Dataset, config: Config) -> Findings:
    """Where the curvature of a convergent run rises: nowhere without offset, between -E/2 and 0 with one."""
    sharper = data.final > data["T"] + 1e-9
    name = "share of convergent starts that sharpen, without offset"
    if 0.0 in config.offsets:
        none = config.offsets.index(0.0)
        # Without offset the curvature can only rise above four, and such runs do not converge.
        measured = _share(sharper[none], data.settled[none])
        yield claims.zero(name, measured, 0, "none may")
    else:
        yield claims.undecided(name, 0.0, "no offset is zero")
    for i, E in enumerate(config.offsets):
        if E == 0:
            continue
        # Between -E/2 and 0 both terms of T' - T = -2zW + z^2 T are positive, and z goes to zero without changing sign
        # as long as T stays below one; it rises by no more than |E|.
        inside = (data.z * (data.z + E / 2) < 0) & (data["T"] <= 1 - abs(E)) & data.settled[i]
        name = f"share that sharpens of the starts between -E/2 and 0 with T up to 1 - |E|, offset {E:g}"
        if inside.any():
            yield claims.equal(name, 1.0, _share(sharper[i], inside), 0, "all of them")
        else:
            yield claims.undecided(name, 1.0, "no point of the grid lies there and converges")


def _gathering(data: xr.Dataset, config: Config, away: Any) -> Finding:
    """The contrasting model ends at the edge from the levels T - 2z between 2 and 4, and below it at its level."""
    eps = config.epsilon
    z, T = xr.broadcast(data.z, data["T"])
    level = xr.DataArray(np.asarray(skeleton.conserved(z.values, T.values)), dims=("z", "T"))
    at_the_edge = (level > 2 - NEAR) & (level < skeleton.ESCAPE)
    # Over a run the level drifts by a few epsilon: by 2 eps C times a sum of residuals of order one.
    border = (np.abs(level - (2 - NEAR)) < 12 * eps) | (np.abs(level - skeleton.ESCAPE) < 0.2 + 12 * eps)
    moving = np.abs(data.z) > 0  # where the residual is zero nothing moves
    among = data.other_settled & away & moving
    return claims.equal(
        "the same share for eigenvalues {1, -epsilon}: that of the levels that reach the edge",
        _share(at_the_edge, among), _share(abs(data.other_final - 2) < NEAR, among),
        np.nan_to_num(_share(border, among)),
        "starts whose level is within its drift of the borders 1.9 and 4, and just below 4, where chaos "
        "comes near the border of escape",
    )


def _mirror(data: xr.Dataset, config: Config) -> Finding:
    """The model with offset -E is that with E seen in a mirror."""
    name = "offsets of opposite sign mirror each other: largest difference of final curvatures"
    pairs = [(config.offsets.index(E), config.offsets.index(-E)) for E in config.offsets if -E in config.offsets]
    gaps = []
    for i, j in pairs:
        here, there = data.isel(E=i), data.isel(E=j)
        both = here.settled.values & there.settled.values[::-1]
        gaps.append(np.abs(there.final.values[::-1][both] - here.final.values[both]).max(initial=0.0))
    if not gaps:
        return claims.undecided(name, 0.0, "no two offsets are of opposite sign")
    return claims.zero(name, max(gaps), 0, "an exact symmetry, of every operation in floating point too")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink, faint = sheet.ink(), sheet.faint()
    axes = sheet.panels(figure, (12, 4.4), 3)
    fine = np.linspace(-1, 1, 801)
    shown = (0, min(1, len(config.offsets) - 1))
    for axis, index in zip(axes, shown, strict=False):
        E = config.offsets[index]
        one = data.isel(E=index)
        zz, TT = np.meshgrid(np.linspace(-0.92, 0.92, 13), np.linspace(0.3, 4.3, 11), indexing="ij")
        with_field = np.asarray(two_eigenvalue.admissible(zz, TT, -1.0, E))
        after = two_eigenvalue.symmetric(E).step(two_eigenvalue.Point(zz, TT))
        dz, dT = np.sign(np.asarray(after.z) - zz), np.sign(np.asarray(after.T) - TT)
        axis.quiver(
            zz[with_field], TT[with_field], dz[with_field] * 0.35, dT[with_field] * 0.75,
            color=ink, alpha=0.35, width=0.004, angles="xy", scale_units="xy", scale=6,
        )  # fmt: skip
        axis.fill_between(fine, 0, np.maximum(2 * fine + E, -(2 * fine + E)), color=faint, alpha=0.8, lw=0)
        f_z, f_T = (np.asarray(f) for f in two_eigenvalue.one_step_nullclines(fine, -1.0, E))
        axis.plot(fine, f_z, color="C0", label=r"$\Delta\tilde z = 0$")
        f_T = np.where(np.abs(f_T) > 10, np.nan, f_T)
        axis.plot(fine, f_T, color="C1", label=r"$\Delta T = 0$")
        axis.axvline(0, color="C0", lw=1.6)
        sharper = (one.final > data["T"] + 1e-9) & one.settled
        zi, Ti = np.nonzero(sharper.values)
        axis.plot(data.z.values[zi], data["T"].values[Ti], "s", ms=3, color="C2", alpha=0.8)
        lost = ~one.settled & one.admissible
        zi, Ti = np.nonzero(lost.values)
        axis.plot(data.z.values[zi], data["T"].values[Ti], "x", ms=3, color="C5", alpha=0.5)
        axis.set(xlim=(-1, 1), ylim=(0, 4.5), xlabel=r"$\tilde z$", ylabel=r"$T$")
        axis.set_title("No offset: no sharpening" if E == 0 else rf"Offset $\tilde E = {E:g}$: a little")
        axis.grid(False)
    axes[0].plot([], [], "s", color="C2", label="sharpens")
    axes[0].plot([], [], "x", color="C5", label="diverges")
    axes[0].legend(
        loc="center", ncols=2, frameon=True, facecolor=plt.rcParams["figure.facecolor"], edgecolor=faint,
        framealpha=0.95,
    )
    bins = np.linspace(0, 4.5, 46)
    right = axes[2]
    away = np.abs(data["T"] - 2) > 0.5
    for index, colour in zip(shown, ("C0", "C1"), strict=True):
        one = data.isel(E=index)
        values = one.final.values[(one.settled & away).values]
        right.hist(
            values, bins, density=True, histtype="step", color=colour, lw=1.6,
            label=rf"$\{{1,-1\}}$, $\tilde E={config.offsets[index]:g}$",
        )
    values = data.other_final.values[(data.other_settled & away).values]
    right.hist(
        values, bins, density=True, color="C3", alpha=0.45, label=rf"$\{{1,-{config.epsilon:g}\}}$, $\tilde E=0$"
    )
    right.axvline(2, ls="--", color=ink, lw=1)
    right.set(
        title="Only the asymmetric model gathers", xlabel=r"final $T$, from $|T_0 - 2| > 0.5$", ylabel="density",
        xlim=(0, 3),
    )
    right.legend(loc="upper left")
