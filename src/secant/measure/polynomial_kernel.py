r"""The tangent kernel of a Taylor polynomial of a network, without its Jacobian.

The gradient of a polynomial of order $k$ is the polynomial of order $k - 1$ of the gradient. In a dense layer the
gradient is $a \otimes g$, with the inputs $a$ and the signals $g$ that come back. Expanded along the way from
$\theta_0$, with the coefficients $a_j$ and $g_j$, it is

$$\sum_{j + l < k} a_j \otimes g_l = \sum_{j < k} a_j \otimes G_j, \qquad G_j = \sum_{l < k - j} g_l,$$

so a layer's share of the kernel is a sum of $k^2$ products of two Gram matrices.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from secant.core.types import Params
from secant.curvature.tangent.signals import Signals, network_of, signals
from secant.expansion import Expansion, derivatives_along


def has_structure(model: Expansion, params: Params, x: Array) -> bool:
    """Whether this polynomial's kernel consists of Gram matrices: it does for one output and dense layers."""
    net = network_of(model.f)
    if net is None or model.method != "general" or model.order < 1:
        return False
    shares: list[Signals] = jax.eval_shape(lambda p, x: signals(net, p, x), params, x)
    return all(
        share.mask is None and share.factors is None and share.inputs.shape[1] == 1 and share.signals.shape[1] == 1
        for share in shares
    )


def polynomial_kernel(model: Expansion, params: Params, x: Array) -> Float[Array, "n n"]:
    """The tangent kernel of a polynomial for which `has_structure` is true."""
    net = network_of(model.f)
    assert net is not None
    # The point of expansion is a constant. Without the barrier the compiler would evaluate everything that depends on
    # this point alone.
    origin = jax.lax.optimization_barrier(model.params0)
    away = jax.tree.map(jnp.subtract, params, origin)

    def seen(params: Params) -> list[tuple[Array, Array]]:
        return [(share.inputs[:, 0], share.signals[:, 0, 0]) for share in signals(net, params, x)]

    found = derivatives_along(seen, origin, away, model.order - 1)
    terms = [jax.tree.map(lambda d, j=j: d / math.factorial(j), of) for j, of in enumerate(found)]
    kernel = jnp.zeros((len(x), len(x)), terms[0][0][0].dtype)
    for layer in zip(*terms, strict=True):
        inputs, back = [a for a, _ in layer], [g for _, g in layer]
        sums = list(itertools.accumulate(back))[::-1]
        rows, columns = jnp.concatenate(inputs), jnp.concatenate(sums)
        products = (rows @ rows.T) * (columns @ columns.T)
        k, n = len(inputs), len(x)
        kernel = kernel + jnp.sum(products.reshape(k, n, k, n), axis=(0, 2))
    return kernel
