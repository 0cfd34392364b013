"""Problem 13.1.1: a product of many factors explodes past a critical step size."""

import numpy as np
import xarray as xr
from scipy.special import expit

from secant.lab import Figure, Findings, Options, claim, option, options, scaled, sheet, study
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.normalization.factors import exploding_lr, step

CAP = 1e30
"""A product beyond it has exploded."""


class Config(Options):
    right: int = option(3, at_least=2, at_most=100, help="samples with xy = 1")
    wrong: int = option(2, at_least=1, at_most=99, help="samples with xy = -1, below `right`")
    factors: tuple[int, ...] = option(
        (4, 6, 8), at_least=4, at_most=16, distinct=True, longest=6, help="even numbers k of factors"
    )
    starts: tuple[float, ...] = option(
        (0.6, 2.0, 5.0),
        above=0,
        at_most=20,
        ascending=True,
        longest=6,
        help="products at the start, above the minimiser",
    )
    steps: int = options.steps(60, at_least=10, at_most=1_000)
    grid: int = scaled(smoke=60, laptop=240, at_least=5, at_most=1_000, help="points of the map along each side")

    def check(self) -> None:
        """The rule holds for even products above the minimiser."""
        if any(k % 2 for k in self.factors):
            raise ValueError(f"factors: must be even, got {self.factors}: an odd product turns negative.")
        if self.wrong >= self.right:
            raise ValueError(f"wrong: must be below right = {self.right}, or the minimiser is not positive.")
        best = np.log(self.right / self.wrong)
        if self.starts[0] <= best * 1.02 or self.starts[-1] < 1.5:
            raise ValueError(f"starts: must be above the minimiser {best:.4g} and the last at least 1.5.")


def slope(product: np.ndarray, config: Config) -> np.ndarray:
    """The derivative of the logistic loss in the product."""
    return config.wrong * expit(product) - config.right * expit(-product)


def descend(start: np.ndarray, lr: np.ndarray, k: int, config: Config) -> np.ndarray:
    """Products along descent, step by step. Products that have exploded stay at the cap."""
    first = np.broadcast_to(start, np.broadcast_shapes(np.shape(start), np.shape(lr))).astype(float)

    def after(W: np.ndarray) -> np.ndarray:
        return np.where(W >= CAP, CAP, np.minimum(step(W, slope(W, config), k, lr), CAP))

    path: list[np.ndarray] = orbit(after, first, config.steps)
    return np.stack(path)


def explodes(path: np.ndarray) -> np.ndarray:
    """Whether a run only grows, up to the cap."""
    return ((np.diff(path, axis=0) > 0) | (path[1:] >= CAP)).all(0) & (path[-1] >= CAP)


def border(start: float, k: int, config: Config) -> float:
    """The least step size at which the product grows in a step, by bisection. Above it the product only grows."""
    low, high = 0.0, 100.0 / float(slope(np.array(start), config)) * max(1.0, start ** (2 / k - 1))
    for _ in range(60):
        middle = (low + high) / 2
        grows = step(start, slope(np.array(start), config), k, middle) > start
        low, high = (low, middle) if grows else (middle, high)
    return high


@study("book/prob-13.1.1", section="13.1", title="A product of many factors explodes")
def run(config: Config) -> xr.Dataset:
    r"""Take the logistic loss $\hat\ell(W)$ of data on a line that no sign separates, and $W = \prod_{i\le k}w_i$ with
    $k$ even, all $w_i$ equal and $W_0 > W^* > 0$. If $\eta > \frac2{|\hat\ell'(W_0)|}W_0^{2/k-1}$ then $\prod_iw_i$
    grows for ever. The text prints the exponent $1/k - 1$.
    """
    starts, kinds = np.array(config.starts), config.factors
    first = slope(starts, config)
    right = np.array([[exploding_lr(W, s, k) for W, s in zip(starts, first, strict=True)] for k in kinds])
    printed = np.array([2 / first * starts ** (1 / k - 1) for k in kinds])
    runs = {
        name: np.stack([descend(starts, ratio * lr, k, config) for lr, k in zip(by, kinds, strict=True)])
        for name, ratio, by in (("above", 1.01, right), ("below", 0.99, right), ("printed", 1.01, printed))
    }
    k = kinds[0]
    W = np.geomspace(1.05 * np.log(config.right / config.wrong), max(10.0, starts[-1]), config.grid)
    ratios = np.geomspace(0.1, 4, config.grid)
    lr = ratios[:, None] * 2 / slope(W, config)[None]
    ends = descend(W[None], lr, k, config)
    kind = np.where(explodes(ends), 2, np.where(ends[-1] >= CAP, 1, 0))
    return xr.Dataset(
        {name: (("k", "step", "start"), path) for name, path in runs.items()}
        | {
            "threshold": (("k", "start"), right),
            "said": (("k", "start"), printed),
            "found": (("k", "start"), [[border(W0, k, config) for W0 in starts] for k in kinds]),
            "kind": (("ratio", "at"), kind),
        },
        coords={"k": list(kinds), "start": starts, "at": W, "ratio": ratios},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    off = np.abs(data.found / data.threshold - 1).max()
    yield claim("threshold", "threshold found by bisection over the corrected formula less 1, all $k$ and $W_0$").zero(
        off, 1e-10, "rounding of a product to the power $k$"
    )
    every = np.ones(len(config.starts), bool)
    for k in config.factors:
        grows = explodes(data.above.sel(k=k).values)
        yield claim(f"above-{k}", f"$k = {k}$: at 1.01 of the threshold the product only grows").share(
            1.0, grows, every, "every start", otherwise="no start"
        )
        first = (data.below.sel(k=k)[1] / data.start).max()
        yield claim(f"below-{k}", f"$k = {k}$: $W_1/W_0$ at 0.99 of the threshold").at_most(
            1.0, first, "the product does not grow at first"
        )
    k, start = config.factors[0], config.starts[-1]
    one = data.sel(k=k, start=start)
    yield claim("exponent", f"step size past which $k = {k}$ factors explode from $W_0 = {start:g}$").erratum(
        (r"\frac2{|\hat\ell'(W_0)|}W_0^{1/k-1}", float(one.said)),
        (r"\frac2{|\hat\ell'(W_0)|}W_0^{2/k-1}", float(one.threshold)),
        one.found,
        0.0,
        "a bisection",
        relative=1e-10,
        where="Problem 13.1.1",
        note="A factor $w$ moves by the slope times $w^{k-1}$. It overshoots by more than itself where the slope times "
        "$w^{k-2}$, that is $W^{1-2/k}$, passes 2.",
    )
    low, runs = data.said < data.threshold / 1.02, [explodes(one) for one in data.printed.values]
    why = "below the threshold the first step shrinks the product"
    yield claim("printed", "the product grows for ever at 1.01 of the printed step size, where this is smaller").share(
        0.0, runs, low.values, why, otherwise="it is nowhere smaller"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    k, start = config.factors[0], float(data.start[-1] if len(config.starts) < 2 else data.start[1])
    labels = {"above": "1.01 of the threshold", "below": "0.99 of it", "printed": "1.01 of the printed one"}
    for i, (name, label) in enumerate(labels.items()):
        left.plot(data[name].sel(k=k, start=start)[:9], "o-", ms=4, color=f"C{i}", label=label)
    sheet.mark(left, y=np.log(config.right / config.wrong), label="$W^*$")
    left.set(yscale="log", ylim=(0.1, 1e9))
    sheet.label(left, f"$k = {k}$ from $W_0 = {start:g}$", "step", r"$\prod_iw_i$", "upper right")
    W = data["at"].values
    for kind, colour, label in ((2, "C0", "only grows"), (1, "C1", "explodes later")):
        right.contourf(W, data.ratio, data.kind == kind, levels=[0.5, 1.5], colors=[colour], alpha=0.35)
        right.plot([], [], "s", color=colour, alpha=0.35, ms=9, label=label)
    sheet.guide(right, W, W ** (2 / k - 1), r"$W_0^{2/k-1}$", ls="-")
    sheet.guide(right, W, W ** (1 / k - 1), r"$W_0^{1/k-1}$, printed", color="C3", lw=2)
    right.set(xscale="log", yscale="log", ylim=(0.1, 4))
    sheet.label(right, f"The fate of {k} factors", "$W_0$", r"$\eta\,\hat\ell'(W_0)/2$", "lower left")
