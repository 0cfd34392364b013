"""Problem 2.5.3: the variance of a batch, and up to which size a larger batch pays."""

import itertools
import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, ratio_of_means, sheet, study
from secant.studies.shared.numerics.differences import largest
from secant.theory.descent import rates

M, DIM = 2.0, 2
FEW = 4
"""Samples of a small data set, whose batches are all enumerated."""


class Config(Seeded):
    samples: int = options.samples(50, at_least=20, at_most=500)
    batches: tuple[int, ...] = options.batches(
        (1, 3, 10, 30, 100, 1_000), at_most=10**5, shortest=2, longest=8, ascending=True
    )
    accuracy: float = option(0.2, at_least=0.1, at_most=0.8, help="mean squared gradient to reach, over the first one")
    draws: int = options.draws(20, 200, at_least=4, at_most=1_000)


@study("book/prob-2.5.3", section="2.5", title="Batches pay up to a size")
def run(config: Config) -> xr.Dataset:
    r"""The gradient of a batch of $B$ samples, drawn with replacement, has the variance $\gamma^2/B$. For $\eta \le
    1/\beta$ then $\mathbb E\frac1T\sum_t|\nabla_t|^2 \le \frac{2M}{T\eta} + \frac{\beta\eta\gamma^2}B$. So a mean
    squared gradient of $\epsilon^2$ takes $T = O(M\beta/\epsilon^2 + M\beta\gamma^2/B\epsilon^4)$ steps. Larger batches
    speed training up linearly as long as $B \lesssim \gamma^2/\epsilon^2$, and no further.
    """
    random = np.random.default_rng(config.seed)
    a = random.standard_normal((config.samples, DIM)) / math.sqrt(DIM)
    smooth = float(np.linalg.norm(a, 2) ** 2 / config.samples)
    moment = float((a**2).sum(1).mean())
    angle = random.uniform(0, 2 * np.pi)
    start = math.sqrt(DIM) * np.array([math.cos(angle), math.sin(angle)])
    slopes = -np.sin(a @ start)[:, None] * a
    first = float((slopes.mean(0) ** 2).sum())
    goal = config.accuracy * first
    sizes = [*config.batches, 0]  # the last takes all samples, each once
    found, planned, lrs, reached = [], [], [], []
    for batch in sizes:
        lr, steps = rates.batch_plan(M, smooth, moment, batch or math.inf, math.sqrt(goal))
        needed, mean = _run(random, a, start, float(lr), math.ceil(steps), batch, goal, config.draws)
        found.append(needed)
        reached.append(mean)
        planned.append(math.ceil(steps))
        lrs.append(float(lr))
    many = (config.draws, 200)
    off = (_batch(random, config.samples, b, math.prod(many)) @ slopes - slopes.mean(0) for b in config.batches)
    spread = [(one**2).sum(1).reshape(many).mean(1) for one in off]
    return xr.Dataset(
        {
            "needed": (("size", "draw"), np.array(found)),
            "mean": (("size", "draw"), np.array(reached)),
            "planned": ("size", planned),
            "lr": ("size", lrs),
            "smooth": smooth,
            "moment": moment,
            "goal": goal,
            "spread": (("batch", "draw"), np.array(spread)),
            "variance": float(((slopes - slopes.mean(0)) ** 2).sum(1).mean()),
            "slopes": (("wave", "dim"), slopes),
        },
        coords={"size": sizes, "batch": list(config.batches)},
    )


def _batch(random: np.random.Generator, samples: int, batch: int, draws: int) -> np.ndarray:
    """Weights of the samples in a random batch; a batch of size 0 stands for all samples."""
    if not batch:
        return np.full((draws, samples), 1 / samples)
    return random.multinomial(batch, np.full(samples, 1 / samples), draws) / batch


def _run(
    random: np.random.Generator,
    a: np.ndarray,
    start: np.ndarray,
    lr: float,
    steps: int,
    batch: int,
    goal: float,
    draws: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The step at which the running mean reaches the goal, and the mean of all steps of the plan."""
    w, total, needed = np.tile(start, (draws, 1)), np.zeros(draws), np.full(draws, np.nan)
    for step in range(1, steps + 1):
        sines = np.sin(w @ a.T)
        total += ((sines @ a / len(a)) ** 2).sum(1)
        needed[np.isnan(needed) & (total <= goal * step)] = step
        w = w + lr * (_batch(random, len(a), batch, draws) * sines) @ a
    return needed, total / steps


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    few = data.slopes.values[:FEW]
    spread, middle = ((few - few.mean(0)) ** 2).sum(1).mean(), few.mean(0)
    for size in (2, 3):
        for name, chosen, factor in (
            ("with replacement", itertools.product(few, repeat=size), 1.0),
            ("without", itertools.combinations(few, size), (FEW - size) / (FEW - 1)),
        ):
            exact = np.mean([((np.mean(batch, 0) - middle) ** 2).sum() for batch in chosen]) / spread * size
            sentence = rf"all batches of {size} out of {FEW}, {name}: variance over $\gamma^2/B$"
            note = "" if factor == 1 else "$(n - B)/(n - 1)$ is left of it"
            yield claim(f"all-{size}-{name}", sentence).equal(factor, exact, 1e-13, "counted: rounding", note=note)
    for size in config.batches:
        ratio = estimate(data.spread.sel(batch=size) / data.variance * size)
        yield claim(f"variance-{size}", rf"batches of {size}: variance over $\gamma^2/B$").equal(
            1, ratio, 0, "exact at every size"
        )
    goal, knee = float(data.goal), 2 * float(data.moment) / float(data.goal)
    for size in data["size"].values:
        name = f"batches of {size}" if size else "all samples"
        yield claim(f"mean-{size or 'all'}", rf"{name}: mean $|\nabla|^2$ after $T$ steps, over $\epsilon^2$").at_most(
            1, estimate(data["mean"].sel(size=size) / goal), r"the bound at this $T$ and $\eta$"
        )
    below = [size for size in config.batches if size <= knee]
    plan, smooth, moment = data.sel({"size": below}), float(data.smooth), float(data.moment)
    bound = rates.batches(M, smooth, moment, np.array(below), plan.planned.values, plan.lr.values)
    sentence = r"the bound after $T$ steps over $\epsilon^2$, less 1, all $B$ up to $2\gamma^2/\epsilon^2$"
    yield claim("bound", sentence, given=below, otherwise="all batches are larger").zero(
        lambda: largest(bound / goal, 1), 1 / float(data.planned.min()), "steps are whole"
    )
    yield from speed(data, config, knee)


def speed(data: xr.Dataset, config: Config, knee: float) -> Findings:
    """How many steps larger batches save, and that very large batches save no more."""
    one, last, needed = config.batches[0], config.batches[-1], data.needed
    for size in (size for size in config.batches[1:] if size <= knee / 4):
        own, sentence = needed.sel(size=size), f"steps with batches of {one} over steps with batches of {size}"
        yield claim(f"gain-{size}", sentence, given=np.isfinite(own).any(), otherwise="no run has reached it").equal(
            size / one,
            ratio_of_means(needed.sel(size=one), own),
            size / one * (size / knee + 1 / own.mean()),
            r"the step size over $1/\beta$ is the next order, and steps are whole",
        )
    whole, sentence = needed.sel(size=0).mean(), f"steps with batches of {last} over steps with all samples"
    otherwise = f"a batch must exceed {4 * knee:.0f} to be beyond all use"
    yield claim("no-gain", sentence, given=last > 4 * knee, otherwise=otherwise).equal(
        1, lambda: estimate(needed.sel(size=last) / whole), knee / last + 1 / whole, "noise that is left; whole steps"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    sizes = np.array(config.batches)
    sheet.spread(left, data.spread / data.variance, "draw", "measured", color="C0")
    sheet.guide(left, sizes, 1 / sizes, "$1/B$")
    scales = {"xscale": "log", "yscale": "log"}
    sheet.label(left, "Variance of a batch", "batch $B$", r"variance over $\gamma^2$", "best", **scales)
    found = data.needed.sel(size=sizes)
    right.errorbar(sizes, found.mean("draw"), found.std("draw"), fmt="o-", ms=4, label="needed")
    right.plot(sizes, data.planned.sel(size=sizes), "s", ms=4, color="C1", label="enough, by the bound")
    fine = np.geomspace(sizes[0], sizes[-1], 200)
    plan = rates.batch_plan(M, float(data.smooth), float(data.moment), fine, math.sqrt(float(data.goal)))
    sheet.guide(right, fine, plan.steps)
    sheet.mark(right, x=2 * float(data.moment) / float(data.goal), label=r"$B = 2\gamma^2/\epsilon^2$", ls=":")
    sheet.mark(right, y=float(data.needed.sel(size=0).mean()), label="all samples", ls="-.")
    sheet.label(right, r"Steps to a mean squared gradient $\epsilon^2$", "batch $B$", "steps", "upper right", **scales)
