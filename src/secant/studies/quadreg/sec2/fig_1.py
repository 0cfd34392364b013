"""Figure 1: the quartic landscape, and gradient descent that sharpens on its way down."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.setups.regression.starts import check_starts
from secant.theory import edge_limit, nullclines, quartic, skeleton, two_eigenvalue

LANDED = 3
"""Steps after which a start below the edge has jumped across the valley, and the end is predicted."""


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.1, above=0, at_most=0.2, help="minus the second eigenvalue")
    lr: float = option(1.0, at_least=1e-6, at_most=1e6, help="step size")
    residuals: tuple[float, ...] = option(
        (-0.5, -0.6, -0.3), at_least=-2, at_most=2, help="rescaled residuals at the start"
    )
    curvatures: tuple[float, ...] = option((1.2, 1.0, 1.5), above=0, at_most=8, help="rescaled curvatures at the start")
    steps: int = scaled(smoke=800, laptop=2_000, at_least=200, at_most=1_000_000, help="gradient-descent steps")

    def check(self) -> None:
        """As many residuals as curvatures, and parameters for each pair."""
        check_starts(self.residuals, self.curvatures, self.epsilon)


@study(
    "quadreg/fig-1", section="2.2", title="Descending into sharper minima",
    statement=r"""
    With eigenvalues $\{1, -0.1\}$ and $E = 0$ the loss is the square of a hyperbolic paraboloid. Gradient descent
    converges to minima of larger curvature than its start, oscillating across the valley; every other iterate does
    not oscillate.""",
)
def run(config: Config) -> xr.Dataset:
    second, lr = -config.epsilon, config.lr
    z, T = jnp.array(config.residuals), jnp.array(config.curvatures)
    start = two_eigenvalue.parameters(z, T, second, lr=lr)
    Q = jnp.diag(jnp.array([1.0, second]))
    ran = simulate(
        quartic.quartic(Q, lr), lambda start: start, config.steps, over={"start": start},
        probes={
            "theta": lambda t: t, "curvature": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).T,
            "residual": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).z,
        },
        stop=Stop(converged=lambda t: jnp.abs(lr * quartic.residual(t, Q)) < 1e-12),
    )
    end = two_eigenvalue.phase_point(ran.state, second, lr=lr)
    return ran.dataset.assign(
        final=("start", np.asarray(end.T), {"long_name": "final rescaled curvature"}),
        last=("start", np.asarray(end.z), {"long_name": "final rescaled residual"}),
        end=(("start", "parameter"), np.asarray(ran.state)), residuals=jnp.size(quartic.residual(start[0], Q)),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps = config.epsilon
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        one = data.isel(start=i)
        name = f"final distance below the edge from ({z:g}, {T:g})"
        # Of the two parities, the one whose residuals are positive after the jump.
        landed = one.isel(step=[LANDED, LANDED + 1])
        landed = landed.isel(step=int(landed.residual[1] > 0))
        y = float(nullclines.edge_distance(float(landed.residual), float(landed.curvature), eps))
        limit, error = (float(part) for part in edge_limit.limit_from(float(landed.residual), y, eps))
        if int(one.outcome) != Outcome.CONVERGED or not np.isfinite([limit, error]).all():
            yield claims.undecided(name, -limit, f"in {config.steps:,} steps this start does not settle near the edge")
        else:
            yield claims.equal(
                name, -limit, 2 - float(one.final), error + 1e-11,
                "what is remembered of where it landed, in closed form, is known up to a share of the residual "
                "of its exponent; the next term of the series; the residual at the end",
            )
        name = f"sharpening from ({z:g}, {T:g}): curvature at the end over its start"
        level = float(skeleton.conserved(z, T))
        if int(one.outcome) == Outcome.CONVERGED and z < 0 and T < 2 < level:
            yield claims.at_least(name, 1.0, float(one.final) / T)
        else:
            why = f"it says this of z < 0, T < 2 and T - 2z above 2, which is {level:.3g} here, if the run converges"
            yield claims.undecided(name, 1.0, why, "at least")
    yield from _oscillation(data, config)
    name = "starts whose loss goes to zero"
    below = [
        bool(skeleton.conserved(z, T) < skeleton.ESCAPE)
        for z, T in zip(config.residuals, config.curvatures, strict=True)
    ]
    if (data.outcome == Outcome.UNFINISHED).any() or not any(below):
        yield claims.undecided(
            name, sum(below), f"a run has not ended in {config.steps:,} steps, or none starts below T - 2z = 4"
        )
    else:
        converged = (data.outcome.values == Outcome.CONVERGED)[np.array(below)]
        yield claims.count(name, sum(below), int(converged.sum()))
    yield Erratum(
        "number of outputs in the caption", printed=r"D = 2", corrected=r"D = 1,\ P = 2", printed_value=2,
        corrected_value=1, measured=float(data.residuals), tolerance=Tolerance(0.0, why="a count"),
        why="the landscape has two parameters and one residual", where="caption of figure 1", by="derivation",
    )


def _oscillation(data: xr.Dataset, config: Config) -> Findings:
    """Signs of the residual, step by step and on every other step, while it is larger than rounding."""
    names = (
        "share of steps that cross the valley, from the tenth on: smallest",
        "sign changes among even iterates after the first ten steps",
    )
    crossed, changes = [], []
    for i in range(data.sizes["start"]):
        residual = data.residual[i, 10:].values
        sign = np.sign(residual[np.abs(residual) > 1e-12])
        if int(data.outcome[i]) == Outcome.CONVERGED and len(sign) > 10 and float(data.final[i]) > 1:
            crossed.append(float((sign[1:] != sign[:-1]).mean()))
            changes.append(int((sign[2:] != sign[:-2]).sum()))
    if not crossed:
        why = "no run ends above curvature one, where a step crosses the valley"
        yield claims.undecided(names[0], 1.0, why)
        yield claims.undecided(names[1], 0.0, why)
        return
    yield claims.equal(names[0], 1.0, min(crossed), 0, "above curvature one every step crosses the valley")
    yield claims.count(names[1], 0.0, max(changes))


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.colors import LogNorm

    ink, faint = sheet.ink(), sheet.faint()
    axes = sheet.panels(figure, (11, 4.2), 3, width_ratios=(1, 1, 1))
    theta = data.theta.values
    x = np.linspace(np.nanmin(theta[..., 0]) - 0.1, np.nanmax(theta[..., 0]) + 0.15, 241)
    y = np.linspace(np.nanmin(theta[..., 1]) - 0.1, np.nanmax(theta[..., 1]) + 0.1, 241)
    loss = (x[None] ** 2 - config.epsilon * y[:, None] ** 2) ** 2 / 8
    for axis, stride, title in ((axes[0], 1, "Every step"), (axes[1], 2, "Every other step")):
        levels = np.logspace(-6, 0.0, 13)
        filled = axis.contourf(
            x, y, np.maximum(loss, 1.1e-6), levels=levels, norm=LogNorm(), cmap="Blues", alpha=0.35, antialiased=True
        )
        filled.set_edgecolor("face")
        valley = np.sqrt(config.epsilon) * y
        axis.plot(valley, y, "--", color=ink, lw=1.2)
        for i in range(data.sizes["start"]):
            path = theta[i, :400:stride]
            axis.plot(path[:, 0], path[:, 1], "-", lw=0.8, color=f"C{i}", alpha=0.6)
            axis.plot(path[:, 0], path[:, 1], "o", ms=2.4, color=f"C{i}")
            axis.plot(*path[0], "s", ms=6, color=f"C{i}", mec=ink)
            axis.plot(*data["end"][i], "*", ms=11, color=f"C{i}", mec=ink, mew=0.6)
        axis.set(title=title, xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axis.grid(False)
    axes[0].annotate(
        "zero loss", (np.sqrt(config.epsilon) * y[12], y[12]), xytext=(5, -3), textcoords="offset points", fontsize=8
    )
    right = axes[2]
    right.axhline(2, ls="--", color=ink, lw=1)
    right.text(1.05, 2.02, r"$2/\eta$", va="bottom", fontsize=9)
    right.axhline(2 + float(edge_limit.limit_series(config.epsilon)), ls=":", color=ink, lw=1)
    for i in range(data.sizes["start"]):
        curve = data.curvature.isel(start=i)
        right.semilogx(data.step + 1, curve, color=f"C{i}", alpha=0.25, lw=0.8)
        right.semilogx(
            data.step[::2] + 1, curve[::2], color=f"C{i}", label=f"({config.residuals[i]:g}, {config.curvatures[i]:g})"
        )
    right.set(title="Curvature rises to the edge", xlabel="step + 1", ylabel=r"$\eta\lambda$", xlim=(1, 500))
    right.legend(title=r"start $(\tilde z, T)$", loc="lower right")
    right.tick_params(colors=ink, which="both")
    for axis in axes:
        axis.spines[:].set_color(faint)
