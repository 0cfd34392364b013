"""The problems of the table: data and weights as plain arrays, the same for us and for every peer.

Weights of dense layers are stored (in, out), of convolutions (height, width, in, out); everything is float32.

- `kernel_mlp`: 784-512-512-512-10 with relu.
- `kernel_cnn`: two convolutions 3 x 3 of 32 channels, each with relu, then flatten and dense 10: three layers.
- `kernel_resnet`: a convolution 3 x 3 of 16 channels; three blocks `shortcut(h) + conv(relu(conv(relu(h))))` of 16, 32
  and 64 channels; relu, the mean over pixels, dense 10. The second and third block halve the image in their first
  convolution and in their shortcut, which is a convolution 1 x 1; the first has the identity for a shortcut.
- `cifar_tanh`: 3072-200-200-10 with tanh, weights and biases uniform in +-1/sqrt(fan-in) and used as they are.

The first three are in the NTK parametrisation: weights N(0, 1), each product over the root of its fan-in, no bias.
Convolutions pad with zeros and keep the size of the image.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable

import numpy as np

Problem = dict[str, np.ndarray]

CLASSES = 10
LEARNING_RATE = 0.005
"""Of gradient descent on `cifar_tanh`: below the edge of stability, so that two programs stay on one trajectory."""

WIDTHS = (3072, 200, 200, CLASSES)
"""Of the network of `cifar_tanh`."""


def kernel_mlp(samples: int = 32, width: int = 512, seed: int = 0) -> Problem:
    """`x` (samples, 784) and the weights `w0` to `w3`."""
    random = np.random.default_rng(seed)
    widths = (784, width, width, width, CLASSES)
    return {"x": _normal(random, samples, 784)} | _named(
        _normal(random, *shape) for shape in itertools.pairwise(widths)
    )


def kernel_cnn(samples: int = 32, channels: int = 32, seed: int = 0) -> Problem:
    """`x` (samples, 16, 16, 3) and the weights `w0` to `w2`, of which the last is dense."""
    random = np.random.default_rng(seed)
    shapes = [(3, 3, 3, channels), (3, 3, channels, channels), (256 * channels, CLASSES)]
    return {"x": _normal(random, samples, 16, 16, 3)} | _named(_normal(random, *shape) for shape in shapes)


def kernel_resnet(samples: int = 32, channels: tuple[int, ...] = (16, 32, 64), seed: int = 0) -> Problem:
    """`x` (samples, 16, 16, 3) and the weights: the first convolution, two or three a block, the dense layer."""
    random = np.random.default_rng(seed)
    shapes: list[tuple[int, ...]] = [(3, 3, 3, channels[0])]
    for before, width in itertools.pairwise((channels[0], *channels)):
        shapes += [(3, 3, before, width), (3, 3, width, width)]
        shapes += [(1, 1, before, width)] if width != before else []
    shapes += [(channels[-1], CLASSES)]
    return {"x": _normal(random, samples, 16, 16, 3)} | _named(_normal(random, *shape) for shape in shapes)


def cifar_tanh(samples: int = 1000, seed: int = 0) -> Problem:
    """`x` (samples, 3072), one-hot `y`, weights `w0` to `w2` and biases `b0` to `b2`.

    The loss is the sum of squares over outputs, averaged over samples. Where CIFAR-10 is not on the machine
    (`SECANT_DATA`), Gaussian inputs with random labels take its place: the same work, other eigenvalues.
    """
    from secant.data import load
    from secant.data.sets import MissingDataError

    random = np.random.default_rng(seed)
    try:
        train = load("cifar10", samples=samples, test_samples=1, labels="one-hot", seed=seed).train
        x, y = train.x, train.y
    except MissingDataError:
        print("CIFAR-10 is not here (SECANT_DATA): Gaussian inputs and random labels instead", file=sys.stderr)
        x = _normal(random, samples, WIDTHS[0])
        y = np.eye(CLASSES, dtype=np.float32)[random.integers(CLASSES, size=samples)]
    return {"x": np.asarray(x, np.float32), "y": np.asarray(y, np.float32)} | tanh_weights(seed)


def tanh_weights(seed: int = 0) -> Problem:
    """Weights and biases of the 3072-200-200-10 network."""
    random = np.random.default_rng(seed + 1)
    weights: Problem = {}
    for index, (fan_in, fan_out) in enumerate(itertools.pairwise(WIDTHS)):
        bound = 1 / math.sqrt(fan_in)
        weights[f"w{index}"] = random.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32)
        weights[f"b{index}"] = random.uniform(-bound, bound, fan_out).astype(np.float32)
    return weights


def _normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32)


def _named(weights: Iterable[np.ndarray]) -> Problem:
    return {f"w{index}": weight for index, weight in enumerate(weights)}
