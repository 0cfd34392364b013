"""Lemma 7.3.1: one random push is enough to leave a saddle, in a time that grows with its logarithm."""

import numpy as np
import xarray as xr
from scipy import optimize

from secant.lab import Figure, Findings, Seeded, bootstrap, claim, option, options, sheet, study
from secant.studies.shared.landscapes.balls import in_ball
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.landscape import escape, rank_one

FALL = 0.1
"""A run counts as escaped when its loss is this far above the minimum."""


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.05, at_most=3.5, shortest=3, longest=12, help="of the matrix"
    )
    rate: float = option(0.05, at_least=0.01, at_most=0.06, help="step size of the runs")
    radii: tuple[float, ...] = option(
        (1e-2, 1e-4, 1e-6, 1e-8), at_least=1e-12, at_most=1e-2, shortest=2, longest=8, distinct=True, help="of the push"
    )
    draws: int = options.draws(200, 2_000, at_least=20, at_most=20_000)
    dims: tuple[int, ...] = option(
        (6, 60, 600), at_least=6, at_most=3_000, shortest=2, longest=4, ascending=True, help="dimensions to compare"
    )

    def check(self) -> None:
        """A clear gap between the two largest."""
        top, second = sorted(self.eigenvalues)[:-3:-1]
        if top - second < 0.2 or (top**2 - second**2) / 4 < 3 * FALL:
            raise ValueError(f"eigenvalues: the largest clearly above the next, got {self.eigenvalues}.")


def escape_times(values: np.ndarray, start: np.ndarray, rate: float, level: float, limit: int) -> np.ndarray:
    """Steps until f falls below a level, for a diagonal matrix, or the limit."""
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
    $1 + \eta\gamma$ a step. A ten times smaller push therefore costs $\ln 10/\ln(1 + \eta\gamma)$ more steps, and a ten
    times larger dimension costs half as many.
    """
    rng = np.random.default_rng(config.seed)
    values = np.sort(config.eigenvalues)[::-1]
    saddle = rank_one.second_best(np.diag(values))
    level, limit = (values[1:] ** 2).sum() / 4 + FALL, int(80 / np.log(escape.growth(config.rate, saddle.curvature)))
    push = in_ball(rng, config.draws, len(values))
    times = [escape_times(values, saddle.point + r * push, config.rate, level, limit) for r in config.radii]
    M = np.diag(values)
    still = orbit(lambda x: x - config.rate * rank_one.gradient(M, x), saddle.point, 500)[-1]
    # The setting of the lemma: the step 1/l, and the largest epsilon for which this point is still a saddle.
    gamma, step, eps = saddle.curvature, 1 / saddle.smooth, saddle.curvature**2 / saddle.turn
    kappa = saddle.smooth / gamma
    T = int(np.ceil(2 * kappa * np.log(len(values) * kappa * 100)))
    x = saddle.point + step * eps * in_ball(rng, config.draws, len(values))
    for _ in range(T):
        x = x - step * rank_one.gradient(M, x)
    fall = rank_one.objective(M, saddle.point) - rank_one.objective(M, x)
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
    values, T = np.sort(config.eigenvalues)[::-1], int(data["T"])
    gamma = values[0] - values[1]
    decade = escape.steps_per_decade(config.rate, gamma)
    yield claim("still", "gradient descent at the saddle: distance moved in 500 steps").zero(
        data.still, 1e-4, "rounding grows, from 1e-16"
    )
    small, *rest = sorted(config.radii)
    large = rest[-1]
    decades = np.log10(large / small)
    slope = (data.time.sel(radius=small) - data.time.sel(radius=large)).mean() / decades
    within, otherwise = (1 + 20 * large * decade) / decades, "the radii are within a decade"
    why = "whole steps, and what the largest push does beyond the first order"
    sentence = "steps a decade of the radius, for the same pushes"
    yield claim("decade", sentence, given=decades >= 1, otherwise=otherwise).equal(decade, slope, within, why)
    first = np.median(data.time.sel(radius=small))
    for r in rest:
        step, sentence = np.log10(r / small), f"median escape from {r:g} against {small:g}, over the decades between"
        otherwise = "less than two decades apart"
        yield claim(f"median-{r:g}", sentence, given=step >= 1.9, otherwise=otherwise).equal(
            decade, (first - np.median(data.time.sel(radius=r))) / step, (1 + 20 * r * decade) / step, why
        )
    yield claim("fall", rf"share of pushes after which $f$ falls by $T\epsilon^2/\ell$ within $T = {T}$ steps").share(
        1.0,
        data.fall >= data.needed,
        data.fall > -np.inf,
        "the chance to stay is a hundredth of the push's own",
        within=0.03,
        otherwise="no push",
    )
    few, many = config.dims[0], config.dims[-1]
    near, far = (data.wide.sel(dim=d).values for d in (few, many))
    (apart,) = bootstrap(lambda kept: np.median(far[kept]) - np.median(near[kept]), config.draws)
    exact = np.log(_middle(few) / _middle(many)) / np.log(1 + config.rate * gamma)
    yield claim("dimensions", f"median escape in {many} dimensions less that in {few}").equal(
        exact, apart, 1.0, "medians of the push along the way out; whole steps"
    )


def _middle(d: int) -> float:
    """The median size of one coordinate of a uniform point of the unit ball."""
    return float(optimize.brentq(lambda m: float(escape.slab_share(2 * m, d)) - 0.5, 0, 1))


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    values = np.sort(config.eigenvalues)[::-1]
    decade = escape.steps_per_decade(config.rate, values[0] - values[1])
    radii = np.array(config.radii)
    for axes, at, times, power, name, title, x in (
        (left, radii, data.time, -1, f"{decade:.2f} steps a decade", "A smaller push", "radius of the push"),
        (right, np.array(config.dims), data.wide, 1 / 2, "half as many a decade", "A larger space", "dimension"),
    ):
        low, mid, high = np.quantile(times, [0.05, 0.5, 0.95], axis=1)
        axes.errorbar(at, mid, [mid - low, high - mid], fmt="o", ms=6, label="median, 5 to 95 %")
        sheet.guide(axes, at, mid[0] + power * decade * np.log10(at / at[0]), name)
        sheet.label(axes, title, x, "steps to escape", "best", xscale="log")
