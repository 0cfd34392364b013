r"""The empirical tangent kernel $K = J J^\top$, computed in the cheapest way that fits into memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.device import jit, to_device
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, outputs_of, refuse_mixing, samples_in
from secant.curvature.tangent.layerwise import bytes_of_block, gram, structured_kernel, summed_kernel
from secant.curvature.tangent.signals import network_of
from secant.linalg import Operator
from secant.models.entrance import takes_models

MEMORY = 2**30
"""Bytes that a kernel may take beside its own matrix."""


@takes_models
def ntk(f: Function, params: Params, x: Any, x2: Any = None, *, memory: int = MEMORY) -> Operator:
    r"""The empirical tangent kernel $K_{i\alpha, j\beta} = \nabla f_\alpha(x_i) \cdot \nabla f_\beta(x_j)$.

    One product costs a backward and a forward pass and stores nothing larger than the parameters. `K.dense()` counts
    operations and takes the cheapest way. For Secant's own networks that is a sum of Gram products over layers, without
    a Jacobian. For any other function the Jacobian's rows are multiplied with each other, or pushed through the
    function, in blocks that fit into `memory`. The matrix has a row for every sample and output, outputs running
    fastest.

    Args:
        f: any `f(params, x)` that treats each sample alone (`mv` and `top` also take other functions); or a model,
            which replaces `f` and `params` ([`model`][secant.models.model]).
        params: the parameters to evaluate at.
        x: the batch, one row a sample.
        x2: a second batch, for the kernel between the two; then the operator is not symmetric.
        memory: bytes that `dense` may take beside the matrix itself.

    Example:
        ```python
        import jax
        import secant as sc

        net = sc.nets.mlp([64, 64], activation="tanh")
        x = jax.random.normal(jax.random.key(0), (6, 3))
        params = net.init(jax.random.key(1), x.shape)
        K = sc.ntk(net.apply, params, x)
        K.shape, K.dense().shape, len(K.top(2).values)
        ```
    """
    outputs = outputs_of("ntk", f, params, x)
    if x2 is None:
        return Operator(
            _kernel_product(f),
            (params, x),
            outputs,
            outputs,
            matrix=lambda data: kernel_matrix(f, data[0], data[1], memory=memory),
            name="ntk",
        )
    return Operator(
        _cross_product(f),
        (params, x, x2),
        outputs_of("ntk", f, params, x2, "x2"),
        outputs,
        symmetric=False,
        adjoint=_cross_product(f, True),
        matrix=lambda data: kernel_matrix(f, *data, memory=memory),
        name="ntk",
    )


@kept
def _kernel_product(f: Function) -> Any:
    def bind(data: Any) -> Any:
        params, x = data
        push = jax.linearize(lambda p: f(p, x), params)[1]
        pull = jax.linear_transpose(push, params)
        return lambda v: push(pull(v)[0])

    return bind


@kept
def _cross_product(f: Function, swapped: bool = False) -> Any:
    def bind(data: Any) -> Any:
        params, left, right = (data[0], data[2], data[1]) if swapped else data
        push = jax.linearize(lambda p: f(p, left), params)[1]
        pull = jax.vjp(lambda p: f(p, right), params)[1]
        return lambda v: push(pull(v)[0])

    return bind


def kernel_matrix(
    f: Function, params: Params, x: Any, x2: Any = None, *, memory: int = MEMORY
) -> Float[Array, "rows columns"]:
    """The tangent kernel as a dense matrix; [`ntk`][secant.curvature.ntk] describes how it is computed."""
    n = samples_in("ntk", x) if x2 is None else max(samples_in("ntk", x), samples_in("ntk", x2, "x2"))
    pair, needed = _pair_function(f, params, x, x2)
    tile = n
    while tile > 1 and needed(tile) > memory:
        tile = -(-tile // 2)
    if tile >= n:
        return pair(params, x, x2)
    if x2 is not None:
        return _rectangle(pair, params, x, x2, tile)
    return in_tiles(pair, params, x, tile)


@takes_models
def ntk_per_parameter(f: Function, params: Params, x: Any, x2: Any = None) -> Any:
    """The tangent kernel split over parameter arrays: a pytree like `params` of matrices that add up to the kernel."""
    outputs_of("ntk_per_parameter", f, params, x)
    if x2 is not None:
        outputs_of("ntk_per_parameter", f, params, x2, "x2")
    net = network_of(f)
    if net is None:
        refuse_mixing("ntk_per_parameter", f, params, x)
    return _shares(f)(params, x, x2)


@kept
def _shares(f: Function) -> Callable[..., Any]:
    net = network_of(f)

    def run(params: Params, x: Any, x2: Any) -> Any:
        if net is not None:
            shares = [_square(share) for share in structured_kernel(net, params, x, x2)]
            return jax.tree.unflatten(jax.tree.structure(params), shares)
        left = _leaf_rows(f, params, x)
        right = left if x2 is None else _leaf_rows(f, params, x2)
        return jax.tree.map(lambda a, b: a @ b.T, left, right)

    return jit(run)


class Costs(NamedTuple):
    """Counted operations of the two ways to the whole kernel of any function.

    Attributes:
        contraction: multiplying rows of the Jacobian with each other.
        products: pushing rows of the Jacobian through the linearised function.
    """

    contraction: float
    products: float


def count(f: Function, params: Params, x: Any, x2: Any = None) -> Costs:
    """What the kernel of any function costs, in multiplications and additions."""
    outputs = outputs_of("ntk", f, params, x)
    return _counted(outputs, params, x2, _one_sample(f, params, x)[0])


def _counted(outputs: Any, params: Params, x2: Any, forward: float) -> Costs:
    """The counted operations, if the function takes `forward` of them for one sample."""
    n, k = outputs.shape[0], math.prod(outputs.shape[1:])
    n2 = n if x2 is None else samples_in("ntk", x2, "x2")
    rows = 2 * forward * k * (n if x2 is None else n + n2)
    # Only half of a symmetric matrix is multiplied out, but whole rows are pushed through the function.
    half = 0.5 if x2 is None else 1.0
    return Costs(rows + 2 * half * n * n2 * k**2 * _entries(params), rows + 2 * n * n2 * k * forward)


def _entries(params: Params) -> int:
    return sum(jnp.size(leaf) for leaf in jax.tree.leaves(params))


def _one_sample(f: Function, params: Params, x: Any) -> tuple[float, float]:
    """Operations of the function on one sample, and bytes it moves beside its parameters."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *jnp.shape(a)[1:]), jnp.result_type(a)), x)
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), params)
    analysis = jax.jit(lambda p, a: f(p, a)).lower(like, one).cost_analysis() or {}
    moved = float(analysis.get("bytes accessed", 0.0)) - _bytes(params)
    return float(analysis.get("flops", 0.0)) or 2.0 * _entries(params), max(moved, 0.0)


def _bytes(params: Params) -> int:
    return sum(jnp.size(leaf) * jnp.result_type(leaf).itemsize for leaf in jax.tree.leaves(params))


def _pair_function(f: Function, params: Params, x: Any, x2: Any) -> tuple[Callable[..., Array], Callable[[int], float]]:
    """The compiled kernel between two blocks of samples, and a function that counts its bytes by samples a side."""
    net = network_of(f)
    if net is not None:
        return _compiled_pair(f, "structured"), bytes_of_block(net, params, x)
    outputs = outputs_of("ntk", f, params, x)
    if x2 is not None:
        outputs_of("ntk", f, params, x2, "x2")
    refuse_mixing("ntk", f, params, x)
    forward, moved = _one_sample(f, params, x)
    costs = _counted(outputs, params, x2, forward)
    k = math.prod(outputs.shape[1:])
    # Each output of a sample has a row, once as autodiff makes it and once flattened.
    rows = 2 * k * _bytes(params)
    if costs.contraction <= costs.products:
        return _compiled_pair(f, "contraction"), lambda n: 2 * n * rows
    # Every row is pushed through the function on all samples.
    return _compiled_pair(f, "products"), lambda n: n * rows + n * n * k * moved


def pair_kernel(f: Function, way: str | None = None) -> Callable[..., Array]:
    """A function `(params, x, x2 or None) -> matrix`: the kernel in one of the ways, traceable and without checks."""
    net = network_of(f)
    way = way or ("contraction" if net is None else "structured")

    def structured(params: Params, x: Any, x2: Any) -> Array:
        assert net is not None
        return _square(summed_kernel(net, params, x, x2))

    def contraction(params: Params, x: Any, x2: Any) -> Array:
        rows = _rows(f, params, x)
        return gram(rows) if x2 is None else rows @ _rows(f, params, x2).T

    def products(params: Params, x: Any, x2: Any) -> Array:
        other = x if x2 is None else x2
        push = jax.linearize(lambda p: f(p, other), params)[1]
        columns = jax.vmap(push)(_row_tree(f, params, x))
        return columns.reshape(columns.shape[0], -1)

    return {"structured": structured, "contraction": contraction, "products": products}[way]


@kept
def _compiled_pair(f: Function, way: str) -> Callable[..., Array]:
    return jit(pair_kernel(f, way))


def _square(kernel: Array) -> Array:
    n, k, n2, k2 = kernel.shape
    return kernel.reshape(n * k, n2 * k2)


def _row_tree(f: Function, params: Params, x: Any) -> Any:
    """All rows of the Jacobian, as a parameter tree with a leading axis of samples * outputs."""

    def of_sample(sample: Any) -> Any:
        one = jax.tree.map(lambda a: a[None], sample)
        outputs, pull = jax.vjp(lambda p: f(p, one).reshape(-1), params)
        return jax.vmap(lambda e: pull(e)[0])(jnp.eye(outputs.size, dtype=outputs.dtype))

    rows = jax.vmap(of_sample)(x)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rows)


def _rows(f: Function, params: Params, x: Any) -> Array:
    return jax.vmap(lambda row: ravel_pytree(row)[0])(_row_tree(f, params, x))


def _leaf_rows(f: Function, params: Params, x: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1), _row_tree(f, params, x))


def _slices(n: int, tile: int) -> Iterator[slice]:
    # Tiles of nearly one size: at most two shapes are compiled.
    parts = -(-n // tile)
    edges = np.linspace(0, n, parts + 1).astype(int)
    return (slice(int(a), int(b)) for a, b in itertools.pairwise(edges))


def in_tiles(pair: Callable[..., Array], params: Params, x: Any, tile: int) -> Array:
    """A symmetric kernel from its blocks on and above the diagonal, mirrored."""
    n = samples_in("ntk", x)
    cuts = list(_slices(n, tile))
    matrix: np.ndarray | None = None
    for i, left in enumerate(cuts):
        a = _take(x, left)
        for right in cuts[i:]:
            block = np.asarray(pair(params, a, None if right is left else _take(x, right)))
            k = block.shape[0] // (left.stop - left.start)
            matrix = np.empty((n * k, n * k), block.dtype) if matrix is None else matrix
            matrix[left.start * k : left.stop * k, right.start * k : right.stop * k] = block
            matrix[right.start * k : right.stop * k, left.start * k : left.stop * k] = block.T
    return to_device(matrix)


def _rectangle(pair: Callable[..., Array], params: Params, x: Any, x2: Any, tile: int) -> Array:
    rows = [
        [np.asarray(pair(params, _take(x, left), _take(x2, right))) for right in _slices(samples_in("ntk", x2), tile)]
        for left in _slices(samples_in("ntk", x), tile)
    ]
    return to_device(np.block(rows))


def _take(x: Any, cut: slice) -> Any:
    return jax.tree.map(lambda a: a[cut], x)
