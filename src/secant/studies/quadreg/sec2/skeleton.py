"""The skeleton of the edge of stability: one conserved number, one cubic map, one window of step sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Figure, Finding, Findings, Seeded, Tolerance, claim, fits_memory, option, scaled, sheet, study
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
    epsilons: tuple[float, ...] = option(
        (0.005, 0.02), at_least=1e-3, at_most=0.05, longest=10, distinct=True, help="minus the second eigenvalue"
    )
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
        """A start on the left of the minimum that some parameters have, and a diagram that a machine holds."""
        z, T = self.direction
        if not (z < 0 < T) or max(self.epsilons) * -2 * z > T or -z / 20 > T:
            raise ValueError(
                "direction: must have a negative residual z and a curvature of at least -z/20 and -2 epsilon z, "
                f"got {z:g} and {T:g}."
            )
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
    starts = two_eigenvalue.Point(np.array([0.3, on_cycle]), np.array([3.8 + 0.6, 2.4 + 2 * on_cycle]))
    drifting = simulate(
        two_eigenvalue.two_eigenvalue(-config.slow),
        lambda start: start,
        int(6 / config.slow),
        over={"start": starts},
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
    yield claim("level-after-step", "level after a step against C (1 + eps z)^2: largest difference").zero(
        jump.max(), exact
    )
    multipliers = jit(skeleton.cycle_multiplier, quick=True)(data.cycle.values)
    for C, predicted, slope in zip(data.cycle.values, np.asarray(multipliers), data.multiplier, strict=True):
        yield claim(f"multiplier-two-cycle-{C:g}", f"multiplier of the two-cycle at C = {C:g}").equal(
            predicted, slope, exact
        )
    yield from _attractor(data, config)
    for edge, expected, escaped in zip(data.edge.values, (0.0, 1.0), data.escaped, strict=True):
        yield claim(f"share-starts-escape-{edge:g}", f"share of starts that escape at C = {edge:g}").equal(
            expected, escaped, 0.02, "a set of starts of measure zero, or a long stay"
        )
    first = float(np.abs(data.first_order).max())
    for eps in config.epsilons:
        final = data.final.sel(eps=eps)
        yield _inside(final, eps, config)
        expected = data.low + eps * data.first_order
        yield claim(
            f"final-curvature-below-{eps:g}",
            f"final curvature below the window, epsilon = {eps:g}: largest difference from C + 2 eps C sum z",
        ).zero(
            np.abs(final.sel(level=data.low) - expected).max(skipna=False),
            (first * eps) ** 2,
            f"second order in eps: the square of the first, which is up to {first:.2g} eps",
        )
    early = np.arange(data.sizes["time"])
    early, average = early[early < 3 / config.slow], jit(skeleton.level_drift, quick=True)
    yield claim(
        "drift-level-c",
        "drift of the level from C = 2.4 against its average over the cycle: largest difference over three decay times",
    ).zero(
        np.abs(data.drift[1, early] - np.asarray(average(early, 2.4, config.slow))).max(),
        5 * config.slow,
        "next order of averaging, and the step-to-step wobble of 2 eps C |z|",
    )


def _attractor(data: xr.Dataset, config: Config) -> Findings:
    """What the skeleton settles on: a two-cycle, its doubling, and the crisis where the parameter changes sign."""
    T, levels = data.J**2, data.C.values
    two = T.sel(C=slice(*CYCLE))
    low, high = (two.C + 2 * np.asarray(branch) for branch in jit(skeleton.cycle, quick=True)(two.C.values))
    gap = np.maximum(np.abs(two.min("kept") - low), np.abs(two.max("kept") - high))
    yield claim(
        f"curvatures-two-cycle-{CYCLE[0]:g}-{CYCLE[1]:g}",
        f"curvatures of the two-cycle for C from {CYCLE[0]:g} to {CYCLE[1]:g}: largest difference",
    ).zero(
        gap.max(),
        1e-10 + 4 * 0.8 ** (config.transient / 2),
        "what is left of the transient by its multiplier, at most 0.8",
    )
    # A wobble of 0.001 takes n steps to die out where the multiplier is 14 / n away from -1, as e^-7 is 0.001.
    wobble = np.abs(T.values[:, 2:] - T.values[:, :-2]).max(axis=1)
    doubled = levels[(levels > CYCLE[1]) & (wobble > 1e-3)]
    yield claim(
        "level-which-period",
        "level at which the period doubles",
        given=doubled.size,
        otherwise="no level of the diagram has a period of four",
    ).equal(
        skeleton.CYCLE_FLIP,
        lambda: doubled.min(),
        2 * (levels[1] - levels[0]) + 14 / (4 * config.transient),
        "spacing of the levels, and slowing over the transient: the multiplier falls by 4.5 a unit",
    )

    yield claim("level-which-top", "level at which the top of the map is mapped to zero").equal(
        skeleton.SIGN_CRISIS,
        scipy.optimize.brentq(skeleton.image_of_the_top, 3.0, 3.5, xtol=1e-12),
        1e-8,
        "a root found numerically",
    )
    signs = levels[(data.J.min("kept") < 0) & (data.J.max("kept") > 0)]
    yield claim(
        "lowest-level-which",
        "lowest level at which the parameter changes sign on the attractor",
        given=signs.size,
        otherwise="no orbit of the diagram changes sign",
    ).at_least(skeleton.SIGN_CRISIS, lambda: signs.min(), "an inequality: below the crisis no orbit does")


def _inside(final: xr.DataArray, eps: float, config: Config) -> Finding:
    """The end of the levels well inside the window, against the limit that forgets its start."""
    inside = final.sel(level=slice(*INSIDE))
    z, T = config.direction
    # The lowest level is the first to reach the edge, and remembers most.
    lowest = float(inside.level.min())
    share, step = lowest / (T - 2 * z), two_eigenvalue.two_eigenvalue(-eps).step
    point = two_eigenvalue.Point(z * share, T * share)
    for _ in range(2 * PAIRS):
        point = step(point)
    point = point if float(point.z) > 0 else step(point)
    y = nullclines.edge_distance(point.z, point.T, eps)
    limit, error = map(float, edge_limit.limit_from(float(point.z), float(y), eps))
    series = float(edge_limit.limit_series(eps))
    remembered = abs(limit - series) + error
    return claim(
        f"final-curvature-inside-{eps:g}",
        f"final curvature inside the window, epsilon = {eps:g}: largest difference from the slow manifold",
        given=remembered <= eps / 20,
        otherwise=f"the start of level {lowest:.3g} is not forgotten",
    ).zero(
        abs(inside - 2 - series).max(skipna=False),
        remembered + 4e-8 * eps,
        f"what the lowest level remembers of its point after {PAIRS} pairs of steps, in closed form, and how "
        "well that is known; the next term of the series; residuals of 1e-8 at the end",
    )


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
    for value, name in (
        (2, "2"),
        (skeleton.CYCLE_FLIP, r"2\sqrt{5}-2"),
        (skeleton.SIGN_CRISIS, r"3\sqrt{3}-2"),
        (4, "4"),
    ):
        sheet.mark(left, x=value, lw=0.8, ls=":")
        left.text(value, 8.35, f"${name}$", ha="center", va="bottom", fontsize=9)
    left.set(xlabel=r"level $C = T - 2\tilde z$", ylabel=r"curvature $T$", xlim=(1.6, 4.05), ylim=(0, 8.3))
    left.set_title("Descent rides its skeleton down to the edge", pad=20)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    right.axvspan(2, 4, color="C2", alpha=0.12, lw=0)
    sheet.guide(right, [0, 2], [0, 2])
    for i, (eps, final) in enumerate(zip(config.epsilons, data.final, strict=True)):
        right.plot(data.level, final, "o", ms=3.5, color=f"C{i}", label=rf"$\epsilon = {eps:g}$")
        sheet.guide(right, [2, 4], [2 + float(edge_limit.limit_series(eps))] * 2, lw=1.0)
    lost = data.level[data.final.isnull().all("eps")]
    right.plot(lost, np.full(lost.size, 2.25), "x", ms=4, color="C5", label="diverged")
    right.set_title("The window of step sizes", pad=20)
    right.set(xlabel=r"$\eta(\lambda_0 - 2z_0)$", ylabel=r"final $\eta\lambda$", xlim=(0.3, 4.7), ylim=(0, 2.4))
    right.text(3, 0.5, "edge of stability", ha="center")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)
