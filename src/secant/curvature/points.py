r"""Critical points: whether a point is a minimum, a maximum or a saddle, as far as the Hessian tells.

Where the gradient vanishes, the signs of the Hessian's eigenvalues decide:

- all positive: a minimum;
- all negative: a maximum;
- both signs: a saddle;
- the smallest or the largest is zero: undecided. $w^4$, $-w^4$ and $w^3$ share their second derivative at 0.

Lanczos' method finds the two ends of the spectrum from products alone. Each value it finds is the curvature along a
vector. A negative value therefore proves that there is a descent, and a positive value that there is an ascent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant import losses
from secant.core.arguments import at_least_zero, positive
from secant.core.device import jit
from secant.core.memo import kept
from secant.core.types import Params
from secant.curvature.checks import Function, finite_results, real_parameters, squared_norm
from secant.curvature.operators import Loss, hessian, spaces
from secant.linalg import Operator
from secant.models.entrance import takes_models

Kind = Literal["minimum", "maximum", "saddle", "degenerate", "not critical"]

WHOLE = 64
"""Up to this many parameters all eigenvalues are computed at once."""


class CriticalPoint(NamedTuple):
    r"""The kind of a point, and the numbers behind the verdict.

    Attributes:
        kind: `minimum`, `maximum`, `saddle` or `degenerate`; `not critical` where the gradient is too large.
        smallest: the smallest eigenvalue of the Hessian that was found, the curvature along `direction`. The true
            smallest eigenvalue is at most this, and within `smallest_error` unless Lanczos' method skipped it.
        smallest_error: some eigenvalue is guaranteed to lie within this distance of `smallest`.
        largest: the largest eigenvalue of the Hessian that was found; the true largest eigenvalue is at least this.
        largest_error: some eigenvalue is guaranteed to lie within this distance of `largest`.
        gradient: norm of the gradient.
        direction: unit vector along which the curvature is `smallest`: the way out of a saddle.
    """

    kind: Kind
    smallest: float
    smallest_error: float
    largest: float
    largest_error: float
    gradient: float
    direction: Params


@takes_models
def critical_point(
    f: Function,
    params: Params,
    x: Any = None,
    y: Any = None,
    loss: Loss | str | None = None,
    *,
    eps: float | None = None,
    flat: float | None = None,
    tol: float = 1e-6,
    max_products: int = 1000,
) -> CriticalPoint:
    r"""Says whether a point is a minimum, a maximum, a saddle or degenerate.

    Args:
        f: any `f(params, x)`, or a model, which replaces `f` and `params` ([`model`][secant.models.model]).
            Without `x`, `y` and `loss`: a function `f(params)` of the parameters alone, which returns one number.
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.
        eps: norm up to which a gradient counts as zero. By default a gradient counts as zero if it would vanish within
            a distance $\sqrt u\,\max(1, |\theta|)$ at the largest curvature, $u$ the rounding of the parameters' type.
        flat: eigenvalues up to this share of the largest in size count as zero; by default $\sqrt u$.
        tol: relative error of the eigenvalues.
        max_products: the most Hessian products for each end of the spectrum.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        point = sc.curvature.critical_point(lambda w: w[0] ** 2 - w[1] ** 2, jnp.zeros(2))
        print(point.kind, point.smallest, point.direction)
        ```
        ```text
        saddle -2.0 [0. 1.]
        ```
    """
    operator, steepness, rounding = _at("critical_point", f, params, x, y, loss)
    share = float(np.sqrt(rounding)) if flat is None else at_least_zero("critical_point", "flat", flat)
    low, high, direction = _ends(operator, tol, max_products)
    top = max(abs(low[0]), abs(high[0]))
    size = float(np.sqrt(squared_norm(params)))
    still = np.sqrt(rounding) * top * max(1.0, size) if eps is None else at_least_zero("critical_point", "eps", eps)
    kind = _kind(low, high, share * top) if steepness <= still else "not critical"
    return CriticalPoint(kind, *low, *high, steepness, direction)


@takes_models
def is_sosp(
    f: Function,
    params: Params,
    x: Any = None,
    y: Any = None,
    loss: Loss | str | None = None,
    *,
    eps: float,
    gamma: float,
    tol: float = 1e-6,
    max_products: int = 1000,
) -> bool:
    r"""Whether a point is second-order stationary, $|\nabla L| \le \epsilon$, $\lambda_{\min}(\nabla^2L) \ge -\gamma$.

    The answer no is proved: a direction with curvature below $-\gamma$ was found. The answer yes is as sure as Lanczos'
    method, which very rarely skips an eigenvalue.

    Args:
        f: as for [`critical_point`][secant.curvature.critical_point]; also a function of the parameters alone.
        params: the parameters to evaluate at.
        x: inputs, one row a sample.
        y: targets, one row a sample.
        loss: a [`Loss`][secant.losses.Loss], its name, or any scalar function of outputs and targets.
        eps: $\epsilon$.
        gamma: $\gamma$; with $\sqrt{\rho\epsilon}$, $\rho$ a Lipschitz constant of the Hessian, the units agree.
        tol: relative error of the eigenvalue. A value closer to $-\gamma$ than its error is computed again, more
            accurately.
        max_products: the most Hessian products of each computation.

    Example:
        ```python
        import jax.numpy as jnp
        import secant as sc

        saddle = lambda w: w[0] ** 2 - w[1] ** 2
        print([sc.curvature.is_sosp(saddle, jnp.zeros(2), eps=0.1, gamma=gamma) for gamma in (1.0, 3.0)])
        ```
        ```text
        [False, True]
        ```
    """
    eps, gamma = at_least_zero("is_sosp", "eps", eps), at_least_zero("is_sosp", "gamma", gamma)
    operator, steepness, _ = _at("is_sosp", f, params, x, y, loss)
    if steepness > eps:
        return False
    found = operator.top(1, which="smallest", tol=positive("is_sosp", "tol", tol), max_products=max_products)
    if abs(float(found.values[0]) + gamma) < float(found.residuals[0]):
        found = operator.top(1, which="smallest", tol=tol**2, max_products=max_products, start=found.vectors)
    return float(found.values[0]) >= -gamma


def _at(caller: str, f: Any, params: Params, x: Any, y: Any, loss: Any) -> tuple[Operator, float, float]:
    """The Hessian, the norm of the gradient, and the rounding of the parameters' type."""
    real_parameters(caller, params)
    given = [name for name, value in (("x", x), ("y", y), ("loss", loss)) if value is not None]
    params = jax.tree.map(jnp.asarray, params)
    if not given:
        operator = _alone(caller, f, params)
        norm = _steepness(f, None)(params)
    elif len(given) == 3:
        operator = hessian(f, params, x, y, loss)
        norm = _steepness(f, losses.get(loss))(params, x, y)
    else:
        raise TypeError(
            f"{caller}: got {' and '.join(f'`{name}`' for name in given)} alone. Pass `x`, `y` and `loss`, or, for a "
            "function of the parameters alone, none of them."
        )
    finite_results(caller, norm)
    return operator, float(norm), float(jnp.finfo(operator.dtype).eps)


def _alone(caller: str, f: Any, params: Params) -> Operator:
    """The Hessian of a function of the parameters alone."""
    try:
        value = jax.eval_shape(f, params)
    except TypeError as error:
        error.add_note(f"{caller}: this is what `f(params)` raised. For an `f(params, x)` pass `x`, `y` and `loss`.")
        raise
    number = isinstance(value, jax.ShapeDtypeStruct) and value.shape == ()
    if not number or not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{caller}: without `x`, `y` and `loss`, `f(params)` must be one real number, it is {value}.")
    space = spaces(params)
    return Operator(_bend(f), params, space, space, name=caller)


@kept
def _bend(f: Callable[..., Array]) -> Any:
    return lambda params: jax.linearize(jax.grad(f), params)[1]


@kept
def _steepness(f: Any, loss: Loss | None) -> Callable[..., Array]:
    def objective(params: Params, *data: Any) -> Array:
        if loss is None:
            return f(params)
        x, y = data
        return loss(f(params, x), y)

    return jit(lambda params, *data: jnp.linalg.norm(ravel_pytree(jax.grad(objective)(params, *data))[0]), quick=True)


def _ends(operator: Operator, tol: float, max_products: int) -> tuple[tuple[float, float], tuple[float, float], Params]:
    """Both ends of the spectrum with their guaranteed errors, and the eigenvector of the lower end."""
    count = operator.shape[0]
    if count <= WHOLE:
        found = operator.top(count, which="smallest")
        ends = [(np.asarray(found.values)[i], np.asarray(found.residuals)[i]) for i in (0, -1)]
        return _plain(ends[0]), _plain(ends[1]), jax.tree.map(lambda leaf: leaf[0], found.vectors)
    low = operator.top(1, which="smallest", tol=positive("critical_point", "tol", tol), max_products=max_products)
    high = operator.top(1, which="largest", tol=tol, max_products=max_products, vectors=False)
    lower, upper = (_plain((end.values[0], end.residuals[0])) for end in (low, high))
    return lower, upper, jax.tree.map(lambda leaf: leaf[0], low.vectors)


def _plain(end: tuple[Any, Any]) -> tuple[float, float]:
    return float(end[0]), float(end[1])


def _kind(low: tuple[float, float], high: tuple[float, float], flat: float) -> Kind:
    if low[0] < -flat and high[0] > flat:
        return "saddle"
    if low[0] - low[1] > flat:
        return "minimum"
    return "maximum" if high[0] + high[1] < -flat else "degenerate"
