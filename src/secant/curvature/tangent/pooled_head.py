r"""Pooled heads: how the end of most image networks, after their last convolution, simplifies the signals below it.

The head is an activation, the mean over positions and a dense layer:
$f_\alpha = \frac{1}{P}\sum_{p, o} v_{\alpha o}\, \sigma(z_{po}) + b_\alpha$.
The signal at $z$ is then $v_{\alpha o} \cdot \sigma'(z_{po}) / P$. Outputs differ only by a factor for each channel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.nets.layers import Activation, Conv, Dense, GlobalAveragePool, Residual, Serial
from secant.nets.network import Network
from secant.nets.taps import observe


class Alike(NamedTuple):
    """Signals that differ between outputs by factors only.

    Attributes:
        weights: the parameters whose outputs are summed to $z$.
        signal: of all outputs, at $z$, `(samples, *positions, channels)`.
        factors: `(outputs, channels)`.
    """

    weights: list[Array]
    signal: Array
    factors: Float[Array, "k channels"]


def below_the_head(net: Network, params: Any, x: Array) -> Alike | None:
    """The signals below the head, for a network that has one and convolutions right below it; else None."""
    head = [type(part.layer) for part in net.parts[-3:]]
    if not isinstance(net.layer, Serial) or head != [Activation, GlobalAveragePool, Dense]:
        return None
    weights = _ends(net.parts[-4], params[-4]) if len(net.parts) > 3 else []
    if not weights:
        return None

    def body() -> Array:
        values = x
        for part, own in zip(net.parts[:-3], params[:-3], strict=True):
            values = part.run(own, values)
        return values

    # The outputs are observed so that the compiler sees the same forward pass as for all other signals.
    z = observe(body)[0]
    activation, pool, dense = net.parts[-3:]
    features, pull = jax.vjp(lambda z: pool.run((), activation.run((), z)), z)
    readout = jax.jacobian(lambda one: dense.run(params[-1], one[None])[0])(jnp.zeros_like(features[0]))
    return Alike(weights, pull(jnp.ones_like(features))[0], readout.reshape(-1, features.shape[-1]))


def _ends(net: Network, params: Any) -> list[Array]:
    """The weights of convolutions whose outputs, summed, are this network's."""
    match net.layer:
        case Conv():
            return [params["weight"]]
        case Serial():
            return _ends(net.parts[-1], params[-1])
        case Residual():
            return _ends(net.parts[0], params[0]) + _ends(net.parts[1], params[1])
        case _:
            return []
