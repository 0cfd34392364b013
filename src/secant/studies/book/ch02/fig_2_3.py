"""Figure 2.3: training and test loss of a residual network whose step size is lowered twice."""

from typing import Any

import numpy as np
import xarray as xr

from secant import data
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study

LENGTH = 8.0
"""Root mean square length of all inputs, that of 8x8 standardised pixels: step sizes mean the same for all data."""


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="usps", paper="cifar10", help="a data set that secant.data knows")
    samples: int = options.samples(700, 1_500, 5_000, at_least=50, at_most=50_000)
    width: int = options.width(5, at_least=2, at_most=256)
    blocks: int = scaled(smoke=2, laptop=4, paper=15, at_least=1, at_most=50, help="residual blocks")
    batch: int = options.batch(16, at_most=1_000)
    lr: float = options.lr(0.2, at_least=0.01, at_most=0.3)
    factor: float = option(10.0, at_least=2, at_most=100, help="divisor of the step size at each of the two drops")
    epochs: int = scaled(smoke=12, laptop=80, at_least=4, at_most=1_000, help="passes before the step size is lowered")
    later: int = scaled(smoke=6, laptop=40, at_least=4, at_most=1_000, help="passes after it is lowered, each time")
    draws: int = options.draws(8, 8, at_least=2, at_most=100)

    def check(self) -> None:
        """Data that there are, batches of what there is, and networks that a machine holds."""
        if self.data not in data.NAMES:
            raise ValueError(f"data: must be one of {', '.join(data.NAMES)}, got {self.data!r}.")
        if self.batch > self.samples:
            raise ValueError(f"batch: at most the {self.samples} samples, got {self.batch}.")
        pixels = 75 if self.data == "digits" else 3_100
        fits_memory(64.0 * self.draws * (self.blocks * self.width**2 + self.samples * (self.width + pixels)), "draws")


Net = list[np.ndarray]
"""One matrix for each layer, with the draws as its first axis."""


def hidden(net: Net, x: np.ndarray) -> list[np.ndarray]:
    r"""$h \leftarrow h + W\max(h, 0)$: the activation stands before the weights, and nothing after the sum."""
    found = [x @ net[0]]
    for weight in net[1:-1]:
        found.append(found[-1] + np.maximum(found[-1], 0) @ weight)
    return found


def loss(net: Net, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The mean cross entropy of every draw."""
    out = np.maximum(hidden(net, x)[-1], 0) @ net[-1]
    top = out.max(-1, keepdims=True)
    return (np.log(np.exp(out - top).sum(-1)) + top[..., 0] - (out * y).sum(-1)).mean(-1)


def gradient(net: Net, x: np.ndarray, y: np.ndarray) -> Net:
    """Backpropagation: a block passes its message on unchanged, and adds what its weights make of it."""
    turned = lambda array: np.swapaxes(array, -1, -2)  # noqa: E731
    states = hidden(net, x)
    out = np.maximum(states[-1], 0) @ net[-1]
    chance = np.exp(out - out.max(-1, keepdims=True))
    residual = (chance / chance.sum(-1, keepdims=True) - y) / x.shape[-2]
    found = [turned(np.maximum(states[-1], 0)) @ residual]
    message = residual @ turned(net[-1]) * (states[-1] > 0)
    for weight, state in zip(net[-2:0:-1], states[-2::-1], strict=True):
        found.append(turned(np.maximum(state, 0)) @ message)
        message = message + message @ turned(weight) * (state > 0)
    return [turned(x) @ message, *found[::-1]]


def epoch(net: Net, x: np.ndarray, y: np.ndarray, order: np.ndarray, batch: int, lr: float) -> Net:
    """One pass through the data in batches."""
    for start in range(0, order.shape[1] - batch + 1, batch):
        seen = order[:, start : start + batch, None]
        slope = gradient(net, np.take_along_axis(x, seen, 1), np.take_along_axis(y, seen, 1))
        # Steps are clipped, so that a single one does not end a run.
        size = np.sqrt(sum((part**2).sum((-1, -2), keepdims=True) for part in slope))
        net = [w - lr * g / np.maximum(size / 5, 1) for w, g in zip(net, slope, strict=True)]
    return net


@study("book/fig-2.3", section="2.6", title="Step sizes that are lowered twice")
def run(config: Config) -> xr.Dataset:
    r"""SGD trains a network with a step size that is divided by 10 twice. At each drop the training loss falls.
    Training and test loss are related in no simple way: the test loss may rise while the training loss falls. The
    figure's network is PreResNet-32 on CIFAR-10 with batches of 128 and a first step size of 1. The network here has a
    few residual blocks with the activation in front. It learns digits, and CIFAR-10 at the scale of the paper.
    """
    rng = np.random.default_rng(config.seed)
    limits: dict[str, Any] = {"samples": config.samples, "labels": "one-hot", "dtype": np.float64}
    tasks = [data.load(config.data, seed=int(seed), **limits) for seed in rng.integers(2**31, size=config.draws)]
    x, y, new, wanted = (np.stack(part) for part in zip(*((*task.train, *task.test) for task in tasks), strict=True))
    scale = LENGTH / x.shape[-1] ** 0.5
    x, new = scale * x, scale * new
    sizes = [x.shape[-1], *[config.width] * (config.blocks + 1), y.shape[-1]]
    # The outputs of blocks add up, so more blocks need smaller weights.
    gains = [1.0, *[(2 / config.blocks) ** 0.5] * config.blocks, 1.0]
    net = [
        gain * rng.normal(size=(config.draws, a, b)) / length
        for gain, a, b, length in zip(gains, sizes, sizes[1:], [LENGTH, *np.sqrt(sizes[1:-1])], strict=False)
    ]
    nets, values = {"lowered": net, "kept": net}, []
    for pass_ in range(config.epochs + 2 * config.later + 1):
        drops = 0 if pass_ < config.epochs else 1 + (pass_ >= config.epochs + config.later)
        order = np.argsort(rng.random((config.draws, config.samples)), 1)
        values.append([(loss(net, x, y), loss(net, new, wanted)) for net in nets.values()])
        lowered = epoch(nets["lowered"], x, y, order, config.batch, config.lr / config.factor**drops)
        kept = epoch(nets["kept"], x, y, order, config.batch, config.lr) if drops else lowered
        nets = {"lowered": lowered, "kept": kept}
    return xr.Dataset(
        {"loss": (("schedule", "epoch", "set", "draw"), np.swapaxes(values, 0, 1))},
        coords={"schedule": list(nets), "set": ["train", "test"]},
        attrs=tasks[0].attributes(),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    train = data.loss.sel(set="train")
    own, kept = np.log(train.sel(schedule="lowered")), np.log(train.sel(schedule="kept"))
    ends = (config.epochs, config.epochs + config.later)
    for name, end in zip(("first", "second"), ends, strict=True):
        # A record is made before the pass of its number: record `end` is the last one at the old step size.
        early, late = slice(end - 2, end + 1), slice(end + 1, end + config.later + 1)
        after = own[late].mean("epoch")
        fall, gain = after - own[early].mean("epoch"), after - kept[late].mean("epoch")
        sentence = f"{name} drop: log of the training loss, the passes after it less the last three before"
        yield claim(f"{name}-drop", sentence).at_most(0.0, estimate(fall), "the loss falls")
        sentence = f"{name} drop: log of the training loss after it, less that of runs that keep their step size"
        yield claim(f"{name}-drop-gain", sentence).at_most(0.0, estimate(gain), "the loss falls because of the drop")
    steps = data.loss.sel(schedule="lowered").diff("epoch")
    apart = (steps.sel(set="train") <= 0) & (steps.sel(set="test") > 0)
    sentence = "passes of all runs in which the training loss falls and the test loss rises"
    yield claim("opposite-passes", sentence).at_least(1, int(apart.sum()), "such passes exist")
    last = data.loss.sel(schedule="lowered")[-1]
    rough = np.abs(own.diff("epoch"))
    sentence = "mean change of the log training loss from pass to pass, after the second drop less before the first"
    yield claim("roughness", sentence).at_most(
        0.0,
        estimate(rough[ends[1] :].mean("epoch") - rough[2 : ends[0]].mean("epoch")),
        "small steps are steady",
        note=f"test loss over training loss at the end: {float((last[1] / last[0]).mean()):.2g}",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    for i, name in enumerate(data.set.values):
        left.semilogy(data.loss.sel(schedule="lowered", set=name)[:, 0], color=f"C{i}", label=name)
        for schedule, style in (("lowered", "-"), ("kept", ":")):
            middle = np.exp(np.log(data.loss.sel(schedule=schedule, set=name)).mean("draw"))
            right.semilogy(middle, style, color=f"C{i}", label=f"{name}, {schedule}")
    for axes in (left, right):
        sheet.mark(axes, x=(config.epochs, config.epochs + config.later), lw=0.8)
    sheet.label(left, "One network", "pass", "cross entropy", "best")
    sheet.label(right, f"Mean of {config.draws} networks", "pass", None, "best")
