"""Lemma 13.4.8: short weights quickly grow long, or a gradient is small."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.scale_invariant import descend, steep
from secant.theory.normalization.weight_decay import gradient_floor, rising_time, turning_norm


class Config(Seeded):
    smoothness: float = option(16.0, at_least=0.1, at_most=1e3, help="largest curvature on the sphere, rho")
    dim: int = options.dim(5, at_least=3, at_most=50)
    lr: float = options.lr(0.01, at_least=1e-3, at_most=1.0)
    product: float = option(1e-4, at_least=2e-5, at_most=3e-4, help="step size times decay")
    starts: int = option(24, at_least=2, at_most=200, help="number of lengths at the start")
    shortest: float = option(1e-3, at_least=1e-6, at_most=0.5, help="the shortest |w_0|^2, over pi^2 rho eta")


@study("book/lem-13.4.8", section="13.4", title="Short weights grow")
def run(config: Config) -> xr.Dataset:
    r"""In any $\lceil1/(6\lambda\eta)\rceil$ steps there is a step $T$ with $|w_T|^2 \ge \pi^2\rho\eta$ or $|\nabla
    L(\bar w_T)|^2 \le 8\pi^4\rho^2\lambda\eta$. Then also $|w_T|^2 \le 2(\pi^2\rho\eta)^2/|w_0|^2$ if $|w_0|^2 \le
    \pi^2\rho\eta$. By Pythagoras $|w_{t+1}|^2 = (1 - \eta\lambda)^2|w_t|^2 + \eta^2|\nabla L(w_t)|^2$ (13.4), and
    before $T$ the square $|w_t|^2$ grows by at least $6\pi^2\rho\lambda\eta^2$ a step.
    """
    random, decay = np.random.default_rng(config.seed), config.product / config.lr
    loss, direction = steep(random, config.smoothness, config.dim)
    squares = np.geomspace(config.shortest, 0.9, config.starts) * turning_norm(config.lr, config.smoothness)
    steps = rising_time(config.lr, decay)
    path = descend(loss, np.sqrt(squares)[:, None] * direction, config.lr, decay, steps)
    long = path.square >= turning_norm(config.lr, config.smoothness)
    small = path.gradient <= gradient_floor(config.lr, decay, config.smoothness)
    first = np.where((long | small).any(0), np.argmax(long | small, axis=0), -1)
    before = np.arange(steps)[:, None] < first  # neither holds at the beginning of the step
    grown = np.diff(path.square, axis=0) / (6 * math.pi**2 * config.smoothness * config.product * config.lr)
    expected = (1 - config.product) ** 2 * path.square[:-1] + config.lr**2 * path.gradient[:-1] / path.square[:-1]
    return xr.Dataset(
        {
            "first": ("start", first),
            "reached": ("start", path.square[first, np.arange(config.starts)]),
            "growth": ("start", np.where(before, grown, np.inf).min(0)),
            "pythagoras": np.abs(path.square[1:] / expected - 1).max(),
            "steps": steps,
            "square": (("step", "start"), path.square[:200]),
        },
        coords={"start": squares},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    border = turning_norm(config.lr, config.smoothness)
    yield claim("pythagoras", r"$|w'|^2$ over $(1 - \eta\lambda)^2|w|^2 + \eta^2|g|^2$, less 1, largest").zero(
        data.pythagoras, 1e-12, "rounding: the gradient is orthogonal to the weights"
    )
    latest, rounded = np.where(data["first"] < 0, np.inf, data["first"]).max(), r"$1/(6\eta\lambda)$, rounded up"
    yield claim("steps", f"steps until long weights or a small gradient, {config.starts} starts").at_most(
        float(data.steps), latest, rounded
    )
    yield claim("reached", r"$|w_T|^2|w_0|^2$ over $2(\pi^2\rho\eta)^2$, largest").at_most(
        1.0, (data.reached * data.start).max() / (2 * border**2), "the lemma"
    )
    known, otherwise = bool(np.isfinite(data.growth).any()), "every start has a small gradient at once"
    unit = r"$6\pi^2\rho\lambda\eta^2$"
    name = f"growth of $|w|^2$ a step before $T$ over {unit}, least"
    yield claim("growth", name, given=known, otherwise=otherwise).at_least(1.0, lambda: data.growth.min(), "the lemma")
    least = 6 * math.pi**2 * config.smoothness * config.product * config.lr
    floor = gradient_floor(config.lr, config.product / config.lr, config.smoothness)
    grown = config.lr**2 * floor / border - 2 * config.product * border
    name = rf"growth at $|w|^2 = \pi^2\rho\eta$ and the gradient's floor over {unit}"
    yield claim("both-borders", name).equal(1.0, grown / least, 1e-12, "both borders at once: eight parts less two")
    yield claim("least-growth", r"steps of the least growth from zero to $\pi^2\rho\eta$").count(
        math.ceil(border / least * (1 - 1e-12)), int(data.steps), rounded
    )
    yield claim("starts", "starts that end long or with a small gradient").count(
        config.starts, int((data["first"] >= 0).sum())
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    border = turning_norm(config.lr, config.smoothness)
    for i, start in enumerate(np.linspace(0, config.starts - 1, 5).astype(int)):
        left.plot(data.square[:60, start] / border, color=f"C{i}", label=f"{float(data.start[start]) / border:.2g}")
    sheet.mark(left, y=1.0)
    first, now = r"$|w_0|^2/(\pi^2\rho\eta)$", r"$|w|^2/(\pi^2\rho\eta)$"
    left.set_yscale("log")
    sheet.label(left, "Short weights grow", "step", now, {"title": first, "loc": "lower right"})
    right.plot(data.start / border, data.reached / border, "o", color="C0", label="$|w_T|^2$")
    sheet.guide(right, data.start / border, 2 * border / data.start, r"$2(\pi^2\rho\eta)^2/|w_0|^2$")
    right.set(xscale="log", yscale="log")
    sheet.label(right, "Lengths at the step $T$", first, r"$|w_T|^2/(\pi^2\rho\eta)$", "upper right")
