"""Section 12.2: the Wiener process, its quadratic variation, and what a change of time does to an equation."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import sde
from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.theory.noise.linear_noise import LinearDiffusion


class Config(Seeded):
    steps: int = options.steps(256, at_least=64, at_most=4_096)
    paths: int = scaled(smoke=2_000, laptop=20_000, at_least=100, at_most=10**5, help="independent paths")
    faster: float = option(4.0, at_least=0.01, at_most=100, help="factor a that divides time")
    rate: float = option(2.0, above=0, at_most=10, help="pull of the Ornstein-Uhlenbeck process")


@study("book/ex-12.2.3", section="12.2", title="Wiener paths and the scale of time")
def run(config: Config) -> xr.Dataset:
    r"""A Wiener process has $W_{t+\delta} - W_t \sim N(0, \delta I)$, so that $\operatorname{Var}W_t = t$, while the
    sum of its squared increments, the quadratic variation, tends to $t$ on every path: in time $\delta$ the process
    moves by about $\sqrt\delta$. With $\tau = t/a$ the equation $dx = \mu\,dt + \sigma\,dW$ therefore becomes $dx =
    a\mu\,d\tau + \sqrt a\,\sigma\,dW_\tau$. Figure 12.1 shows two paths from one start.
    """
    # The same noise drives two coordinates: the Wiener process itself and an Ornstein-Uhlenbeck process.
    pull = jnp.array([0.0, config.rate])
    size: dict[str, Any] = {"steps": config.steps, "paths": config.paths, "samples": config.steps + 1}
    look: dict[str, Any] = {"probes": {"x": lambda x: x}, "seed": config.seed}
    one = sde(lambda x: -pull * x, lambda x: jnp.ones((2, 1)), np.array([0.0, 1.0]), 1.0, **size, **look)
    x = one["x"].values
    W = x[..., 0]
    # In the time t/a, with the same normals: increments over 1/steps are sqrt(a) times those over 1/(a steps).
    a, d = config.faster, 1 / (config.faster * config.steps)
    y, error = np.ones(config.paths), 0.0
    for k in range(config.steps):
        y = y - a * config.rate * y * d + math.sqrt(a) * (W[:, k + 1] - W[:, k]) / math.sqrt(a)
        error = max(error, float(np.abs(y - x[:, k + 1, 1]).max()))
    return xr.Dataset(
        {
            "W": (("path", "time"), W),
            "variation": (("path", "time"), np.cumsum(np.diff(W, prepend=0) ** 2, 1)),
            "apart": error,
            "precision": float(np.finfo(W.dtype).eps),
        },
        coords={"time": one["x"].time.values},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for t in (0.25, 1.0):
        W = data.W.sel(time=t, method="nearest")
        exact = float(W.time)
        mean, variance = estimate(W / exact**0.5), estimate(W**2 / exact)
        yield claim(f"mean-{t:g}", rf"mean of $W_t/\sqrt{{t}}$ at $t = {t:g}$").equal(
            0, mean, 0, "sampling error alone"
        )
        yield claim(f"variance-{t:g}", f"variance of $W_t$ over $t$ at $t = {t:g}$").equal(
            1, variance, 0, "sampling error alone"
        )
    last = data.variation.isel(time=-1)
    yield claim("variation", "quadratic variation at 1").equal(1, estimate(last), 0, "sampling error alone")
    yield claim("variation-variance", "variance of the quadratic variation, over $2t^2/$steps").equal(
        1, estimate((last - 1) ** 2 * config.steps / 2), 0, "squares of normals: sampling error alone"
    )
    rounding = 50 * math.sqrt(config.steps) * float(data.precision)
    yield claim("time-paths", "change of time: distance of both equations' paths on the same noise").zero(
        data.apart, rounding, "rounding of the paths' precision, step by step"
    )
    process = LinearDiffusion(-config.rate * np.eye(1), np.zeros(1), np.zeros((1, 1, 1)), np.ones((1, 1)))
    plain, faster = process.moments([1.0], 1.0), process.faster(config.faster).moments([1.0], 1 / config.faster)
    spread = (1 - math.exp(-2 * config.rate)) / (2 * config.rate)
    apart = (
        faster.mean - plain.mean,
        faster.covariance - plain.covariance,
        faster.covariance - spread,
        faster.mean - math.exp(-config.rate),
    )
    yield claim("time-moments", "change of time: mean and variance of an Ornstein-Uhlenbeck process").zero(
        max(abs(one.item()) for one in apart), 1e-12, "matrix exponentials: rounding"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    t = data.time.values
    for i in range(min(60, data.sizes["path"])):
        left.plot(t, data.W[i], color=sheet.faint(), lw=0.6, zorder=0)
        right.plot(t, data.variation[i], color=sheet.faint(), lw=0.6, zorder=0)
    for i in range(2):
        left.plot(t, data.W[i], color=f"C{i}", lw=1.6, label=f"path {i + 1}")
        right.plot(t, data.variation[i], color=f"C{i}", lw=1.6)
    for sign in (-1, 1):
        sheet.guide(left, t, sign * np.sqrt(t), r"$\pm\sqrt{t}$" if sign > 0 else None)
    sheet.guide(right, t, t, "$t$")
    sheet.label(left, "Paths from one start", "$t$", "$W_t$", "upper left")
    sheet.label(right, "Their quadratic variation", "$t$", r"$\sum(\Delta W)^2$", "upper left")
