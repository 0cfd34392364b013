"""Figure 2.2: a valley hidden in a cube, which no method finds without looking everywhere."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, bootstrap, claim, estimate, option, options, scaled, sheet, study

STEP = 0.17
"""Of gradient descent, in units of the cube."""


class Config(Seeded):
    dimensions: int = scaled(smoke=7, laptop=10, at_least=2, at_most=11, help="of the largest cube")
    draws: int = options.draws(200, 2_000, at_least=20, at_most=10**4)
    valley: float = option(4.0, above=0, at_most=100, help="how deep the valley is")


@study("book/fig-2.2", section="2.5", title="A needle in a haystack")
def run(config: Config) -> xr.Dataset:
    r"""On a cube in $\mathbb R^n$ let the loss fall evenly, but for a deep valley in one of its $2^n$ corners. Values
    and gradients outside say nothing of where it is. Averaged over its places, every method needs at least $(2^n +
    1)/2$ queries to meet it: each dimension doubles them, and no bound on the time to a global minimum can be
    polynomial in the dimension.
    """
    random = np.random.default_rng(config.seed)
    sizes = list(range(1, config.dimensions + 1))
    x = random.uniform(size=(config.draws, config.dimensions))
    places = (x >= 0.5)[::-1].copy()  # of other points
    seen = [_loss(x, place, config.valley) for place in (places, ~places)]
    apart = [_inside(x, place) for place in (places, ~places)]
    outside = ~(apart[0] | apart[1])
    return xr.Dataset(
        {
            "search": ("dimension", [_search(random, n) for n in sizes]),
            "descent": (("dimension", "draw"), np.array([_descend(random, n, config.draws) for n in sizes])),
            "slope": np.abs(seen[0][1][outside] * config.dimensions - 1).max(initial=0.0),
            "differ": max(np.abs(a - b)[outside].max(initial=0.0) for a, b in zip(*seen, strict=True)),
            "lowest": float(_loss(np.where(places, 0.75, 0.25), places, config.valley)[0].max()),
        },
        coords={"dimension": sizes},
    )


def _inside(x: np.ndarray, place: np.ndarray) -> np.ndarray:
    return ((x >= 0.5) == place).all(-1)


def _loss(x: np.ndarray, place: np.ndarray, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the coordinates, less a bump with level sides in the hidden corner; and its gradient."""
    n = x.shape[-1]
    sines = np.sin(2 * np.pi * x)
    bump = depth * (sines**2).prod(-1) * _inside(x, place)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(sines == 0, 0.0, 4 * np.pi * np.cos(2 * np.pi * x) / sines)
    return x.mean(-1) - bump, 1 / n - bump[..., None] * slope


def _search(random: np.random.Generator, n: int) -> float:
    """Mean queries of one look at the middle of each corner, in random order, over all places of the valley."""
    places = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    looks = random.permutation(np.where(places, 0.75, 0.25))
    # A query differs from the even slope in the valley only.
    queries = [1 + int(np.argmax(_inside(looks, place))) for place in places]
    return float(np.mean(queries))


def _descend(random: np.random.Generator, n: int, draws: int) -> np.ndarray:
    """Queries of gradient descent in the cube, which starts anew where it rests."""
    place = random.uniform(size=(draws, n)) < 0.5
    x, found = random.uniform(size=(draws, n)), np.full(draws, np.nan)
    for query in range(1, 400 * 2**n):
        going = np.isnan(found)
        found[going & _inside(x, place)] = query
        going = np.isnan(found)
        if not going.any():
            break
        after = np.maximum(x[going] - STEP, 0)  # what is still going has seen the even slope only
        rests = (after == x[going]).all(1, keepdims=True)
        x[going] = np.where(rests, random.uniform(size=after.shape), after)
    return found


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim(
        "values-gradients-outside",
        "values and gradients outside both valleys, for two hiding places: largest difference",
    ).zero(data.differ, 0.0, "not a bit")
    yield claim("outside-gradient-s", "outside: the gradient's entries times n, less 1").zero(
        data.slope, 1e-15, "the even slope: rounding"
    )
    yield claim("valley-s-floor", "the valley's floor, where all else is between 0 and 1").at_most(
        1 - config.valley, data.lowest, "its depth"
    )
    bound = (2.0**data.dimension.values + 1) / 2
    for n, least, search, queries in zip(data.dimension.values, bound, data.search, data.descent.values, strict=True):
        yield claim(f"n-{n}-mean-queries", f"n = {n}: mean queries over all places, one look at each corner").equal(
            least, search, 1e-12, "counted"
        )
        yield claim(
            f"n-{n}-mean-queries-gradient", f"n = {n}: mean queries of gradient descent with new starts"
        ).at_least(least, estimate(queries), "no way needs fewer")
    (growth,) = bootstrap(lambda kept: _growth(data.dimension.values, data.descent.values[:, kept]), config.draws)
    yield claim(
        "gradient-descent-factor", "gradient descent: factor of the queries with each dimension, fitted"
    ).at_least(1.5, growth, "exponential growth", note="no less than twice in the long run")


def _growth(n: np.ndarray, queries: np.ndarray) -> float:
    return float(np.exp2(np.polyfit(n, np.log2(queries.mean(1)), 1)[0]))


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    line = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(line, line), -1)
    place = np.array([True, True])
    values = _loss(grid, place, config.valley)[0]
    shown = left.contourf(line, line, values, 30, cmap="viridis")
    figure.colorbar(shown, ax=left, label="loss")
    for start in ((0.95, 0.4), (0.45, 0.9), (0.3, 0.15)):
        path = np.array(start) - STEP * np.arange(7)[:, None]
        path = np.maximum(path, 0)
        left.plot(*path.T, "o-", color="white", ms=3, lw=0.8)
    sheet.label(left, "Gradient descent beside the valley", "$x_1$", "$x_2$", aspect="equal")
    right.plot(data.dimension, data.search, "o", ms=5, label="one look at each corner")
    right.plot(data.dimension, data.descent.mean("draw"), "o-", ms=4, label="gradient descent with new starts")
    sheet.guide(right, data.dimension, (2.0**data.dimension + 1) / 2, "$(2^n + 1)/2$")
    right.set_yscale("log", base=2)
    sheet.label(right, "Queries until it is met", "dimension $n$", "mean queries", "upper left")
