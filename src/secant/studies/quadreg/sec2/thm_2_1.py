"""Theorem 2.1: an open set of starts and an interval of step sizes end just below the edge."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Finding, Findings, claims, fits_memory, option, scaled, sheet, study
from secant.theory import edge_limit, quartic, skeleton, two_eigenvalue


@dataclass(frozen=True)
class Config:
    epsilon: float = option(0.005, at_least=5e-4, at_most=0.05, help="minus the second eigenvalue")
    start: tuple[float, float] = option((1.179, 19.950), at_least=0.1, at_most=1_000, help="parameters at the start")
    below: tuple[float, ...] = option(
        (1.0, 1.6, 1.9), at_least=0.1, at_most=1.95, distinct=True, help="step sizes times (lambda_0 - 2 z_0), below 2"
    )
    inside: tuple[float, ...] = option(
        (2.04, 2.1, 2.2, 2.4, 2.6, 3.0, 3.4, 3.8), above=2, below=4, distinct=True, help="the same, between 2 and 4"
    )
    above: tuple[float, ...] = option(
        (4.4, 5.0, 6.0), at_least=4.1, at_most=20, distinct=True, help="the same, above 4"
    )
    scan: int = scaled(smoke=60, laptop=240, paper=600, at_least=10, at_most=100_000, help="step sizes of the scan")
    plane: int = scaled(smoke=24, laptop=90, paper=160, at_least=8, help="grid points a side of the basin")
    epsilons: tuple[float, ...] = option(
        (0.002, 0.005, 0.01, 0.02), at_least=5e-4, at_most=0.1, ascending=True, help="for the rate in epsilon"
    )
    steps: int = scaled(
        smoke=8_000, laptop=12_000, paper=40_000, at_least=500, at_most=10_000_000, help="gradient-descent steps"
    )

    @property
    def origin(self) -> tuple[float, float]:
        """Residual and curvature at the start, not rescaled."""
        first, second = (p**2 for p in self.start)
        return (first - self.epsilon * second) / 2, first + self.epsilon**2 * second

    def check(self) -> None:
        """A start whose residual stays within the attractor at every step size of the window."""
        z, curvature = self.origin
        largest = 4 * z / (curvature - 2 * z)
        if largest > 1.8:
            raise ValueError(
                f"start: must have a residual below 0.45 (lambda_0 - 2 z_0) = {0.45 * (curvature - 2 * z):.3g}, "
                f"got z_0 = {z:.3g}: at the end of the window it would be {largest:.3g} rescaled, and 2 escapes."
            )
        fits_memory(200 * self.plane**2, "plane")


@study(
    "quadreg/thm-2.1", section="2.2", title="The edge of stability is reached from an open set",
    statement=r"""
    For eigenvalues $\{1, -\epsilon\}$, $E = 0$ and small enough $\epsilon$ there are a neighbourhood of parameters
    and an interval of step sizes for which
    $$2/\eta - \delta_\lambda \le \lim_{t\to\infty}\lambda_{\max} \le 2/\eta,\qquad \delta_\lambda = O(\epsilon).$$
    The theorem leaves the interval open. It is $2 < \eta(\lambda_0 - 2z_0) < 4$ up to $O(\epsilon)$: below it
    gradient descent converges at $\eta\lambda_\infty = \eta(\lambda_0 - 2z_0) + O(\epsilon)$, above it it diverges.""",
)
def run(config: Config) -> xr.Dataset:
    eps = config.epsilon
    Q = jnp.diag(jnp.array([1.0, -eps]))
    theta = jnp.array(config.start)
    z0, T0 = config.origin
    chosen = np.array([*config.below, *config.inside, *config.above])
    levels = np.unique(np.concatenate([chosen, np.linspace(0.1, 5.2, config.scan)]))
    lrs = levels / (T0 - 2 * z0)
    ran = simulate(
        lambda lr: quartic.quartic(Q, lr), theta, config.steps, over={"lr": jnp.array(lrs)},
        stop=Stop(
            converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-7, diverged=lambda t: jnp.sum(t**2) > 1e8,
            every=50,
        ),
    )
    # T - 2z is the curvature in the limit up to epsilon times the residual that is left.
    end = skeleton.conserved(*two_eigenvalue.phase_point(ran.state, -eps, lr=jnp.array(lrs)))

    stop = Stop(
        converged=lambda p: jnp.abs(p.z) < 1e-7, diverged=lambda p: (jnp.abs(p.z) > 1e3) | (jnp.abs(p.T) > 1e3),
        every=50,
    )
    z, T = jnp.linspace(-1.2, 1.2, config.plane), jnp.linspace(0.0, 4.5, config.plane)
    basin = simulate(
        two_eigenvalue.two_eigenvalue(-eps), lambda z, T: two_eigenvalue.Point(z, T), config.steps,
        over={"z": z, "T": T}, stop=stop,
    )
    zz, TT = np.meshgrid(z, T, indexing="ij")
    allowed = np.asarray(two_eigenvalue.admissible(zz, TT, -eps))
    settled = allowed & (basin.dataset.outcome.values != Outcome.DIVERGED) & (np.abs(np.asarray(basin.state.z)) < 1e-2)

    rates = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        two_eigenvalue.Point(jnp.asarray(0.3), jnp.asarray(2 / 0.7 + 0.02)), int(60 / min(config.epsilons)),
        over={"eps": jnp.array(config.epsilons)}, stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=50),
    )
    return xr.Dataset(
        {
            "final": (
                "level", np.where(ran.dataset.outcome.values == Outcome.CONVERGED, np.asarray(end), np.nan),
                {"long_name": "final eta lambda"},
            ),
            "outcome": ("level", ran.dataset.outcome.values), "lr": ("level", lrs, {"long_name": "step size"}),
            "basin": (
                ("z", "T"), np.where(settled, np.asarray(basin.state.T), np.nan), {"long_name": "final curvature"},
            ),
            "allowed": (("z", "T"), allowed),
            "rate": ("eps", 2 - np.asarray(rates.state.T), {"long_name": "2 - final curvature"}), "curvature": T0,
            "residual": z0,
        },
        coords={"level": levels, "z": np.asarray(z), "T": np.asarray(T), "eps": np.array(config.epsilons)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps = config.epsilon
    inside = data.sel(level=list(config.inside))
    yield _at_the_edge(inside, config)
    name = "largest final eta lambda inside the window"
    if (inside.outcome == Outcome.UNFINISHED).any():
        yield claims.undecided(name, 2.0, f"a run has not converged in {config.steps:,} steps", "at most")
    else:
        yield claims.at_most(name, 2.0, inside.final.max(skipna=False))
    name = "power of epsilon in the distance to the edge"
    if len(config.epsilons) > 1:
        yield claims.equal(
            name, 1.0, np.polyfit(np.log(data.eps), np.log(data.rate), 1)[0], 2 * max(config.epsilons),
            "the second term 27/32 eps^2 raises the local power by 1.7 eps",
        )
    else:
        yield claims.undecided(name, 1.0, "one epsilon has no power")
    for C in config.below:
        one, z = data.sel(level=C), float(data.sel(level=C).lr * data.residual)
        first_order = float(skeleton.level_below(C, z, eps))
        name = f"below the window, T - 2z = {C:g}: final eta lambda"
        if int(one.outcome) == Outcome.CONVERGED:
            yield claims.equal(
                name, first_order, one.final, 2 * (first_order - C) ** 2 + 3 * eps**2 * C,
                "second order in epsilon: the square of the first, and (eps z)^2 summed",
            )
        else:
            yield claims.undecided(name, first_order, f"the run has not converged in {config.steps:,} steps")
    yield _above(data.sel(level=list(config.above)), eps)
    yield _basin(data, config)


def _at_the_edge(inside: xr.Dataset, config: Config) -> Finding:
    """The final distances of the step sizes whose start is forgotten by the time the edge is reached."""
    eps = config.epsilon
    name = "final distance below the edge inside the window, over its series: farthest from one"
    level, z = inside.level.values, inside.lr.values * float(inside.residual)
    # The level falls during the first steps, most in the very first; the two-cycle of what is left sets the memory.
    left = np.asarray(skeleton.level_step(level, z, eps))
    turn = np.asarray(skeleton.cycle(left)[1])
    share = np.abs(np.asarray(edge_limit.memory(turn, 0.0, eps))) / (eps / 2)
    forgotten = (share < 1e-3) & (inside.outcome.values == Outcome.CONVERGED)
    if not forgotten.any():
        return claims.undecided(name, 1.0, "no step size inside the window forgets the start, or no run has converged")
    ratio = (2 - inside.final.values[forgotten]) / -float(edge_limit.limit_series(eps))
    return claims.equal(
        name, 1.0, ratio[np.argmax(np.abs(ratio - 1))], 1e-2 + 20 * eps**4,
        "ten times the memory of the start that is allowed, and the next term",
        note=f"{forgotten.sum()} of {len(level)} step sizes",
    )


def _above(above: xr.Dataset, eps: float) -> Finding:
    """The step sizes above the window, if their level is still above it after two steps at the starting residual."""
    z = above.lr.values * float(above.residual)
    fallen = above.level.values * np.minimum(1 + eps * z, 1) ** 4
    still = fallen > skeleton.ESCAPE + 0.1
    name = "step sizes above the window that diverge"
    if not still.any():
        return claims.undecided(name, len(still), "during the first steps T - 2z falls below 4.1 at every one of them")
    diverged = (above.outcome.values == Outcome.DIVERGED) & still
    return claims.count(name, int(still.sum()), int(diverged.sum()))


def _basin(data: xr.Dataset, config: Config) -> Finding:
    """The open set: of all starts, those whose level lies well inside the window."""
    zz, TT = xr.broadcast(data.z, data["T"])
    level = TT - 2 * zz
    # Where the residual is zero nothing moves, so the line is left out; the level must outlast a fall by 10 epsilon.
    window = (level > 2.1 + 10 * config.epsilon) & (level < 3.7) & data.allowed & (np.abs(zz) < 0.8) & (zz != 0)
    edge = np.abs(data.basin - 2) < 0.1
    return claims.equal(
        "share of the starts with T - 2z between 2.1 + 10 epsilon and 3.7 that end within 0.1 of the edge", 1.0,
        float((edge & window).sum() / window.sum()) if window.any() else float("nan"), 0.02,
        "an open set; a few starts near the border of another basin may end elsewhere",
        note=f"{int(edge.sum())} starts of the whole grid end there",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink, faint = sheet.ink(), sheet.faint()
    left, right = sheet.panels(figure, (12, 4.4), 2, width_ratios=(1.15, 1))
    low, high = (float(x) for x in skeleton.step_window(float(data.curvature), float(data.residual)))
    left.axvspan(low, high, color="C2", alpha=0.12, lw=0)
    left.text((low + high) / 2, 0.28, "window\n" + r"$2 < \eta(\lambda_0 - 2z_0) < 4$", ha="center", fontsize=10)
    ramp = np.linspace(0, low, 10)
    left.plot(ramp, ramp * float(data.curvature - 2 * data.residual), "--", color=ink, lw=1.2)
    left.plot([low, high], [2 + float(edge_limit.limit_series(config.epsilon))] * 2, "--", color=ink, lw=1.2)
    left.text(low * 0.42, 1.0, r"$\eta(\lambda_0 - 2z_0)$", rotation=38, ha="right", fontsize=10)
    left.plot(data.lr, data.final, "o", ms=3, color="C0", label="gradient descent")
    lost = data.lr[data.outcome == Outcome.DIVERGED]
    left.plot(lost, np.full(lost.size, 2.28), "x", ms=4, color="C5", label="diverged")
    left.set(title="One start, many step sizes", xlabel=r"step size $\eta$", ylabel=r"final $\eta\lambda$")
    left.set(ylim=(0, 2.4), xlim=(0, float(data.lr.max())))
    left.legend(loc="lower right")
    right.contourf(data.z, data["T"], (~data.allowed).T, levels=[0.5, 1.5], colors=[faint], alpha=0.8)
    image = right.pcolormesh(data.z, data["T"], data.basin.T, cmap="viridis", vmin=0, vmax=2.05, rasterized=True)
    figure.colorbar(image, ax=right, label=r"final $T$")
    zz = np.array([-1.2, 1.2])
    for level, label in ((2, "C = 2"), (4, "C = 4")):
        right.plot(zz, level + 2 * zz, "--", color="C1", lw=1.6)
        x = (3.9 - level) / 2 if level == 2 else 0.1
        right.text(x - 0.04, level + 2 * x, f"${label}$", color="C1", ha="right", va="bottom", fontsize=11)
    right.set(
        title="One step size, every start", xlabel=r"$\tilde z_0$", ylabel=r"$T_0$", xlim=(-1.2, 1.2), ylim=(0, 4.5)
    )
    right.grid(False)
