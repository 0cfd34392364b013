"""Lemma 2.1.4: how far a step of gradient descent lowers a smooth function, and the step of problem 2.1.1."""

from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy import optimize

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.orbits import orbit

Smooth = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray], float]
"""A function of rows of weights, its gradient, and a bound of all its curvatures."""


class Config(Seeded):
    features: int = options.features(6, at_most=100)
    samples: int = options.samples(30, at_most=10_000)
    steps: int = options.steps(60, 500, at_least=5, at_most=10_000)
    eta_lambdas: tuple[float, ...] = options.eta_lambdas((0.25, 0.5, 1.0, 1.5, 1.9), below=2, distinct=True, longest=20)
    too_large: float = option(2.1, at_least=2.001, at_most=3, help="a step size past the edge, times the smoothness")
    pairs: int = scaled(smoke=2_000, laptop=20_000, at_least=10, at_most=10**5, help="random pairs of points")
    radii: tuple[float, ...] = option(
        (1e-1, 1e-2, 1e-3), at_least=1e-3, at_most=1, distinct=True, longest=10, help="of the ball that a step stays in"
    )


def neuron_bend() -> float:
    r"""The largest curvature of $\frac12(\tanh z - 1)^2$ over all $z$, to more digits than needed."""
    z = np.linspace(-3, 3, 200_001)
    t = np.tanh(z)
    return float(np.abs((1 - t**2) ** 2 - 2 * (t - 1) * t * (1 - t**2)).max())


def functions(config: Config, rng: np.random.Generator) -> dict[str, Smooth]:
    """Two convex functions, two that are not convex, and the parabola on which the lemma is an equality."""
    x = rng.normal(size=(config.samples, config.features)) / np.sqrt(config.features)
    y = np.sign(rng.normal(size=config.samples))
    signed, n = y[:, None] * x, config.samples
    top = float(np.linalg.eigvalsh(x.T @ x / n)[-1])
    scales = rng.uniform(0.05, 1, config.features)
    scales[0] = 1.0
    margin = lambda w: w @ signed.T  # noqa: E731
    return {
        "quadratic": (lambda w: (scales * w**2).sum(-1) / 2, lambda w: scales * w, 1.0),
        "logistic": (
            lambda w: np.logaddexp(0, -margin(w)).mean(-1),
            lambda w: -(1 / (1 + np.exp(margin(w)))) @ signed / n,
            top / 4,
        ),
        "neuron": (
            lambda w: ((np.tanh(w @ x.T) - y) ** 2).mean(-1) / 2,
            lambda w: ((np.tanh(w @ x.T) - y) * (1 - np.tanh(w @ x.T) ** 2)) @ x / n,
            neuron_bend() * top,
        ),
        "parabola": (lambda w: (w**2).sum(-1) / 2, lambda w: w, 1.0),
        "cosines": (lambda w: np.cos(w @ x.T).mean(-1), lambda w: -np.sin(w @ x.T) @ x / n, top),
    }


@study("book/lem-2.1.4", section="2.1", title="The descent lemma")
def run(config: Config) -> xr.Dataset:
    r"""If all curvatures of $f$ lie in $[-L, L]$, then $f(w') \le f(w) + \nabla f(w)\cdot(w' - w) + \frac L2\|w' -
    w\|^2$. A step of gradient descent then has $f(w_{t+1}) \le f(w_t) - (\eta - \eta^2L/2)\|\nabla f(w_t)\|^2$. So the
    step descends for every $\eta < 2/L$, and by at least $\frac\eta2\|\nabla f\|^2$ for $\eta \le 1/L$. On a parabola
    this is an equality, and no step above $2/L$ descends. Within a ball of radius $\epsilon$ the linear model is least
    at $w_t - \epsilon\nabla f(w_t)/\|\nabla f(w_t)\|$.
    """
    rng = np.random.default_rng(config.seed)
    found = functions(config, rng)
    start = rng.normal(size=config.features)
    rates = np.array(config.eta_lambdas)
    losses, slopes, excess, ball = [], [], [], []
    one, other = rng.normal(size=(2, config.pairs, config.features))
    direction = rng.normal(size=(config.pairs, config.features))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    for f, gradient, smooth in found.values():
        step = lambda w, of=gradient, smooth=smooth: w - rates[:, None] / smooth * of(w)  # noqa: E731
        path = orbit(step, np.tile(start, (len(rates), 1)), config.steps)
        losses.append(np.stack([f(w) for w in path], 1))
        slopes.append(np.stack([(gradient(w) ** 2).sum(-1) / smooth for w in path], 1))
        gap = other - one
        bound = f(one) + (gradient(one) * gap).sum(1) + smooth / 2 * (gap**2).sum(1)
        excess.append(((f(other) - bound) / np.maximum(np.abs(bound), 1)).max())
        # How f falls from the start along minus its gradient, and along random directions.
        slope = gradient(start[None])[0]
        size = np.linalg.norm(slope)
        fall = [(f(start - r * slope / size) - f(start)) / (r * size) for r in config.radii]
        best = [((f(start + r * direction) - f(start)) / (r * size)).min() for r in config.radii]
        ball.append((fall, best, [smooth * r / (2 * size) for r in config.radii]))
    past = orbit(lambda w: w - config.too_large * w, start, 20)  # on the parabola, past the edge
    least = optimize.minimize(
        lambda d: d @ slope / size,
        0.3 * direction[0],
        jac=lambda d: slope / size,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda d: 1 - d @ d, "jac": lambda d: -2 * d},
        options={"ftol": 1e-14},
    )
    return xr.Dataset(
        {
            "loss": (("function", "rate", "step"), np.stack(losses)),
            "squares": (("function", "rate", "step"), np.stack(slopes)),
            "excess": ("function", excess),
            "ball": (("function", "kind", "radius"), np.array(ball)),
            "past": ("early", (np.stack(past) ** 2).sum(1) / 2),
            "solved": ("feature", least.x),
            "steepest": ("feature", -slope / size),
        },
        coords={"function": list(found), "rate": rates, "kind": ["fall", "best", "bend"], "radius": list(config.radii)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    scale = np.maximum(np.abs(data.loss).max("step"), 1)
    fall = (data.loss.isel(step=slice(None, -1)) - data.loss.isel(step=slice(1, None)).values) / scale
    squares, rate, rounding = data.squares.isel(step=slice(None, -1)) / scale, data.rate, 1e-14
    beyond = fall - (rate - rate**2 / 2) * squares
    why = "an inequality, up to rounding"
    yield claim("second-order-bound", "all functions: largest excess of $f$ over the second-order bound (2.2)").at_most(
        0, data.excess.max(), why, slack=rounding
    )
    for name in data.function.values:
        sentence = rf"{name}: least fall of a step beyond $(\eta - \eta^2L/2)|\nabla f|^2$, for $\eta < 2/L$"
        yield claim(f"fall-{name}", sentence).at_least(0, beyond.sel(function=name).min(), why, slack=rounding)
    small = (fall - rate / 2 * squares)[:, rate <= 1]
    sentence = r"all functions: least fall beyond $(\eta/2)|\nabla f|^2$, for $\eta \le 1/L$"
    yield claim("small-steps", sentence, given=small.size, otherwise="no step size is so small").at_least(
        0, lambda: small.min(), why, slack=rounding
    )
    fallen, best, bend = (data.ball.sel(kind=kind) for kind in ("fall", "best", "bend"))
    sentence = r"ball: fall along $-\nabla f$ less that of the linear model, over the second-order bound"
    why += " of small differences"
    yield claim("ball-model", sentence).at_most(1, (np.abs(fallen + 1) / bend).max(), why, slack=1e-4)
    sentence = rf"ball: what the furthest fall in {config.pairs:,} directions leaves of that of $-\nabla f$"
    yield claim("ball-directions", sentence).at_least(0, ((best + 1 + bend) / (1 + bend)).min(), why, slack=1e-8)
    sentence = r"parabola: fall of a step less $(\eta - \eta^2L/2)|\nabla f|^2$"
    yield claim("parabola", sentence).zero(largest(beyond.sel(function="parabola")), rounding, "an equality: rounding")
    growth = (data.past[-1] / data.past[0]) ** (1 / 20)
    yield claim("parabola-growth", f"parabola: growth of $f$ at a step of {config.too_large:g}$/L$").equal(
        (config.too_large - 1) ** 2, growth, 0, "rounding of twenty steps", relative=1e-13
    )
    descents = int((np.diff(data.past) < 0).sum())
    yield claim("past-the-edge", "parabola: steps past $2/L$ that descend").count(0, descents, "footnote 3 is sharp")
    sentence = r"linear model in the unit ball: its least point, found by SLSQP, from $-\nabla f/|\nabla f|$"
    yield claim("least-point", sentence).zero(
        largest(data.solved, data.steepest), 1e-6, "the root of the solver's tolerance", note="problem 2.1.1"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    for i, rate in enumerate(data.rate.values):
        left.plot(data.loss.sel(function="cosines", rate=rate), color=f"C{i}", label=f"{rate:g}")
    sheet.label(left, r"Mean of cosines, by $\eta L$", "step", "$f$", {"ncols": 2})
    at = np.linspace(0, 2, 101)
    right.axhline(0, color=sheet.faint())
    sheet.guide(right, at, at - at**2 / 2, r"$\eta L - (\eta L)^2/2$")
    for i, name in enumerate(data.function.values):
        own = data.sel(function=name)
        fall = -np.diff(own.loss)
        kept = own.squares.values[:, :-1] > 1e-6 * float(own.squares.max())
        for rate, y, size, good in zip(data.rate.values, fall, own.squares.values[:, :-1], kept, strict=True):
            some = (y[good] / size[good])[:: max(1, good.sum() // 12)]
            right.plot(np.full(len(some), rate) + 0.02 * (i - 2), some, ".", color=f"C{i}", ms=5)
        right.plot([], [], ".", color=f"C{i}", label=name)
    sheet.label(right, "Fall of a step", r"$\eta L$", r"fall over $|\nabla f|^2/L$", {"fontsize": 8})
