"""The loader of every real data set, `load`: chooses classes, samples, scaling and labels."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from secant.core.arguments import whole
from secant.data import scaling as scalings
from secant.data.errors import CorruptDataError
from secant.data.sets import READERS, Raw
from secant.data.task import Split, Task

NAMES = tuple(READERS)
"""The data sets by name."""

Labels = Literal["signs", "one-hot", "index"]
Scaling = Literal["feature", "channel", "global", "none"]
Part = tuple[np.ndarray, np.ndarray]


def load(
    name: str,
    *,
    classes: Sequence[int] | None = None,
    samples: int | None = None,
    validation_samples: int | None = None,
    test_samples: int | None = None,
    labels: Labels | None = None,
    label_noise: float = 0.0,
    scaling: Scaling = "feature",
    flat: bool = True,
    seed: int = 0,
    dtype: Any = np.float32,
) -> Task:
    r"""A data set, prepared for training.

    Args:
        name: one of `secant.data.NAMES`. `digits` and `breast-cancer` need no file; the others are read from
            `$SECANT_DATA`, or downloaded once.
        classes: the classes to keep, in this order; by default all.
        samples: how many training samples, drawn at random without replacement; by default all.
        validation_samples: how many of the other training samples to hold out for validation; by default none.
        test_samples: how many test samples; by default all.
        labels: `signs` ($+1$ for the first class, $-1$ for the second), `one-hot`, or `index`. By default `signs` for
            two classes and `one-hot` for more.
        label_noise: fraction of the training samples that get a wrong label. Exactly this share, rounded to whole
            samples, changes to another random class. Validation and test labels stay true.
        scaling: `feature` gives every input coordinate mean 0 and variance 1 over the training samples (constant
            coordinates become 0), `channel` all coordinates of a colour together, `global` all coordinates together;
            `none` leaves values in [0, 1].
        flat: whether inputs are vectors; otherwise images of shape `(height, width, channels)`.
        seed: seed of the random draw and of the label noise.
        dtype: the type of inputs and targets.

    Returns:
        The task, with every choice in its recipe. In the recipe `source` names where the data came from, and `digest`
        distinguishes data sets of the same name, such as all of CIFAR-10 and a part of it.

    Example:
        ```python
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=100)
        task.train.x.shape, task.train.y[:3]
        ```
    """
    # Arguments that do not depend on the data are checked before any data is read or downloaded.
    _choice("name", name, NAMES)
    _choice("scaling", scaling, scalings.SCALINGS)
    if labels is not None:
        _choice("labels", labels, ("signs", "one-hot", "index"))
    if not isinstance(label_noise, Real) or not 0 <= label_noise < 1:
        raise ValueError(f"load: `label_noise` must be a fraction, at least 0 and below 1, got {label_noise!r}.")
    try:
        floating = jnp.issubdtype(dtype, jnp.floating)
    except TypeError:
        floating = False
    if not floating:
        raise ValueError(f"load: `dtype` must be a floating type such as 'float32', got {dtype!r}.")
    seed = whole("load", "seed", seed, 0)
    for argument, count in (
        ("samples", samples),
        ("validation_samples", validation_samples),
        ("test_samples", test_samples),
    ):
        if count is not None:
            whole("load", argument, count, 1)

    raw = READERS[name]()
    chosen = _classes(raw, classes)
    labels = labels or ("signs" if len(chosen) == 2 else "one-hot")
    if labels == "signs" and len(chosen) != 2:
        raise ValueError(f"load: `labels`='signs' needs two classes, got {len(chosen)}. Use 'one-hot' or 'index'.")
    if label_noise and len(chosen) < 2:
        raise ValueError("load: `label_noise` needs a second class to change labels to; `classes` has one.")

    random = np.random.default_rng(seed)
    train, validation = _draw(_pick(raw.x, raw.y, chosen), samples, validation_samples, random)
    test, _ = _draw(_pick(raw.x_test, raw.y_test, chosen), test_samples, None, random, "test_samples")
    train = train[0], _noisy(train[1], label_noise, len(chosen), seed)
    mean, spread = scalings.moments(train[0], scaling, raw.top)

    def finish(part: Part) -> Split:
        x = scalings.apply(part[0], mean, spread, dtype)
        y = _code(part[1], labels, len(chosen)).astype(np.int32 if labels == "index" else dtype)
        return Split(x.reshape(len(x), -1) if flat else x, y)

    recipe = {
        "data": name,
        "source": raw.source,
        "digest": raw.digest,
        "classes": chosen,
        "samples": len(train[0]),
        "validation_samples": 0 if validation is None else len(validation[0]),
        "test_samples": len(test[0]),
        "labels": labels,
        "label_noise": float(label_noise),
        "scaling": scaling,
        "flat": bool(flat),
        "seed": seed,
        "dtype": jnp.dtype(dtype).name,
    }
    return Task(finish(train), finish(test), recipe, None if validation is None else finish(validation))


def _choice(argument: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"load: `{argument}` must be one of {', '.join(allowed)}; got {value!r}.{hint}")


def _classes(raw: Raw, classes: Sequence[int] | None) -> list[int]:
    """The labels to keep. Each has training and test samples."""
    known = np.intersect1d(raw.y, raw.y_test).tolist()
    if not known:
        raise CorruptDataError(f"load: no class has both training and test samples in {raw.source}.")
    if classes is None:
        return known
    try:
        chosen = [operator.index(label) for label in classes]
    except TypeError:
        chosen = []
    if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(known):
        raise ValueError(f"load: `classes` must be different labels out of {known}, got {classes!r}.")
    return chosen


def _pick(x: np.ndarray, y: np.ndarray, chosen: list[int]) -> Part:
    """The samples of the chosen classes as `(height, width, channels)`, labelled by their position in the list."""
    kept = np.isin(y, chosen)
    position = np.searchsorted(chosen, y[kept], sorter=(order := np.argsort(chosen)))
    return (x if x.ndim == 4 else x[..., None])[kept], order[position]


def _draw(
    part: Part, count: int | None, held_out: int | None, random: np.random.Generator, argument: str = "samples"
) -> tuple[Part, Part | None]:
    """A random draw of samples, and held-out others; without a count all samples, in their own order."""
    x, y = part
    if count is not None and count > len(x):
        raise ValueError(f"load: `{argument}` must be between 1 and {len(x)}, the number in the data, got {count}.")
    if count is None and held_out is None:
        return part, None
    order = random.permutation(len(x))
    if held_out is None:
        return (x[order[:count]], y[order[:count]]), None
    most = len(x) - (1 if count is None else count)
    if held_out > most:
        raise ValueError(
            f"load: `validation_samples` can be at most {most} of the {len(x)} in the data, because "
            f"{'one' if count is None else count} must be left to train on; got {held_out}."
        )
    count = len(x) - held_out if count is None else count
    first, second = order[:count], order[count : count + held_out]
    return (x[first], y[first]), (x[second], y[second])


def _noisy(index: np.ndarray, fraction: float, count: int, seed: int) -> np.ndarray:
    """Changes the class of a fraction of the samples to another one."""
    changed = round(fraction * len(index))
    if not changed:
        return index
    random = np.random.default_rng([seed, 1])  # a generator of its own, so that noise does not change the drawn samples
    which = random.choice(len(index), changed, replace=False)
    index = index.copy()
    index[which] = (index[which] + random.integers(1, count, changed)) % count
    return index


def _code(index: np.ndarray, labels: str, count: int) -> np.ndarray:
    if labels == "index":
        return index
    return np.eye(count)[index] if labels == "one-hot" else 1.0 - 2.0 * index
