r"""Taylor models: any function, as a polynomial in its parameters.

$$f_k(\theta; x) = \sum_{j \le k} \frac{1}{j!}\, D^j f(\theta_0; x)[\delta, \dots, \delta],
  \qquad \delta = \theta - \theta_0.$$

Order 1 is the linear model, whose tangent kernel never changes. Order 2 is the quadratic model, the first order at
which the kernel can shrink, and therefore the first with catapults.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from secant.core.device import jit
from secant.core.types import Params
from secant.curvature.checks import Function
from secant.curvature.tangent.signals import network_of
from secant.models.entrance import takes_models
from secant.nets import layers as records
from secant.nets.activations import Nonlinearity
from secant.nets.network import Network

Method = Literal["auto", "general", "gated"]

# Each activation is a slope times its input, and the slope depends on the sign of the input alone.
_GATED = ("relu", "leaky", "identity", "abs")
_GATES = (jax.nn.relu, jax.nn.leaky_relu, jnp.abs)

_WEIGHTS = (records.Dense, records.Conv)
_FIXED = (
    records.Activation,
    records.AveragePool,
    records.Flatten,
    records.GlobalAveragePool,
    records.Identity,
    records.Patches,
    records.Scalar,
)


@dataclass(frozen=True, eq=False)
class Expansion:
    """A Taylor model, made by [`expand`][secant.expansion.expand]: a function of `(params, x)` like the original one.

    It trains, batches and compiles as the original function does, and works wherever a function of `(params, x)` does.

    Attributes:
        f: the function.
        params0: the parameters at which it is expanded.
        order: the highest power of the parameters.
        method: how the model is evaluated, `general` or `gated`.
    """

    f: Function
    params0: Params
    order: int
    method: Literal["general", "gated"]

    def __call__(self, params: Params, x: Any) -> Any:
        """Evaluates the polynomial. The result has the shape of `f(params, x)`."""
        return _evaluate(self.f, self.order, self.method)(self.params0, _fitted(params, self.params0), x)

    def on(self, x: Any) -> Callable[[Params], Any]:
        """The model on a fixed batch, as a function of the parameters alone.

        Work that does not depend on the parameters is done once, here. For the linear model this is everything but the
        Jacobian product, for a gated model its gates. Other models keep only `x`.

        Args:
            x: the batch.
        """
        if self.method == "gated":
            gates = _gates(self.f)(self.params0, x)
            return lambda params: _frozen(self.f, _fitted(params, self.params0), x, gates)
        if self.order != 1:
            return lambda params: self(params, x)
        outputs, push = jax.linearize(lambda params: self.f(params, x), self.params0)

        def linear(params: Params) -> Any:
            delta = jax.tree.map(jnp.subtract, _fitted(params, self.params0), self.params0)
            return jax.tree.map(jnp.add, outputs, push(delta))

        return linear

    def __repr__(self) -> str:
        name = getattr(self.f, "__qualname__", repr(self.f))
        return f"Expansion({name}, order={self.order}, method={self.method!r})"


@takes_models
def expand(f: Function, params0: Params, order: int = 2, *, method: Method = "auto") -> Expansion:
    r"""The Taylor polynomial of `f` in its parameters around `params0`.

    The result is again a function of `(params, x)`, with the derivatives of `f` at `params0` up to `order`. No
    derivative is ever stored. Order $k$ costs about $2k + 1$ evaluations of `f`. The quadratic model with its gradient
    costs about one and a half Hessian-vector products. The polynomial is evaluated in the floating-point types of
    `params0`.

    A chain of layers with ReLU, leaky ReLU or identity activations is a product of its weights and of gates, and each
    gate depends only on the sign of a pre-activation. With $L$ layers of weights, biases or not, every polynomial of
    order $L$ or more is the network with its gates frozen at `params0`. For two layers

    $$f_{\mathrm{quad}}(u, v; x) = s \sum_i v_i\, (u_i \cdot x)\, G_i(x), \qquad G_i(x) = \sigma'(u_{0,i} \cdot x).$$

    Secant's own networks are recognised and evaluated in this way. On a fixed batch this costs as much as the network.

    Args:
        f: any `f(params, x)`, such as `net.apply`; or a model, which replaces `f` and `params0`
            ([`model`][secant.models.model]).
        params0: the parameters at which to expand; any pytree of real floating-point arrays.
        order: $k$, 0 or more. Compilation slows down beyond 5 or so.
        method: `gated` takes the network with frozen gates, `general` differentiates repeatedly, and `auto` takes
            `gated` where it is exact. Both agree to rounding.

    Example:
        ```python
        import jax.numpy as jnp
        from secant.expansion import expand

        def f(w, x):
            return jnp.exp(w * x)

        for order in (0, 1, 2, 3):
            print(order, expand(f, jnp.zeros(()), order)(jnp.ones(()), jnp.array([0.0, 1.0, 2.0])).round(3))
        ```
        ```text
        0 [1. 1. 1.]
        1 [1. 2. 3.]
        2 [1. 2.5 5. ]
        3 [1. 2.667 6.333]
        ```
    """
    try:
        hash(f)
    except TypeError:
        raise TypeError("expand: `f` must be hashable. Wrap it: `lambda params, x: f(params, x)`.") from None
    if isinstance(order, bool) or not hasattr(order, "__index__") or operator.index(order) < 0:
        raise ValueError(f"expand: `order` must be a whole number of at least 0, got {order!r}.")
    if method not in ("auto", "general", "gated"):
        raise ValueError(f"expand: `method` must be 'auto', 'general' or 'gated', got {method!r}.")
    if not jax.tree.leaves(params0):
        raise ValueError("expand: `params0` holds no array. Pass the parameters of `f`.")
    _refuse_other_types("params0", params0)
    params0, order = jax.tree.map(jnp.asarray, params0), operator.index(order)
    if method != "general":
        obstacle = _obstacle(f, order)
        if obstacle is not None and method == "gated":
            raise ValueError(f"expand: {obstacle} Use method='general'.")
        method = "general" if obstacle is not None else "gated"
    return Expansion(f, params0, order, method)


def _polynomial(g: Callable[[Params, Any], Any], order: int) -> Callable[[Params, Params, Any], Any]:
    r"""$(\theta_0, \delta, r) \mapsto \sum_j \frac{1}{j!} D^j g(\theta_0, r)[\delta^j]$, with a derivative of its own.

    The derivative of a Taylor polynomial is the polynomial of the derivative, one order lower:
    $D_\delta P_k[g] \cdot \tau = P_{k-1}[Dg \cdot \tau]$, and $D_r P_k[g] \cdot \rho = P_k[D_r g \cdot \rho]$. Without
    this rule automatic differentiation would differentiate in each of the $k$ places of $\delta$ and add equal terms.
    """

    @jax.custom_jvp
    def polynomial(params0: Params, delta: Params, rest: Any) -> Any:
        terms = derivatives_along(lambda params: g(params, rest), params0, delta, order)
        return jax.tree.map(lambda *of: sum(term / math.factorial(j) for j, term in enumerate(of)), *terms)

    def slope(params: Params, fixed: Any) -> Any:
        tangent, rest = fixed
        return jax.jvp(lambda p: g(p, rest), (params,), (tangent,))[1]

    def drift(params: Params, fixed: Any) -> Any:
        tangents, rest = fixed
        return jax.jvp(g, (params, rest), tangents)[1]

    def rule(primals: Any, tangents: Any) -> Any:
        params0, delta, rest = primals
        along_params0, along_delta, along_rest = tangents
        value, changes = polynomial(params0, delta, rest), []
        if order > 0 and _moves(along_delta):
            changes.append(_polynomial(slope, order - 1)(params0, delta, (_filled(along_delta), rest)))
        if _moves((along_params0, along_rest)):
            fixed = (_filled((along_params0, along_rest)), rest)
            changes.append(_polynomial(drift, order)(params0, delta, fixed))
        return value, jax.tree.map(lambda v, *of: sum(of, jnp.zeros_like(v)), value, *changes)

    polynomial.defjvp(rule, symbolic_zeros=True)
    return polynomial


def derivatives_along(g: Callable[[Params], Any], params0: Params, delta: Params, order: int) -> tuple[Any, ...]:
    r"""The derivatives $g, Dg[\delta], D^2g[\delta, \delta], \dots$ at `params0`, by forward mode over forward mode.

    Nested derivatives along one direction repeat each other. The compiler finds the repeats and evaluates each once.
    """
    if order == 0:
        return (g(params0),)
    terms, slopes = jax.jvp(lambda params: derivatives_along(g, params, delta, order - 1), (params0,), (delta,))
    return (*terms, slopes[-1])


def _is_zero(leaf: Any) -> bool:
    return isinstance(leaf, SymbolicZero)


def _moves(tangent: Any) -> bool:
    """Whether anything in a direction of differentiation is not known to be zero."""
    return not all(_is_zero(leaf) for leaf in jax.tree.leaves(tangent, is_leaf=_is_zero))


def _filled(tangent: Any) -> Any:
    """The direction with its zeros written out."""
    return jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if _is_zero(leaf) else leaf, tangent, is_leaf=_is_zero
    )


@functools.lru_cache(maxsize=32)
def _evaluate(f: Function, order: int, method: Literal["general", "gated"]) -> Callable[[Params, Params, Any], Any]:
    """`(params0, params, x) -> outputs`, compiled once for all points of expansion."""

    def gated(params0: Params, params: Params, x: Any) -> Any:
        return _frozen(f, params, x, _gates(f)(params0, x))

    def general(params0: Params, params: Params, x: Any) -> Any:
        # Values in the closure of `f` may be differentiated as well, so that they have to be arguments.
        open_f, captured = jax.closure_convert(f, params0, x)
        polynomial = _polynomial(lambda p, rest: open_f(p, rest[0], *rest[1]), order)
        return polynomial(params0, jax.tree.map(jnp.subtract, params, params0), (x, captured))

    def run(params0: Params, params: Params, x: Any) -> Any:
        # Inside other compiled code `params0` is a constant, and `x` often is. Without the barrier the compiler would
        # evaluate everything that depends on these two alone, which takes it many times as long as the program.
        return (gated if method == "gated" else general)(jax.lax.optimization_barrier(params0), params, x)

    return jit(run)


def _layers(net: Network) -> list[Network]:
    """The layers of a chain, including those of chains inside it."""
    if not isinstance(net.layer, records.Serial):
        return [net]
    return [layer for part in net.parts for layer in _layers(part)]


def _is_gate(function: Any) -> bool:
    return function.name in _GATED if isinstance(function, Nonlinearity) else function in _GATES


def _obstacle(f: Function, order: int) -> str | None:
    """Why freezing the gates does not give the polynomial; None if it does."""
    net = network_of(f)
    if net is None:
        return "`f` is not the `apply` of a network of Secant's, whose gates could be frozen."
    for layer in _layers(net):
        if not isinstance(layer.layer, (*_WEIGHTS, *_FIXED)):
            return f"`f` has a layer `{layer.name}`, which no gate can replace."
        if isinstance(layer.layer, records.Activation) and not _is_gate(layer.layer.function):
            return f"the activation {layer.layer.activation!r} is not a slope times its input."
    degree = sum(isinstance(layer.layer, _WEIGHTS) for layer in _layers(net))
    if order < degree:
        return f"behind its gates a network with {degree} layers of weights is of order {degree}, `order` is {order}."
    return None


@functools.lru_cache(maxsize=32)
def _gates(f: Function) -> Callable[[Params, Array], list[Array]]:
    """`(params0, x) -> slope of every activation`, in the order of evaluation; compiled."""
    net = network_of(f)
    assert net is not None

    def gates(params0: Params, x: Array) -> list[Array]:
        *inputs, _ = net.pre_activations(params0, x)
        functions = [part.layer.function for part in _layers(net) if isinstance(part.layer, records.Activation)]
        # The slope is JAX's own derivative, also at the kink.
        return [jax.jvp(sigma, (z,), (jnp.ones_like(z),))[1] for sigma, z in zip(functions, inputs, strict=True)]

    return jit(gates)


def _frozen(f: Function, params: Params, x: Array, gates: list[Array]) -> Array:
    """The network with every activation replaced by a product with its gate."""
    remaining = iter(gates)

    def run(net: Network, params: Params, x: Array) -> Array:
        if isinstance(net.layer, records.Activation):
            return next(remaining) * x
        if not isinstance(net.layer, records.Serial):
            return net.run(params, x)
        for part, own in zip(net.parts, params, strict=True):
            x = run(part, own, x)
        return x

    net = network_of(f)
    assert net is not None
    return run(net, params, jnp.asarray(x))


def _fitted(params: Params, params0: Params) -> Params:
    """The parameters as arrays of the types of `params0`, after a check of structure and shapes."""
    structure: Any = jax.tree.structure(params0)
    if jax.tree.structure(params) != structure:
        raise ValueError(_misfit(params, params0))
    _refuse_other_types("params", params)
    for (path, leaf), leaf0 in zip(jax.tree.leaves_with_path(params), jax.tree.leaves(params0), strict=True):
        if jnp.shape(leaf) != leaf0.shape:
            where = jax.tree_util.keystr(path)
            raise ValueError(
                f"expand: `params`{where} has shape {jnp.shape(leaf)} and `params0`{where} has {leaf0.shape}. "
                "Pass parameters of the same shapes."
            )
    return jax.tree.map(lambda leaf, leaf0: jnp.asarray(leaf, leaf0.dtype), params, params0)


def _misfit(params: Params, params0: Params) -> str:
    given, wanted = (
        [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(tree)] for tree in (params, params0)
    )
    text = "expand: `params` must have the structure of `params0`"
    for path in wanted:
        if path not in given:
            return f"{text}: `params`{path} is missing."
    for path in given:
        if path not in wanted:
            return f"{text}: there is no `params0`{path}."
    return f"{text}: got {jax.tree.structure(params)}, wanted {jax.tree.structure(params0)}."


def _refuse_other_types(name: str, tree: Params) -> None:
    for path, leaf in jax.tree.leaves_with_path(tree):
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"expand: `{name}`{jax.tree_util.keystr(path)} is of type {dtype}; every parameter must be real and "
                "floating-point. Keep counters, keys and complex numbers out of `params`."
            )


def remainders(f: Callable[[Params], Array], params: Params, change: Params) -> tuple[Array, Array, Array]:
    r"""The differences between a function, its linear model and its quadratic model after a change of the parameters.

    Args:
        f: a function of the parameters alone.
        params: $\theta_0$, the parameters at which the models are made.
        change: $\delta$, with the structure of `params`.

    Returns:
        $f - f_1$, $f_2 - f_1 = \frac12 D^2f[\delta, \delta]$ and $f - f_2$ at $\theta_0 + \delta$, in the shape of `f`.

    Example:
        ```python
        import jax.numpy as jnp
        from secant.expansion import remainders

        remainders(lambda w: w**3, jnp.array(1.0), jnp.array(0.1))  # 0.031, 0.03 and 0.001
        ```
    """

    def slope(params: Params) -> tuple[Array, Array]:
        return jax.jvp(f, (params,), (change,))

    (value, first), (_, second) = jax.jvp(slope, (params,), (change,))
    rest = f(jax.tree.map(jnp.add, params, change)) - value - first
    return rest, second / 2, rest - second / 2


__all__ = ["Expansion", "expand", "remainders"]
