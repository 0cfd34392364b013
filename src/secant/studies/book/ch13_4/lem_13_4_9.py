"""Lemma 13.4.9: long weights meet a small gradient before they have shrunk."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.studies.shared.scale_invariant import descend, steep
from secant.theory.normalization.weight_decay import CEILING, falling_time, gradient_floor, turning_norm


class Config(Seeded):
    smoothness: float = option(16.0, at_least=0.1, at_most=1e3, help="largest curvature on the sphere, rho")
    dim: int = options.dim(5, at_least=3, at_most=50)
    lr: float = options.lr(0.01, at_least=1e-3, at_most=1.0)
    product: float = option(2e-4, at_least=5e-5, at_most=3e-4, help="step size times decay")
    starts: tuple[float, ...] = scaled(
        smoke=(1.1, 2.0, 5.0, 10.0),
        laptop=(1.1, 2.0, 5.0, 20.0, 100.0),
        above=1.01,
        at_most=1e4,
        ascending=True,
        longest=8,
        help="|w_0|^2 over pi^2 rho eta",
    )


@study("book/lem-13.4.9", section="13.4", title="Long weights meet a small gradient")
def run(config: Config) -> xr.Dataset:
    r"""For $\eta\lambda < \frac12$, $|w_0|^2 > \pi^2\rho\eta$ and $T_0 =
    \lceil\frac1{2\eta\lambda}\ln\frac{2|w_0|^2}{\rho\pi^2\eta}\rceil$ some $t < T_0$ has $|\nabla L(\bar w_t)|^2 \le
    8\pi^4\rho^2\lambda\eta$. The proof sums $|w_T|^2 - (1 - \eta\lambda)^{2T}|w_0|^2 = \sum_{t<T}\eta^2(1 -
    \eta\lambda)^{2(T-1-t)}|\nabla L(w_t)|^2$. It closes if the range of $L$ is at most $\pi^2\rho/4$: $\frac12 +
    \frac14/(1 - 2/\pi^2) < 1$. With the printed range and without an unjustified factor $\frac12$ it does not close.
    """
    random, decay = np.random.default_rng(config.seed), config.product / config.lr
    loss, direction = steep(random, config.smoothness, config.dim)
    squares = np.array(config.starts) * turning_norm(config.lr, config.smoothness)
    times = [falling_time(math.sqrt(s), config.lr, decay, config.smoothness) for s in squares]
    path = descend(loss, np.sqrt(squares)[:, None] * direction, config.lr, decay, max(times))
    small = path.gradient <= gradient_floor(config.lr, decay, config.smoothness)
    hit = np.where(small.any(0), np.argmax(small, axis=0), -1)
    T = min(200, max(times))
    slopes = config.lr**2 * path.gradient[:T] / path.square[:T]
    kept = (1 - config.product) ** (2.0 * (T - 1 - np.arange(T)))
    left = path.square[T] - (1 - config.product) ** (2 * T) * path.square[0]
    every = max(1, max(times) // 400)
    return xr.Dataset(
        {
            "hit": ("start", hit),
            "time": ("start", times),
            "left": ("start", left),
            "right": ("start", kept @ slopes),
            "rounding": ("start", path.square[0]),
            "square": (("step", "start"), path.square[::every]),
            "gradient": (("step", "start"), path.gradient[::every]),
        },
        coords={"start": list(config.starts), "step": every * np.arange(len(path.square[::every]))},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = r"the step to which $T_0$ is rounded up, and the next order in $\eta\lambda$"
    for start in config.starts:
        one, name = data.sel(start=start), rf"$|w_0|^2 = {start:g}\pi^2\rho\eta$"
        hit = float(one.hit) if one.hit >= 0 else np.inf
        yield claim(f"hit-{start:g}", f"{name}: first step with a small gradient").at_most(
            float(one.time) - 1, hit, "before $T_0$, rounded up"
        )
        shrunk, wide = start * (1 - config.product) ** (2 * float(one.time)), config.product * (2 + math.log(2 * start))
        yield claim(f"decay-{start:g}", rf"{name}: what decay alone leaves at $T_0$, over $\pi^2\rho\eta$").equal(
            0.5, shrunk, wide, why
        )
    apart = np.abs((data.left - data.right) / data.rounding).max()
    yield claim("sum", "sum of 200 steps less the squared length, largest difference over $|w_0|^2$").zero(
        apart, 1e-12, "an identity"
    )
    one = data.isel(start=0)
    name = "share of the squared gradients in $|w_T|^2$, $T = 200$, over the sum with exponent $2(T - 1 - t)$"
    yield claim("sum-exponent", name).erratum(
        (r"\sum_t\eta^2(1 - \eta\lambda)^{2(T_0-t)}|\nabla L(w_t)|^2", (1 - config.product) ** 2),
        (r"\sum_t\eta^2(1 - \eta\lambda)^{2(T_0-1-t)}|\nabla L(w_t)|^2", 1.0),
        one.left / one.right,
        1e-9,
        "rounding of a difference",
        where="proof of Lemma 13.4.9",
        note="No later step shrinks the last gradient.",
    )
    narrow, wide = (0.5 + share / (1 - 2 / math.pi**2) for share in (CEILING / math.pi**2, 0.5))
    yield claim("proof", r"bound on $|w_T|^2$ in the proof, over $\pi^2\rho\eta$; it must be below 1").erratum(
        (r"\tfrac12 + \tfrac12/(1 - 2/\pi^2)", wide),
        (r"\tfrac12 + \tfrac14/(1 - 2/\pi^2)", narrow),
        narrow,
        1e-12,
        "arithmetic",
        where="proof of Lemma 13.4.9",
        by="derivation",
        note=r"The display bounds the powers of $1 - \eta\lambda$ by $1/2$, but the last of them is 1. Without this "
        r"factor a range of $\pi^2\rho/2$ gives more than 1. The sharper range $\pi^2\rho/4$ closes the proof.",
    )
    yield claim("repaired-constant", "the repaired constant").at_most(1.0, narrow, "or the proof would not close")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    border = turning_norm(config.lr, config.smoothness)
    for i, start in enumerate(config.starts):
        one = data.sel(start=start)
        left.plot(data.step, one.square / border, color=f"C{i}", label=f"{start:g}")
        right.plot(data.step + 1, one.gradient / config.smoothness**2, color=f"C{i}")
        for axes in (left, right):
            sheet.mark(axes, x=one.time, color=f"C{i}", ls=":", lw=1)
    sheet.mark(left, y=1.0)
    left.set_yscale("log")
    legend = {"title": r"$|w_0|^2/(\pi^2\rho\eta)$", "loc": "upper right"}
    sheet.label(left, "Length; dotted is $T_0$", "step", r"$|w|^2/(\pi^2\rho\eta)$", legend)
    sheet.mark(right, y=8 * math.pi**4 * config.product, label=r"$8\pi^4\lambda\eta$")
    right.set(xscale="log", yscale="log", ylim=(1e-8, 1))
    sheet.label(right, "Gradient on the sphere", "step", r"$|\nabla L(\bar w)|^2/\rho^2$", "lower left")
