"""The exact maximal step size of the quadratic model, and the chaos on its border."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Estimate, Figure, Findings, Seeded, claim, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.numerics.orbits import orbit
from secant.studies.shared.two_layer.starts import starting_points
from secant.theory.catapult import one_sample as ct

REST = 1e-10
"""The residual below which a run has come to rest."""

ORBITS = 20_000
"""Orbits on the border whose rates of escape are averaged."""


class Config(Seeded):
    width: int = options.width(50, at_least=10, at_most=10**6)
    targets: tuple[float, ...] = option(
        (-3.0, -1.0, 0.0, 1.0, 3.0), at_least=-5, at_most=5, ascending=True, help="labels"
    )
    draws: int = options.draws(20, 200, 1_000, at_least=2, at_most=10**6)
    halvings: int = scaled(smoke=20, laptop=24, paper=26, at_least=10, at_most=30, help="bisections of the step size")
    steps: int = options.steps(2_000, at_least=500, at_most=10**6)
    confined: int = scaled(smoke=300, laptop=2_000, paper=20_000, at_least=20, at_most=10**6, help="random starts")
    sweep: int = scaled(smoke=400, laptop=2_000, paper=4_000, at_least=50, at_most=10**5, help="step sizes, 0 to 4")

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(32.0 * self.sweep * self.steps + 16.0 * self.width, "sweep, steps or width")


@study("thesis/max-step", section="3.3", title="The exact maximal step size", new=True)
def run(config: Config) -> xr.Dataset:
    r"""For one sample the border of divergence is exact at every width:
    $$\eta_{\max} = \frac{8}{\lambda_0 + \sqrt{\lambda_0^2 - 16\,c\,(g_0 - y)\,y}}, \qquad c = \frac{\|x\|^2}{md},$$
    which is $4/\lambda_0$ for $y = 0$ or infinite width. The reason is that $q = v - 4 - w$ obeys
    $q' = (1 + u + w)\,q$ and so keeps its sign; $q < 0$ confines the model, $u < 4$ for ever. A confined run comes to
    rest if it can. Every minimum has $\eta\lambda \ge 2|b|$, $b = \sqrt c\,\eta y$, so no minimum is stable once
    $|b| \ge 1$. On the border $q = 0$ gradient descent is the Chebyshev map $a' = a^3 - 3a$,
    $a_t = 2\cos(3^t\theta)$: fully developed chaos, from which runs escape at the mean rate
    $2\log\frac{1 + \sqrt5}{2}$ a step.
    """
    output, curvature = starting_points(jax.random.key(config.seed), config.width, config.draws)
    targets = np.array(config.targets)[:, None]

    @jax.jit
    def borders(output: jax.Array, curvature: jax.Array) -> tuple[jax.Array, jax.Array]:
        def halve(_: jax.Array, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = bracket
            lr = (low + high) / 2
            model = ct.catapult(lr, config.width, targets)
            end = jax.lax.fori_loop(0, config.steps, lambda _, s: model.step(s), model.init((output, curvature)))
            bounded = jnp.abs(end.a) < 10
            return jnp.where(bounded, lr, low), jnp.where(bounded, high, lr)

        exact = ct.max_step(output, curvature, config.width, targets)
        return exact, jax.lax.fori_loop(0, config.halvings, halve, (0.5 * exact, 1.5 * exact))[0]

    # The picture: y = 0, one start, all step sizes.
    sweep = simulate(
        lambda ratio: ct.reduced_catapult(0.0),
        lambda ratio, start: (start * ratio, ratio),
        config.steps,
        over={"ratio": 4 * (np.arange(config.sweep) + 0.5) / config.sweep, "start": np.array([1e-2, 2e-2])},
        probes={"u": lambda s: s.a**2},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < REST) & (s.v < 2)),
    )
    # Below the border with a large label: can runs come to rest?
    keys = jax.random.split(jax.random.key(config.seed), 2)
    labels = np.array([0.0, 0.3, 0.6, 0.9, 1.1, 1.4, 1.7])
    a = np.asarray(jax.random.uniform(keys[0], (config.confined,), minval=-2, maxval=2))
    low, high = 2 * np.abs(a + labels[:, None]), 4 + a * labels[:, None]
    v = low + (high - low) * np.asarray(jax.random.uniform(keys[1], low.shape))
    rest = simulate(
        lambda label: ct.reduced_catapult(label["b"]),
        lambda label, number: (jnp.asarray(a)[number], label["v"][number]),
        config.steps,
        over={"label": {"b": labels, "v": v}, "number": np.arange(config.confined)},
        stop=Stop(converged=lambda s: jnp.abs(s.a) < REST, every=50),
    )
    # On the border: the closed form, and the rate of escape of many orbits.
    first, span, step = 2 * np.cos(1.0), 8, jit(ct.step, quick=True)
    seen = orbit(lambda state: step(*state, 0.4), (first, 4 + first * 0.4), 12)
    angles = np.random.default_rng(config.seed).uniform(0, np.pi, ORBITS)
    escaped = orbit(lambda state: step(*state), (2 * np.cos(angles), np.full(ORBITS, 4 - 1e-9)), span)[-1]
    growths = np.log((4 - np.asarray(escaped[1])) / 1e-9) / span
    exact, bisected = map(np.asarray, borders(output, curvature))
    border, grid, cases = ("target", "network"), ("ratio", "start"), ("label", "number")
    found = {
        "exact": (border, exact),
        "bisected": (border, bisected),
        "curvature": ("network", np.asarray(curvature)),
        "peak": sweep.dataset.u.max("step"),
        "final": (grid, np.asarray(sweep.state.v)),
        "residual": (grid, np.abs(np.asarray(sweep.state.a))),
        "log_product": np.log1p(sweep.dataset.u.isel(step=slice(0, -1))).sum("step"),
        "ended": (cases, rest.dataset.outcome.values),
        "confined": (cases, low < high),
        "rest_residual": (cases, np.abs(np.asarray(rest.state.a))),
        "rest_curvature": (cases, np.asarray(rest.state.v)),
        "orbit_map": ("time", [float(a) for a, _ in seen]),
        "orbit": ("time", np.asarray(ct.separatrix_orbit(first, 12))),
        "escape": growths.mean(),
        "escape_error": growths.std(ddof=1) / np.sqrt(growths.size),
    }
    return xr.Dataset(found, {"label": labels, "target": list(config.targets)})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    bracket, naive = 2.0 ** -(config.halvings - 1), np.abs(data.exact * data.curvature / 4 - 1).max()
    gap, why = np.abs(data.bisected / data.exact - 1).max(), "the last bracket; runs this close still end in time"
    bisection = claim("bisection", "largest relative difference of the bisected maximal step and the formula")
    yield bisection.zero(gap, bracket, why)
    name, none = r"largest resolved correction to $4/\lambda_0$", "a label of zero has no correction"
    correction = claim("correction", name, given=naive, otherwise=none)
    yield correction.at_least(100 * bracket if naive else 0.0, naive, "a hundred brackets")
    name, why = "largest $u$ in any run below the border", "$q < 0$ confines $|a| < 2$"
    yield claim("bounded", name).at_most(4.0, data.peak.max(), why)
    done, product = data.residual < REST, np.exp(data.log_product)
    gap = (np.abs((4 - data.final) / (4 - data.ratio) - product).where(done) / product).max()
    why = r"a thousand roundings of $10^{-16}$, over the smallest distance $10^{-3}$ from the border"
    yield claim("product", "product rule for the final curvature: largest relative deviation").zero(gap, 1e-10, why)
    # Half of the steps to get there; in the others a residual of order one falls to rest by |1 - v| a step.
    slow = 1 - REST ** (2 / config.steps)
    moving = rf"not at rest, though $\eta\lambda$ ends more than {slow:.3f} from 0 and 2"
    why = r"the multiplier $1 - \eta\lambda$: near 0 and 2 the approach is slow"
    stuck = (~done & (data.final > slow) & (data.final < 2 - slow)).sum()
    note = f"{int((~done).sum())} of {done.size} are not at rest"
    yield claim("moving", f"step sizes below the border {moving}").zero(stuck, 0, why, note=note)
    yield claim("diverged", "runs below the border that diverged, any label").zero(
        ((data.ended == Outcome.DIVERGED) & data.confined).sum(), 0, "$q < 0$ confines the model for every $|b| < 2$"
    )
    small, large = data.sel(label=data.label < 1), data.sel(label=data.label > 1)
    under_way = small.confined & (small.ended != Outcome.CONVERGED)
    # The curvature alternates by 4ab around its limit.
    reach = slow + 4 * small.rest_residual * small.label
    away = (small.rest_curvature > reach) & (np.abs(small.rest_curvature - 2) > reach)
    note = f"{int(under_way.sum())} of {int(small.confined.sum())} are not at rest"
    stuck = (under_way & away).sum()
    yield claim("small-label", f"$|b| < 1$: runs below the border {moving}").zero(stuck, 0, why, note=note)
    yield claim("large-label", "share of runs below the border that come to rest, $|b| > 1$").zero(
        (large.ended == Outcome.CONVERGED).sum() / large.confined.sum(), 0, "no minimum is stable"
    )
    gap, why = (
        np.abs(data.orbit - data.orbit_map).max(),
        "a step multiplies rounding by 3 along the border, 6 across it",
    )
    yield claim("orbit", r"orbit on the border against $2\cos(3^t\theta)$, twelve steps").zero(
        gap, 6.0**12 * 2**-52, why
    )
    rate = Estimate(float(data.escape), float(data.escape_error), ORBITS - 1)
    why = r"eight steps from $10^{-9}$ lead to $4\cdot10^{-4}$ from the border, where the rate is another"
    yield claim("escape", "mean rate of escape from the border").equal(ct.transverse_exponent(), rate, 1e-3, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 4), 3, width_ratios=(5, 3, 3))
    done = data.residual < REST
    left.plot(data.ratio, data.final.where(done).isel(start=0), ".", ms=2, color="C0", rasterized=True)
    d = np.linspace(0, 0.9, 50)
    sheet.guide(left, 2 + d, 2 - d - 2 * d**2 / 3, r"$2 - \delta - \frac{2}{3}\delta^2$")
    sheet.guide(left, [0, 2], [0, 2])
    sheet.mark(left, x=(2, 4), lw=0.8, ls=":")
    for x, text in ((2, "edge"), (4, "border")):
        left.text(x + 0.04, 0.08, text, rotation=90, ha="left", va="bottom", color=sheet.ink())
    title, limits = "Final curvature over all step sizes", {"xlim": (0, 4.25), "ylim": (0, 2.1)}
    sheet.label(left, title, r"$\eta\lambda_0$", r"$\eta\lambda_\infty$", "upper left", **limits)
    exact, bisected = data.exact * data.curvature, data.bisected * data.curvature
    for i, y in enumerate(data.target.values):
        middle.plot(exact.sel(target=y), bisected.sel(target=y), "o", ms=3, color=f"C{i}", label=rf"$y = {y:g}$")
    ends = [exact.min() - 0.1, exact.max() + 0.1]
    sheet.guide(middle, ends, ends, lw=1)
    rescaled = r"$\eta_{\max}\lambda_0$"
    sheet.label(middle, "Border, bisected", f"formula, {rescaled}", f"measured, {rescaled}", {"fontsize": 8})
    a, seen = np.linspace(-2, 2, 300), data.orbit_map.values[:9]
    right.plot(a, a**3 - 3 * a, color="C0", label=r"$a^3 - 3a$")
    sheet.guide(right, a, a, lw=0.8, ls=":")
    right.plot(np.repeat(seen, 2)[:-1], np.append(0, np.repeat(seen[1:], 2)), color="C1", lw=0.9, label="orbit")
    legend = {"fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.22), "ncols": 2}
    sheet.label(right, "On the border: Chebyshev", "$a$", "$a'$", legend, aspect="equal", anchor="N")
