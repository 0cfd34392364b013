"""Figure 2: sharpness settles just below the edge, the same for every step size once rescaled."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Finding, Findings, claims, option, scaled, sheet, study
from secant.setups.regression.starts import check_starts
from secant.theory import edge_limit, nullclines, quartic, skeleton, two_eigenvalue

PAIRS = 10
"""Pairs of steps after which the jump from a start far away is over, and the end is predicted."""


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.005, above=0, at_most=0.2, help="minus the second eigenvalue")
    lrs: tuple[float, ...] = option((0.5, 1.0, 2.0, 4.0), at_least=1e-6, at_most=1e6, distinct=True, help="step sizes")
    residuals: tuple[float, ...] = option(
        (-0.9, -0.6, -1.2, -1.0), at_least=-2, at_most=2, help="rescaled residuals at the start"
    )
    curvatures: tuple[float, ...] = option(
        (0.25, 0.85, 0.05, 0.1), above=0, at_most=8, help="rescaled curvatures at the start"
    )
    steps: int = scaled(smoke=12_000, laptop=20_000, at_least=1_000, at_most=10_000_000, help="gradient-descent steps")

    def check(self) -> None:
        """As many residuals as curvatures, and parameters for each pair."""
        check_starts(self.residuals, self.curvatures, self.epsilon)


@study(
    "quadreg/fig-2", section="2.2", title="Sharpness settles just below the edge",
    statement=r"""
    For eigenvalues $\{1, -\epsilon\}$ with small $\epsilon$, gradient descent that starts far from the edge of
    stability sharpens, overshoots $2/\eta$, and settles just below it. Runs with different step sizes and the same
    $(\eta z_0, \eta\lambda_0)$ are the same run. Every other iterate stays near the nullcline $f_z$ on which two
    steps leave the residual as it is, and the distance $y = T - f_z(\tilde z)$ from it quickly becomes small and
    negative.""",
)
def run(config: Config) -> xr.Dataset:
    eps = config.epsilon
    Q = jnp.diag(jnp.array([1.0, -eps]))
    z0, T0 = config.residuals[0], config.curvatures[0]
    scaled_runs = simulate(
        lambda lr: quartic.quartic(Q, lr), lambda lr: two_eigenvalue.parameters(z0, T0, -eps, lr=lr), config.steps,
        over={"lr": jnp.array(config.lrs)},
        probes={"curvature": lambda t, lr: two_eigenvalue.phase_point(t, -eps, lr=lr).T / lr},
        stop=Stop(converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-12),
    ).dataset
    starts = two_eigenvalue.Point(jnp.array(config.residuals), jnp.array(config.curvatures))
    plane = simulate(
        two_eigenvalue.two_eigenvalue(-eps), lambda start: start, config.steps, over={"start": starts},
        probes={"z": lambda p: p.z, "T": lambda p: p.T}, stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-12),
    )
    ends, records = plane.state, plane.dataset
    z, T = records.z.values, records["T"].values
    # Of each start the steps of that parity whose residuals are positive in the end.
    last = records.stopped_at.values.astype(int)
    before = z[np.arange(len(z)), np.maximum(last - 1, 0)]
    parity = np.where((np.asarray(ends.z) < 0) & (before > 0), (last + 1) % 2, last % 2)
    pairs = z.shape[1] // 2
    even = np.stack([z[i, p::2][:pairs] for i, p in enumerate(parity)])
    height = np.stack([T[i, p::2][:pairs] for i, p in enumerate(parity)])
    return xr.Dataset(
        {
            "curvature": scaled_runs.curvature.assign_attrs(long_name="curvature", units="1/step size"),
            "outcome": ("start", records.outcome.values),
            "final": ("start", np.asarray(ends.T), {"long_name": "final rescaled curvature"}),
            "z": (("start", "map_step"), z), "T": (("start", "map_step"), T), "z_even": (("start", "even"), even),
            "T_even": (("start", "even"), height),
            "y": (
                ("start", "even"), nullclines.edge_distance(even, height, eps),
                {"long_name": "distance to the nullcline"},
            ),
        },
        coords={"even": 2 * np.arange(pairs)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps = config.epsilon
    z0, T0 = config.residuals[0], config.curvatures[0]
    yield _same_run(data, config)
    z_after, T_after, y_after = _after_the_jump(data)
    limits, errors = (np.asarray(part) for part in edge_limit.limit_from(z_after, y_after, eps))
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        name = f"final distance below the edge from ({z:g}, {T:g}), rescaled"
        if data.outcome[i] != Outcome.CONVERGED:
            yield claims.undecided(name, -limits[i], f"this start has not converged in {config.steps:,} steps")
        elif not np.isfinite([limits[i], errors[i]]).all():
            yield claims.undecided(name, -limits[i], f"it is not near the nullcline after {PAIRS} pairs of steps")
        else:
            yield claims.equal(
                name, -limits[i], 2 - float(data.final[i]), errors[i] + 1e-11,
                f"what is remembered of the point after {PAIRS} pairs of steps, in closed form, is known up to "
                "a share of the residual of its exponent; the next term of the series; the residual at the end",
            )
    settled = data.final.where(data.outcome == Outcome.CONVERGED)
    yield claims.at_most("largest final rescaled curvature: below the edge", 2.0, settled.max())
    name = "largest rescaled curvature on even steps: it overshoots the edge"
    level = float(skeleton.level_step(skeleton.conserved(z0, T0), z0, eps))
    if 2 < level < skeleton.ESCAPE:
        yield claims.at_least(name, 2.0, data.T_even[0].max())
    else:
        yield claims.undecided(
            name, 2.0, f"T - 2z = {level:.3g} after a step, outside the window from 2 to 4", "at least"
        )
    name = f"distance to the nullcline after {PAIRS} pairs of steps, over that at the start: largest"
    y_start = data.y[:, 0].values
    # Of the starts away from it, those that have come to the edge and not below it.
    came = (np.abs(y_start) > 0.2) & (skeleton.conserved(z_after, T_after) > 2 - eps)
    if came.any():
        yield claims.at_most(name, 0.1, np.abs(y_after / y_start)[came].max(), "quickly: by an order of magnitude")
    else:
        yield claims.undecided(
            name, 0.1, "no start comes to the edge from farther than 0.2 from the nullcline", "at most"
        )
    yield _near_the_fixed_point(data, config, known=errors < 0.01 * np.abs(limits))


def _after_the_jump(data: xr.Dataset) -> tuple[np.ndarray, ...]:
    """Residual, curvature and distance to the nullcline of every start after its first pairs; NaN if it has ended."""
    if data.sizes["even"] <= PAIRS:
        return (np.full(data.sizes["start"], np.nan),) * 3
    return tuple(data[name][:, PAIRS].values for name in ("z_even", "T_even", "y"))


def _same_run(data: xr.Dataset, config: Config) -> Finding:
    """One start at several step sizes, in rescaled variables, and by the map of two numbers."""
    name = "largest difference between the rescaled curvatures of different step sizes"
    level = float(skeleton.conserved(config.residuals[0], config.curvatures[0]))
    if level > skeleton.CYCLE_FLIP:
        return claims.undecided(
            name, 0.0, f"T - 2z = {level:.3g} starts in chaos, where rounding grows to the size of the orbit"
        )
    rescaled = data.curvature.values * np.array(config.lrs)[:, None]
    common = min(rescaled.shape[1], data.sizes["map_step"])
    forms = np.concatenate([rescaled[:, :common], data["T"].values[:1, :common]])
    alive = np.isfinite(forms).all(axis=0)
    return claims.zero(
        name, np.ptp(forms[:, alive], axis=0).max(), 1e-10, "an identity: rounding of float64 over the run",
        note="the map of two numbers counts as one more",
    )


def _near_the_fixed_point(data: xr.Dataset, config: Config, known: np.ndarray) -> Finding:
    """Where y stays while the residual decays, for the starts that are forgotten."""
    name = "median distance to the nullcline while the residual decays, over the fixed point of lowest order"
    small = data.y.where((data.z_even < 0.1) & (data.z_even > 1e-6))
    ratios = small.median("even").values[known] / float(edge_limit.fixed_point(config.epsilon))
    if not np.isfinite(ratios).any():
        return claims.undecided(name, 1.0, "no start is forgotten: 4 z^2 is not large against epsilon after the jump")
    return claims.equal(
        name, 1.0, ratios[np.nanargmax(np.abs(ratios - 1))], 0.1**2 + 2 * config.epsilon,
        "next orders of the slow manifold, 3/4 z^2 and 0.94 eps",
        note=f"the farthest from one of {int(np.isfinite(ratios).sum())} starts whose end is known to a per cent",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    eps = config.epsilon
    left, middle, right = sheet.panels(figure, (12, 4.2), 3)
    for i, lr in enumerate(config.lrs):
        curve = data.curvature.isel(lr=i)
        left.loglog(data.step[::2] + 1, curve[::2], color=f"C{i}", lw=1.8)
        left.plot([1, data.step[-1]], [2 / lr, 2 / lr], "--", color=ink, lw=0.9)
        left.text(data.step[-1] * 1.25, 2 / lr, rf"$\eta={lr:g}$", color=f"C{i}", va="center", fontsize=9)
    left.set(title=r"Every step size finds its edge $2/\eta$", xlabel="even step + 1", ylabel=r"curvature $\lambda$")
    left.set_xlim(1, data.step[-1] * 9)

    grid = np.linspace(-0.02, 0.34, 200)
    middle.plot(grid, nullclines.nullcline(grid, eps), "--", color=ink, lw=1.1, label=r"nullcline $f_z$", zorder=4)
    middle.plot(
        grid, nullclines.nullcline(grid, eps, "curvature"), ":", color=ink, lw=1.5, label=r"nullcline $f_T$", zorder=4
    )
    for i in range(data.sizes["start"]):
        one = data.isel(start=i)
        middle.plot(one.z_even[1:], one.T_even[1:], "-", lw=0.6, alpha=0.6, color=f"C{i}")
        middle.plot(one.z_even[1:], one.T_even[1:], "o", ms=4, color=f"C{i}")
        right.plot(one.z_even[1:], one.y[1:] / eps, "-", lw=0.6, alpha=0.6, color=f"C{i}")
        label = rf"$({config.residuals[i]:g}, {config.curvatures[i]:g})$"
        right.plot(one.z_even[1:], one.y[1:] / eps, "o", ms=2.5, color=f"C{i}", label=label)
    middle.axhline(2, color=ink, lw=0.7, alpha=0.5)
    middle.set(
        title="Even iterates hug the nullclines", xlabel=r"$\tilde z$", ylabel=r"$T$", xlim=(-0.02, 0.34),
        ylim=(1.9, 3.1),
    )
    middle.legend(loc="upper left")
    right.axhline(float(edge_limit.fixed_point(eps)) / eps, ls="--", color=ink, lw=1.3)
    right.text(0.335, float(edge_limit.fixed_point(eps)) / eps - 0.12, r"$y^*$", ha="right", va="top")
    right.set(title=r"Distance $y = T - f_z$ turns constant", xlabel=r"$\tilde z$", ylabel=r"$y/\epsilon$")
    right.set(xlim=(-0.02, 0.34), ylim=(-1.5, 3.5))
    right.legend(title=r"start $(\tilde z, T)$", loc="upper right")
