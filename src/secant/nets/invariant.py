"""Networks whose outputs do not depend on the scale of their weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal

from secant.nets.activations import Function
from secant.nets.layers.activation import activation as activation_layer
from secant.nets.layers.checks import at_least_one, one_of
from secant.nets.layers.combinators import serial
from secant.nets.layers.dense import dense
from secant.nets.layers.frozen import frozen
from secant.nets.layers.norm import batch_norm, group_norm, layer_norm
from secant.nets.layers.shape import scalar
from secant.nets.network import Network
from secant.nets.parametrization import Parametrization, parametrized


def scale_invariant(
    widths: Sequence[int],
    outputs: int = 1,
    *,
    activation: str | Function = "relu",
    norm: Literal["layer", "group", "batch"] = "layer",
    groups: int = 2,
    gain: bool = False,
    epsilon: float = 0.0,
    parametrization: str | Parametrization = "ntk",
    seed: int = 0,
    name: str = "scale_invariant",
) -> Network:
    r"""A fully connected network with $f(c\,w, x) = f(w, x)$ for all $c > 0$.

    Every hidden layer is $x \mapsto \sigma(\mathrm{norm}(xW))$. Nothing behind the last norm is trained: its gain is 1,
    its shift is 0, and the last layer is drawn from a seed. Without gains, each $W$ alone is scale-invariant, with any
    activation. With trained gains and shifts in the norms before the last, all parameters together are scale-invariant,
    if the activation is homogeneous, such as ReLU.

    Args:
        widths: sizes of the hidden layers, at least one.
        outputs: how many outputs; one gives outputs of shape `(samples,)`.
        activation: name or function, after every norm.
        norm: over the features of a sample, over groups of them, or over the batch.
        groups: of `norm="group"`.
        gain: whether all norms but the last have a trained gain and shift.
        epsilon: added to variances. Above 0 the invariance is lost, by about the ratio of `epsilon` to the variance.
        parametrization: of the dense layers.
        seed: of the last layer.
        name: the network's name in errors and records.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        from secant import nets

        net = nets.scale_invariant([16, 16], outputs=3)
        x = jax.random.normal(jax.random.key(0), (5, 4))
        params = net.init(jax.random.key(1), x.shape)
        larger = jax.tree.map(lambda w: 7 * w, params)
        print(bool(jnp.allclose(net.apply(params, x), net.apply(larger, x), rtol=1e-4)))
        ```
        ```text
        True
        ```
    """
    sizes = list(widths)
    if not sizes:
        raise ValueError(
            "scale_invariant: `widths` is empty. Pass at least one size: without a hidden layer nothing is trained."
        )
    at_least_one("scale_invariant", outputs=outputs)
    kinds: dict[str, Callable[..., Network]] = {
        "layer": layer_norm,
        "group": functools.partial(group_norm, groups),
        "batch": batch_norm,
    }
    one_of("scale_invariant", "norm", norm, tuple(kinds))
    rule = parametrized(parametrization)
    layers: list[Network] = []
    for index, size in enumerate(sizes):
        trained = gain and index < len(sizes) - 1
        normalise = kinds[norm](gain=trained, shift=trained, epsilon=epsilon)
        layers += [dense(size, parametrization=rule), normalise, activation_layer(activation)]
    layers.append(frozen(dense(outputs, parametrization=rule, last=True), seed))
    return serial(*layers, *([scalar()] if outputs == 1 else []), name=name)
