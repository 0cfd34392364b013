"""The distance of a network from its linear and quadratic models: on a walk, by size, and with neurons moved alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import nets
from secant.core.device import jit
from secant.expansion import expand, remainders
from secant.nets import Network
from secant.theory.regression.quadratic_model import TwoLayer, gated_bilinear, gates

Activation = Callable[[jax.Array], jax.Array]


def outputs(activation: Activation, params: TwoLayer, x: jax.Array | np.ndarray) -> jax.Array:
    """The outputs of a two-layer network with any activation, one for each row of `x`."""
    return activation(x @ params.u.T / np.sqrt(x.shape[1])) @ params.v / np.sqrt(len(params.v))


def gaps(activation: Activation, start: TwoLayer, change: TwoLayer, x: jax.Array | np.ndarray) -> jax.Array:
    """Network minus linear, quadratic minus linear and network minus quadratic model, one row each, `(3, n)`."""
    return jnp.stack(remainders(lambda p: outputs(activation, p, x), start, change))


def gaps_alike(activation: Activation, start: TwoLayer, x: jax.Array, radius: float) -> jax.Array:
    """Root mean squares of the gaps over inputs, `(3,)`, when each neuron moves as far in inner as in outer weights.

    The inner weights move towards the input.
    """
    step = jnp.full_like(start.v, radius / np.sqrt(2 * len(start.v)))

    def at(sample: jax.Array) -> jax.Array:
        towards = TwoLayer(step[:, None] * sample / jnp.linalg.norm(sample), step)
        return gaps(activation, start, towards, sample[None])[:, 0]

    return jnp.sqrt(jnp.mean(jax.vmap(at)(x) ** 2, axis=0))


def forms_of_relu(key: jax.Array, x: jax.Array, width: int) -> xr.Dataset:
    """The forms of a two-layer ReLU network's quadratic model far from the start, and a walk there.

    Args:
        key: random key of the weights and of the direction, in which every weight moves by its own size.
        x: inputs, `(n, d)`.
        width: hidden neurons.

    Returns:
        A dataset over `form` (by autodiff, as a bilinear model, as printed): values at the end, and how far apart their
        slopes are. Over `distance`: outputs of the network and its models, and the share of `flips` among the gates.
    """
    net = nets.two_layer(width)

    def drawn(key: jax.Array, x: jax.Array) -> tuple[Any, Any, TwoLayer, jax.Array]:
        weights, change = jax.random.split(key)
        start = net.init(weights, x.shape)
        flat, unravel = ravel_pytree(start)
        first = _pair(start)
        return start, unravel(jax.random.normal(change, flat.shape)), first, gates(first.u, x)

    start, delta, first, on = jit(drawn, quick=True)(key, x)
    quadratic, linear = expand(net.apply, start, 2, method="general"), expand(net.apply, start, 1)
    forms = {
        "autodiff": lambda p: quadratic(p, x),
        "bilinear": lambda p: gated_bilinear(_pair(p), on, x),
        "printed": lambda p: _printed(_pair(p), first, x),
    }

    def at(distance: jax.Array) -> Any:
        return jax.tree.map(lambda w, d: w + distance * d, start, delta)

    @jax.jit
    def far(distance: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        found = [jax.vjp(form, at(distance)) for form in forms.values()]
        # One gradient, of a sum over the inputs with different weights, stands for the gradients of all outputs.
        weights = jnp.arange(1.0, len(x) + 1)
        return [outputs for outputs, _ in found], [ravel_pytree(pull(weights)[0])[0] for _, pull in found]

    @jax.jit
    @jax.vmap
    def walk(distance: jax.Array) -> dict[str, jax.Array]:
        params = at(distance)
        pair = _pair(params)
        return {
            "network": net.apply(params, x),
            "linear": linear(params, x),
            "quadratic": gated_bilinear(pair, on, x),
            "flips": jnp.mean(gates(pair.u, x) != on, axis=-1),
        }

    values, slopes = (np.stack(parts) for parts in far(1.0))
    distances = np.concatenate([[0.0, 1e-6, 1e-5, 1e-4], np.linspace(0.02, 1.5, 75)])
    line = {name: (("distance", "sample"), np.asarray(value)) for name, value in walk(distances).items()}
    return xr.Dataset(line, {"form": list(forms), "distance": distances}).assign(
        value=(("form", "sample"), values),
        slope_gap=("form", np.abs(slopes - slopes[0]).max(axis=1)),
        slope_size=np.abs(slopes[0]).max(),
    )


def _pair(params: Any) -> TwoLayer:
    return TwoLayer(params[0]["weight"].T, params[2]["weight"][:, 0])


def _printed(now: TwoLayer, start: TwoLayer, x: jax.Array) -> jax.Array:
    """Equation (3.10), term by term."""
    du, dv, hidden = now.u - start.u, now.v - start.v, jax.nn.relu(x @ start.u.T)
    moved = x @ du.T * gates(start.u, x)
    return (hidden @ start.v + (moved @ start.v + hidden @ dv + moved @ dv)) / jnp.sqrt(start.u.size)


def distances_by_size(net: Network, key: jax.Array, x: jax.Array, sizes: np.ndarray, directions: int) -> np.ndarray:
    """How far the linear and the quadratic model are from a smooth network, `(order, size, direction)`.

    The distances are root mean squares over the inputs and over both signs of a random direction.
    """

    def drawn(key: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        weights, change = jax.random.split(key)
        start = net.init(weights, x.shape)
        flat, _ = ravel_pytree(start)
        return start, flat, jax.random.normal(change, (directions, flat.size))

    start, flat, ways = jit(drawn, quick=True)(key)
    unravel = ravel_pytree(jax.tree.map(np.asarray, start))[1]
    models = [expand(net.apply, start, order) for order in (1, 2)]

    def distances(size: jax.Array, way: jax.Array) -> jax.Array:
        def one(sign: jax.Array) -> jax.Array:
            params = unravel(flat + sign * size * way)
            outputs = net.apply(params, x)
            return jnp.stack([model(params, x) - outputs for model in models])

        gaps = jax.vmap(one)(jnp.array([1.0, -1.0]))
        return jnp.sqrt(jnp.mean(gaps**2, axis=(0, 2)))

    over_sizes = jax.jit(jax.vmap(jax.vmap(distances, (None, 0)), (0, None)))
    return np.moveaxis(np.asarray(over_sizes(sizes, ways)), -1, 0)
