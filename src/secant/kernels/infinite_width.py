"""Kernels of networks of infinite width: of the outputs at the start, and of training them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import whole
from secant.core.cores import threads
from secant.core.device import is_tracing, to_device
from secant.kernels.pairs.blocks import How, block_size, compiled, compiled_shared, is_finite
from secant.kernels.pairs.cpu import by_threads
from secant.kernels.propagation.needs import planned
from secant.nets.network import Network

Only = Literal["nngp", "ntk"]

FEW = 2**16
"""Up to so many covariances compiling takes far longer than computing."""


class Kernel(NamedTuple):
    r"""Kernels of a network of infinite width.

    Attributes:
        nngp: covariance of the outputs for two inputs over random networks, $\mathbb E f(x) f(x')$, shape `(n1, n2)`.
            Different outputs of a network have no covariance.
        ntk: tangent kernel $\langle \partial_\theta f(x), \partial_\theta f(x') \rangle$, shape `(n1, n2)`, which is
            the same for almost all wide networks and stays as it is while they train.
        error: largest estimated error of a quadrature on the way; zero if all activations have closed forms.
    """

    nngp: Any
    ntk: Any
    error: Array


def kernel(
    net: Network,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    *,
    only: Only | None = None,
    memory: int | None = None,
    variances: Sequence[tuple[Any, Any]] | None = None,
    nodes: int = 80,
    devices: Sequence[jax.Device] | None = None,
) -> Kernel:
    r"""The kernels of a network whose hidden layers are infinitely wide, between all pairs of inputs.

    There are rules for dense layers, convolutions, pools, `flatten`, patches, tables of positions, activations, layer
    norms, attention without softmax, sums, products, concatenations and residual blocks. Widths matter only where they
    stay in the limit: in the tangent kernel of `standard` and `pytorch`, and as shares of a concatenation.

    Args:
        net: the network.
        x1: inputs, one row a sample.
        x2: other inputs; without them the pairs are those within `x1`, and only half of them are computed.
        only: `"nngp"` or `"ntk"`, if one of the two is not wanted; the first alone is cheaper.
        memory: bytes that blocks of pairs may take besides the result; by default what suits the device.
        variances: $(\sigma_w^2, \sigma_b^2)$ for every layer of weights in the order of the network, in place of its
            own; they may be differentiated.
        nodes: of the quadratures for activations without a closed form. Take more where `error` is too large, as it is
            for large signals and activations that saturate.
        devices: several devices, such as `jax.devices()`, that share the rows of the kernels; the rows stay there. All
            pairs are then computed, for one set of inputs too.

    Example:
        ```python
        import jax
        import secant as sc

        net = sc.nets.mlp([512, 512], activation="relu", parametrization=sc.nets.Parametrization("ntk", gain=2**0.5))
        x = jax.random.normal(jax.random.key(0), (4, 10))
        found = sc.kernel(net, x)
        print(found.nngp.shape, bool(abs(found.ntk - 3 * found.nngp).diagonal().max() < 1e-5))
        ```
        ```text
        (4, 4) True
        ```
    """
    if not isinstance(net, Network):
        raise TypeError(f"kernel: `net` must be a secant.nets.Network, got {type(net).__name__}. See `secant.lift`.")
    if only not in (None, "nngp", "ntk"):
        raise ValueError(f"kernel: `only` must be 'nngp', 'ntk' or None, got {only!r}.")
    x1, x2 = checked_inputs(net, x1, x2)
    listed = x1.ndim > 2 and any(need.full for need in planned(net).before.values())
    threaded = jax.default_backend() == "cpu" and not listed and not is_tracing(x1, x2, variances)
    block = block_size(x1, listed, memory, threaded)
    positions = math.prod(x1.shape[1:-1]) ** (2 if listed else 1)
    few = len(x1) * len(x1 if x2 is None else x2) * positions <= FEW
    how = How(net, listed, x2 is None, only != "nngp", block, whole("kernel", "nodes", nodes, 10))
    others, numbers = x1 if x2 is None else x2, _numbers(variances)
    threaded = threaded and max(len(x1), len(others)) > block
    if devices is not None and len(devices) > 1:
        shared = compiled_shared(how._replace(symmetric=False), tuple(devices))
        nngp, ntk, error = shared(x1, others, numbers)
    elif threaded:
        nngp, ntk, error = by_threads(how._replace(held=True), x1, others, numbers, threads())
    else:
        nngp, ntk, error = compiled(how, few)(x1, others, numbers)
    result = Kernel(None if only == "ntk" else nngp, ntk, error)
    if devices is not None or not threaded or not np.isfinite(error):  # threads have looked at every block
        _check_finite(net, result)
    return result


def _numbers(variances: Sequence[tuple[Any, Any]] | None) -> Any:
    return None if variances is None else [(jnp.asarray(w), jnp.asarray(b)) for w, b in variances]


def checked_inputs(net: Network, x1: Any, x2: Any) -> tuple[Array, Array | None]:
    """Inputs, checked."""
    found: list[Any] = []
    for name, x in (("x1", x1), ("x2", x2)):
        if x is None and name == "x2":
            found.append(None)
            continue
        x = to_device(x)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ValueError(
                f"kernel: `{name}` must hold real floating-point numbers, got {x.dtype}. Pass x.astype(float)."
            )
        if x.ndim < 2 or 0 in x.shape:
            raise ValueError(f"kernel: `{name}` must have shape (samples, *features), none of them 0, got {x.shape}.")
        if not isinstance(x, jax.core.Tracer) and not is_finite(x):
            row = int(np.flatnonzero(~np.isfinite(np.asarray(x)).reshape(len(x), -1).all(1))[0])
            raise ValueError(f"kernel: `{name}` must hold finite numbers, but sample {row} has a NaN or an infinity.")
        if found and x.shape[1:] != found[0].shape[1:]:
            raise ValueError(
                f"kernel: samples of `x2` have shape {x.shape[1:]}, but those of `x1` {found[0].shape[1:]}. Both must "
                "have the shape that the network takes."
            )
        found.append(x)
    _fits(net, found[0].shape[1:])
    return found[0], found[1]


@functools.lru_cache(maxsize=256)
def _fits(net: Network, shape: tuple[int, ...]) -> None:
    """Refuses a shape that the network cannot take."""
    net.output_shape((1, *shape))


def _check_finite(net: Network, found: Kernel) -> None:
    for name in ("nngp", "ntk"):
        values = getattr(found, name)
        if values is None or isinstance(values, jax.core.Tracer) or is_finite(values):
            continue
        raise ValueError(
            f"kernel: the {name} of {net.name} is not finite: signals grow beyond the largest number, or the mean of "
            "an activation over a Gaussian does not exist. Use smaller inputs or variances, or another activation."
        )
