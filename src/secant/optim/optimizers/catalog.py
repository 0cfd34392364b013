r"""Optimisers with a memory: momentum, Nesterov's momentum, RMSprop, Adam, and any transformation of optax.

Each constructor makes an [`Optimiser`][secant.optim.optimisers.Optimiser], a rule for
[`train`][secant.optim.train]. Update equations and defaults are those of PyTorch, where PyTorch has them. An optimiser
also knows where it becomes unstable. With $P_t$ the diagonal by which it divides its step, on a quadratic with Hessian
$H$ and fixed $P$ it converges while the largest eigenvalue of $P^{-1/2}HP^{-1/2}$ is below its `threshold`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from secant.core.arguments import at_least_zero, fraction, is_traced, positive, step_size
from secant.core.types import Params
from secant.curvature.critical_steps.full_batch import stability_factor
from secant.optim.optimizers.optimizer import Optimiser, OptimiserState, Scale, from_optax
from secant.optim.schedules import Schedule


def gd(lr: float | Schedule, weight_decay: float = 0.0) -> Optimiser:
    r"""Gradient descent, $\theta \leftarrow (1 - \eta w)\theta - \eta g$; stable below $2/\eta - w$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        weight_decay: $w$; at least 0.
    """
    plain = _momentum("gd", lr, None, False)
    decay = at_least_zero("gd", "weight_decay", weight_decay)
    if not is_traced(decay) and decay == 0:
        return plain
    import optax

    lr = step_size("gd", lr)
    return dataclasses.replace(
        plain,
        settings=(("lr", lr), ("weight_decay", decay)),
        transformation=optax.chain(optax.add_decayed_weights(decay), plain.transformation),
        edge=_edge(lr, lambda size: stability_factor() / size - decay),
        rotates=False,  # what the data does not span decays as well
    )


def momentum(lr: float | Schedule, beta: float = 0.9) -> Optimiser:
    r"""Heavy-ball momentum, $m \leftarrow \beta m + g$, $\theta \leftarrow \theta - \eta m$; stable below
    $(2 + 2\beta)/\eta$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        beta: how much of the last step is kept, $\beta$.
    """
    return _momentum("momentum", lr, beta, False)


def nesterov(lr: float | Schedule, beta: float = 0.9) -> Optimiser:
    r"""Nesterov's momentum, $m \leftarrow \beta m + g$, $\theta \leftarrow \theta - \eta(g + \beta m)$; stable below
    $(2 + 2\beta)/(\eta(1 + 2\beta))$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        beta: how much of the last step is kept, $\beta$.
    """
    return _momentum("nesterov", lr, beta, True)


def _momentum(name: str, lr: float | Schedule, beta: float | None, nesterov: bool) -> Optimiser:
    import optax

    lr = step_size(name, lr)
    kept = 0.0 if beta is None else fraction(name, "beta", beta)
    settings = (("lr", lr),) if beta is None else (("lr", lr), ("beta", kept))
    tail = optax.scale_by_learning_rate(lr)
    return Optimiser(
        name,
        settings,
        tail if beta is None else optax.chain(optax.trace(kept, nesterov), tail),
        edge=_edge(lr, lambda size: stability_factor(kept, nesterov) / size),
        scale=_ones,
        rotates=True,
    )


def rmsprop(lr: float | Schedule = 1e-2, decay: float = 0.99, eps: float = 1e-8) -> Optimiser:
    r"""RMSprop, $\nu \leftarrow \alpha\nu + (1 - \alpha)g^2$, $\theta \leftarrow \theta - \eta P^{-1}g$ with
    $P = \sqrt\nu + \epsilon$; stable below $2/\eta$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        decay: decay of the mean square, $\alpha$.
        eps: $\epsilon$, added outside the root.
    """
    import optax

    lr, decay = step_size("rmsprop", lr), fraction("rmsprop", "decay", decay)
    eps = at_least_zero("rmsprop", "eps", eps)
    mean_square = optax.scale_by_rms(decay, eps, eps_in_sqrt=False)
    return Optimiser(
        "rmsprop",
        (("lr", lr), ("decay", decay), ("eps", eps)),
        optax.chain(mean_square, optax.scale_by_learning_rate(lr)),
        edge=_edge(lr, lambda size: stability_factor() / size),
        scale=lambda inner, params: jax.tree.map(lambda nu: jnp.sqrt(nu) + eps, inner[0].nu),
    )


def adagrad(lr: float | Schedule = 1e-2, eps: float = 1e-10) -> Optimiser:
    r"""Adagrad, $\nu \leftarrow \nu + g^2$, $\theta \leftarrow \theta - \eta P^{-1}g$ with $P = \sqrt\nu + \epsilon$;
    stable below $2/\eta$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        eps: $\epsilon$, added outside the root.
    """
    import optax

    lr, eps = step_size("adagrad", lr), at_least_zero("adagrad", "eps", eps)

    def update(gradient: Params, total: Params, params: Params | None = None) -> tuple[Params, Params]:
        total = jax.tree.map(lambda nu, g: nu + g**2, total, gradient)
        return jax.tree.map(lambda nu, g: jnp.where(g == 0, 0.0, g / (jnp.sqrt(nu) + eps)), total, gradient), total

    squares = optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)
    return Optimiser(
        "adagrad",
        (("lr", lr), ("eps", eps)),
        optax.chain(squares, optax.scale_by_learning_rate(lr)),
        edge=_edge(lr, lambda size: stability_factor() / size),
        scale=lambda inner, params: jax.tree.map(lambda nu: jnp.sqrt(nu) + eps, inner[0]),
    )


def adagrad_norm(lr: float | Schedule = 1.0) -> Optimiser:
    r"""Adagrad with one step size for all coordinates, $A \leftarrow A + |g|^2$, $\theta \leftarrow \theta - \eta
    g/\sqrt A$; stable below $2/\eta$.

    Ten times the loss gives the same run. [`rates`][secant.theory.descent.rates.adagrad_norm] has the bounds proved for
    it.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
    """
    import optax

    lr = step_size("adagrad_norm", lr)

    def update(gradient: Params, total: Any, params: Params | None = None) -> tuple[Params, Any]:
        total = total + sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient))
        # While all gradients so far are zero there is no step, and no division by zero.
        factor = jnp.where(total > 0, 1 / jnp.sqrt(jnp.where(total > 0, total, 1.0)), 0.0)
        return jax.tree.map(lambda g: (factor * g).astype(g.dtype), gradient), total

    squares = optax.GradientTransformation(lambda params: jnp.zeros((), _dtype(params)), update)
    return Optimiser(
        "adagrad_norm",
        (("lr", lr),),
        optax.chain(squares, optax.scale_by_learning_rate(lr)),
        edge=_edge(lr, lambda size: stability_factor() / size),
        scale=lambda inner, params: jax.tree.map(lambda p: jnp.full_like(p, jnp.sqrt(inner[0])), params),
        rotates=True,
    )


def adagrad_delayed(lr: float | Schedule = 1.0, sigma: float = 1.0) -> Optimiser:
    r"""Adagrad that divides by the past alone, $\theta \leftarrow \theta - \eta P^{-1}g$ with
    $P = \sqrt{\nu + \sigma^2}$ and only then $\nu \leftarrow \nu + g^2$; stable below $2/\eta$.

    The divisor is then not correlated with the noise of the step:
    [`rates`][secant.theory.descent.rates.adagrad_delayed].

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        sigma: $\sigma$, which no entry of a gradient should exceed; above 0.
    """
    import optax

    lr, sigma = step_size("adagrad_delayed", lr), positive("adagrad_delayed", "sigma", sigma)

    def init(params: Params) -> tuple[Params, Params]:
        return jax.tree.map(jnp.zeros_like, params), jax.tree.map(lambda p: jnp.full_like(p, sigma), params)

    def update(gradient: Params, state: tuple[Params, Params], params: Params | None = None) -> tuple[Params, Any]:
        total, _ = state
        by = jax.tree.map(lambda nu: jnp.sqrt(nu + sigma**2), total)
        return jax.tree.map(jnp.divide, gradient, by), (jax.tree.map(lambda nu, g: nu + g**2, total, gradient), by)

    return Optimiser(
        "adagrad_delayed",
        (("lr", lr), ("sigma", sigma)),
        optax.chain(optax.GradientTransformation(init, update), optax.scale_by_learning_rate(lr)),
        edge=_edge(lr, lambda size: stability_factor() / size),
        scale=lambda inner, params: inner[0][1],
    )


def adadelta(lr: float | Schedule = 1.0, decay: float = 0.9, eps: float = 1e-6) -> Optimiser:
    r"""Adadelta, $\nu \leftarrow \rho\nu + (1 - \rho)g^2$, $\delta = \sqrt{(s + \epsilon)/(\nu + \epsilon)}\,g$,
    $s \leftarrow \rho s + (1 - \rho)\delta^2$, $\theta \leftarrow \theta - \eta\delta$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        decay: decay of both mean squares, $\rho$.
        eps: $\epsilon$, inside the roots.
    """
    import optax

    lr, decay = step_size("adadelta", lr), fraction("adadelta", "decay", decay)
    eps = at_least_zero("adadelta", "eps", eps)
    parts = optax.scale_by_adadelta(decay, eps), optax.scale_by_learning_rate(lr)
    return Optimiser("adadelta", (("lr", lr), ("decay", decay), ("eps", eps)), optax.chain(*parts))


def adam(lr: float | Schedule = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimiser:
    r"""Adam, $m \leftarrow \beta_1m + (1 - \beta_1)g$, $\nu \leftarrow \beta_2\nu + (1 - \beta_2)g^2$,
    $\theta \leftarrow \theta - \eta P^{-1}m$ with $P_t = (1 - \beta_1^t)(\sqrt{\nu/(1 - \beta_2^t)} + \epsilon)$;
    stable below $(2 + 2\beta_1)/((1 - \beta_1)\eta)$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        b1: decay of the mean, $\beta_1$.
        b2: decay of the mean square, $\beta_2$.
        eps: $\epsilon$, added outside the root.
    """
    return _adam("adam", lr, b1, b2, eps, None)


def adamw(
    lr: float | Schedule = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 1e-2
) -> Optimiser:
    r"""Adam with decoupled weight decay $w$, $\theta \leftarrow (1 - \eta w)\theta - \eta P^{-1}m$; stable below
    $(2 - \eta w)(1 + \beta_1)/((1 - \beta_1)\eta)$.

    Args:
        lr: the step size $\eta$, or a [schedule][secant.optim.schedules].
        b1: decay of the mean, $\beta_1$.
        b2: decay of the mean square, $\beta_2$.
        eps: $\epsilon$, added outside the root.
        weight_decay: $w$; at least 0.
    """
    return _adam("adamw", lr, b1, b2, eps, weight_decay)


def _adam(name: str, lr: float | Schedule, b1: float, b2: float, eps: float, decay: float | None) -> Optimiser:
    import optax

    lr, eps = step_size(name, lr), at_least_zero(name, "eps", eps)
    b1, b2 = fraction(name, "b1", b1), fraction(name, "b2", b2)
    shrink = 0.0 if decay is None else at_least_zero(name, "weight_decay", decay)
    settings = (("lr", lr), ("b1", b1), ("b2", b2), ("eps", eps))
    parts = [optax.scale_by_adam(b1, b2, eps)]
    if decay is not None:
        parts.append(optax.add_decayed_weights(shrink))

    def scale(inner: Any, params: Params) -> Params:
        average = inner[0]
        mean, square = 1 - b1**average.count, 1 - b2**average.count
        return jax.tree.map(lambda nu: (mean * (jnp.sqrt(nu / square) + eps)).astype(nu.dtype), average.nu)

    return Optimiser(
        name,
        settings if decay is None else (*settings, ("weight_decay", shrink)),
        optax.chain(*parts, optax.scale_by_learning_rate(lr)),
        edge=_edge(lr, lambda size: (1 - size * shrink / 2) * stability_factor(b1) / ((1 - b1) * size)),
        scale=scale,
    )


def one_of(optimisers: Sequence[Optimiser], which: Any = 0) -> Optimiser:
    """One of several optimisers, chosen by a number that may be an axis of a run, so that one compiled loop trains all.

    Each trajectory computes the steps of all optimisers and takes one. This pays if compiling takes longer than
    running.

    Args:
        optimisers: the optimisers to choose from.
        which: the number of the chosen one, counted from 0.

    Example:
        ```python
        import jax
        import jax.numpy as jnp
        import secant as sc

        rules = (sc.optimisers.gd(0.1), sc.optimisers.momentum(0.1))
        task = sc.data.load("digits", classes=(0, 1), samples=20)
        net = sc.nets.mlp([8], activation="tanh")
        problem = sc.Problem(net.apply, *task.train, sc.losses.mean_mse)
        run = sc.train(
            problem,
            net.init(jax.random.key(0), task.train.x.shape),
            rule=lambda loss, optimiser: sc.optimisers.one_of(rules, optimiser)(loss),
            over={"optimiser": jnp.arange(2)},
            steps=10,
            probes={"edge": sc.measure.preconditioned_sharpness(sc.optimisers.one_of(rules))},
        )
        run.dataset.edge.sizes
        ```
    """
    import optax

    several = tuple(optimisers)
    if not several or not all(isinstance(one, Optimiser) for one in several):
        raise TypeError(f"one_of: `optimisers` must be at least one of secant.optimisers, got {optimisers!r}.")

    def init(params: Params) -> tuple[Any, ...]:
        return (jnp.asarray(which, jnp.int32), *(one.transformation.init(params) for one in several))

    def update(gradient: Params, inner: tuple[Any, ...], params: Params | None = None) -> tuple[Params, Any]:
        def take(number: int) -> Callable[[], tuple[Params, Any]]:
            def branch() -> tuple[Params, Any]:
                step, own = several[number].transformation.update(gradient, inner[number + 1], params)
                return step, (*inner[: number + 1], own, *inner[number + 2 :])

            return branch

        return jax.lax.switch(inner[0], [take(number) for number in range(len(several))])

    def scale(inner: tuple[Any, ...], params: Params) -> Params:
        pairs = zip(several, inner[1:], strict=True)
        return jax.lax.switch(inner[0], [functools.partial(_scale_of(one), own, params) for one, own in pairs])

    return Optimiser(
        "one of " + ", ".join(one.name for one in several),
        (("optimisers", several), ("which", which)),
        optax.GradientTransformation(init, update),
        edge=lambda: several[which].threshold,
        scale=scale if all(one.scale for one in several) else None,
        rotates=all(one.rotates for one in several),
    )


def _edge(lr: Any, threshold: Callable[[Any], float]) -> Callable[[], float] | None:
    """A function that computes the threshold of a step size; None for a schedule, whose threshold changes."""
    return None if callable(lr) else lambda: threshold(lr)


def _dtype(params: Params) -> Any:
    return jnp.result_type(*jax.tree.leaves(params))


def _scale_of(optimiser: Optimiser) -> Scale:
    assert optimiser.scale is not None
    return optimiser.scale


def _ones(inner: Any, params: Params) -> Params:
    return jax.tree.map(jnp.ones_like, params)


__all__ = [
    "Optimiser",
    "OptimiserState",
    "adadelta",
    "adagrad",
    "adagrad_delayed",
    "adagrad_norm",
    "adam",
    "adamw",
    "from_optax",
    "gd",
    "momentum",
    "nesterov",
    "one_of",
    "rmsprop",
]
