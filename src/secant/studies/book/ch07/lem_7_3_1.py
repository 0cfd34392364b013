"""Lemma 7.3.1: one random push is enough to leave a saddle, in a time that grows with its logarithm."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, bootstrap, claim, option, options, sheet, study
from secant.theory.landscape import escape, rank_one

FALL = 0.1
"""Above the minimum, where a run counts as escaped."""


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.05, at_most=3.5, shortest=3, longest=12, help="of the matrix"
    )
    rate: float = option(0.05, at_least=0.01, at_most=0.06, help="step size of the runs")
    radii: tuple[float, ...] = option(
        (1e-2, 1e-4, 1e-6, 1e-8),
        at_least=1e-12,
        at_most=1e-2,
        shortest=2,
        longest=8,
        distinct=True,
        help="radii of the push",
    )
    draws: int = options.draws(200, 2_000, at_least=20, at_most=20_000)
    dims: tuple[int, ...] = option(
        (6, 60, 600),
        at_least=6,
        at_most=3_000,
        shortest=2,
        longest=4,
        ascending=True,
        help="dimensions that are compared",
    )

    def check(self) -> None:
        """A clear gap between the two largest."""
        top, second = sorted(self.eigenvalues)[:-3:-1]
        if top - second < 0.2 or (top**2 - second**2) / 4 < 3 * FALL:
            raise ValueError(f"eigenvalues: the largest clearly above the next, got {self.eigenvalues}.")


def in_ball(rng: np.random.Generator, draws: int, d: int) -> np.ndarray:
    x = rng.normal(size=(draws, d))
    return x * (rng.uniform(size=(draws, 1)) ** (1 / d) / np.linalg.norm(x, axis=1, keepdims=True))


def escape_times(values: np.ndarray, start: np.ndarray, rate: float, level: float, limit: int) -> np.ndarray:
    """Steps until f falls below a level, for a diagonal matrix; the limit where it does not."""
    x, found = start, np.full(len(start), limit)
    left, square = np.arange(len(start)), (values**2).sum()
    for step in range(limit):
        norm = (x**2).sum(1)
        below = (square - 2 * (values * x**2).sum(1) + norm**2) / 4 <= level
        found[left[below]] = step
        left, x, norm = left[~below], x[~below], norm[~below]
        if not len(left):
            break
        x = x - rate * (norm[:, None] - values) * x
    return found


@study("book/lem-7.3.1", section="7.3", title="Time to escape a saddle")
def run(config: Config) -> xr.Dataset:
    r"""Let $|\nabla f(\tilde x)| \le \epsilon$ and
    $\lambda_{\min}(\nabla^2f(\tilde x)) = -\gamma \le -\sqrt{\rho\epsilon}$. From $\tilde x$ pushed by $\eta\xi$,
    $\xi$ uniform in a ball of radius $r$, gradient descent lowers $f$ by $\tilde\Omega(T\epsilon^2/\ell)$ within
    $T = \tilde\Theta(\ell/\sqrt{\rho\epsilon})$ steps, with high probability. The part along the way out grows by
    $1 + \eta\gamma$ a step: a ten times smaller push costs $\ln 10/\ln(1 + \eta\gamma)$ steps more, and a ten times
    larger dimension half of that.
    """
    rng = np.random.default_rng(config.seed)
    values = np.sort(config.eigenvalues)[::-1]
    saddle = rank_one.second_best(np.diag(values))
    level, limit = (values[1:] ** 2).sum() / 4 + FALL, int(80 / np.log(escape.growth(config.rate, saddle.curvature)))
    push = in_ball(rng, config.draws, len(values))
    times = [escape_times(values, saddle.point + r * push, config.rate, level, limit) for r in config.radii]
    still = saddle.point
    for _ in range(500):
        still = still - config.rate * rank_one.gradient(np.diag(values), still)
    # The setting of the lemma: the step 1/l, the largest epsilon for which this is still a saddle.
    gamma, step, eps = saddle.curvature, 1 / saddle.smooth, saddle.curvature**2 / saddle.turn
    kappa = saddle.smooth / gamma
    T = int(np.ceil(2 * kappa * np.log(len(values) * kappa * 100)))
    x = saddle.point + step * eps * in_ball(rng, config.draws, len(values))
    for _ in range(T):
        x = x - step * rank_one.gradient(np.diag(values), x)
    fall = rank_one.objective(np.diag(values), saddle.point) - rank_one.objective(np.diag(values), x)
    wide = []
    for d in config.dims:
        rest = np.linspace(values[2], 0.05, d - 2)
        point, start = np.zeros(d), 1e-4 * in_ball(rng, config.draws, d)
        point[1] = np.sqrt(values[1])
        spectrum = np.concatenate([values[:2], rest])
        wide.append(escape_times(spectrum, point + start, config.rate, (spectrum[1:] ** 2).sum() / 4 + FALL, limit))
    return xr.Dataset(
        {
            "time": (("radius", "draw"), np.stack(times)),
            "wide": (("dim", "draw"), np.stack(wide)),
            "limit": limit,
            "fall": ("draw", fall),
            "needed": T * eps**2 / saddle.smooth,
            "T": T,
            "still": np.abs(still - saddle.point).max(),
        },
        coords={"radius": list(config.radii), "dim": list(config.dims)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    values = np.sort(config.eigenvalues)[::-1]
    gamma = values[0] - values[1]
    decade = escape.steps_per_decade(config.rate, gamma)
    yield claim("gradient-descent-saddle", "gradient descent at the saddle: how far it moves in 500 steps").zero(
        data.still, 1e-4, "rounding grows, from 1e-16"
    )
    small, large = min(config.radii), max(config.radii)
    decades = np.log10(large / small)
    slope = (data.time.sel(radius=small) - data.time.sel(radius=large)).mean() / decades
    yield claim(
        "steps-decade-radius",
        "steps a decade of the radius, for the same pushes",
        given=decades >= 1,
        otherwise="the radii are within a decade",
    ).equal(
        decade,
        slope,
        (1 + 20 * large * decade) / decades,
        "whole steps, and what the largest push does beyond the first order",
    )
    order = sorted(config.radii)
    for r in order[1:]:
        step = np.log10(r / order[0])
        yield claim(
            f"median-escape-{r:g}-{order[0]:g}-decades",
            f"median escape from {r:g} against {order[0]:g}, over the decades between",
            given=step >= 1.9,
            otherwise="less than two decades apart",
        ).equal(
            decade,
            (np.median(data.time.sel(radius=order[0])) - np.median(data.time.sel(radius=r))) / step,
            (1 + 20 * r * decade) / step,
            "the same",
        )
    yield claim(
        f"share-pushes-after-{int(data['T'])}",
        f"share of pushes after which f falls by T eps^2/l within T = {int(data['T'])} steps",
    ).share(
        1.0,
        data.fall >= data.needed,
        data.fall > -np.inf,
        "the chance to stay is a hundredth of the push's own",
        within=0.03,
        otherwise="no push",
    )
    first, last = config.dims[0], config.dims[-1]
    middle = [_middle(d) for d in (first, last)]
    near, far = (data.wide.sel(dim=d).values for d in (first, last))
    (apart,) = bootstrap(lambda kept: np.median(far[kept]) - np.median(near[kept]), config.draws)
    yield claim(
        f"median-escape-{last}-dimensions-{first}", f"median escape in {last} dimensions less that in {first}"
    ).equal(
        np.log(middle[0] / middle[1]) / np.log(1 + config.rate * gamma),
        apart,
        1.0,
        "medians of the push along the way out; whole steps",
    )


def _middle(d: int) -> float:
    """The median size of one coordinate of a uniform point of the unit ball."""
    from scipy import optimize

    return float(optimize.brentq(lambda m: float(escape.slab_share(2 * m, d)) - 0.5, 0, 1))


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    values = np.sort(config.eigenvalues)[::-1]
    decade = escape.steps_per_decade(config.rate, values[0] - values[1])
    radii = np.array(config.radii)
    low, mid, high = np.quantile(data.time, [0.05, 0.5, 0.95], axis=1)
    left.errorbar(radii, mid, [mid - low, high - mid], fmt="o", ms=6, label="median, 5 to 95 %")
    sheet.guide(left, radii, mid[0] - decade * np.log10(radii / radii[0]), f"{decade:.2f} steps a decade")
    sheet.label(left, "A smaller push", "radius of the push", "steps to escape", "best", xscale="log")
    dims = np.array(config.dims)
    low, mid, high = np.quantile(data.wide, [0.05, 0.5, 0.95], axis=1)
    right.errorbar(dims, mid, [mid - low, high - mid], fmt="o", ms=6, label="median, 5 to 95 %")
    sheet.guide(right, dims, mid[0] + decade / 2 * np.log10(dims / dims[0]), "half as many a decade")
    sheet.label(right, "A larger space", "dimension", "steps to escape", "best", xscale="log")
