r"""Gradient flow of exponential losses, followed in the logarithm of time.

On $L = \sum_ie^{-m_i(\theta)}$ the flow slows down as $1/t$. Steps of gradient descent cannot reach what takes until
$t = e^{100}$. With $\tau = \log(1 + t)$ the flow is

$$\frac{d\theta}{d\tau} = \sum_ie^{\tau - m_i(\theta)}\nabla m_i(\theta).$$

Here no number is large or small while the margins keep up with $\tau$, and a stiff solver needs few steps. Steps are
fewest in $s = \tau^{1/\alpha}$, with $\alpha$ the degree of the model, because parameters then move straight on.
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
    # The logarithm of log(1 + e^-m); at large margins only -m is left.
    "logistic": (jax.nn.softplus, lambda m: jnp.where(m > 40, -m, jnp.log(jnp.log1p(jnp.exp(-jnp.minimum(m, 40)))))),
}
r"""Loss -> $-\log(-\ell'(m))$ and $\log\ell(m)$."""

LARGEST = 400
"""The most parameters for which the host solves with the whole Jacobian."""


@dataclass(frozen=True)
class LateFlow:
    r"""A gradient flow recorded in the logarithm of time.

    Attributes:
        dataset: over `log_time`, $\log t$: `theta`, all parameters in one row; `norm`; `margins` of the samples;
            `margin`, the least margin over $\|\theta\|^\alpha$; `log_loss`; and `kkt`, $1 - \cos(\theta, -\nabla L)$.
        params: the parameters at the end.
        degree: $\alpha$, the degree of homogeneity.
        evaluations: how often the field was evaluated.
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

    It takes linear and other homogeneous $f$ with up to 400 parameters. The method is implicit (Radau) with the exact
    Jacobian, in float64 whatever the precision outside.

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
                f"late_flow: `params` holds {start.size} numbers, and at most {LARGEST} work. Use a smaller model."
            )
        # The identity is tested at a random point: at the start, for example at zero, it may hold trivially.
        degree = _degree(f, back(np.random.default_rng(0).normal(size=start.size)), inputs)
        look, field, bend = _compiled(f, back, inputs, labels, LOSSES[loss], degree)
        # Parameters grow as a root of tau: in s = tau^(1/degree) they move nearly straight, and steps are long.
        power = max(1.0, round(degree) if abs(degree - round(degree)) < 1e-6 else degree)
        end = float(np.logaddexp(0.0, until)) ** (1 / power)

        def rate(s: float) -> tuple[np.float64, float]:
            # All times get one type: the solver begins with a Python number, which would compile everything twice.
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
    """All parameters in one row, and a function back to the tree; on the host, so that nothing is compiled."""
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
            f"late_flow: `f` must be homogeneous in its parameters, but Euler's identity has a relative error of "
            f"{residual:.1e}. Leave out biases beyond the first layer, and take linear, ReLU or power activations."
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
    """The compiled functions: records of many states at once, the field, and its Jacobian."""
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

    # The solver calls these programs thousands of times on few numbers, so it calls them without a layer in between.
    told = compiler_options(quick=True)
    parts = jax.vmap(look), field, jax.jacfwd(field, argnums=1)
    look_, field_, bend = (jax.jit(part, compiler_options=told) for part in parts)
    return look_, field_, bend
