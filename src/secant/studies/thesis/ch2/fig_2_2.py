"""Figure 2.2: how far the tangent kernel moves in training falls with the width."""

from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from scipy import stats

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.nets import Network, dag, graphs
from secant.studies.shared import width as wide
from secant.studies.shared.kernel_drift import Scaling, Training, sparse_drift, two_classes
from secant.studies.shared.numerics.exponents import exponent

# The number under the root of a neuron's sum: the edges that are left, or the edges before.
SCALINGS: dict[Scaling, str] = {"new": "edges left", "original": "edges before"}

WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)
CONCATENATED = "neurons of a hidden layer, a DenseNet each whose layers all read the input"


class Config(Seeded):
    data: Literal["gaussian", "digits", "cifar10"] = scaled(
        smoke="gaussian", laptop="digits", paper="cifar10", help="Gaussian points, or images of classes 0 and 2"
    )
    dim: int = options.dim(64, at_least=2, at_most=10_000)
    widths: tuple[int, ...] = options.widths((16, 128), WIDTHS[:9], WIDTHS, at_least=2, shortest=2, ascending=True)
    concatenated: tuple[int, ...] = scaled(
        smoke=(4, 16), laptop=WIDTHS[1:9:2], paper=WIDTHS[1::2], at_least=2, ascending=True, help=CONCATENATED
    )
    fit_from: int = scaled(smoke=16, laptop=32, at_least=2, help="smallest width in the fit of the exponent")
    samples: int = options.samples(10, at_least=2, at_most=500)
    draws: int = options.draws(12, 5, at_least=2, at_most=1000)
    rate: float = option(0.5, at_least=0.01, at_most=0.99, help="share of the edges that is dropped")
    target: float = option(1e-4, at_least=1e-10, at_most=1, help="loss at which a run ends")
    steps: int = options.steps(400, 2_000, 20_000, at_least=10, at_most=10**6)
    every: int = option(10, at_least=1, at_most=1_000, help="steps between two looks at the kernel")

    def check(self) -> None:
        """Refuses a fit without two widths."""
        if sum(width >= self.fit_from for width in self.widths) < 2:
            raise ValueError(
                f"fit_from: must leave two of the widths, the largest of which are "
                f"{' and '.join(map(str, self.widths[-2:]))}, got {self.fit_from}."
            )


@study("thesis/fig-2.2", section="2.3", title="The tangent kernel moves less in wider networks", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""A three-layer DenseNet loses every edge with probability $\frac12$. Gradient descent trains it to convergence on
    10 points of two classes. The largest relative change of its tangent kernel on the way,
    $\max_t \|K_t - K_0\|/\|K_0\|$, follows $\Theta(1/\sqrt m)$, mean of 5 runs.

    The width $m$ is the smallest in-degree from the second layer on (Definition 2.2.7). In the DenseNet as the thesis
    defines it (A.5) every layer also reads the input, 3072 numbers for CIFAR. Then $m$ is at least about half of 3072,
    however few neurons a layer has. The change is small, and it does not fall while the layers are narrower than the
    input. The figure needs layers that read earlier hidden layers alone.

    Here the activation is tanh, and $\eta = 1/\lambda_{\max}(K_0)$ for the loss $\frac12\sum_i r_i^2$. A run ends when
    its loss is below $10^{-4}$. The study compares both ways to normalise a neuron that lost edges.
    """
    x, y, source = two_classes("thesis/fig-2.2", config.data, config.samples, config.dim, config.seed)
    training = Training(config.draws, config.rate, config.steps, config.every, config.target, config.seed)
    features, found = x.shape[1], {}

    def make(concat: bool, m: int) -> Network:
        return dag(graphs.densenet(features, [m, m], concat_input=concat), "tanh")

    sweeps = {"width": (False, config.widths, tuple(SCALINGS)), "hidden": (True, config.concatenated, ("new",))}
    for concat, widths, _ in sweeps.values():
        # Measuring the kernel writes out two gradients a sample, for all runs of a width.
        copies = len(SCALINGS) * config.draws * (2 * config.samples + 4)
        wide.refuse_oversized("thesis/fig-2.2", partial(make, concat), features, widths, copies=copies)
    for name, (concat, widths, scalings) in sweeps.items():
        parts = [sparse_drift(make(concat, m), x, y, m, scalings, training) for m in widths]
        found[name] = xr.concat(parts, name).assign_coords({name: list(widths)})
    dense = found["hidden"].sel(scaling="new", drop=True)
    dense = dense.rename({name: f"dense_{name}" for name in dense})
    return xr.merge([found["width"], dense]).assign_attrs(points=source, features=features)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    chosen = data.width >= config.fit_from
    for key, name, ends in (("all", "of all widths", data.loss), ("fit", "in the fit", data.loss.sel(width=chosen))):
        above = ends > config.target
        short = ", ".join(str(int(width)) for width in ends.width[above.any(("scaling", "network"))])
        note = f"at width {short} some runs need more than {config.steps} steps" if short else ""
        yield claim(f"converged-{key}", f"share of the runs {name} whose loss falls below {config.target:g}").equal(
            1.0, 1 - above.mean(), 0, "the thesis: the loss converges for all widths", note=note
        )
    widths = data.width[chosen].values
    logs, hierarchy = wide.logarithm(widths), wide.next_order(widths, 0.5, 2.0)
    apart, far = "telling the bound from $1/m$ takes widths a factor of 16 apart", max(widths) >= 16 * min(widths)
    for scaling, left in SCALINGS.items():
        found = exponent(data.drift.sel(width=chosen, scaling=scaling))
        name = f"largest change of the kernel, {left} under the root: exponent in the width"
        yield claim(f"{scaling}-theorem", f"{name} is at most that of the theorem").at_most(-0.5, found, slack=logs)
        note = "the kernel's velocity is of order $1/m$ (Huang and Yau, 2020)"
        yield claim(f"{scaling}-hierarchy", f"{name} is at least that of the tangent hierarchy").at_least(
            -1.0, found, slack=hierarchy, note=note
        )
        note = r"The velocity is of order $1/m$. The change in a run lies between it and the bound $1/\sqrt m$."
        figure = claim(f"{scaling}-figure", f"{name}, as the figure has it", given=far, otherwise=apart)
        yield figure.equal(-0.5, found, logs, note=note)
    name = "largest excess of an eigenvalue's change, over the largest eigenvalue, above the change of the kernel"
    yield claim("weyl", name).at_most(0.0, data.excess.max(), "Weyl's inequality; rounding of float32", slack=1e-5)
    edges, hidden = data.attrs["features"], int(data.hidden[0])
    narrow = data.dense_drift.sel(hidden=data.hidden < edges).rename(hidden="width")
    name = "layers also read the input: exponent in the hidden size, below the input dimension"
    few, enough = "fewer than two hidden sizes are below the input dimension", narrow.width.size >= 2
    why, note = "half way from no decay to the law", "the width of Definition 2.2.7 hardly changes with the hidden size"
    yield claim("input-exponent", name, given=enough, otherwise=few).at_least(
        -0.25, lambda: exponent(narrow), why, note=note
    )
    neurons = config.draws * (hidden + 1)  # neurons of the second layer, and the output
    least, found = stats.binom.ppf(1e-3 / neurons, edges, 1 - config.rate), data.dense_degree.isel(hidden=0).min()
    why = "edges from the inputs alone: with probability 0.999 no neuron keeps fewer"
    yield claim("input-degree", "layers also read the input: smallest in-degree of the narrowest network").at_least(
        least, found, why, note=f"with {hidden} neurons a layer"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (7.6, 4.6))
    for label, values, mark in (
        ("edges left under the root", data.drift.sel(scaling="new"), "o"),
        ("edges before under the root", data.drift.sel(scaling="original"), "s"),
        ("layers read the input too", data.dense_drift.rename(hidden="width"), "^"),
    ):
        mean, error = values.mean("network"), values.std("network", ddof=1) / np.sqrt(config.draws)
        axes.errorbar(values.width, mean, error, marker=mark, ms=5, lw=1.2, capsize=2, label=label)
    fitted = data.width[data.width >= config.fit_from]
    anchor = data.drift.sel(scaling="new", width=fitted[0]).mean()
    sheet.guide(axes, fitted, 1.5 * anchor * (fitted / fitted[0]) ** -0.5, r"$\propto 1/\sqrt{m}$")
    axes.set_xscale("log", base=2)
    title = f"Largest change of the tangent kernel ({data.attrs['points']})"
    legend = {"fontsize": 8, "loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    y = r"$\max_t\, \|K_t - K_0\| / \|K_0\|$"
    sheet.label(axes, title, "neurons a hidden layer", y, legend, yscale="log")
