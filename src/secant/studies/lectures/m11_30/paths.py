"""Lecture of 11/30: a random ReLU network as a sum over its paths, and the moments of its Jacobian."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, estimate, fits_memory, option, options, sheet, study
from secant.lab import ratio_of_means as ratio
from secant.studies.shared.relu_networks import Shallow
from secant.theory.wide import relu_paths as rp

TINY = (2, 3, 3)
"""Inputs and hidden widths of the network whose paths are added up one by one."""

LAWS = {law: rp.KURTOSIS[law] for law in ("gaussian", "uniform")}
"""Laws of the weights and their kurtosis. With a larger kurtosis, large fourth powers would be too rare to measure."""

BLOCK = 1_000
"""Networks that are held at once."""


class Config(Shallow):
    inputs: int = option(4, at_least=1, at_most=100, help="entries of an input")
    draws: int = options.draws(20_000, 200_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Networks that a machine holds, with moments that so many draws can measure."""
        super().check()
        fits_memory(16.0 * self.width * (self.layers * self.width + self.inputs) * BLOCK, "width")
        fits_memory(200.0 * self.draws * self.layers, "draws or layers")


@study("lectures/11-30-paths", section="11-30", title="A ReLU network is a sum over its paths")
def run(config: Config) -> xr.Dataset:
    r"""Take a ReLU network without biases, with weights $\sqrt{2/n_{l-1}}$ times independent numbers of a symmetric law
    of variance 1. The network is a sum over paths; each path gives the product of its weights and of its gates. On one
    input the gates are independent fair coins, and independent of every even function of the weights. So
    $\mathbb E\,(\partial z_q/\partial x_p)^2 = 2/n_0$ at every depth and width. As an exercise, for Gaussian weights
    $$\mathbb E\,\Big(\frac{\partial z_q}{\partial x_p}\Big)^4
    = \frac{12}{n_0^2}\prod_{l=1}^L\Big(1 + \frac5{n_l}\Big).$$
    So the ratio of depth to width decides how much gradients explode and vanish.
    """
    random = np.random.default_rng(config.seed)
    weights, x = rp.draw_weights(random, TINY, 100), random.standard_normal(TINY[0])
    chosen = int(np.argmax(rp.signals(weights, x)[-1][:, 0] != 0))  # the first with an open path
    weights = [layer[chosen : chosen + 1] for layer in weights]
    added = rp.add_up_paths([layer[0] for layer in weights], x)
    signals = rp.signals(weights, x)
    step = 1e-3 * min(np.abs(z).min() for z in signals[:-1])  # to stay between the kinks
    ahead, back = ([rp.signals(weights, x + way * e)[-1][0, 0] for e in step * np.eye(2)] for way in (1, -1))
    # Gates of the second layer of small networks; where the first layer is shut there are none.
    first, second, _ = rp.signals(rp.draw_weights(random, TINY, 5 * config.draws), x)
    second = second[first.max(1) > 0]
    widths = (config.inputs, *[config.width] * config.layers)
    powers = [_powers(random, widths, config.draws, law) for law in LAWS]
    return xr.Dataset(
        {
            "number": added.number,
            "output": added.output[0],
            "forward": signals[-1][0, 0],
            "jacobian": ("input", added.jacobian[0]),
            "slope": ("input", np.subtract(ahead, back) / (2 * step)),
            "gate": (("network", "neuron"), second > 0),
            "size": ("network", np.sum(second**2, 1)),
            "square": (("law", "draw", "layer"), np.stack([found[0] for found in powers])),
            "fourth": (("law", "draw", "layer"), np.stack([found[1] for found in powers])),
        },
        coords={"law": list(LAWS), "layer": np.arange(config.layers + 1)},
    )


def _powers(random: np.random.Generator, widths: tuple[int, ...], draws: int, law: str) -> Any:
    """Sums of the squares and fourth powers of derivatives in one input, behind the gates of every layer."""
    found = []
    for first in range(0, draws, BLOCK):
        weights = rp.draw_weights(random, widths, min(BLOCK, draws - first), law=law)
        rows = [np.tile(np.eye(widths[0])[0], (len(weights[0]), 1))]
        for layer, z in zip(weights, rp.signals(weights, np.ones(widths[0]))[:-1], strict=False):
            rows.append((layer @ rows[-1][..., None])[..., 0] * (z > 0))
        found.append([np.stack([np.sum(h**power, 1) for h in rows], 1) for power in (2, 4)])
    return [np.concatenate(part) for part in zip(*found, strict=True)]


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claim("paths", "paths of the small network").count(math.prod(TINY), data.number)
    left = data.output - data.forward
    yield claim("forward", "sum over paths against the forward pass").zero(left, 1e-12, "rounding")
    yield claim("jacobian", "sum over paths against differences of the output").zero(
        abs(data.jacobian - data.slope).max(), 1e-9, "the network is linear between its kinks: rounding over the step"
    )
    gate = data.gate.values
    for number, name in ((1, "one gate is"), (2, "two gates are"), (3, "three gates are")):
        yield claim(f"gates-{number}", f"share of networks where {name} open").equal(
            0.5**number, estimate(gate[:, :number].all(1)), 0, "fair coins"
        )
    found, why = (
        ratio(gate.all(1) * data["size"], data["size"]),
        "gates are independent of even functions of the weights",
    )
    yield claim("even-functions", "share of the squares of signals where all three gates are open").equal(
        1 / 8, found, 0, why
    )
    widths, exact = (config.inputs, *[config.width] * config.layers), "exact at every width"
    for law, kurtosis in LAWS.items():
        # Over the last weights the mean is known, given all others: it has less of a tail than the powers themselves.
        square, fourth = (data[name].sel(law=law, layer=config.layers) for name in ("square", "fourth"))
        yield claim(f"square-{law}", f"{law} weights: mean square of a derivative").equal(
            2 / config.inputs, estimate(2 / config.width * square), 0, exact
        )
        found = estimate(4 / config.width**2 * (3 * square**2 + (kurtosis - 3) * fourth))
        yield claim(f"fourth-{law}", f"{law} weights: mean fourth power of a derivative").equal(
            rp.fourth_moment(widths, kurtosis=kurtosis), found, 0, exact
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    patterns = np.bincount(data.gate.values @ [4, 2, 1], minlength=8) / data.sizes["network"]
    left.bar(range(8), patterns, color="C0", width=0.7)
    sheet.mark(left, y=1 / 8, label="fair coins")
    sheet.label(left, "Gates of three neurons", "which are open", "share of networks", "upper right", ylim=(0, 0.16))
    left.set_xticks(range(8), [f"{pattern:03b}" for pattern in range(8)])
    layers = np.arange(1, config.layers + 1)
    scale = (config.inputs / config.width) ** 2
    for i, (law, kurtosis) in enumerate(LAWS.items()):
        found = scale * data.square.sel(law=law, layer=layers) ** 2
        error = 2 * found.std("draw") / math.sqrt(config.draws)
        right.errorbar(layers, found.mean("draw"), error, fmt="o", ms=5, capsize=3, color=f"C{i}", label=law)
        hidden = [(config.inputs, *[config.width] * n) for n in layers]
        exact = [scale * rp.signal_moments(widths, kurtosis=kurtosis)[0] for widths in hidden]
        sheet.guide(right, layers, exact, color=f"C{i}")
    right.set_xticks(layers)
    moment = r"$\mathbb{E}\,|h|^4 / (\mathbb{E}\,|h|^2)^2$"
    sheet.label(right, "Fourth moments, exact and drawn", "hidden layer", moment, {"title": "law of the weights"})
