"""Beyond the lecture on initialisation, of 9/14: Gaussian signals, and the first order in one over the width."""

import math

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study
from secant.studies.shared.numerics.exponents import exponent
from secant.theory.wide import relu_paths
from secant.theory.wide.finite_width import Fluctuations, fluctuations, sample_variances

CASES = {"tanh": (1.5, 0.1), "erf": (1.2, 0.1), "gelu": (1.983058, 0.172922)}
"""Variances of weights and biases; the last pair is critical."""

CRITICAL = {"tanh": 1.0, "relu": 2.0, "identity": 1.0}
"""Variances of weights with which networks without biases are critical."""

SATURATING = ("tanh", "erf")
BATCHES = 16
"""Groups of networks, over which moments scatter."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (8, 16, 32), (8, 16, 32, 64), at_least=4, at_most=4096, shortest=2, longest=6, ascending=True
    )
    depth: int = option(4, at_least=2, at_most=20, help="hidden layers")
    draws: int = options.draws(2_400, 20_000, at_least=100, at_most=10**6)
    layers: int = options.layers(1_000, at_least=100, at_most=100_000)

    def check(self) -> None:
        """Refuses signals that do not fit the memory."""
        fits_memory(40.0 * max(self.widths) * self.draws, "widths or draws")


@study("lectures/fluctuations", section="09-14", title="Signals at finite width, to first order", new=True)
def run(config: Config) -> xr.Dataset:
    r"""The lecture takes the width to infinity, where signals are Gaussian with variances
    $K' = C_b + C_w\,\mathbb E\,\sigma^2$. At finite width the signals of a layer share a random variance. Let $v$ be
    the variance of this shared variance, $g$ the shift of its mean, and
    $\chi = C_w\,\frac{d}{dK}\mathbb E\,\sigma^2$. For any activation, to first order,
    $$v' = \chi^2v + \frac{C_w^2}{n}\,(\mathbb E\,\sigma^4 - (\mathbb E\,\sigma^2)^2), \qquad
      g' = \chi g + \frac{C_w}{2}\,\frac{d^2\,\mathbb E\,\sigma^2}{dK^2}\,v,$$
    and the excess kurtosis of a signal is $3v/K^2$. The next order is $1/n^2$. In critical networks $v/K^2$ grows as
    the depth over the width, with the factor 5 for ReLU, 2 for linear networks, and $2/3$ for tanh.
    """
    names, tables = list(CASES), []
    for number, (name, (weights, biases)) in enumerate(CASES.items()):
        rows = []
        for width in config.widths:
            random, hidden = np.random.default_rng([config.seed, number, width]), [width] * config.depth
            how = {"weights": weights, "biases": biases}
            groups = [sample_variances(random, name, hidden, config.draws, **how)[-1] for _ in range(BATCHES)]
            rows.append([(group.mean(), group.var(ddof=1)) for group in groups])
        tables.append(rows)
    found = np.array(tables)
    dims = ("activation", "width", "group")
    one = [_predicted(name, *CASES[name], config) for name in names]
    deep = {name: _predicted(name, weights, 0.0, config) for name, weights in CRITICAL.items()}
    return xr.Dataset(
        {
            "mean": (dims, found[..., 0]),
            "variance": (dims, found[..., 1]),
            "limit": ("activation", [part.variance[config.depth] for part in one]),
            "shift": ("activation", [part.correction[config.depth] for part in one]),
            "vertex": ("activation", [part.spread[config.depth] for part in one]),
            "deep": (("kind", "layer"), np.stack([part.spread / part.variance**2 for part in deep.values()])),
        },
        coords={"activation": names, "width": list(config.widths), "kind": list(CRITICAL)},
    )


def _predicted(name: str, weights: float, biases: float, config: Config) -> Fluctuations:
    """First corrections times the width, by layer."""
    return fluctuations(name, [1] * config.layers, weights=weights, biases=biases)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in SATURATING:
        one = data.sel(activation=name)
        for key, what, width, values, order in (
            ("variance", "variance of the shared variance", config.widths[-1], one["variance"], one["vertex"]),
            ("shift", "shift of its mean", config.widths[0], one["mean"] - one["limit"], one["shift"]),
        ):
            ratio, small = values.sel(width=width) * width / order, float(one["vertex"] / one["limit"] ** 2 / width)
            yield claim(f"{name}-{key}", f"{name}, width {width}: {what}, over its first order").equal(
                1.0, estimate(ratio), small, "the next order, relative to the first as the first is to the limit"
            )
    one = data.sel(activation="gelu")
    pairs = one["variance"].coarsen(group=2).mean()  # in larger groups something is left in each
    left = pairs * one["width"] / one["vertex"] - 1
    seen, nothing = bool((left > 0).all()), "in some group the first order leaves nothing out"
    rest = "relative part of the variance that the first order leaves out: exponent of the width"
    yield claim("gelu-next-order", f"gelu: {rest}", given=seen, otherwise=nothing).at_most(
        -0.5, lambda: exponent(left), "the theory's is -1; half of it is still none"
    )
    sizes, first = np.array([10**6, 2 * 10**6]), 3 * float(data["deep"].sel(kind="relu")[config.depth])
    fourth = np.array([relu_paths.fourth_moment([1, *[n] * config.depth]) for n in sizes])
    over = (fourth / relu_paths.second_moment([1, 1]) ** 2 - 3) * sizes / first
    what = f"relu, width {sizes[0]}: excess kurtosis by counting paths, over its first order"
    yield claim("relu-kurtosis", what).equal(1.0, over[0], 5 * config.depth / sizes[0], "the next order")
    growth, why = math.log2((over[1] - 1) / (over[0] - 1)), "rounding of a difference of 1e-6, and the next order"
    rest = "relative part of the kurtosis that the first order leaves out: exponent of the width"
    yield claim("relu-next-order", f"relu: {rest}").equal(-1.0, growth, 0.01, why)
    last = config.layers
    for kind, factor, slack in (("relu", 5.0, 1e-9), ("identity", 2.0, 1e-9), ("tanh", 2 / 3, math.log(last) / last)):
        reason = "rounding" if slack < 1e-6 else "the next order in one over the depth, with its logarithm"
        name = f"{kind}, critical, layer {last}: $v/K^2$ times width over depth"
        found = data["deep"].sel(kind=kind)[-1] / last
        yield claim(f"{kind}-critical", name).equal(factor, found, 0.0, reason, relative=slack)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4), 3)
    for i, name in enumerate(CASES):
        one = data.sel(activation=name)
        sheet.spread(left, one["variance"] * one["width"] / one["vertex"], "group", name, color=f"C{i}", fmt="o")
        if name in SATURATING:
            shift = (one["mean"] - one["limit"]) * one["width"] / one["shift"]
            sheet.spread(middle, shift, "group", name, color=f"C{i}", fmt="o")
    for axes, title in ((left, "Variance of the variance"), (middle, "Shift of its mean")):
        sheet.mark(axes, y=1.0)
        sheet.label(axes, title, "width", "measured over first order", "best", xscale="log")
        sheet.ticks(axes, config.widths)
    depth = np.arange(data.sizes["layer"])
    for i, (kind, factor) in enumerate((("relu", 5.0), ("identity", 2.0), ("tanh", 2 / 3))):
        right.loglog(depth[1:], data["deep"].sel(kind=kind)[1:], color=f"C{i}", label=kind)
        sheet.guide(right, depth[1:], factor * depth[1:], color=f"C{i}")
    sheet.label(right, "Critical networks", "hidden layers", r"$n\,v/K^2$", "best")
