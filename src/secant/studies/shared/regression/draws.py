"""Random quadratic regression, draw by draw, for the studies of section 3 and appendix C."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from secant.core.device import to_device
from secant.lab import Estimate, Tolerance, fits_memory
from secant.theory.regression.quadratic_regression import Convention, Regression, flow_field, scales


def sizes(outputs: tuple[int, ...], parameters: tuple[int, ...]) -> list[tuple[int, int]]:
    """The pairs $(D, P)$ of a configuration."""
    return list(zip(outputs, parameters, strict=True))


def check_sizes(
    outputs: tuple[int, ...], parameters: tuple[int, ...], together: int = 16, *, solvable: bool = False
) -> None:
    """Raises an error for sizes that do not pair up, and for tensors that do not fit into memory `together`.

    With `solvable`, the loss should reach zero, and fewer parameters than residuals are an error, too.
    """
    if len(outputs) != len(parameters):
        raise ValueError(f"parameters: must be as many as outputs, {len(outputs)}, got {len(parameters)}.")
    for D, P in sizes(outputs, parameters):
        if solvable and P < D:
            raise ValueError(f"parameters: must be at least outputs, {D}, for a loss that can reach zero, got {P}.")
    # A tensor is drawn, made symmetric, and handed over: three copies.
    fits_memory(3 * 8 * together * max(D * P**2 for D, P in sizes(outputs, parameters)), "outputs or parameters")


def draw_tensors(random: np.random.Generator, count: int, D: int, P: int, convention: Convention) -> np.ndarray:
    """Tensors like those of [`random_tensor`][secant.theory.regression.quadratic_regression.random_tensor], drawn by
    NumPy.

    Compiling JAX's generator for a new shape takes longer than most of the studies.
    """
    A = random.normal(size=(count, D, P, P))
    if convention == "independent":
        return A
    return (A + A.swapaxes(2, 3)) * {"averaged": 0.5, "goe": np.sqrt(0.5)}[convention]


def each_draw(
    function: Callable[[Array, Regression], Any],
    seed: int,
    count: int,
    D: int,
    P: int,
    convention: Convention = "averaged",
    together: int = 16,
) -> Any:
    """The results of a function of a random tensor and a start of unit variance, for each of `count` draws.

    `together` draws are computed at a time, because a tensor has $DP^2$ entries and all may not fit into memory.
    """
    random = np.random.default_rng([seed, D, P])
    compiled = _each(function)
    parts = []
    for _ in range(0, count, together):
        start = Regression(*(to_device(random.normal(size=size)) for size in ((together, D), (together, D, P))))
        parts.append(jax.tree.map(np.asarray, compiled(draw_tensors(random, together, D, P, convention), start)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


@functools.lru_cache(maxsize=4)
def _each(function: Callable[[Array, Regression], Any]) -> Callable[..., Any]:
    """The function over several draws, compiled once for all conventions."""
    return jax.jit(jax.vmap(function))


def kernel_eigenvalues(seed: int, count: int, D: int, P: int, sigma_J: float) -> np.ndarray:
    """All eigenvalues of $JJ^\\top$ in ascending order, for `count` random Jacobians, `(count, D)`.

    Some Jacobians are computed at a time, because each has $DP$ entries and all may not fit into memory.
    """
    random = np.random.default_rng([seed, D, P])
    together = max(1, 2**22 // (D * P))
    parts = []
    for done in range(0, count, together):
        J = sigma_J * random.normal(size=(min(together, count - done), D, P))
        parts.append(np.linalg.eigvalsh(J @ J.swapaxes(1, 2)))
    return np.concatenate(parts)


def mirrored(start: Regression, sigma_z: Array | float = 1.0, sigma_J: float = 1.0) -> Regression:
    """The scaled start, and the start with the other sign of the residuals: odd terms cancel in their mean."""
    return Regression(sigma_z * jnp.stack([start.z, -start.z]), sigma_J * jnp.stack([start.J, start.J]))


def scaled_start(start: Regression, residual: Array | float, jacobian: Array | float) -> Regression:
    r"""A start of unit variance, scaled to $\tilde\sigma_z$ and $\tilde\sigma_J^2$."""
    sigma = scales(residual, jnp.sqrt(jacobian), *start.J.shape)
    return Regression(sigma.z * start.z, sigma.J * start.J)


def runge_kutta(
    field: Callable[[Regression], Regression], state: Regression, dt: Array | float, steps: int
) -> Regression:
    """`steps` steps of the classical Runge-Kutta method, of constant size."""

    def move(state: Regression, by: Array | float, velocity: Regression) -> Regression:
        return Regression(*(s + by * v for s, v in zip(state, velocity, strict=True)))

    def step(_: Any, state: Regression) -> Regression:
        a = field(state)
        b = field(move(state, dt / 2, a))
        c = field(move(state, dt / 2, b))
        d = field(move(state, dt, c))
        mean = Regression(*(ka + 2 * kb + 2 * kc + kd for ka, kb, kc, kd in zip(a, b, c, d, strict=True)))
        return move(state, dt / 6, mean)

    return lax.fori_loop(0, steps, step, state)


def path(
    field: Callable[[Regression], Regression], state: Regression, dt: Array | float, steps: int, records: int
) -> Regression:
    """The states after 0, 1, ..., `records` times `steps` steps."""

    def advance(state: Regression, _: None) -> tuple[Regression, Regression]:
        return (after := runge_kutta(field, state, dt, steps)), after

    later = lax.scan(advance, state, length=records)[1]
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, later)


def flow_ends(
    Q: Float[Array, "d p p"],
    start: Regression,
    residuals: Float[Array, " n"],
    jacobians: Float[Array, " n"],
    until: float,
    steps: int,
) -> Regression:
    r"""The ends of gradient flows from one draw, at several $(\tilde\sigma_z, \tilde\sigma_J^2)$.

    Each flow runs to the time `until` in units of $1/(\tilde\sigma_z + \tilde\sigma_J^2)$, about four over its final
    curvature, so that the same steps suit all flows.
    """

    def one(residual: Array, jacobian: Array) -> Regression:
        field = flow_field(Q, 1 / (residual + jacobian))
        return runge_kutta(field, scaled_start(start, residual, jacobian), until / steps, steps)

    return jax.vmap(one)(residuals, jacobians)


def kernel(J: Float[Array, "*n d p"]) -> Float[Array, "*n d d"]:
    r"""$JJ^\top$."""
    return J @ jnp.swapaxes(J, -1, -2)


def top(J: Float[Array, "*n d p"]) -> Float[Array, "*n"]:
    r"""Largest eigenvalue of $JJ^\top$."""
    return jnp.linalg.eigvalsh(kernel(J))[..., -1]


def largest(kernels: np.ndarray) -> np.ndarray:
    """Largest eigenvalues, by NumPy.

    A compiled function with two batches of eigenvalues in it was seen to hang (jax 0.10 on two cores, 2,000 draws at a
    time). A function of draws therefore asks for one batch at most, and returns kernels for the rest.
    """
    return np.linalg.eigvalsh(kernels)[..., -1]


def standard_error(values: np.ndarray, axis: int = 0) -> Any:
    """The standard error of the mean of some values."""
    return np.std(values, axis=axis, ddof=1) / np.sqrt(values.shape[axis])


def heavy_tail(measured: Estimate) -> Tolerance:
    """The tolerance for means of a quantity with a mean but no variance, such as 1 over a distance of two eigenvalues.

    The mean over its standard error is then skewed, and more often far from normal. Up to six in a thousand trials
    missed three standard errors, the usual tolerance; none missed five.
    """
    return Tolerance(
        1.7 * measured.error,
        why="five standard errors in all, because what is averaged has a tail with a mean but no variance",
    )


def share(hits: Any) -> Estimate:
    """The share of independent draws that hit, by Laplace's rule of succession.

    The result is the mean and spread of the share after these draws, with no knowledge before. Unlike the plain share,
    it is not certain if all draws agree.
    """
    hits = np.asarray(hits, bool).ravel()
    k, n = int(hits.sum()), len(hits)
    mean = (k + 1) / (n + 2)
    return Estimate(mean, float(np.sqrt(mean * (1 - mean) / (n + 3))))


def weakest(repeats: np.ndarray, bound: float = 0.0, above: bool = True) -> int:
    """The column whose mean clears a bound by the fewest standard errors: if it passes, all columns pass."""
    clears = (repeats.mean(axis=0) - bound) / np.maximum(standard_error(repeats), 1e-300)
    return int(np.argmin(clears if above else -clears))
