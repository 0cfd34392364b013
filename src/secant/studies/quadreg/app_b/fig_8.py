"""Figure 8: the symmetric model sharpens, at most, without ever seeking the edge."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Options, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.regression.plane import draw_plane
from secant.theory.edge import skeleton, two_eigenvalue

NEAR = 0.1
"""A curvature this close to 2 is at the edge."""

AWAY = 0.5
"""A start this far from curvature 2 is away from it."""


class Config(Options):
    offsets: tuple[float, ...] = option(
        (0.0, 0.5, -0.5), at_least=-2, at_most=2, longest=20, distinct=True, help="rescaled offsets, zero among them"
    )
    epsilon: float = option(0.005, at_least=1e-4, at_most=0.1, help="minus the second eigenvalue, contrasting model")
    residuals: int = scaled(smoke=25, laptop=81, at_least=5, help="grid points in the residual, -1 to 1")
    curvatures: int = scaled(smoke=30, laptop=90, at_least=5, help="grid points in the curvature, up to 4.5")
    steps: int = options.steps(3_000, 8_000, 20_000, at_least=100, at_most=10_000_000)

    def check(self) -> None:
        """A grid that a machine holds."""
        fits_memory(400 * self.residuals * self.curvatures * (len(self.offsets) + 1), "residuals or curvatures")


@study("quadreg/fig-8", section="B.1", title="The symmetric model has no edge of stability")
def run(config: Config) -> xr.Dataset:
    r"""With eigenvalues $\{1, -1\}$ and no offset, $T_{t+1} - T_t = \tilde z_t^2(T_t - 4)$: the curvature of every
    convergent run falls, and there is no sharpening. An offset splits the nullclines and opens a small region of
    sharpening, but no set of starts away from $T = 2$ gathers there; eigenvalues $\{1, -\epsilon\}$ with small
    $\epsilon$ do gather.
    """
    half = (config.residuals - 1) / 2
    z = (np.arange(config.residuals) - half) / half  # exactly antisymmetric, as linspace is not
    T = np.asarray(jnp.linspace(0.0, 4.5, config.curvatures + 1))[1:]
    stop = Stop(
        converged=lambda p: jnp.abs(p.z) < 1e-9, diverged=lambda p: (jnp.abs(p.z) > 1e3) | (p.T > 1e3), every=10
    )

    def ends(second: float, offsets: tuple[float, ...]) -> xr.Dataset:
        over = {"E": np.array(offsets), "z": z, "T": T}
        ran = simulate(
            lambda E: two_eigenvalue.two_eigenvalue(second, E),
            lambda z, T: two_eigenvalue.Point(z, T),
            config.steps,
            over=over,
            stop=stop,
        )
        E, zz, TT = np.meshgrid(*over.values(), indexing="ij")
        admissible = np.asarray(jit(two_eigenvalue.admissible, quick=True)(zz, TT, second, E))
        # A run has settled once its residual is too small to move the curvature in the figure's resolution.
        outcome, still = ran.dataset.outcome, np.abs(np.asarray(ran.state.z)) < 1e-2
        settled = (outcome == Outcome.CONVERGED) | ((outcome == Outcome.UNFINISHED) & still)
        return ran.dataset[["outcome"]].assign(
            final=(outcome.dims, np.asarray(ran.state.T), {"long_name": "final rescaled curvature"}),
            settled=settled & admissible,
            admissible=(outcome.dims, admissible),
        )

    found, other = ends(-1.0, config.offsets), ends(-config.epsilon, (0.0,)).isel(E=0, drop=True)
    zz, TT = np.meshgrid(z, T, indexing="ij")
    after = jit(two_eigenvalue.symmetric().step, quick=True)(two_eigenvalue.Point(zz, TT))
    return found.assign(
        other_final=other.final,
        other_settled=other.settled,
        law=(("z", "T"), np.asarray(after.T) - TT - zz**2 * (TT - 4)),
    )


def _share(hits: Any, among: xr.DataArray) -> float:
    """The share of `among` that are `hits`; NaN if there are none."""
    return float((hits & among).sum() / among.sum()) if among.any() else float("nan")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim("change", r"curvature change without offset, against $z^2 (T - 4)$: largest difference").zero(
        np.abs(data.law).max(), 1e-12, "an identity: rounding of float64"
    )
    sharper, away = data.final > data["T"] + 1e-9, np.abs(data["T"] - 2) > AWAY
    # Without offset the curvature can only rise above four, and such runs do not converge.
    sentence = "share of convergent starts that sharpen, without offset"
    yield claim("sharpens-0", sentence, 0.0 in config.offsets, "no offset is zero").zero(
        lambda: _share(sharper.sel(E=0.0), data.settled.sel(E=0.0)), 0, "none may"
    )
    for E in filter(None, config.offsets):
        # Between -E/2 and 0 both terms of T' - T = -2zW + z^2 T are positive, and z goes to zero without changing sign
        # as long as T stays below one; it rises by no more than |E|.
        inside = (data.z * (data.z + E / 2) < 0) & (data["T"] <= 1 - abs(E)) & data.settled.sel(E=E)
        sentence = f"share that sharpens of the starts between $-E/2$ and 0 with $T$ up to $1 - |E|$, offset {E:g}"
        yield claim(f"sharpens-{E:g}", sentence, inside, "no point of the grid lies there and converges").equal(
            1.0, _share(sharper.sel(E=E), inside), 0, "all of them"
        )
    for E in config.offsets:
        one = data.sel(E=E)
        sentence = f"share of starts away from the edge that end within {NEAR:g} of it, offset {E:g}"
        why = "by chance this share of all curvatures from 0 to 4.5 would"
        yield claim(f"gathered-{E:g}", sentence).at_most(
            2 * NEAR / 4.5, _share(np.abs(one.final - 2) < NEAR, one.settled & away), why
        )
    # The contrasting model ends at the edge from the levels T - 2z between 2 and 4, and below it at its level.
    levels = np.asarray(skeleton.conserved(data.z.values[:, None], data["T"].values))
    level = data.other_final.copy(data=levels)
    at_the_edge = (level > 2 - NEAR) & (level < skeleton.ESCAPE)
    # Over a run the level drifts by a few epsilon: by 2 eps C times a sum of residuals of order one.
    drift = 12 * config.epsilon
    border = (np.abs(level - (2 - NEAR)) < drift) | (np.abs(level - skeleton.ESCAPE) < 0.2 + drift)
    among = data.other_settled & away & (data.z != 0)  # where the residual is zero nothing moves
    sentence = r"the same share for eigenvalues $\{1, -\epsilon\}$: share of the levels that reach the edge"
    yield claim("gathered-asymmetric", sentence).equal(
        _share(at_the_edge, among),
        _share(abs(data.other_final - 2) < NEAR, among),
        np.nan_to_num(_share(border, among)),
        "starts whose level is within its drift of the borders 1.9 and 4, and the chaos just below 4",
    )
    # The model with offset -E is that with E seen in a mirror.
    opposite = [E for E in config.offsets if -E in config.offsets]
    here, there = data.sel(E=opposite), data.sel(E=[-E for E in opposite]).isel(z=slice(None, None, -1))
    both = here.settled.values & there.settled.values
    sentence = "offsets of opposite sign mirror each other: largest difference of final curvatures"
    why = "an exact symmetry, of every operation in floating point too"
    yield claim("mirror", sentence, opposite, "no two offsets are of opposite sign").zero(
        np.abs(there.final.values[both] - here.final.values[both]).max(initial=0.0), 0, why
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    *planes, right = sheet.panels(figure, (12, 4.4), 3)
    z, bins, away = np.linspace(-1, 1, 801), np.linspace(0, 4.5, 46), np.abs(data["T"] - 2) > AWAY
    for i, axes in enumerate(planes):
        E = config.offsets[min(i, len(config.offsets) - 1)]
        one = data.sel(E=E)
        f_z, f_T = (xr.DataArray(f, {"z": z}) for f in two_eigenvalue.one_step_nullclines(z, -1.0, E))
        draw_plane(axes, -1.0, E, f_z, f_T, 4.5)
        for where, marker, colour, label in (
            ((one.final > data["T"] + 1e-9) & one.settled, "s", "C2", "sharpens"),
            (~one.settled & one.admissible, "x", "C5", "diverges"),
        ):
            at_z, at_T = np.nonzero(where.values)
            axes.plot(data.z[at_z], data["T"][at_T], marker, ms=3, color=colour, alpha=0.7, label=label)
        title = "No offset: no sharpening" if E == 0 else rf"Offset $\tilde E = {E:g}$: a little"
        sheet.label(axes, title, r"$\tilde z$", r"$T$")
        ends, look = one.final.values[(one.settled & away).values], {"histtype": "step", "color": f"C{i}", "lw": 1.6}
        right.hist(ends, bins, density=True, label=rf"$\{{1,-1\}}$, $\tilde E={E:g}$", **look)
    planes[0].legend(loc="center", ncols=2, frameon=True, facecolor=figure.get_facecolor(), framealpha=0.95)
    ends, label = data.other_final.values[(data.other_settled & away).values], rf"$\{{1,-{config.epsilon:g}\}}$"
    right.hist(ends, bins, density=True, color="C3", alpha=0.45, label=rf"{label}, $\tilde E=0$")
    sheet.mark(right, x=2)
    along = r"final $T$, from $|T_0 - 2| > 0.5$"
    sheet.label(right, "Only the asymmetric model gathers", along, "density", "upper left", xlim=(0, 3))
