r"""Scale-invariant functions of weights, and gradient descent with weight decay on them.

A loss with $L(c\,w) = L(w)$ for all $c > 0$ has $\langle w, \nabla L\rangle = 0$, $\nabla L(c\,w) = \nabla L(w)/c$ and
$\nabla^2L(c\,w) = \nabla^2L(w)/c^2$. A step with decay, $w' = (1 - \eta\lambda)w - \eta g$, therefore turns $w$ by an
angle $\theta$ and changes its length by Pythagoras' theorem,

$$|w'|^2 = (1 - \eta\lambda)^2|w|^2 + \eta^2|g(\bar w)|^2/|w|^2 = (1 - \eta\lambda)^2|w|^2/\cos^2\theta ,
\qquad \bar w = w/|w| .$$

Gradients make the weights longer, decay makes them shorter, and both meet where a step turns by
$\cos\theta = 1 - \eta\lambda$.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.types import Params, Real
from secant.nets.homogeneity import Homogeneity

FACTORS = (0.5, 2.0, 10.0)
LARGEST = math.log(np.finfo(float).max)


def degree(
    f: Callable[[Params], Any],
    params: Params,
    part: Callable[[str], bool] | None = None,
    *,
    factors: Sequence[float] = FACTORS,
) -> Homogeneity:
    r"""The degree $k$ for which $f(c\,w) = c^kf(w)$, by trying some factors $c$.

    [`homogeneity`][secant.nets.homogeneity] looks at one derivative only. This function tests large changes of scale,
    and it can scale some parameters and leave the others.

    Args:
        f: any function of the parameters alone, such as `lambda p: net.apply(p, x)`.
        params: the parameters to scale.
        part: which parameters to scale, by their path in `params`, such as `[0]['weight']`; by default all.
        factors: the $c$, above 0 and not 1.

    Returns:
        The degree that fits best, and as residual the largest $|f(c\,w) - c^kf(w)|/|c^kf(w)|$. If $f$ is homogeneous
        the residual is rounding.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        from secant.theory.normalization import scale_invariance

        found = scale_invariance.degree(lambda p: p["a"] ** 2 * p["b"], {"a": 3.0, "b": 5.0})
        only = scale_invariance.degree(lambda p: p["a"] ** 2 * p["b"], {"a": 3.0, "b": 5.0}, lambda path: "a" in path)
        print(round(float(found.degree), 3), round(float(only.degree), 3))
        ```
        ```text
        3.0 2.0
        ```
    """
    c = np.asarray(factors, float)
    if c.ndim != 1 or not len(c) or not (np.isfinite(c) & (c > 0) & (c != 1)).all():
        raise ValueError(f"degree: `factors` must be finite numbers above 0 other than 1, got {factors!r}.")
    scaled = _scaler("degree", params, part)
    base = np.ravel(np.asarray(f(params), float))
    rows = np.stack([np.ravel(np.asarray(f(scaled(factor)), float)) for factor in c])
    size = np.linalg.norm(base)
    if size == 0 or not np.isfinite(rows).all():
        raise ValueError("degree: `f(params)` is zero or not finite, so there is no degree. Pass other `params`.")
    grown, logs = np.log(np.linalg.norm(rows, axis=1) / size), np.log(c)
    found = float(grown @ logs / (logs @ logs))
    expected = c[:, None] ** found * base
    residual = np.linalg.norm(rows - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return Homogeneity(jnp.asarray(found), jnp.asarray(residual.max()))


def is_scale_invariant(
    f: Callable[[Params], Any],
    params: Params,
    part: Callable[[str], bool] | None = None,
    *,
    factors: Sequence[float] = FACTORS,
    within: float | None = None,
) -> bool:
    r"""Whether $f(c\,w) = f(w)$ for some factors $c$.

    Args:
        f: any function of the parameters alone.
        params: the parameters to scale.
        part: which parameters to scale, by their path in `params`; by default all.
        factors: the $c$, above 0 and not 1.
        within: the largest $|f(c\,w) - f(w)|/|f(w)|$ that still counts as invariant; by default the relative rounding
            of the numbers, to the power 2/3.
    """
    scaled = _scaler("is_scale_invariant", params, part)
    base = np.asarray(f(params))
    kind: Any = base.dtype if np.issubdtype(base.dtype, np.floating) else float
    allowed = np.finfo(kind).eps ** (2 / 3) if within is None else positive("is_scale_invariant", "within", within)
    size = np.linalg.norm(base)
    return all(np.linalg.norm(np.asarray(f(scaled(c))) - base) <= allowed * size for c in factors)


def _scaler(caller: str, params: Params, part: Callable[[str], bool] | None) -> Callable[[float], Params]:
    """`c -> params` with a part of them times `c`, after a check that there is something to scale."""
    leaves, structure = jax.tree.flatten_with_path(params)
    chosen = [part is None or bool(part(jax.tree_util.keystr(path))) for path, _ in leaves]
    if not any(chosen):
        paths = ", ".join(jax.tree_util.keystr(path) for path, _ in leaves)
        raise ValueError(f"{caller}: `part` chooses none of the parameters. The paths are: {paths or 'none'}.")
    if all(not np.any(np.asarray(leaf)) for (_, leaf), take in zip(leaves, chosen, strict=True) if take):
        raise ValueError(f"{caller}: the weights to scale are all zero and have no direction. Pass other `params`.")

    def scaled(c: float) -> Params:
        moved = [c * np.asarray(leaf) if take else leaf for (_, leaf), take in zip(leaves, chosen, strict=True)]
        return jax.tree.unflatten(structure, moved)

    return scaled


def sphere_smoothness(loss: Callable[[Params], Any], params: Params, *, starts: int = 8, seed: int = 0) -> float:
    r"""The largest curvature on the unit sphere, $\rho = \max_{|w|=1}\|\nabla^2L(w)\|_2$.

    It maximises $|v\cdot\nabla^2L(w)\,v|$ over unit $w$ and $v$ from random starts, for both signs. The result is a
    lower bound on $\rho$, because some $w$ and $v$ reach it. More starts make it more likely that the result is $\rho$.
    For $w\cdot Aw/|w|^2$ it is $2(\lambda_{\max} - \lambda_{\min})$. A function with layer normalisation has no $\rho$:
    where all features of a sample are equal, its curvature has no bound.

    Args:
        loss: a scale-invariant function of the parameters.
        params: any parameters, for their shapes.
        starts: number of random starts.
        seed: seed of the starts.

    Example:
        ```python
        import jax.numpy as jnp
        from secant.theory.normalization.scale_invariance import sphere_smoothness

        A = jnp.diag(jnp.array([3.0, 1.0, -1.0]))
        print(round(sphere_smoothness(lambda w: w @ A @ w / (w @ w), jnp.ones(3)), 3))
        ```
        ```text
        8.0
        ```
    """
    from scipy.optimize import minimize

    whole("sphere_smoothness", "starts", starts)
    flat, unravel = ravel_pytree(params)
    slope = jax.grad(lambda w: loss(unravel(w)))

    def bend(both: Array, sign: Array) -> Array:
        w, v = both[: len(flat)], both[len(flat) :]
        w, v = w / jnp.linalg.norm(w), v / jnp.linalg.norm(v)
        return -sign * jnp.vdot(v, jax.jvp(slope, (w,), (v,))[1])

    both = jax.jit(jax.value_and_grad(bend))
    random = np.random.default_rng(seed)
    best = 0.0
    for start in random.normal(size=(starts, 2 * len(flat))):
        for sign in (1.0, -1.0):
            found = minimize(
                lambda z, sign=sign: [np.asarray(a, float) for a in both(z.astype(flat.dtype), sign)],
                start,
                jac=True,
                method="L-BFGS-B",
                options={"gtol": 1e-8, "ftol": 1e-13},
            )
            best = max(best, -float(found.fun))
    if not math.isfinite(best):
        raise FloatingPointError(
            "sphere_smoothness: the curvature became infinite or not a number during the search. Pass a `loss` that is "
            "smooth on the whole sphere."
        )
    return best


class Schedule(NamedTuple):
    r"""Step sizes that replace weight decay.

    Attributes:
        lr: $\hat\eta_t$, one per step.
        scale: $P_t$, one entry more: with decay the weights are $w_t = P_t\hat w_t$.
    """

    lr: Float[np.ndarray, " steps"]
    scale: Float[np.ndarray, " steps_and_one"]


def schedule_without_decay(lr: Real | Sequence[float], decay: Real, steps: int | None = None) -> Schedule:
    r"""Step sizes for which descent without decay computes the same functions as descent with it.

    With $P_t = \prod_{s<t}(1 - \eta_s\lambda)$ they are $\hat\eta_t = \eta_t/(P_tP_{t+1})$. For a constant $\eta$
    they start at $\eta/(1 - \eta\lambda)$ and grow by the factor $(1 - \eta\lambda)^{-2}$ per step.

    Args:
        lr: $\eta$, one number or one per step.
        decay: $\lambda$, at least 0, with $\eta\lambda$ below 1.
        steps: number of steps, if `lr` is one number.

    Example:
        ```python
        from secant.theory.normalization.scale_invariance import schedule_without_decay

        print(schedule_without_decay(0.5, 0.2, steps=4).lr.round(4))
        ```
        ```text
        [0.5556 0.6859 0.8468 1.0454]
        ```
    """
    eta = np.asarray(lr, float)
    if eta.ndim == 0:
        if steps is None:
            raise ValueError("schedule_without_decay: `steps` is missing. Pass it, because `lr` is one number.")
        eta = np.full(whole("schedule_without_decay", "steps", steps), float(eta))
    if eta.ndim != 1 or not len(eta) or not (np.isfinite(eta) & (eta > 0)).all():
        raise ValueError(f"schedule_without_decay: `lr` must be finite numbers above 0, one per step, got {lr!r}.")
    if steps is not None and len(eta) != steps:
        raise ValueError(
            f"schedule_without_decay: `lr` holds {len(eta)} step sizes, but `steps` is {steps}. Leave out `steps`."
        )
    kept = 1 - eta * at_least_zero("schedule_without_decay", "decay", decay)
    if (kept <= 0).any():
        _below_one("schedule_without_decay", float(eta.max()), decay)
    logs = np.concatenate([[0.0], np.cumsum(np.log(kept))])
    sizes = np.log(eta) - logs[:-1] - logs[1:]
    if sizes.max() > LARGEST:
        raise ValueError(
            f"schedule_without_decay: step sizes of {len(eta)} steps are larger than any float64. Take at most "
            f"{int(np.argmax(sizes > LARGEST))} steps at once, then multiply the weights by `scale` and start again."
        )
    return Schedule(np.exp(sizes), np.exp(logs))


def decay_of_schedule(lr: Real, growth: Real) -> tuple[float, float]:
    r"""The pair $(\eta, \lambda)$ with decay that is equivalent to step sizes $\hat\eta_0(1 + \alpha)^t$ without decay.

    Args:
        lr: the first step size, $\hat\eta_0 = \eta/(1 - \eta\lambda)$.
        growth: $1 + \alpha = (1 - \eta\lambda)^{-2}$, the factor from one step size to the next; at least 1.
    """
    first = positive("decay_of_schedule", "lr", lr)
    if not (math.isfinite(float(growth)) and float(growth) >= 1):
        raise ValueError(f"decay_of_schedule: `growth` must be a number of at least 1, got {growth!r}.")
    kept = float(growth) ** -0.5
    return first * kept, (1 - kept) / (first * kept)


def _below_one(caller: str, lr: float, decay: Any) -> None:
    raise ValueError(
        f"{caller}: `lr` times `decay` must be below 1, or a step turns the weights around or makes them zero. Got "
        f"{lr:g} * {float(decay):g}. Use a smaller `lr` or `decay`."
    )


def _shrinkage(caller: str, lr: Any, decay: Any) -> tuple[float, float, float]:
    """Step size, decay and their product, checked."""
    eta, decays = positive(caller, "lr", lr), positive(caller, "decay", decay)
    if eta * decays >= 1:
        _below_one(caller, eta, decay)
    return eta, decays, eta * decays
