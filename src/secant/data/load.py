"""One loader for every real data set: which classes, how many samples, how scaled, how labelled."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from secant.data.sets import READERS, Raw
from secant.data.task import Split, Task

NAMES = tuple(READERS)
"""The data sets by name."""

Labels = Literal["signs", "one-hot", "index"]
Scaling = Literal["feature", "global", "none"]


def load(
    name: str,
    *,
    classes: Sequence[int] | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    labels: Labels | None = None,
    scaling: Scaling = "feature",
    flat: bool = True,
    seed: int = 0,
    dtype: Any = np.float32,
) -> Task:
    r"""A data set, prepared for training.

    Args:
        name: one of `secant.data.NAMES`. `digits` needs no file; the others are read from `$SECANT_DATA`.
        classes: keep only these, in this order; by default all.
        samples: how many training samples, drawn at random without replacement; by default all.
        test_samples: how many test samples; by default all.
        labels: `signs` ($+1$ for the first class, $-1$ for the second), `one-hot`, or `index`. By default `signs` for
            two classes and `one-hot` for more.
        scaling: `feature` gives every input coordinate mean 0 and variance 1 over the training samples (constant
            ones become 0), `global` does so for all coordinates together, `none` leaves values in [0, 1].
        flat: whether inputs are vectors; otherwise images of shape `(height, width, channels)`.
        seed: of the random draw.
        dtype: of inputs and targets.

    Returns:
        The task, with every choice in its recipe.

    Example:
        ```python
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=100)
        task.train.x.shape, task.train.y[:3]
        ```
    """
    if name not in READERS:
        near = difflib.get_close_matches(name, READERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"load: unknown data set {name!r}.{hint} There are {', '.join(NAMES)}.")
    raw = READERS[name]()
    known = sorted(set(raw[1].tolist()))
    chosen = known if classes is None else list(classes)
    if len(set(chosen)) != len(chosen) or not set(chosen) <= set(known) or not chosen:
        raise ValueError(f"load: `classes` must be different labels out of {known}, got {classes!r}.")
    labels = labels or ("signs" if len(chosen) == 2 else "one-hot")
    if labels == "signs" and len(chosen) != 2:
        raise ValueError(f"load: `labels`='signs' needs two classes, got {len(chosen)}. Use 'one-hot' or 'index'.")
    random = np.random.default_rng(seed)
    train, test = (
        _draw(_pick(raw, part, chosen), count, random, argument)
        for part, count, argument in ((0, samples, "samples"), (2, test_samples, "test_samples"))
    )
    mean, spread = _moments(train[0], scaling)

    def finish(part: tuple[np.ndarray, np.ndarray]) -> Split:
        x = ((part[0] - mean) / spread).astype(dtype)
        x = x.reshape(len(x), -1) if flat else (x if x.ndim == 4 else x[..., None])
        return Split(x, _code(part[1], labels, len(chosen)).astype(dtype if labels != "index" else np.int32))

    recipe = {
        "data": name,
        "classes": chosen,
        "samples": len(train[0]),
        "test_samples": len(test[0]),
        "labels": labels,
        "scaling": scaling,
        "flat": flat,
        "seed": seed,
        "dtype": np.dtype(dtype).name,
    }
    return Task(finish(train), finish(test), recipe)


def _pick(raw: Raw, part: int, chosen: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The samples of the chosen classes, relabelled by their position in the list."""
    x, y = raw[part], raw[part + 1]
    position = np.full(max(int(y.max()), *chosen) + 1, -1)
    position[chosen] = np.arange(len(chosen))
    kept = position[y] >= 0
    return x[kept], position[y[kept]]


def _draw(
    part: tuple[np.ndarray, np.ndarray], count: int | None, random: np.random.Generator, argument: str
) -> tuple[np.ndarray, np.ndarray]:
    x, y = part
    if count is None:
        return x, y
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= len(x):
        raise ValueError(f"load: `{argument}` must be between 1 and the {len(x)} there are, got {count!r}.")
    order = random.permutation(len(x))[:count]
    return x[order], y[order]


def _moments(x: np.ndarray, scaling: str) -> tuple[Any, Any]:
    if scaling == "none":
        return 0.0, 1.0
    if scaling == "global":
        return x.mean(), x.std() or 1.0
    if scaling == "feature":
        spread = x.std(axis=0)
        return x.mean(axis=0), np.where(spread > 0, spread, 1.0)
    raise ValueError(f"load: `scaling` must be 'feature', 'global' or 'none', got {scaling!r}.")


def _code(index: np.ndarray, labels: str, count: int) -> np.ndarray:
    if labels == "index":
        return index
    if labels == "one-hot":
        return np.eye(count)[index]
    if labels == "signs":
        return 1.0 - 2.0 * index
    raise ValueError(f"load: `labels` must be 'signs', 'one-hot' or 'index', got {labels!r}.")
