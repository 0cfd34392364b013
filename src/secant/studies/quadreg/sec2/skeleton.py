"""The skeleton of the edge of stability: one conserved number, one cubic map, one window of step sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Figure, Finding, Findings, Seeded, Tolerance, claim, fits_memory, option, scaled, sheet, study
from secant.studies.shared.numerics.orbits import orbit
from secant.studies.shared.regression import starts
from secant.studies.shared.regression.plane import at_rest
from secant.theory.edge import edge_limit, nullclines, skeleton, two_eigenvalue

CYCLE = (2.05, 2.4)
"""Levels at which the two-cycle is compared: its multiplier is at most 0.8 in size."""

INSIDE = (2.2, 3.7)
"""Levels well inside the window."""

BELOW = 1.8
"""Levels up to here end below the edge, at a first order in epsilon."""

PAIRS = 10
"""Pairs of steps after which the lowest level inside the window has reached its two-cycle."""


class Config(Seeded):
    epsilons: tuple[float, ...] = starts.epsilons((0.005, 0.02), at_least=1e-3, at_most=0.05, longest=10)
    levels: int = scaled(smoke=240, laptop=900, paper=2_000, at_least=40, help="levels C of the bifurcation diagram")
    transient: int = scaled(
        smoke=2_000, laptop=4_000, paper=20_000, at_least=100, at_most=10_000_000, help="steps before recording"
    )
    kept: int = scaled(smoke=48, laptop=120, paper=300, at_least=4, help="steps recorded for the diagram")
    scan: int = scaled(smoke=70, laptop=300, paper=600, at_least=20, at_most=100_000, help="step sizes of the scan")
    slow: float = option(1e-3, at_least=1e-4, at_most=0.01, help="second eigenvalue of the slowly drifting orbit")
    direction: tuple[float, float] = option(
        (-0.44, 0.12), at_least=-1, at_most=1, help="start of the scan: (residual, curvature) at step size one"
    )

    def check(self) -> None:
        """Refuses a start that no parameters have, and a diagram that does not fit into memory."""
        z, T = self.direction
        if not (z < 0 < T) or max(self.epsilons) * -2 * z > T or -z / 20 > T:
            least = "must have a negative residual z and a curvature of at least -z/20 and -2 epsilon z"
            raise ValueError(f"direction: {least}, got {z:g} and {T:g}.")
        fits_memory(40 * self.levels * self.kept, "levels or kept")


@study("quadreg/skeleton", section="2.2", title="The skeleton of the edge of stability", new=True)
def run(config: Config) -> xr.Dataset:
    r"""At $\epsilon = 0$ the level $C = T - 2\tilde z$ is conserved and gradient descent is an odd cubic map of the
    surviving Jacobian, $\tilde J' = \tilde J(1 + \tfrac C2 - \tfrac12\tilde J^2)$, with $T = \tilde J^2$. It
    converges for $C < 2$, has the two-cycle $(C + 2\tilde z)(1 - \tilde z) = 2$ with multiplier $1 - 8h - 2h^2$,
    $h = (C-2)/2$, stable up to $C = 2\sqrt5 - 2$, then doubles its period into chaos; beyond $3\sqrt3 - 2$ the
    parameter changes sign, and beyond $4$ orbits escape. With $\epsilon > 0$ the level moves exactly by
    $C' = C(1 + \epsilon\tilde z)^2$, on average down, until it reaches the edge. Hence the step sizes that end at
    the edge of stability, as $\epsilon\to0$:
    $$\frac{2}{\lambda_0 - 2z_0} < \eta < \frac{4}{\lambda_0 - 2z_0},$$
    while below this window the curvature ends at
    $\eta\lambda_\infty = C\,(1 + 2\epsilon\sum_t\tilde z_t) + O(\epsilon^2)$.
    """
    C = np.asarray(jnp.linspace(1.6, 4.0, config.levels))
    settled = simulate(
        lambda C: skeleton.jacobian_skeleton(C), lambda C: 1.05 * jnp.sqrt(C), config.transient, over={"C": C}
    ).state
    attractor = simulate(
        lambda case: skeleton.jacobian_skeleton(case["C"]),
        lambda case: case["J"],
        config.kept - 1,
        over={"case": {"C": C, "J": settled}},
        probes={"J": lambda J: J},
    ).dataset.J.values

    # How orbits leave: a cloud of starts inside, just below and just above the level of escape.
    cloud = jit(lambda key: jax.random.uniform(key, (200,), minval=0.1, maxval=2.5), quick=True)
    escaped = simulate(
        lambda edge: skeleton.jacobian_skeleton(edge),
        lambda J: J,
        4_000,
        over={"edge": np.array([3.98, 4.02]), "J": cloud(jax.random.key(config.seed))},
        stop=Stop(diverged=lambda J: jnp.abs(J) > 10, every=10),
    ).dataset.outcome

    z, T = config.direction
    levels = np.linspace(0.4, 4.6, config.scan)
    ends = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        lambda level: two_eigenvalue.Point(z * level / (T - 2 * z), T * level / (T - 2 * z)),
        int(44 / min(config.epsilons)),
        over={"eps": np.array(config.epsilons), "level": levels},
        stop=at_rest(1e-8),
    )
    # T - 2z is the curvature in the limit up to epsilon times the residual that is left.
    level = np.asarray(skeleton.conserved(*map(np.asarray, ends.state)))
    final = np.where(ends.dataset.outcome == Outcome.CONVERGED, level, np.nan)
    below = levels[levels < BELOW]
    first_order = jit(lambda C, z: skeleton.level_below(C, z, 1.0) - C, quick=True)(below, z * below / (T - 2 * z))

    on_cycle = float(jit(skeleton.cycle, quick=True)(2.4)[1])
    begun = two_eigenvalue.Point(np.array([0.3, on_cycle]), np.array([3.8 + 0.6, 2.4 + 2 * on_cycle]))
    drifting = simulate(
        two_eigenvalue.two_eigenvalue(-config.slow),
        lambda start: start,
        int(6 / config.slow),
        over={"start": begun},
        probes={
            "T": lambda p: p.T,
            "drift": Probe(lambda p: skeleton.conserved(p.z, p.T), label="level along the orbit"),
            "drift_step": lambda p: skeleton.level_step(skeleton.conserved(p.z, p.T), p.z, config.slow),
        },
    ).dataset.rename(step="time")
    cycle = np.array([2.1, 2.4, 2.5])
    twice = lambda z, C: skeleton.skeleton(C).step(skeleton.skeleton(C).step(z))  # noqa: E731
    slope = jit(jax.vmap(lambda C: jax.grad(twice)(skeleton.cycle(C)[0], C)), quick=True)(cycle)
    table = drifting[["T", "drift", "drift_step"]].assign_coords(
        C=C, low=below, cycle=cycle, eps=list(config.epsilons), level=levels
    )
    return table.assign(
        J=(("C", "kept"), attractor, {"long_name": "Jacobian on the attractor"}),
        final=(("eps", "level"), final, {"long_name": "final rescaled curvature"}),
        escaped=(escaped == Outcome.DIVERGED).mean("J"),
        multiplier=("cycle", np.asarray(slope)),
        first_order=("low", np.asarray(first_order), {"long_name": "d final curvature / d epsilon"}),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    exact = Tolerance(1e-10, why="an identity: rounding of float64")
    jump = np.abs(data.drift_step.values[:, :-1] - data.drift.values[:, 1:])
    sentence = r"level after a step against $C (1 + \epsilon z)^2$: largest difference"
    yield claim("level-step", sentence).zero(jump.max(), exact)
    multipliers = jit(skeleton.cycle_multiplier, quick=True)(data.cycle.values)
    for C, predicted, slope in zip(data.cycle.values, np.asarray(multipliers), data.multiplier, strict=True):
        sentence = f"multiplier of the two-cycle at $C = {C:g}$"
        yield claim(f"multiplier-{C:g}", sentence).equal(predicted, slope, exact)
    yield from _attractor(data, config)
    why = "a set of starts of measure zero, or a long stay"
    for edge, expected, escaped in zip(data.edge.values, (0.0, 1.0), data.escaped, strict=True):
        yield claim(f"escape-{edge:g}", f"share that escapes at $C = {edge:g}$").equal(expected, escaped, 0.02, why)
    first = float(np.abs(data.first_order).max())
    why = rf"second order in $\epsilon$: the square of the first, which is up to ${first:.2g} \epsilon$"
    for eps in config.epsilons:
        final = data.final.sel(eps=eps)
        yield _inside(final, eps, config)
        gap = np.abs(final.sel(level=data.low) - (data.low + eps * data.first_order)).max(skipna=False)
        at = rf"at $\epsilon = {eps:g}$"
        sentence = rf"final curvature below the window {at}: largest difference from $C + 2\epsilon C\sum_t z_t$"
        yield claim(f"below-{eps:g}", sentence).zero(gap, (first * eps) ** 2, why)
    early = np.arange(data.sizes["time"])
    early, average = early[early < 3 / config.slow], jit(skeleton.level_drift, quick=True)
    gap = np.abs(data.drift[1, early] - np.asarray(average(early, 2.4, config.slow))).max()
    why = r"next order of averaging, and the step-to-step wobble of $2\epsilon C|z|$"
    sentence = r"drift of the level from $C = 2.4$ against its average over the cycle: largest difference"
    yield claim("drift", f"{sentence} over three decay times").zero(gap, 5 * config.slow, why)


def _attractor(data: xr.Dataset, config: Config) -> Findings:
    """What the skeleton settles on: a two-cycle, its doubling, and the crisis where the parameter changes sign."""
    T, levels = data.J**2, data.C.values
    two = T.sel(C=slice(*CYCLE))
    low, high = (two.C + 2 * np.asarray(branch) for branch in jit(skeleton.cycle, quick=True)(two.C.values))
    gap = np.maximum(np.abs(two.min("kept") - low), np.abs(two.max("kept") - high))
    sentence = f"curvatures of the two-cycle for $C$ from {CYCLE[0]:g} to {CYCLE[1]:g}: largest difference"
    why = "what is left of the transient by its multiplier, at most 0.8"
    yield claim("two-cycle", sentence).zero(gap.max(), 1e-10 + 4 * 0.8 ** (config.transient / 2), why)
    # A wobble of 0.001 takes n steps to die out where the multiplier is 14 / n away from -1, as e^-7 is 0.001.
    wobble = np.abs(T.values[:, 2:] - T.values[:, :-2]).max(axis=1)
    doubled = levels[(levels > CYCLE[1]) & (wobble > 1e-3)]
    none = "no level of the diagram has a period of four"
    reason = "spacing of the levels, and slowing over the transient: the multiplier falls by 4.5 a unit"
    yield claim("doubling", "level at which the period doubles", doubled.size, none).equal(
        skeleton.CYCLE_FLIP, lambda: doubled.min(), 2 * (levels[1] - levels[0]) + 14 / (4 * config.transient), reason
    )
    crisis = scipy.optimize.brentq(skeleton.image_of_the_top, 3.0, 3.5, xtol=1e-12)
    yield claim("crisis", "level at which the top of the map is mapped to zero").equal(
        skeleton.SIGN_CRISIS, crisis, 1e-8, "a root found numerically"
    )
    signs = levels[(data.J.min("kept") < 0) & (data.J.max("kept") > 0)]
    sentence = "lowest level at which the parameter changes sign on the attractor"
    yield claim("sign-changes", sentence, signs.size, "no orbit of the diagram changes sign").at_least(
        skeleton.SIGN_CRISIS, lambda: signs.min(), "an inequality: below the crisis no orbit does"
    )


def _inside(final: xr.DataArray, eps: float, config: Config) -> Finding:
    """The end of the levels well inside the window, against the limit that forgets its start."""
    inside = final.sel(level=slice(*INSIDE))
    z, T = config.direction
    # The lowest level is the first to reach the edge, and remembers most.
    lowest = float(inside.level.min())
    share, step = lowest / (T - 2 * z), two_eigenvalue.two_eigenvalue(-eps).step
    *_, point, later = orbit(step, two_eigenvalue.Point(z * share, T * share), 2 * PAIRS + 1)
    point = point if float(point.z) > 0 else later
    y = nullclines.edge_distance(point.z, point.T, eps)
    limit, error = map(float, edge_limit.limit_from(float(point.z), float(y), eps))
    series = float(edge_limit.limit_series(eps))
    remembered, gap = abs(limit - series) + error, abs(inside - 2 - series).max(skipna=False)
    why = f"memory of the lowest level's point after {PAIRS} pairs of steps; next term of the series; residuals of 1e-8"
    sentence = rf"final curvature inside the window at $\epsilon = {eps:g}$: largest difference from the slow manifold"
    forgotten = claim(
        f"inside-{eps:g}", sentence, remembered <= eps / 20, f"the start of level {lowest:.3g} is not forgotten"
    )
    return forgotten.zero(gap, remembered + 4e-8 * eps, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (12, 5), 2, width_ratios=(1.35, 1))
    x = np.repeat(data.C.values, data.sizes["kept"])
    left.plot(x, (data.J.values**2).ravel(), ",", color="C0", alpha=0.5, rasterized=True)
    fine = np.linspace(2.0001, skeleton.CYCLE_FLIP, 100)
    for branch in skeleton.cycle(fine):
        sheet.guide(left, fine, fine + 2 * np.asarray(branch))
    every = 2 * (data.sizes["time"] // 8000) + 1  # odd, so that both branches of the cycle show
    left.plot(data.drift[0, ::every], data["T"][0, ::every], ".", ms=2.2, color="C1", alpha=0.8, rasterized=True)
    left.plot([], [], "s", color="C0", label=r"skeleton, $\epsilon = 0$")
    left.plot([], [], "s", color="C1", label=rf"one run at $\epsilon = {config.slow:g}$, drifting left")
    flip, crisis = (skeleton.CYCLE_FLIP, r"2\sqrt{5}-2"), (skeleton.SIGN_CRISIS, r"3\sqrt{3}-2")
    for value, name in ((2, "2"), flip, crisis, (4, "4")):
        sheet.mark(left, x=value, lw=0.8, ls=":")
        left.text(value, 8.35, f"${name}$", ha="center", va="bottom", fontsize=9)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
    legend, level = below | {"ncols": 2}, r"level $C = T - 2\tilde z$"
    sheet.label(left, x=level, y=r"curvature $T$", legend=legend, xlim=(1.6, 4.05), ylim=(0, 8.3))
    left.set_title("Descent rides its skeleton down to the edge", pad=20)
    right.axvspan(2, 4, color="C2", alpha=0.12, lw=0)
    sheet.guide(right, [0, 2], [0, 2])
    for i, (eps, final) in enumerate(zip(config.epsilons, data.final, strict=True)):
        right.plot(data.level, final, "o", ms=3.5, color=f"C{i}", label=rf"$\epsilon = {eps:g}$")
        sheet.guide(right, [2, 4], [2 + float(edge_limit.limit_series(eps))] * 2, lw=1.0)
    lost = data.level[data.final.isnull().all("eps")]
    right.plot(lost, np.full(lost.size, 2.25), "x", ms=4, color="C5", label="diverged")
    legend, level = below | {"ncols": 3}, r"$\eta(\lambda_0 - 2z_0)$"
    sheet.label(right, x=level, y=r"final $\eta\lambda$", legend=legend, xlim=(0.3, 4.7), ylim=(0, 2.4))
    right.set_title("The window of step sizes", pad=20)
    right.text(3, 0.5, "edge of stability", ha="center")
