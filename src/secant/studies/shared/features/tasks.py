"""The tasks of sections 4.4 and C.4: data and network by name, with the gradient outer product to be found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import data, losses, nets
from secant.features import surrogate_agop
from secant.lab import Estimate, Finding, claim, estimate
from secant.nets.network import Network

TITLES = {
    "rank-2": "rank 2",
    "rank-3": "rank 3",
    "rank-4": "rank 4",
    "full-rank": "full rank",
    "digits": "8 by 8 digits",
    "usps": "USPS",
    "fashion-mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "cifar-2": "CIFAR-2",
}
"""Names of the tasks in figures. SVHN and CelebA of the thesis are not available."""

SHALLOW = ("rank-2", "full-rank")
"""Tasks with a two-layer network; all others have four layers."""

CLASSES = (0, 2)
"""The two classes of every real data set."""


ACCURACIES = {"usps": 0.992, "fashion-mnist": 0.918}
"""The thesis's test accuracies of the networks behind its true outer products."""


class Draw(NamedTuple):
    """Data and weights of one seed: one trajectory along an axis of a run."""

    seed: Any
    start: Any
    x: Any
    y: Any
    x_valid: Any
    y_valid: Any
    x_test: Any
    y_test: Any


class Sizes(NamedTuple):
    """The sizes of a task.

    Attributes:
        width: neurons of each hidden layer.
        samples: training samples; for real data at most as many as leave a fifth for validation.
        held_out: validation samples, and as many test samples; for real data at most as many as there are.
        dim: features of synthetic inputs.
        label_noise: share of wrong training labels in real data.
        epochs: epochs of the strong model whose gradient outer product stands for the truth of real data.
        parametrization: the network's parametrisation; PyTorch's also has biases.
    """

    width: int
    samples: int
    held_out: int
    dim: int = 100
    label_noise: float = 0.0
    epochs: int = 10
    parametrization: Literal["ntk", "pytorch"] = "ntk"


@dataclass(frozen=True, eq=False)
class FeatureTask:
    """A task with a known gradient outer product.

    Attributes:
        name: one of `TITLES`.
        net: the network that learns it.
        truth: the gradient outer product to be found, `(d, d)`.
        draw: seed -> data and weights.
        score: `(outputs, targets) -> number`: the mean square loss or, for classes, the share of wrong signs.
        strong: test accuracy of the model behind the truth; None for synthetic targets.
        tests: how many test samples gave this accuracy.
    """

    name: str
    net: Network
    truth: np.ndarray
    draw: Callable[[int], Draw]
    score: Callable[[Any, Any], Any]
    strong: float | None = None
    tests: int = 0

    @property
    def scored(self) -> str:
        """The name of the score, in words."""
        return "loss" if self.strong is None else "error"

    def loss(self, params: Any, x: Any, y: Any) -> Any:
        """The training loss: the mean square."""
        return losses.mean_mse(self.net.apply(params, x), y)

    def draws(self, seeds: Iterable[int]) -> Draw:
        """The draws of several seeds, stacked along a first axis."""
        return jax.tree.map(lambda *leaves: np.stack(leaves), *map(self.draw, seeds))


def check_panel(field: str, name: str) -> None:
    """Raises an error for an unknown task."""
    if name not in TITLES:
        raise ValueError(f"{field}: there is no {name!r}. There are {', '.join(TITLES)}.")


def feature_task(name: str, sizes: Sizes) -> FeatureTask:
    """The task of this name."""
    check_panel("panel", name)
    hidden = [sizes.width] * (1 if name in SHALLOW else 3)
    net = nets.mlp(hidden, parametrization=sizes.parametrization, bias=sizes.parametrization == "pytorch")
    if name in data.TARGETS:
        return FeatureTask(name, net, data.TARGETS[name].egop(sizes.dim), _synthetic(name, net, sizes), losses.mean_mse)
    truth, strong = strong_agop(name, sizes.epochs)
    return FeatureTask(name, net, truth, _real(name, net, sizes), wrong_signs, strong, _counts(name)[1])


def behind_the_truth(task: FeatureTask) -> dict[str, float]:
    """The facts about the network behind the truth that `truth_finding` needs."""
    return {"strong": np.nan if task.strong is None else task.strong, "tests": task.tests}


def scored(data: xr.Dataset) -> str:
    """The name of a run's score, in words, from the facts of `behind_the_truth`."""
    return "loss" if np.isnan(data.strong) else "error"


def truth_finding(name: str, data: xr.Dataset, errors: xr.DataArray) -> Iterator[Finding]:
    """Whether the network whose outer product stands for the truth is better than the networks compared with it.

    For a synthetic target there is no finding, because its truth is a formula.

    Args:
        name: the name of the task.
        data: a dataset with the facts of `behind_the_truth`.
        errors: test errors of the runs, over `seed`; NaN for runs that are left out.
    """
    accuracy, tests = float(data.strong), int(data.tests)
    if np.isnan(accuracy):
        return
    runs = estimate(errors.mean([dim for dim in errors.dims if dim != "seed"]))
    wrong = (1 - accuracy) * tests
    chance = (wrong + 1) / (tests + 2)  # the chance of an error, positive even if there was none
    spread = float(np.hypot(runs.error, np.sqrt(chance * (1 - chance) / tests)))
    printed = f", {ACCURACIES[name]:.1%} in the thesis" if name in ACCURACIES else ""
    sentence = "test error of the network whose outer product is the truth, less the test error of the runs"
    yield claim(f"{name}-truth", f"{TITLES[name]}: {sentence}").at_most(
        0.0,
        Estimate(1 - accuracy - runs.value, spread, runs.freedom),
        "what stands for the truth knows better",
        note=f"its accuracy is {accuracy:.1%} of {tests} samples{printed}",
    )


def wrong_signs(outputs: Any, targets: Any) -> Any:
    """Share of outputs with the wrong sign."""
    return jnp.mean((outputs > 0) != (targets > 0))


def _synthetic(name: str, net: Network, sizes: Sizes) -> Callable[[int], Draw]:
    def draw(seed: int) -> Draw:
        of_data, of_net = jax.random.split(jax.random.key(seed))
        task = data.regression(
            name,
            of_data,
            samples=sizes.samples,
            validation_samples=sizes.held_out,
            test_samples=sizes.held_out,
            dim=sizes.dim,
        )
        assert task.validation is not None
        return Draw(np.uint32(seed), net.init(of_net, task.train.x.shape), *task.train, *task.validation, *task.test)

    return draw


def _real(name: str, net: Network, sizes: Sizes) -> Callable[[int], Draw]:
    available, tests = _counts(name)
    samples = min(sizes.samples, available - available // 5)
    limits = {"validation_samples": available - samples, "test_samples": tests}

    def draw(seed: int) -> Draw:
        counts = {limit: min(sizes.held_out, most) for limit, most in limits.items()}
        task = _load(name, samples=samples, label_noise=sizes.label_noise, seed=seed, **counts)
        assert task.validation is not None
        start = net.init(jax.random.split(jax.random.key(seed))[1], task.train.x.shape)
        return Draw(np.uint32(seed), start, *task.train, *task.validation, *task.test)

    return draw


@functools.cache
def strong_agop(name: str, epochs: int) -> tuple[np.ndarray, float]:
    """The gradient outer product of a convolutional network that has seen all training samples, and its accuracy.

    Pixels of one colour have one scale. The scales of other draws therefore change only the size of the matrix.
    """
    available, _ = _counts(name)
    task = _load(name, validation_samples=available // 5, flat=False)
    found = surrogate_agop(_strong(), task, epochs=epochs)
    return np.asarray(found.agop), found.test_accuracy


def _strong() -> Network:
    """Two convolutions, each pooled, and two dense layers."""
    rule: dict[str, Any] = {"parametrization": "pytorch", "bias": True}
    layers: list[Network] = []
    for channels in (12, 24):
        layers += [nets.conv(channels, 3, **rule), nets.activation("relu"), nets.average_pool(2)]
    dense = [nets.flatten(), nets.dense(64, **rule), nets.activation("relu"), nets.dense(1, last=True, **rule)]
    return nets.serial(*layers, *dense, nets.scalar(), name="strong")


@functools.cache
def _counts(name: str) -> tuple[int, int]:
    task = _load(name)
    return len(task.train), len(task.test)


def _load(name: str, **options: Any) -> data.Task:
    known = "cifar10" if name == "cifar-2" else name
    return data.load(known, classes=CLASSES, labels="signs", scaling="channel", **options)
