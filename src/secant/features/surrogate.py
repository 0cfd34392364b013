r"""Which input directions matter in real data, learned from a strong model of the data.

Nobody knows the target of real data, nor its expected gradient outer product. The average gradient outer product of a
model that has learned the data well takes its place. The result states how accurate the model is.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import whole
from secant.core.device import jit
from secant.core.types import Params
from secant.curvature.checks import outputs_of
from secant.data import Split, Task
from secant.features.agop import agop
from secant.nets.network import Network

TOGETHER = 256
"""How many samples are evaluated at once."""


class Surrogate(NamedTuple):
    """A strong model of some data, and the input directions that it uses.

    Attributes:
        agop: its average gradient outer product over the training inputs, shape `(d, d)`.
        params: its parameters at the best validation accuracy.
        validation_accuracy: share of the validation samples that it classifies right.
        test_accuracy: share of the test samples that it classifies right; they did not choose the epoch.
        epoch: the epoch after which it was best; 0 is the start.
    """

    agop: Float[Array, "d d"]
    params: Params
    validation_accuracy: float
    test_accuracy: float
    epoch: int


def surrogate_agop(
    net: Network, task: Task, *, epochs: int = 10, batch: int = 32, lr: float = 2e-3, seed: int = 0
) -> Surrogate:
    r"""The average gradient outer product of a network that is trained to classify.

    Adam minimises the mean square of outputs minus labels, with a step size that falls to zero along a cosine. After
    every epoch the network is judged on the validation samples, and the first of the best epochs is kept.

    Args:
        net: the network, such as `secant.nets.myrtle5(parametrization="pytorch", bias=True)` for images.
        task: inputs, images or vectors, with labels of -1 and 1 or one-hot, and with validation samples.
        epochs: passes over the training samples.
        batch: samples a step. Samples that do not fill the last batch of an epoch are left out of the epoch.
        lr: Adam's step size at the start.
        seed: seed of weights and batches.

    Example:
        ```python
        import secant as sc

        task = sc.data.load("digits", classes=(0, 2), validation_samples=60)
        found = sc.features.surrogate_agop(sc.nets.mlp([64], parametrization="pytorch"), task)
        print(found.agop.shape, found.test_accuracy > 0.95)
        ```
        ```text
        (64, 64) True
        ```
    """
    validation = _check(net, task, epochs, batch, lr)
    per_epoch = len(task.train) // batch
    begin, advance, apply = _compiled(net, float(lr), int(batch), per_epoch, int(epochs))
    of_net, of_batches = jax.random.split(jax.random.key(seed))
    kept = net.init(of_net, task.train.x.shape)
    carry, best, after = begin(kept), _accuracy(apply, kept, validation), 0
    for number in range(epochs):
        carry = advance(carry, jax.random.fold_in(of_batches, number), *task.train)
        found = _accuracy(apply, carry[0], validation)
        if found > best:
            best, after, kept = found, number + 1, carry[0]
    return Surrogate(
        agop(net.apply, kept, jnp.asarray(task.train.x)), kept, best, _accuracy(apply, kept, task.test), after
    )


@functools.lru_cache(maxsize=4)
def _compiled(net: Network, lr: float, batch: int, per_epoch: int, epochs: int) -> tuple[Any, Any, Any]:
    """Compiled functions: parameters -> start of the training, one epoch, and the outputs of a block of samples."""
    import optax

    adam = optax.adam(optax.cosine_decay_schedule(lr, epochs * per_epoch))

    def epoch(carry: tuple[Params, Any], key: Array, x: Array, y: Array) -> tuple[Params, Any]:
        def step(carry: tuple[Params, Any], rows: Array) -> tuple[tuple[Params, Any], None]:
            params, memory = carry
            slope = jax.grad(lambda p: jnp.mean((net.apply(p, x[rows]) - y[rows]) ** 2))(params)
            change, memory = adam.update(slope, memory, params)
            return (jax.tree.map(jnp.add, params, change), memory), None

        order = jax.random.permutation(key, len(x))[: per_epoch * batch]
        return jax.lax.scan(step, carry, order.reshape(per_epoch, batch))[0]

    return jit(lambda params: (params, adam.init(params))), jit(epoch), jit(net.apply)


def _accuracy(apply: Any, params: Params, part: Split) -> float:
    """Share of samples that are classified right. Blocks have one size, so that one program evaluates all."""
    count = len(part)
    padded = np.concatenate([part.x, np.repeat(part.x[:1], -count % TOGETHER, axis=0)])
    blocks = padded.reshape(-1, TOGETHER, *part.x.shape[1:])
    found = np.concatenate([np.asarray(apply(params, block)) for block in blocks])[:count]
    if part.y.ndim == 1:
        return float(np.mean((found > 0) == (part.y > 0)))
    return float(np.mean(found.argmax(axis=1) == part.y.argmax(axis=1)))


def _check(net: Network, task: Task, epochs: Any, batch: Any, lr: Any) -> Split:
    """Checks the arguments and returns the validation samples."""
    for name, value in (("epochs", epochs), ("batch", batch)):
        whole("surrogate_agop", name, value, 1)
    if not np.isfinite(lr) or lr <= 0:
        raise ValueError(f"surrogate_agop: `lr` must be a finite number above 0, got {lr!r}.")
    if task.validation is None:
        raise ValueError(
            "surrogate_agop: `task` has no validation samples to choose the best model by. Load it with "
            "`validation_samples`."
        )
    if batch > len(task.train):
        raise ValueError(f"surrogate_agop: `batch` can be at most the {len(task.train)} samples, got {batch}.")
    for name, (x, y) in (("train", task.train), ("validation", task.validation), ("test", task.test)):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(f"surrogate_agop: inputs of `task.{name}` are of type {x.dtype}; pass floating-point ones.")
        signs = y.ndim == 1 and np.isin(y, (-1, 1)).all()
        one_hot = y.ndim == 2 and np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()
        if len(y) != len(x) or not (signs or one_hot):
            raise ValueError(
                f"surrogate_agop: labels of `task.{name}` must be -1 and 1, shape ({len(x)},), or one-hot, shape "
                f"({len(x)}, classes); got shape {y.shape} and type {y.dtype}. Load with labels='signs' or 'one-hot'."
            )
    labels = task.train.y
    if (labels == labels[0]).all():
        raise ValueError("surrogate_agop: all training labels are the same; nothing can be learned. Give two classes.")
    params = jax.eval_shape(lambda key: net.init(key, task.train.x.shape), jax.random.key(0))
    outputs = outputs_of("surrogate_agop", net.apply, params, task.train.x)
    if outputs.shape != labels.shape:
        raise ValueError(
            f"surrogate_agop: the network's outputs have shape {outputs.shape} and the labels {labels.shape}. Make it "
            f"with outputs={1 if labels.ndim == 1 else labels.shape[1]}."
        )
    return task.validation


__all__ = ["Surrogate", "surrogate_agop"]
