"""The data sets and networks of the figures of best test loss and accuracy against step size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secant import data, nets
from secant.nets.network import Network


class Panel(NamedTuple):
    """A data set and the kind of network that learns it.

    Attributes:
        title: its name in a figure.
        data: a data set that `secant.data` knows.
        classes: two of its classes, labelled +1 and -1.
        images: whether the network is convolutional, on averages over squares of pixels.
        samples: training samples of the thesis.
        batch: samples a step; by default all.
        centred: whether the mean training input is subtracted. For spectrograms and clothes the mean is large, and
            would set the critical step alone.
    """

    title: str
    data: str
    classes: tuple[int, int]
    images: bool
    samples: int
    batch: int | None = None
    centred: bool = False


PANELS = {
    "digits": Panel("Digits of 8 by 8 pixels", "digits", (3, 8), False, 128),
    "mnist": Panel("MNIST", "mnist", (3, 8), False, 128),
    "cifar-2": Panel("CIFAR-2", "cifar10", (0, 2), False, 256),
    "cifar-2-sgd": Panel("CIFAR-2, batches of 32", "cifar10", (0, 2), False, 256, 32),
    "spoken-digits": Panel("Spoken digits", "spoken-digits", (1, 3), False, 256, None, True),
    "fashion-mnist-cnn": Panel("Fashion-MNIST, convolutional", "fashion-mnist", (0, 2), True, 256, None, True),
    "cifar-2-cnn": Panel("CIFAR-2, convolutional", "cifar10", (0, 2), True, 256),
}
"""Panels by name. The thesis also has AG News, and SVHN instead of our Fashion-MNIST.

The thesis does not name the classes of MNIST. The 8 by 8 digits are for smoke runs only: they replace MNIST, the first
panel of figure 3.4, with the same classes.
"""


def known_panel(panel: str, field: str = "panel") -> str:
    """The name of a panel. Unknown names are an error."""
    if panel not in PANELS:
        raise ValueError(
            f"{field}: there is no {panel!r}. Panels: {', '.join(PANELS)}; AG News of the thesis is not available."
        )
    return panel


def network(panel: Panel, config: Any) -> Network:
    """The network of a panel: fully connected, or convolutional on images."""
    if not panel.images:
        return nets.mlp([config.width] * (config.layers - 1), activation=config.activation)
    # On patches a convolution is a dense layer, which is faster than a convolution under vmap.
    layers = nets.dense(config.channels), nets.activation(config.activation)
    return nets.serial(*layers, nets.flatten(), nets.dense(1, last=True), nets.scalar(), name="cnn")


def draw(panel: Panel, config: Any, seed: int) -> tuple[data.Task, tuple[np.ndarray, ...]]:
    """A random draw: `(x, y, x_test, y_test)`. If test samples are too few, unused training samples join them."""
    choice = {"classes": panel.classes, "labels": "signs", "flat": not panel.images}
    whole = data.load(panel.data, scaling="none", **choice)  # type: ignore[arg-type]
    samples = min(config.images if panel.images else config.samples, panel.samples)
    test = min(config.held_out, len(whole.test))
    spare = min(config.held_out - test, len(whole.train) - samples)
    task = data.load(
        panel.data,
        scaling="channel",
        samples=samples,
        validation_samples=spare if spare > 0 else None,
        test_samples=test,
        seed=seed,
        **choice,  # type: ignore[arg-type]
    )
    tests = [task.test] if task.validation is None else [task.test, task.validation]
    split = (*task.train, np.concatenate([t.x for t in tests]), np.concatenate([t.y for t in tests]))
    x, x_test = split[0], split[2]
    if panel.centred:
        x, x_test = x - x.mean(axis=0), x_test - x.mean(axis=0)
    if panel.images:
        x, x_test = (patches(shrunk(images, -(-images.shape[1] // config.side))) for images in (x, x_test))
    size = np.sqrt(np.mean(x**2)) if panel.centred or panel.images else 1.0
    return task, (x / size, split[1], x_test / size, split[3])


def shrunk(images: np.ndarray, side: int) -> np.ndarray:
    """Means over squares of `side` pixels; pixels that do not fill a square are left out."""
    n, height, width, channels = images.shape
    rows, columns = height // side, width // side
    cut = images[:, : rows * side, : columns * side]
    return cut.reshape(n, rows, side, columns, side, channels).mean(axis=(2, 4))


def patches(images: np.ndarray) -> np.ndarray:
    """The 3 by 3 pixels around every pixel, with zeros beyond the border: `(samples, pixels, 9 channels)`."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.ascontiguousarray(views).reshape(len(images), images.shape[1] * images.shape[2], -1)
