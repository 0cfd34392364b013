"""Theorem 2.1: an open set of starts and an interval of step sizes end just below the edge."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Options, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.studies.shared.regression.plane import at_rest
from secant.theory.edge import edge_limit, quartic, skeleton, two_eigenvalue


class Config(Options):
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
    steps: int = options.steps(8_000, 12_000, 40_000, at_least=500, at_most=10_000_000)

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


@study("quadreg/thm-2.1", section="2.2", title="The edge of stability is reached from an open set")
def run(config: Config) -> xr.Dataset:
    r"""For eigenvalues $\{1, -\epsilon\}$, $E = 0$ and small enough $\epsilon$ there are a neighbourhood of parameters
    and an interval of step sizes for which
    $$2/\eta - \delta_\lambda \le \lim_{t\to\infty}\lambda_{\max} \le 2/\eta,\qquad \delta_\lambda = O(\epsilon).$$
    The theorem leaves the interval open. It is $2 < \eta(\lambda_0 - 2z_0) < 4$ up to $O(\epsilon)$: below it
    gradient descent converges at $\eta\lambda_\infty = \eta(\lambda_0 - 2z_0) + O(\epsilon)$. Above the interval it
    diverges.
    """
    eps = config.epsilon
    Q = jnp.asarray(np.diag([1.0, -eps]))
    z0, T0 = config.origin
    levels = np.unique([*config.below, *config.inside, *config.above, *np.linspace(0.1, 5.2, config.scan)])
    lrs = levels / (T0 - 2 * z0)
    ran = simulate(
        lambda lr: quartic.quartic(Q, lr),
        np.array(config.start),
        config.steps,
        over={"lr": lrs},
        stop=Stop(
            converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-7,
            diverged=lambda t: jnp.sum(t**2) > 1e8,
            every=50,
        ),
    )
    # T - 2z is the curvature in the limit up to epsilon times the residual that is left.
    end = jit(lambda t, lr: skeleton.conserved(*two_eigenvalue.phase_point(t, -eps, lr=lr)), quick=True)(ran.state, lrs)

    z, T = (np.asarray(jnp.linspace(*ends, config.plane)) for ends in ((-1.2, 1.2), (0.0, 4.5)))
    basin = simulate(
        two_eigenvalue.two_eigenvalue(-eps),
        lambda z, T: two_eigenvalue.Point(z, T),
        config.steps,
        over={"z": z, "T": T},
        stop=at_rest(1e-7),
    )
    allowed = np.asarray(two_eigenvalue.admissible(z[:, None], T, -eps))
    rest = np.abs(np.asarray(basin.state.z)) < 1e-2
    settled = allowed & (basin.dataset.outcome != Outcome.DIVERGED) & rest

    rates = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        two_eigenvalue.Point(0.3, 2 / 0.7 + 0.02),
        int(60 / min(config.epsilons)),
        over={"eps": np.array(config.epsilons)},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=50),
    )
    table = basin.dataset.coords.to_dataset().assign_coords(level=levels, eps=np.array(config.epsilons))
    final = np.where(ran.dataset.outcome == Outcome.CONVERGED, end, np.nan)
    return table.assign(
        final=("level", final, {"long_name": "final eta lambda"}),
        outcome=("level", ran.dataset.outcome.values),
        lr=("level", lrs, {"long_name": "step size"}),
        allowed=(("z", "T"), allowed),
        basin=settled.copy(data=np.where(settled, basin.state.T, np.nan)).assign_attrs(long_name="final curvature"),
        rate=("eps", 2 - np.asarray(rates.state.T), {"long_name": "2 - final curvature"}),
        curvature=T0,
        residual=z0,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps, late = config.epsilon, f"has not converged in {config.steps:,} steps"
    inside = data.sel(level=list(config.inside))
    # The level falls during the first steps, most in the very first; the two-cycle of what is left sets the memory.
    # A step size counts if its start is forgotten by the time the edge is reached.
    cycle = lambda level, z: skeleton.cycle(skeleton.level_step(level, z, eps))[1]  # noqa: E731
    memory = jit(lambda level, z: edge_limit.memory(cycle(level, z), 0.0, eps), quick=True)
    share = np.abs(memory(inside.level.values, (inside.lr * inside.residual).values)) / (eps / 2)
    forgotten = (share < 1e-3) & (inside.outcome.values == Outcome.CONVERGED)
    ratio = (2 - inside.final.values[forgotten]) / -float(edge_limit.limit_series(eps))
    none = "no step size inside the window forgets the start, or no run has converged"
    sentence = "final distance below the edge inside the window, over its series: farthest from one"
    reason = "ten times the memory of the start that is allowed, and the next term"
    aside = f"{forgotten.sum()} of {len(forgotten)} step sizes"
    yield claim("distance", sentence, forgotten, none).equal(
        1.0, lambda: ratio[np.argmax(np.abs(ratio - 1))], 1e-2 + 20 * eps**4, reason, note=aside
    )
    ended, sentence = (inside.outcome != Outcome.UNFINISHED).all(), r"largest final $\eta\lambda$ inside the window"
    yield claim("inside", sentence, ended, f"a run {late}").at_most(2.0, inside.final.max(skipna=False))
    several, sentence = len(config.epsilons) > 1, r"power of $\epsilon$ in the distance to the edge"
    reason = r"the second term $\tfrac{27}{32}\epsilon^2$ raises the local power by $1.7\epsilon$"
    yield claim("power", sentence, several, "one epsilon has no power").equal(
        1.0, lambda: rate(data.eps, data.rate), 2 * max(config.epsilons), reason
    )
    below = data.sel(level=list(config.below))
    level_below = jit(lambda level, z: skeleton.level_below(level, z, eps), quick=True)
    orders = np.asarray(level_below(below.level.values, (below.lr * below.residual).values))
    why = r"second order in $\epsilon$: the square of the first, and $(\epsilon z)^2$ summed"
    for C, first_order, final, outcome in zip(config.below, orders, below.final, below.outcome, strict=True):
        within = 2 * (first_order - C) ** 2 + 3 * eps**2 * C
        sentence = rf"below the window, $T - 2z = {C:g}$: final $\eta\lambda$"
        yield claim(f"below-{C:g}", sentence, outcome == Outcome.CONVERGED, f"the run {late}").equal(
            first_order, final, within, why
        )
    # The step sizes above the window, if their level is still above it after two steps at the starting residual.
    above = data.sel(level=list(config.above))
    still = above.level * np.minimum(1 + eps * above.lr * above.residual, 1) ** 4 > skeleton.ESCAPE + 0.1
    none = "during the first steps T - 2z falls below 4.1 at every one of them"
    lost = ((above.outcome == Outcome.DIVERGED) & still).sum()
    yield claim("above", "step sizes above the window that diverge", still, none).count(still.sum() or still.size, lost)
    # The open set: starts whose level lies well inside the window. Where the residual is zero nothing moves, so that
    # line is left out; the level must outlast a fall by 10 epsilon.
    level = data["T"] - 2 * data.z
    window = (level > 2.1 + 10 * eps) & (level < 3.7) & data.allowed & (np.abs(data.z) < 0.8) & (data.z != 0)
    edge = np.abs(data.basin - 2) < 0.1
    why = "an open set; a few starts near the border of another basin may end elsewhere"
    note = f"{int(edge.sum())} starts of the whole grid end there"
    sentence = r"share of the starts with $T - 2z$ from $2.1 + 10\epsilon$ to 3.7 that end within 0.1 of the edge"
    yield claim("open-set", sentence).equal(1.0, edge.where(window).mean(), 0.02, why, note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (12, 4.4), 2, width_ratios=(1.15, 1))
    low, high = map(float, skeleton.step_window(float(data.curvature), float(data.residual)))
    left.axvspan(low, high, color="C2", alpha=0.12, lw=0)
    left.text((low + high) / 2, 0.28, "window\n" + r"$2 < \eta(\lambda_0 - 2z_0) < 4$", ha="center", fontsize=10)
    sheet.guide(left, [0, low], [0, low * (data.curvature - 2 * data.residual)])
    sheet.guide(left, [low, high], [2 + float(edge_limit.limit_series(config.epsilon))] * 2)
    left.text(low * 0.42, 1.0, r"$\eta(\lambda_0 - 2z_0)$", rotation=38, ha="right", fontsize=10)
    left.plot(data.lr, data.final, "o", ms=3, color="C0", label="gradient descent")
    lost = data.lr[data.outcome == Outcome.DIVERGED]
    left.plot(lost, np.full(lost.size, 2.28), "x", ms=4, color="C5", label="diverged")
    title, look = "One start, many step sizes", {"xlim": (0, data.lr.max()), "ylim": (0, 2.4)}
    sheet.label(left, title, r"step size $\eta$", r"final $\eta\lambda$", "lower right", **look)
    right.contourf(data.z, data["T"], (~data.allowed).T, levels=[0.5, 1.5], colors=[sheet.faint()], alpha=0.8)
    image = right.pcolormesh(data.z, data["T"], data.basin.T, cmap="viridis", vmin=0, vmax=2.05, rasterized=True)
    figure.colorbar(image, ax=right, label=r"final $T$")
    ends = np.array([-1.2, 1.2])
    for level, x in ((2, 0.95), (4, 0.1)):
        sheet.guide(right, ends, level + 2 * ends, color="C1", lw=1.6)
        right.text(x - 0.04, level + 2 * x, f"$C = {level}$", color="C1", ha="right", va="bottom", fontsize=11)
    right.set(title="One step size, every start", xlabel=r"$\tilde z_0$", ylabel=r"$T_0$", xlim=ends, ylim=(0, 4.5))
    right.grid(False)
