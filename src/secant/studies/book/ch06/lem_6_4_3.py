"""Lemmas 6.4.3 and 6.4.4: two directions are enough to improve any point that is not a minimum."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.landscape import rank_one

EXTENT = 2.0
"""Extent of the grid. Beyond, the slope along x is larger than f can be: see the finding on large x."""


class Config(Seeded):
    grid: int = scaled(smoke=501, laptop=2_001, at_least=101, at_most=4_001, help="points of the grid along each axis")
    curvature: float = option(0.25, at_least=0.05, at_most=0.6, help="gamma, which is 1/4 in the lemma")
    dim: int = options.dim(8, at_least=2, at_most=500)
    taus: tuple[float, ...] = option(
        (0.01, 0.1, 0.2, 0.25, 0.5, 0.9), at_least=1e-3, below=1, longest=20, help="values of tau"
    )


def smallest_ratio(a: np.ndarray, b: np.ndarray, gamma: float) -> tuple[np.ndarray, rank_one.Improvement]:
    """The larger slope over min(f, 1) where neither direction bends down by more than gamma, infinite elsewhere."""
    at = rank_one.improvement(a, b)
    free = (at.bend_x >= -gamma) & (at.bend_z >= -gamma) & (at.value > 1e-12)
    slope = np.maximum(at.slope_x, at.slope_z)
    return np.where(free, slope / np.where(free, np.minimum(at.value, 1), 1), np.inf), at


@study("book/lem-6.4.3", section="6.4", title="Directions of improvement")
def run(config: Config) -> xr.Dataset:
    r"""Let $M = zz^\top$, $|z| = 1$, and $f = \frac14\|zz^\top - xx^\top\|_F^2$. Call $\delta$ an
    $(\epsilon, \gamma)$-direction of improvement where $|\nabla f\cdot\delta| > \epsilon|\delta|$ or
    $\delta^\top\nabla^2f\,\delta < -\gamma|\delta|^2$. Lemma 6.4.4: if neither $x$ nor $z$ is a direction of
    improvement, then $f(x) = 0$. Lemma 6.4.3: there is a $c > 0$ such that for every $\tau < 1$, if neither is a
    $(c\tau, \frac14)$-direction, then $f(x) \le \tau$. The largest such constant is $c = 1/\sqrt2$. The point that
    sets it has $a^2 = \frac18$, $b^2 = \frac38$ with $a = x\cdot z$ and $b$ the length of the rest.
    """
    rng = np.random.default_rng(config.seed)
    gamma, axis = config.curvature, np.linspace(0, EXTENT, config.grid)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    ratio, at = smallest_ratio(a, b, gamma)
    place, best, width = np.unravel_index(ratio.argmin(), ratio.shape), ratio.min(), axis[1]
    centre, trail = (axis[place[0]], axis[place[1]]), [best]
    for _ in range(12):  # finer and finer grids around the worst point
        near = [np.abs(c + np.linspace(-width, width, 201)) for c in centre]
        fine, _ = smallest_ratio(near[0][:, None], near[1][None, :], gamma)
        place = np.unravel_index(fine.argmin(), fine.shape)
        centre, width = (near[0][place[0]], near[1][place[1]]), width / 4
        trail.append(fine.min())
    # The same numbers from gradients and Hessians of vectors.
    z = rng.normal(size=config.dim)
    z /= np.linalg.norm(z)
    x = rng.normal(size=(20, config.dim)) / np.sqrt(config.dim)
    M, along = np.outer(z, z), x @ z
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    slope, bend = rank_one.gradient(M, x), rank_one.hessian(M, x)
    direct = np.stack(
        [
            rank_one.objective(M, x),
            np.abs((slope * unit).sum(1)),
            np.abs(slope @ z),
            np.einsum("ni,nij,nj->n", unit, bend, unit),
            np.einsum("i,nij,j->n", z, bend, z),
        ]
    )
    plane = rank_one.improvement(along, np.linalg.norm(x - along[:, None] * z, axis=1))
    # The largest f without a (c tau, gamma)-direction, for every tau; and the slope at large x, along rays.
    c = rank_one.robust_constant(gamma)
    free = (at.bend_x >= -gamma) & (at.bend_z >= -gamma)
    worst = [at.value[free & (np.maximum(at.slope_x, at.slope_z) <= c * tau)].max(initial=0.0) for tau in config.taus]
    angle = np.linspace(0, np.pi / 2, 91)
    far = np.array([EXTENT, 2 * EXTENT, 10 * EXTENT])[:, None]
    out = rank_one.improvement(far * np.cos(angle), far * np.sin(angle))
    return xr.Dataset(
        {
            "ratio": (("along", "across"), ratio),
            "value": (("along", "across"), at.value),
            "least": trail[-1],
            "trail": ("round", trail),
            "worst": ("coordinate", np.array(centre)),
            "direct": (("number", "point"), direct),
            "plane": (("number", "point"), np.stack(plane)),
            "reached": ("tau", worst),
            "far": (("ray", "angle"), out.slope_x),
            "stuck": (("along", "across"), free & (np.maximum(at.slope_x, at.slope_z) <= 1e-9)),
        },
        coords={"along": axis, "across": axis, "tau": list(config.taus)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    gamma, c = config.curvature, rank_one.robust_constant(config.curvature)
    yield claim("plane", r"slopes and curvatures of vectors less those by $x\cdot z$ and $|x|$, largest").zero(
        largest(data.direct, data.plane), 1e-12, "the problem has two dimensions: rounding"
    )
    yield claim("grid", r"least ratio of slope and $\min(f, 1)$ on the grid").at_least(
        c, data.trail[0], "no point breaks the lemma"
    )
    why = "the width of the last grid, times its slope of about 1"
    yield claim("fine-grid", "the same ratio on finer and finer grids").equal(c, data.least, 1e-6, why)
    if gamma == 0.25:
        yield claim("constant", "largest constant of lemma 6.4.3").equal(
            2**-0.5, data.least, 1e-6, r"$1/\sqrt{2}$, up to the width of the last grid"
        )
        for name, found, exact in zip((r"$x\cdot z$", "rest"), data.worst.values, (1 / 8, 3 / 8), strict=True):
            key = "worst-rest" if name == "rest" else "worst-along"
            yield claim(key, f"worst point: square of its part, {name}").equal(exact, found**2, 1e-5, why)
    why = r"at least $|x|^3 - |x|$: there $x$ always improves, as $c\tau$ is below 1"
    yield claim("large", "large $|x|$: least slope along $x$, over all directions").at_least(1.0, data.far.min(), why)
    axis = data.along.values
    stuck = [float(rank_one.improvement(axis[i], axis[j]).value) for i, j in np.argwhere(data.stuck.values)]
    yield claim("lemma-6.4.4", "lemma 6.4.4: largest $f$ where neither direction improves, on the grid").zero(
        max(stuck, default=0.0), 1e-8, "$x = z$ and $x = -z$ alone"
    )
    sentence = r"largest $f$ without a direction of improvement, $\tau ="
    for tau, reached in zip(config.taus, data.reached.values, strict=True):
        yield claim(f"stuck-{tau:g}", f"{sentence} {tau:g}$").at_most(tau, reached, "lemma 6.4.3")
    tau, reached = max(zip(config.taus, data.reached.values, strict=True))
    yield claim("bound", rf"{sentence} {tau:g}$, whatever the length of $\delta$").erratum(
        (r"f(x) \le f(x^*) + \delta", 0.0),
        (r"f(x) \le f(x^*) + \tau", tau),
        reached,
        0.0,
        "a bound",
        relation="at most",
        where="section 6.4.2",
        note=r"$\delta$ is the direction, of any length, even a vanishing one; the bound is the $\tau$ of definition "
        "6.3.3",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.6), 2)
    axis, gamma = data.along.values, config.curvature
    shown = np.where(np.isfinite(data.ratio), data.ratio, np.nan).T
    drawn = left.pcolormesh(axis, axis, np.minimum(shown, 3), cmap="viridis", rasterized=True)
    figure.colorbar(drawn, ax=left, label=r"larger slope over $\min(f, 1)$")
    left.plot(*data.worst, "*", ms=13, color="C3", label=f"worst point, {float(data.least):.4f}")
    left.plot(1, 0, "o", ms=8, color="C1", label="minimum, $x = z$")
    title = f"Where no curvature is below $-{gamma:g}$"
    legend = {"loc": "upper right", "frameon": True, "framealpha": 0.85}
    sheet.label(left, title, r"$x\cdot z$", "length of the rest", legend, xlim=(0, 1.5), ylim=(0, 1.5))
    left.grid(False)
    gammas = np.linspace(0.02, 0.98, 49)
    right.plot(gammas, [rank_one.robust_constant(g) for g in gammas], label="largest constant $c$")
    right.plot(gamma, data.least, "o", ms=7, label="on the grid")
    sheet.mark(right, y=2**-0.5, x=0.25, lw=0.8, label=r"$\gamma = \frac{1}{4}$: $c = 1/\sqrt{2}$")
    sheet.label(right, "What the lemma's constant can be", r"curvature $\gamma$", "$c$", "lower left")
