"""The networks and data of the figures of catapults in training, figures 4.2 to 4.7, C.1 to C.12 and C.22."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant import data, losses, nets
from secant.core.device import jit
from secant.core.memo import kept
from secant.curvature import kernel_critical_lr
from secant.lab import Options, fits_memory, option, options, scaled
from secant.nets.network import Network
from secant.nets.reduction import reduce_inputs
from secant.studies.shared.panels import shrunk

CLASSES = (7, 9)
"""The thesis's two classes of CIFAR-10, horses and trucks if counted from 0. The thesis does not state the count."""


class Panel(NamedTuple):
    """A network and the step size at which the thesis trains it.

    Attributes:
        title: its name in a figure.
        network: the kind of network, see `network`.
        lr: the printed step size; None if none is printed.
        critical: the printed critical step size at the start.
        outputs: 1 for two classes, labelled by signs, or 10, one-hot.
        target: a synthetic regression target instead of images.
        otherwise: the step size over the critical one, if they are not printed.
    """

    title: str
    network: str
    lr: float | None
    critical: float | None
    outputs: int = 1
    target: str | None = None
    otherwise: float = 1.5

    @property
    def ratio(self) -> float:
        """The printed step size over the printed critical one, or `otherwise`."""
        return self.otherwise if self.lr is None or self.critical is None else self.lr / self.critical


PANELS = {
    "shallow": Panel("Shallow", "shallow", 0.8, None),
    "fcn": Panel("5-layer FCN", "fcn", 6.0, 3.6),
    "cnn": Panel("5-layer CNN", "cnn", 8.0, 4.5),
    "rank-2": Panel("5-layer FCN, rank 2", "fcn", 5.0, 1.9, 1, "rank-2"),
    "wide-resnet": Panel("Wide ResNet 10-10", "wide-resnet", 3.0, 1.5),
    "fcn-10": Panel("5-layer FCN, ten classes", "fcn", 100.0, 34.0, 10),
    "cnn-10": Panel("5-layer CNN, ten classes", "cnn", 80.0, 16.0, 10),
    "vit": Panel("ViT-4", "vit", 0.2, None),
    "rank-2-shallow": Panel("Shallow, rank 2", "shallow", None, None, 1, "rank-2", 0.5),
    "rank-4": Panel("4-layer FCN, rank 4", "fcn-4", None, None, 1, "rank-4", 0.5),
    "myrtle": Panel("Myrtle-5, ten classes", "myrtle", None, None, 10),
}
"""Panels by name. The thesis also has SVHN, which is not available."""

DENSE = ("shallow", "fcn", "fcn-4")
"""The fully connected networks, which see images as vectors."""


class Networks(Options):
    """Data and sizes."""

    data: str = scaled(smoke="digits", laptop="cifar10", help="a data set of images, of ten classes")
    pixels: Literal["length", "channel"] = option(
        "length", help="inputs of length sqrt(d), not centred, or channels standardised"
    )
    samples: int = options.samples(32, 128, at_least=4, at_most=5_000)
    width: int = options.width(64, 1_024, at_least=4)
    channels: int = scaled(smoke=8, laptop=32, paper=512, at_least=2, help="channels a layer, convolutional")
    widen: int = scaled(smoke=1, laptop=1, paper=10, at_least=1, at_most=100, help="widening factor of the Wide ResNet")
    features: int = options.features(16, 32, 64, at_least=4, at_most=10_000)
    side: int = scaled(
        smoke=4, laptop=8, paper=32, at_least=2, at_most=1_000, help="largest side of an image for all but FCNs"
    )
    parametrization: Literal["ntk", "pytorch"] = option("ntk", help="of the weights; PyTorch's has biases too")
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Checks that the data set exists, and that the networks fit into memory."""
        if self.data not in data.NAMES:
            raise ValueError(f"data: must be one of {', '.join(data.NAMES)}, got {self.data!r}.")
        neurons = max(self.width, 9 * self.channels)
        fits_memory(4.0 * (16 * neurons**2 + 100 * self.samples**2), "width, channels or samples")


class Start(NamedTuple):
    """A network before training, and its data.

    Attributes:
        net: the network.
        loss: mean squared error, over samples and outputs.
        params: its weights.
        x: inputs.
        y: targets.
        critical: the critical step size of all samples, by the tangent kernel.
    """

    net: Network
    loss: losses.Loss
    params: Any
    x: Any
    y: Any
    critical: float


def check_panels(field: str, names: tuple[str, ...], known: Collection[str] = tuple(PANELS)) -> None:
    """Raises an error for unknown panels."""
    for name in names:
        if name not in known:
            raise ValueError(f"{field}: there is no {name!r}; must be some of {', '.join(known)}.")


def network(panel: Panel, config: Networks) -> Network:
    """The network of a panel."""
    k = panel.outputs
    rule: dict[str, Any] = {"parametrization": config.parametrization, "bias": config.parametrization == "pytorch"}
    match panel.network:
        case "shallow":
            return nets.mlp([config.width], k, **rule)
        case "fcn":
            return nets.mlp([config.width] * 4, k, **rule)
        case "fcn-4":
            return nets.mlp([config.width] * 3, k, **rule)
        case "cnn":
            return nets.cnn([config.channels] * 4, k, **rule)
        case "wide-resnet":
            return nets.wide_resnet(10, config.widen, k, **rule)
        case "vit":
            return nets.vit4(k, dim=config.features, patch=max(1, min(4, config.side // 4)), **rule)
        case _:
            return nets.myrtle5(k, width=config.features, **rule)


def start_of(name: str, config: Networks, seed: int, net: Network | None = None) -> Start:
    """Draws data and weights of a panel. Pass one `net` for several seeds to share compiled code."""
    panel = PANELS[name]
    net = net or network(panel, config)
    x, y = _samples(panel, config, seed)
    params = net.init(jax.random.key(seed), x.shape)
    reduction = reduce_inputs(net, jnp.asarray(x)) if x.ndim == 2 else None
    if reduction is not None:  # in the span of the data the run is the same and costs less
        x, params = np.asarray(reduction.x), reduction.shrink(params)
    loss = losses.entry_mean if panel.outputs > 1 else losses.mean_mse
    return Start(net, loss, params, x, y, float(_critical_step(net, loss)(params, x)))


def starts_of(name: str, config: Networks, count: int) -> tuple[list[Start], np.ndarray]:
    """Several draws of a panel with one network, from the first seed on, and their critical step sizes."""
    net = network(PANELS[name], config)
    starts = [start_of(name, config, config.seed + i, net) for i in range(count)]
    return starts, np.array([start.critical for start in starts])


@kept
def _critical_step(net: Network, loss: losses.Loss) -> Callable[[Any, Any], Any]:
    return jit(kernel_critical_lr(net.apply, loss))


def curvature_of(loss: losses.Loss, targets: Any) -> float:
    """The second derivative of a squared loss by its outputs, for as many outputs as targets."""
    found = loss.curvature(targets)
    assert found is not None
    return found


def _samples(panel: Panel, config: Networks, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if panel.target is not None:
        task = data.regression(panel.target, jax.random.key(seed), samples=config.samples, test_samples=1, dim=100)
        return task.train.x, task.train.y
    images = panel.network not in DENSE
    x, y = data.load(
        config.data,
        classes=CLASSES if panel.outputs == 1 else None,
        samples=config.samples,
        test_samples=1,
        scaling="channel" if config.pixels == "channel" else "none",
        flat=not images,
        seed=seed,
    ).train
    if images:
        x = shrunk(x, -(-x.shape[1] // config.side))
    if config.pixels == "length":
        flat = x.reshape(len(x), -1)
        size = np.linalg.norm(flat, axis=1) / np.sqrt(flat.shape[1])
        x = x / size.reshape(-1, *[1] * (x.ndim - 1))
    return x.astype(np.float32), y
