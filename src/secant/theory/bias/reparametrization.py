r"""The end of gradient flow for weights that are a function of parameters, without running the flow.

Train $\theta$ by gradient flow on a loss of $Xw$, where $w = G(\theta)$. The measured outputs are $h = XG(\theta)$, and

$$\dot\theta = -\sum_k \frac{\partial L}{\partial h_k}\,\nabla h_k(\theta):$$

the flow follows the fields $\nabla h_k$, each for a time that the residual of its sample decides. The fields commute if
the brackets $[\nabla h_k, \nabla h_l] = \nabla^2h_k\nabla h_l - \nabla^2h_l\nabla h_k$ vanish. Then their order does
not matter: $\theta$ is a function of the times $\nu \in \mathbb R^n$ alone, whatever the loss and its history, and
$\partial h/\partial\nu = JJ^\top$ with $J = \partial h/\partial\theta$. If the data can be fitted, training ends at the
one $\nu$ with $h(\nu) = y$. These are as many unknowns as samples, and the flow need not be run.

In other words $w = \nabla R^*(X^\top\nu)$ for a potential $R$. Among all $w$ with $Xw = y$, the flow ends in the one
with the least $R$, measured from the start. [`metric`][secant.theory.bias.reparametrization.metric] is the inverse of
its Hessian.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.device import compiler_options, to_device
from secant.core.types import Params

Parametrization = Callable[[Params], Any]
"""Parameters, any pytree -> weights, an array of any shape."""

LARGEST_BRACKET = 1e-6
"""Relative brackets below this count as zero in float64; in float32 rounding alone is larger."""


MOST = 20_000
"""The most evaluations of the fields on one way; if more are needed, the outputs have come to a border."""


class NotCommutingError(ValueError):
    """Brackets do not vanish, so the end of training depends on its history and not on the data alone."""


class Brackets(NamedTuple):
    r"""Brackets of gradient fields at one point.

    Attributes:
        largest: the largest entry of $\nabla^2h_k\nabla h_l - \nabla^2h_l\nabla h_k$ over all $k, l$.
        relative: `largest` over the largest entry of $\nabla^2h_k\nabla h_l$; 0 if all of these vanish.
        commute: whether `relative` counts as zero.
    """

    largest: float
    relative: float
    commute: bool


@dataclass(frozen=True)
class Limit:
    r"""The end of gradient flow.

    Attributes:
        theta: parameters at the end, with the structure of the start.
        weights: $G(\theta)$.
        times: $\nu$, shape `(n,)`: the weights are $\nabla R^*(X^\top\nu)$.
        residual: the largest entry of $|XG(\theta) - y|$.
        detour: the distance between the ends of two ways to the same $\nu$, relative to the weights. If brackets
            vanish it is rounding; if not, it estimates the error of the answer.
        brackets: brackets at the end.
        evaluations: number of evaluations of the fields.
    """

    theta: Params
    weights: np.ndarray
    times: np.ndarray
    residual: float
    detour: float
    brackets: Brackets
    evaluations: int


def metric(G: Parametrization, theta: Params) -> np.ndarray:
    r"""The matrix $\partial G\,\partial G^\top$, shape `(d, d)`, by which gradient flow moves the weights.

    If gradient flow is the mirror flow of a potential, $\dot w = -(\nabla^2R(w))^{-1}\nabla L(w)$, this matrix is the
    inverse of the potential's Hessian at $w = G(\theta)$. It is then a function of the weights alone.

    Args:
        G: parameters -> weights.
        theta: parameters.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias.reparametrization import metric

        difference = lambda theta: theta[0] ** 2 - theta[1] ** 2
        for theta in ([1.0, 0.0], [np.sqrt(2), 1.0]):  # the same weight, 1
            print(metric(difference, np.array(theta)).round(4))
        ```
        ```text
        [[4.]]
        [[12.]]
        ```
    """
    J = _outputs(G, theta, None).look(_flat(theta))[1]
    return J @ J.T


def commutes(G: Parametrization, theta: Params, X: Any = None) -> Brackets:
    r"""Whether the gradient fields of all weights, or of measurements of the weights, commute at a point.

    Args:
        G: parameters -> weights, with $d$ entries in all.
        theta: parameters.
        X: measurements, shape `(n, d)`; by default all $d$ weights. With measurements, only the fields that training
            on them follows are tested.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias.reparametrization import commutes

        square = lambda U: U @ U.T
        U = np.random.default_rng(0).normal(size=(3, 3))
        diagonal = np.stack([np.diag(e).ravel() for e in np.eye(3)])  # measurements that commute as matrices
        print(commutes(square, U).commute, commutes(square, U, diagonal).commute)
        ```
        ```text
        False True
        ```
    """
    return _outputs(G, theta, X).brackets(_flat(theta))


def flow_limit(
    G: Parametrization, theta0: Params, X: Any, y: Any, *, check: bool = True, tolerance: float | None = None
) -> Limit:
    r"""The end of gradient flow on $w = G(\theta)$ with data $Xw = y$, without running the flow.

    There are two ways to the end:

    1. A Runge-Kutta method of order eight leads the outputs in a straight line from $XG(\theta_0)$ to $y$,
       $\theta' = J^\top(JJ^\top)^{-1}(y - XG(\theta_0))$, and adds up $\nu$ on the way.
    2. The fields are followed straight to this $\nu$, $\theta' = J^\top\nu$. Newton's method corrects $\nu$ for the
       remaining misfit.

    If the fields commute, both ways come to one point.

    Args:
        G: parameters -> weights, an array of any shape with $d$ entries.
        theta0: the start, any pytree.
        X: data, shape `(n, d)`, or `(n, ...)` like the weights.
        y: targets, shape `(n,)`.
        check: whether to raise an error if the fields do not commute. If false, the answer is the end of the first way,
            and `detour` tells how much the way matters.
        tolerance: relative tolerance of the integration; by default as small as the precision of the parameters allows.

    Raises:
        NotCommutingError: if brackets do not vanish.
        ValueError: if no parameters on the way have the requested outputs.

    Example:
        ```python
        import jax.numpy as jnp
        import numpy as np
        from secant.theory.bias.reparametrization import flow_limit

        X = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]])
        y = np.array([1.0, 3.0])
        for alpha in (10.0, 0.001):  # lazy: the least l2 norm; rich: the least l1 norm
            start = jnp.full((2, 3), alpha)
            print(flow_limit(lambda t: t[0] ** 2 - t[1] ** 2, start, X, y).weights.round(2))
        ```
        ```text
        [ 0.33  1.33 -0.67]
        [ 0.   1.5 -0.5]
        ```
    """
    from scipy.integrate import DOP853

    outputs = _outputs(G, theta0, X)
    start = _flat(theta0)
    if tolerance is None:
        tolerance = 100 * float(jnp.finfo(outputs.dtype).eps)
    y = np.asarray(y, float)
    if y.shape != (outputs.count,) or not np.isfinite(y).all():
        raise ValueError(f"flow_limit: `y` must hold {outputs.count} finite numbers, one per row of `X`, got {y!r}.")
    led_within = max(tolerance, 1e-10)  # Newton's method removes the rest of this way's error
    first = outputs.look(start)[0]
    asked = y - first
    size = max(float(np.abs(y).max()), float(np.abs(asked).max()), np.finfo(float).tiny)

    def led(_: float, state: np.ndarray) -> np.ndarray:
        J = outputs.look(state[: len(start)])[1]
        rates = _solved(J, asked)
        return np.concatenate([J.T @ rates, rates])

    def straight(times: np.ndarray) -> np.ndarray:
        return _followed(DOP853, lambda _, theta: outputs.look(theta)[1].T @ times, start, tolerance)

    whole = _followed(DOP853, led, np.concatenate([start, np.zeros(outputs.count)]), led_within)
    led_to, times = whole[: len(start)], whole[len(start) :]
    _refuse_the_unreachable(np.abs(outputs.look(led_to)[0] - y).max(), size, led_within)
    brackets = outputs.brackets(led_to)
    if check and not brackets.commute:
        raise NotCommutingError(
            f"flow_limit: the gradient fields of the outputs do not commute at the end (relative bracket "
            f"{brackets.relative:.1e}), so the end of training depends on its history. Run the training with "
            "`secant.flow`, or pass `check=False` to get the end of outputs that move in a straight line."
        )
    theta, best = led_to, float(np.abs(outputs.look(led_to)[0] - y).max())
    first_straight = tried = straight(times)
    for correction in range(20 if brackets.commute else 0):
        found, J = outputs.look(tried)
        left = float(np.abs(y - found).max())
        if correction and not left < best / 2:
            break  # rounding allows no better
        theta, best = tried, left
        times = times + _solved(J, y - found)
        tried = straight(times)
    weights, one, other = (outputs.weights(point) for point in (theta, led_to, first_straight))
    detour = float(np.abs(one - other).max() / max(np.abs(one).max(), np.finfo(float).tiny))
    return Limit(outputs.shaped(theta), weights, times, best, detour, brackets, outputs.evaluations)


def _followed(solver: Any, field: Callable[[float, np.ndarray], np.ndarray], state: np.ndarray, rtol: float) -> Any:
    """The state after following a field for a time of one."""
    scale = np.maximum(np.abs(state), np.abs(state).max(initial=0.0) * 1e-3)
    with np.errstate(all="ignore"):
        run = solver(field, 0.0, state, 1.0, rtol=rtol, atol=np.maximum(scale, 1e-12) * rtol)
        while run.status == "running":
            run.step()
            if run.nfev > MOST or not np.isfinite(run.y).all():
                break
    return run.y


def _solved(J: np.ndarray, right: np.ndarray) -> np.ndarray:
    """$(JJ^T)^{-1}$ times a vector; if samples repeat, the least of many solutions."""
    return np.linalg.lstsq(J @ J.T, right, rcond=1e-13)[0]


def _refuse_the_unreachable(left: float, size: float, tolerance: float) -> None:
    if not left <= max(1e4 * tolerance, 1e-4) * size:
        raise ValueError(
            f"flow_limit: outputs cannot be led to `y`: {left:.2g} is left of {size:.2g}. Either no parameters on the "
            "way from `theta0` have these outputs, or a weight is stuck at zero, where G does not move. Choose another "
            "`theta0`, or targets that the model can reach."
        )


def _flat(theta: Params) -> np.ndarray:
    leaves = [np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(theta)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


@functools.lru_cache(maxsize=16)
def _programs(G: Parametrization, tree: Any, shapes: tuple[tuple[int, ...], ...], all_weights: bool) -> tuple[Any, Any]:
    """Programs for outputs, Jacobian and weights, and for brackets, of parameters and data; compiled once per G."""
    sizes = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def weights(t: Any) -> Any:
        leaves = [part.reshape(shape) for part, shape in zip(jnp.split(t, sizes), shapes, strict=True)]
        return jnp.ravel(G(jax.tree.unflatten(tree, leaves)))

    def measured(t: Any, X: Any) -> Any:
        return weights(t) if all_weights else X @ weights(t)

    def look(t: Any, X: Any) -> tuple[Any, Any, Any]:
        return measured(t, X), jax.jacrev(measured)(t, X), weights(t)

    def bent(t: Any, X: Any) -> tuple[Any, Any]:
        rows = jax.jacrev(measured)
        # Entry (l, k) is the second derivative of output k times the gradient of output l.
        along = jax.vmap(lambda v: jax.jvp(lambda t: rows(t, X), (t,), (v,))[1])(rows(t, X))
        return jnp.abs(along - along.swapaxes(0, 1)).max(), jnp.abs(along).max()

    # The solver calls these programs thousands of times on few numbers, so nothing stands in between.
    told = compiler_options(quick=True)
    return jax.jit(look, compiler_options=told), jax.jit(bent, compiler_options=told)


class _Outputs:
    """Measured outputs of a parametrisation and their derivatives, on the host."""

    def __init__(self, G: Parametrization, theta: Params, X: np.ndarray | None, d: int) -> None:
        leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, theta))
        self.dtype = jnp.result_type(float, *leaves)
        shapes = tuple(leaf.shape for leaf in leaves)
        self._tree, self._shapes, self.evaluations = tree, shapes, 0
        self._programs = _programs(G, tree, shapes, X is None)
        self._X = np.zeros((0, d), self.dtype) if X is None else X.astype(self.dtype)
        self.count = d if X is None else len(X)

    def shaped(self, theta: np.ndarray) -> Params:
        """Parameters in the structure of the start."""
        sizes = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        parts = zip(np.split(theta.astype(self.dtype), sizes), self._shapes, strict=True)
        return jax.tree.unflatten(self._tree, [to_device(part.reshape(shape)) for part, shape in parts])

    def look(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and their Jacobian, shapes `(n,)` and `(n, D)`."""
        self.evaluations += 1
        outputs, J, _ = self._programs[0](theta.astype(self.dtype), self._X)
        return np.asarray(outputs, float), np.asarray(J, float)

    def weights(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(self._programs[0](theta.astype(self.dtype), self._X)[2], float)

    def brackets(self, theta: np.ndarray) -> Brackets:
        largest, scale = (float(number) for number in self._programs[1](theta.astype(self.dtype), self._X))
        relative = largest / scale if scale > 0 else 0.0
        allowed = max(LARGEST_BRACKET, 1e3 * float(jnp.finfo(self.dtype).eps))
        return Brackets(largest, relative, relative <= allowed)


def _outputs(G: Parametrization, theta: Params, X: Any) -> _Outputs:
    """The outputs of a parametrisation, after a check of all arguments."""
    start = _flat(theta)
    if not start.size or not np.isfinite(start).all():
        raise ValueError("`theta` must hold finite numbers, at least one.")
    shape = jax.eval_shape(G, jax.tree.map(np.asarray, theta)).shape
    d = int(np.prod(shape))
    if X is None:
        return _Outputs(G, theta, None, d)
    X = np.asarray(X, float)
    if X.ndim < 1 or not len(X) or X[0].size != d:
        raise ValueError(f"`X` must have a row of {d} numbers per sample, one per weight of G, got shape {X.shape}.")
    if not np.isfinite(X).all():
        raise ValueError("`X` must hold finite numbers.")
    return _Outputs(G, theta, X.reshape(len(X), d), d)
