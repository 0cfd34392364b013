"""Figure 2.2: a valley hidden in a cube, which no method finds without looking everywhere."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, bootstrap, claim, estimate, option, options, scaled, sheet, study
from secant.studies.shared.numerics.exponents import slope

STEP = 0.17
"""Step size of gradient descent times the slope, in units of the cube."""


class Config(Seeded):
    dimensions: int = scaled(smoke=7, laptop=10, at_least=2, at_most=11, help="dimension of the largest cube")
    draws: int = options.draws(200, 2_000, at_least=20, at_most=10**4)
    valley: float = option(4.0, above=0, at_most=100, help="depth of the valley")


@study("book/fig-2.2", section="2.5", title="A needle in a haystack")
def run(config: Config) -> xr.Dataset:
    r"""On a cube in $\mathbb R^n$ the loss falls evenly, except for a deep valley in one of its $2^n$ corners. Values
    and gradients outside the valley do not tell where the valley is. Averaged over the places of the valley, every
    method needs at least $(2^n + 1)/2$ queries to meet it. Each dimension doubles the queries, and no bound on the time
    to a global minimum can be polynomial in the dimension.
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
    """Mean queries over all places of the valley, with one look at the middle of each corner in random order."""
    places = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    looks = random.permutation(np.where(places, 0.75, 0.25))
    # Only a query in the valley differs from the even slope.
    queries = [1 + int(np.argmax(_inside(looks, place))) for place in places]
    return float(np.mean(queries))


def _descend(random: np.random.Generator, n: int, draws: int) -> np.ndarray:
    """Queries of gradient descent in the cube, which starts again when it comes to rest."""
    place = random.uniform(size=(draws, n)) < 0.5
    x, found = random.uniform(size=(draws, n)), np.full(draws, np.nan)
    for query in range(1, 400 * 2**n):
        going = np.isnan(found)
        found[going & _inside(x, place)] = query
        going = np.isnan(found)
        if not going.any():
            break
        after = np.maximum(x[going] - STEP, 0)  # these runs have only seen the even slope
        rests = (after == x[going]).all(1, keepdims=True)
        x[going] = np.where(rests, random.uniform(size=after.shape), after)
    return found


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    sentence = "values and gradients outside both valleys, for two hiding places: largest difference"
    yield claim("outside", sentence).zero(data.differ, 0.0, "not a bit")
    yield claim("even-slope", "outside: the gradient's entries times $n$, less 1").zero(
        data.slope, 1e-15, "the even slope: rounding"
    )
    yield claim("floor", "floor of the valley; the loss elsewhere lies between 0 and 1").at_most(
        1 - config.valley, data.lowest, "its depth"
    )
    dims, descent = data.dimension.values, data.descent.values
    for n, search, queries in zip(dims, data.search, descent, strict=True):
        least, sentence = (2.0**n + 1) / 2, f"$n = {n}$: mean queries"
        yield claim(f"search-{n}", f"{sentence} over all places, one look at each corner").equal(
            least, search, 1e-12, "counted"
        )
        yield claim(f"descent-{n}", f"{sentence} of gradient descent with new starts").at_least(
            least, estimate(queries), "no way needs fewer"
        )
    growth = lambda kept: np.exp2(slope(dims, np.log2(descent[:, kept].mean(1))))  # noqa: E731
    yield claim("growth", "gradient descent: factor of the queries with each dimension, fitted").at_least(
        1.5, bootstrap(growth, config.draws)[0], "exponential growth", note="no less than twice in the long run"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    line = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(line, line), -1)
    shown = left.contourf(line, line, _loss(grid, np.array([True, True]), config.valley)[0], 30, cmap="viridis")
    figure.colorbar(shown, ax=left, label="loss")
    for start in ((0.95, 0.4), (0.45, 0.9), (0.3, 0.15)):
        path = np.maximum(np.array(start) - STEP * np.arange(7)[:, None], 0)
        left.plot(*path.T, "o-", color="white", ms=3, lw=0.8)
    sheet.label(left, "Gradient descent beside the valley", "$x_1$", "$x_2$", aspect="equal")
    right.plot(data.dimension, data.search, "o", ms=5, label="one look at each corner")
    right.plot(data.dimension, data.descent.mean("draw"), "o-", ms=4, label="gradient descent with new starts")
    sheet.guide(right, data.dimension, (2.0**data.dimension + 1) / 2, "$(2^n + 1)/2$")
    right.set_yscale("log", base=2)
    sheet.label(right, "Queries until it is met", "dimension $n$", "mean queries", "upper left")
