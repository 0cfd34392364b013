r"""Gradient flow of exponential losses, followed in the logarithm of time.

On $L = \sum_ie^{-m_i(\theta)}$ the flow slows down as $1/t$: what takes until $t = e^{100}$ no steps of descent reach.
With $\tau = \log(1 + t)$ it is

$$\frac{d\theta}{d\tau} = \sum_ie^{\tau - m_i(\theta)}\nabla m_i(\theta),$$

in which no number is large or small while the margins keep up with $\tau$, and which a stiff solver follows in few
steps. They are fewest in $s = \tau^{1/\alpha}$, $\alpha$ the degree of the model, in which parameters go straight on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secant.core.arguments import positive, whole
from secant.core.device import compiler_options
from secant.core.types import Params
from secant.losses import margins
from secant.nets.homogeneity import homogeneity

if TYPE_CHECKING:
    import xarray as xr

LOSSES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "exponential": (lambda m: m, lambda m: -m),
    # The logarithm of log(1 + e^-m), of which nothing but -m is left at large margins.
    "logistic": (jax.nn.softplus, lambda m: jnp.where(m > 40, -m, jnp.log(jnp.log1p(jnp.exp(-jnp.minimum(m, 40)))))),
}
r"""Loss -> $-\log(-\ell'(m))$ and $\log\ell(m)$."""

LARGEST = 400
"""Parameters of which a host solves with the whole Jacobian."""


@dataclass(frozen=True)
class LateFlow:
    r"""A flow in the logarithm of time.

    Attributes:
        dataset: over `log_time`, $\log t$: `theta`, all parameters in one row, `norm`, `margins` of the samples,
            `margin`, their least over $\|\theta\|^\alpha$, `log_loss`, and `kkt`, $1 - \cos(\theta, -\nabla L)$.
        params: the parameters at the end.
        degree: $\alpha$, the degree of homogeneity.
        evaluations: of the field.
    """

    dataset: xr.Dataset
    params: Params
    degree: float
    evaluations: int


def late_flow(
    f: Callable[[Params, Any], Array],
    params: Params,
    x: Any,
    y: Any,
    until_log: float,
    *,
    loss: str = "exponential",
    samples: int | np.ndarray = 60,
    rtol: float = 1e-8,
) -> LateFlow:
    r"""Follows gradient flow on $\sum_i\ell(y_if(\theta, x_i))$ from $t = 0$ to $\log t$ = `until_log`, on the host.

    For linear and other homogeneous $f$ of up to 400 parameters and in float64, whatever the precision outside: an
    implicit method (Radau) with the exact Jacobian.

    Args:
        f: any `f(params, x)` with one output a sample, homogeneous in its parameters.
        params: where to start.
        x: inputs, one row a sample.
        y: labels, -1 or 1.
        until_log: the last $\log t$; 30,000 is no problem.
        loss: `"exponential"`, $\ell(m) = e^{-m}$, or `"logistic"`, $\log(1 + e^{-m})$.
        samples: how many records, from $t = 1$ on with $\log(1 + \log t)$ in equal steps; or the increasing $\log t$.
        rtol: relative tolerance of a step.

    Example:
        ```python
        import numpy as np
        from secant.dynamics import late_flow

        x, y = np.array([[2.0, 1.0], [1.0, 2.0], [-3.0, -3.0]]), np.array([1.0, 1.0, -1.0])
        run = late_flow(lambda w, x: x @ w, np.array([1.0, -1.0]), x, y, until_log=1_000.0)
        print(run.dataset.margin[-1].round(4).item(), run.evaluations < 5_000)
        ```
        ```text
        2.1213 True
        ```
    """
    import xarray as xr
    from scipy.integrate import solve_ivp

    until, rtol = positive("late_flow", "until_log", until_log), positive("late_flow", "rtol", rtol)
    if loss not in LOSSES:
        raise ValueError(f"late_flow: `loss` must be one of {', '.join(LOSSES)}, got {loss!r}.")
    places = (
        np.expm1(np.linspace(0, math.log1p(until), whole("late_flow", "samples", samples, 2)))
        if isinstance(samples, int)
        else np.asarray(samples, float)
    )
    if places.ndim != 1 or np.any(np.diff(places) <= 0) or not len(places) or places[-1] > until * (1 + 1e-12):
        raise ValueError("late_flow: `samples` must be a number of at least 2, or increasing log t up to `until_log`.")
    labels = np.asarray(y, float)
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError("late_flow: `y` must be labels -1 and 1.")
    with jax.enable_x64(True):
        start, back = _flat(params)
        inputs = jax.tree.map(lambda leaf: np.asarray(leaf, float) if np.asarray(leaf).dtype.kind == "f" else leaf, x)
        if start.size > LARGEST:
            raise ValueError(
                f"late_flow: `params` are {start.size}, and a host follows {LARGEST}. Use a smaller model."
            )
        # At a random point: at the start, say at zero, an identity may say nothing.
        degree = _degree(f, back(np.random.default_rng(0).normal(size=start.size)), inputs)
        look, field, bend = _compiled(f, back, inputs, labels, LOSSES[loss], degree)
        # Parameters grow as the root of tau: in s = tau^(1/degree) they are nearly straight, and steps are long.
        power = max(1.0, round(degree) if abs(degree - round(degree)) < 1e-6 else degree)
        end = float(np.logaddexp(0.0, until)) ** (1 / power)

        def rate(s: float) -> tuple[np.float64, float]:
            # Times of one type: the solver begins with a number of Python, for which all would be compiled twice.
            return np.float64(s**power), power * s ** (power - 1)

        def moved(s: float, theta: np.ndarray) -> np.ndarray:
            tau, speed = rate(s)
            return np.asarray(field(tau, theta)) * speed

        def slope(s: float, theta: np.ndarray) -> np.ndarray:
            tau, speed = rate(s)
            return np.asarray(bend(tau, theta)) * speed

        with np.errstate(over="ignore", invalid="ignore"):
            found = solve_ivp(
                moved,
                (0.0, end),
                start,
                method="Radau",
                t_eval=np.minimum(np.logaddexp(0.0, places) ** (1 / power), end),
                jac=slope,
                rtol=rtol,
                atol=1e-2 * rtol,
            )
        if found.status != 0:
            raise ArithmeticError(
                f"late_flow: the solver stopped: {found.message} A network with kinks may slide along one, where there "
                "is no derivative: start elsewhere or take a smooth `f`; else loosen `rtol` or end earlier."
            )
        last = back(found.y[:, -1])
        records = {name: np.asarray(value) for name, value in look(found.y.T).items()}
    if not records["margins"][-1].min() > 0:
        raise ValueError(
            f"late_flow: at log t = {until:g}, {int((records['margins'][-1] <= 0).sum())} of {len(labels)} samples are "
            "not classified: the data may not be separable by `f`. Start elsewhere, add features or go further."
        )
    dims = {"theta": ("log_time", "parameter"), "margins": ("log_time", "sample")}
    data = xr.Dataset(
        {"theta": (dims["theta"], found.y.T)} | {k: (dims.get(k, "log_time"), v) for k, v in records.items()},
        coords={"log_time": ("log_time", places, {"long_name": "log t"})},
        attrs={"evaluations": int(found.nfev), "jacobians": int(found.njev), "rtol": rtol},
    )
    return LateFlow(data, last, degree, int(found.nfev))


def _flat(params: Params) -> tuple[np.ndarray, Callable[[Any], Params]]:
    """All parameters in one row, and the way back, on the host: nothing is compiled for it."""
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda leaf: np.asarray(leaf, float), params))
    ends = np.cumsum([leaf.size for leaf in leaves])

    def back(row: Any) -> Params:
        parts = (row[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True))
        return jax.tree.unflatten(structure, list(parts))

    return np.concatenate([leaf.reshape(-1) for leaf in leaves]), back


def _degree(f: Callable[[Params, Any], Array], params: Params, x: Any) -> float:
    found = jax.jit(lambda p: homogeneity(f, p, x), compiler_options=compiler_options(quick=True))(params)
    degree, residual = (float(part) for part in found)
    if not residual < 1e-8 or not degree > 0:
        raise ValueError(
            f"late_flow: `f` must be homogeneous in its parameters, and Euler's identity misses by {residual:.1e} "
            "of it. Leave out biases beyond the first layer, and take linear, ReLU or power activations."
        )
    return degree


def _compiled(
    f: Callable[[Params, Any], Array],
    back: Callable[[Array], Params],
    x: Any,
    y: np.ndarray,
    loss: tuple[Callable[[Array], Array], Callable[[Array], Array]],
    degree: float,
) -> tuple[Any, Any, Any]:
    """Records of many states at once, the field, and its Jacobian."""
    slope, log_loss = loss

    def of(theta: Array) -> Array:
        return margins(f(back(theta), x), y)

    def field(tau: Any, theta: Array) -> Array:
        m, pull = jax.vjp(of, theta)
        return pull(jnp.exp(tau - slope(m)))[0]

    def look(theta: Array) -> dict[str, Array]:
        m, pull = jax.vjp(of, theta)
        force, norm = pull(jax.nn.softmax(-slope(m)))[0], jnp.linalg.norm(theta)
        apart = force / jnp.linalg.norm(force) - theta / norm
        return {
            "norm": norm,
            "margins": m,
            "margin": jnp.min(m) / norm**degree,
            "log_loss": jax.nn.logsumexp(log_loss(m)),
            "kkt": jnp.sum(apart**2) / 2,
        }

    # Called thousands of times on few numbers: nothing stands between the solver and the compiled programs.
    told = compiler_options(quick=True)
    parts = jax.vmap(look), field, jax.jacfwd(field, argnums=1)
    look_, field_, bend = (jax.jit(part, compiler_options=told) for part in parts)
    return look_, field_, bend
