"""Theorem 2.5.2: stochastic gradient descent on smooth losses, and which of its constants are sharp."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, bootstrap, claim, estimate, option, options, sheet, study
from secant.studies.shared.numerics import exponents
from secant.studies.shared.numerics.differences import largest
from secant.theory.descent import rates

M = 2.0
"""Losses between -1 and 1."""

COPIES = 64
"""Noisy parabolas over which each draw averages."""


class Config(Seeded):
    dim: int = options.dim(10, at_most=100)
    waves: int = option(100, at_least=2, at_most=1_000, help="cosines of the loss, one drawn in each step")
    steps: tuple[int, ...] = options.steps(
        (100, 300, 1_000, 3_000), (100, 1_000, 10**4), at_least=10, at_most=10**5, shortest=2, longest=6, ascending=True
    )
    draws: int = options.draws(16, 64, at_least=4, at_most=1_000)


@study("book/thm-2.5.2", section="2.5", title="Stochastic gradients find a small gradient")
def run(config: Config) -> xr.Dataset:
    r"""Let the gradients be unbiased with $\mathbb E|\hat\nabla_t|^2 \le \sigma^2$, and $\eta =
    \sqrt{M/\beta\sigma^2T}$. Then $\mathbb E\min_t|\nabla_t|^2 \le \mathbb E\frac1T\sum_t|\nabla_t|^2 \le
    2\sqrt{M\beta\sigma^2/T}$: a gradient below $\epsilon$ takes $1/\epsilon^4$ steps in place of $1/\epsilon^2$. The
    proof's bound is $\frac M{T\eta} + \frac{\eta\beta\sigma^2}2$. Its constant is $\frac32$ at this step size and
    $\sqrt2$ at the best step size. Each of its terms is attained.
    """
    random = np.random.default_rng(config.seed)
    a = random.standard_normal((config.waves, config.dim)) / math.sqrt(config.dim)
    smooth = float(np.linalg.norm(a, 2) ** 2 / config.waves)
    moment = float((a**2).sum(1).mean())
    T = np.array(config.steps)
    best = rates.stochastic_step(M, smooth, moment, T)
    lr = np.stack([best / math.sqrt(2), best])[:, :, None]  # rule, steps, draw
    shape = (2, len(T), config.draws)
    w = random.standard_normal((*shape, config.dim))
    total, least, sampled = np.zeros(shape), np.full(shape, np.inf), np.zeros(config.draws)
    for step in range(max(T)):
        kept = slice(sum(n <= step for n in config.steps), None)  # runs that are not over
        sines = np.sin(w[:, kept] @ a.T)
        gradient = -sines @ a / config.waves
        square = (gradient**2).sum(-1)
        total[:, kept] += square
        least[:, kept] = np.minimum(least[:, kept], square)
        which = random.integers(config.waves, size=(2, shape[1] - kept.start, config.draws))
        seen = -np.take_along_axis(sines, which[..., None], -1) * a[which]
        sampled += (seen[0, -1] ** 2).sum(-1)
        w[:, kept] = w[:, kept] - lr[:, kept, :, None] * seen
    return xr.Dataset(
        {
            "mean": (("rule", "steps", "draw"), total / T[:, None]),
            "least": (("rule", "steps", "draw"), least),
            "sampled": ("draw", sampled / max(T)),
            "noisy": (("what", "steps", "draw"), _alone(random, config, lr[0, :, 0], smooth, moment)),
            "smooth": smooth,
            "moment": moment,
            "lr": (("rule", "steps"), lr[:, :, 0]),
        },
        coords={"steps": T, "rule": ["stated", "best"], "what": ["parabola", "slope"]},
    )


def _alone(random: np.random.Generator, config: Config, lr: np.ndarray, smooth: float, moment: float) -> np.ndarray:
    r"""Losses that attain one term each: mean $|\nabla|^2$ on a parabola in its stationary law; the drop on a slope.

    The parabola's law is normal with the variance that a step keeps. On a slope of 1 the drop is the distance gone.
    """
    found = np.zeros((2, len(lr), config.draws))
    for i, (T, eta) in enumerate(zip(config.steps, lr, strict=True)):
        rho = 1 - eta * smooth
        spread = eta**2 * moment / (1 - rho**2)
        w = math.sqrt(spread) * random.standard_normal((config.draws, COPIES))
        for _ in range(T):
            found[0, i] += ((smooth * w) ** 2).mean(1) / T
            noise = random.standard_normal((config.draws, COPIES))
            w = rho * w - eta * math.sqrt(moment) * noise
            found[1, i] += eta * (1 + math.sqrt(moment) * noise[:, 0])
    return found


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    smooth, moment, T = float(data.smooth), float(data.moment), data.steps.values
    unit = np.sqrt(M * smooth * moment / T)
    yield claim("moment", r"mean $|\hat\nabla|^2$ over $\sigma^2$").at_most(
        1, estimate(data.sampled / moment), "a sine is at most 1"
    )
    for rule, constant, formula in (("stated", 1.5, r"$\frac{3}{2}$"), ("best", math.sqrt(2), r"$\sqrt{2}$")):
        for steps, one in zip(T, unit, strict=True):
            sentence = rf"{rule} step size, $T = {steps}$: mean $|\nabla|^2$ over $\sqrt{{M\beta\sigma^2/T}}$"
            found = estimate(data["mean"].sel(rule=rule, steps=steps) / one)
            yield claim(f"{rule}-{steps}", sentence).at_most(
                constant, found, f"the proof's constant, {formula}; 2 is printed"
            )
        bound = rates.stochastic(M, smooth, moment, T, data.lr.sel(rule=rule).values) / unit
        yield claim(f"{rule}-bound", f"{rule} step size: the proof's bound over its unit, less {formula}").zero(
            largest(bound, constant), 1e-13, "algebra: rounding"
        )
    others = rates.stochastic(M, smooth, moment, T[0], data.lr[1, 0].values * np.geomspace(0.1, 10, 101))
    yield claim("best-step", "the proof's bound at other step sizes, over the bound at the best").at_least(
        1, (others / rates.stochastic(M, smooth, moment, T[0])).min(), "a minimum, up to rounding", slack=1e-13
    )
    stated = data.lr.sel(rule="stated")
    for steps, lr in zip(T, stated.values, strict=True):
        # The second moment of the gradient estimate adds the noise and the gradient itself.
        whole = moment * 2 / (2 - lr * smooth)
        found = estimate(data.noisy.sel(what="parabola", steps=steps) / (lr * smooth * whole / 2))
        sentence = rf"parabola, $T = {steps}$: mean $|\nabla|^2$ over $\eta\beta\sigma^2/2$"
        yield claim(f"parabola-{steps}", sentence).equal(
            1, found, 0, "the second term is attained: its stationary law, exactly"
        )
    found = data.noisy.sel(what="parabola").values
    (power,) = bootstrap(lambda kept: exponents.rate(T, found[:, kept].mean(1)), config.draws)
    within = float((stated * smooth).max()) / (2 * math.log(T[-1] / T[0]))
    yield claim("parabola-exponent", r"parabola: exponent of the mean $|\nabla|^2$ in $T$").equal(
        -0.5, power, within, r"the next order in $\eta\beta$"
    )
    way = data.noisy.sel(what="slope", steps=T[-1]) / (T[-1] * stated.sel(steps=T[-1]))
    yield claim("slope", rf"slope of 1, $T = {T[-1]}$: $M/(T\eta)$").equal(
        1, estimate(way), 0, "the first term is attained: noise moves no mean"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (7.5, 4.6))
    T = data.steps.values
    unit = np.sqrt(M * float(data.smooth) * float(data.moment) / T)
    drawn = {
        "stated step size": data["mean"].sel(rule="stated", drop=True),
        "best step size": data["mean"].sel(rule="best", drop=True),
        "noisy parabola": data.noisy.sel(what="parabola", drop=True),
    }
    for i, (name, values) in enumerate(drawn.items()):
        sheet.spread(axes, values, "draw", name, color=f"C{i}")
    constants = {"2, printed": (2, "--"), "3/2": (1.5, "-."), r"$\sqrt{2}$": (2**0.5, ":"), "1/2, noise": (0.5, "-")}
    for name, (constant, style) in constants.items():
        sheet.guide(axes, T, constant * unit, name, ls=style, lw=0.8 if style == "-" else 1.2)
    title, value = "Mean squared gradient of stochastic descent", r"$\frac{1}{T}\sum_t|\nabla_t|^2$"
    aside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    sheet.label(axes, title, "steps $T$", value, aside, xscale="log", yscale="log")
