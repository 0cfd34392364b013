r"""The end of gradient descent over a plane of starts that share one second derivative.

All starts of one draw are multiples of the same residuals and Jacobian, so the tensor $Q$ is the same for the whole
plane. A step of all of them together is one matrix product with $Q$, $2DP^2$ operations a start, in which $Q$ is read
once a step instead of once a start. Starts lie side by side in the last axis, where the processor's lanes are. Those
that have ended are dropped as the run goes on, so that the few that take long do not hold up the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array, lax
from jaxtyping import Float, Int

from secant._device import jit
from secant.dynamics import Outcome, Progress
from secant.dynamics.progress import resolve
from secant.theory.quadratic_regression import Regression, scales

LANES, MANY = 8, 32
"""Starts are dropped in groups of so many, of `MANY` where there are more than that: only a few sizes are compiled."""

TOP = 4
"""So many of the largest eigenvalues are recorded at the end."""

BLOWN_UP = 1e6
"""A squared residual above this has diverged, in units of the step size."""

LOOK, LATE_LOOK, LATE = 100, 500, 1000
"""Steps between two looks, before and after step `LATE`."""

REST_LOOKS = 4
"""Whether a start is at rest is asked every so many late looks."""

AT_REST = 1e-6
"""A top eigenvalue that moves by less between two such looks is at rest, if the residual along it falls."""


class Batch(NamedTuple):
    """Some starts on their way, side by side.

    Attributes:
        z: residuals, `(d, b)`.
        J: Jacobians, `(d, p, b)`.
        goal: squared residual below which a start has converged, `(b,)`.
        steps: steps before it got there, `(b,)`.
    """

    z: Float[Array, "d b"]
    J: Float[Array, "d p b"]
    goal: Float[Array, " b"]
    steps: Int[Array, " b"]


def phase_plane(
    Q: Float[Array, "d p p"],
    start: Regression,
    residuals: Sequence[float],
    jacobians: Sequence[float],
    *,
    max_steps: int = 20_000,
    tol: float = 1e-12,
    second_order: bool = True,
    progress: Progress | None = None,
    label: str = "phase plane",
) -> xr.Dataset:
    r"""Gradient descent with step size one from every $(\tilde\sigma_z, \tilde\sigma_J^2)$ of a grid, to its end.

    A start has *converged* when its loss has fallen by the factor `tol`, or when it is at rest: its top eigenvalue no
    longer moves while the residual along it still falls. (With about as many residuals as parameters some eigenvalues
    are almost zero, and the loss takes forever.) It has *diverged* when its squared residual is above $10^6$.

    Args:
        Q: second derivatives, symmetric; their type is that of the arithmetic. float32 is enough for statistics: in
            $(z, J)$ all increments are proportional to $z$, so that rounding sets no floor to the loss.
        start: residuals and Jacobian of unit variance.
        residuals: $\tilde\sigma_z$ of the grid.
        jacobians: $\tilde\sigma_J^2$ of the grid.
        max_steps: a start that has not ended by then is unfinished.
        tol: by what factor the loss falls at convergence.
        second_order: as in [`descent`][secant.theory.quadratic_regression.descent].
        progress: who is told how many starts have ended.
        label: what progress calls the run.

    Returns:
        Over `residual` and `jacobian`: `outcome`; `steps` to it; `top`, the largest eigenvalues of $JJ^\top$ at the
        end, over `mode` as well; `initial`, the largest at the start; `loss` at the end over that at the start.
        What diverged has no eigenvalues.

    Example:
        ```python
        import jax
        from secant.theory import quadratic_regression as qr
        from secant.theory.phase_plane import phase_plane

        tensor, start = jax.random.split(jax.random.key(0))
        Q = qr.random_tensor(tensor, 10, 20)
        ends = phase_plane(Q, qr.random_start(start, 10, 20), [0.2, 0.5], [0.1, 0.2], max_steps=2_000)
        ends.top.sel(mode=0)
        ```
    """
    cells = [(a, b) for a in residuals for b in jacobians]
    if not cells:
        raise ValueError("phase_plane: `residuals` and `jacobians` must not be empty.")
    if min(min(cell) for cell in cells) < 0:
        raise ValueError("phase_plane: `residuals` and `jacobians` are scales and cannot be negative.")
    if max_steps < 1:
        raise ValueError(f"phase_plane: `max_steps` must be at least 1, got {max_steps}.")
    D, P = start.J.shape
    if Q.shape != (D, P, P):
        raise ValueError(f"phase_plane: `Q` must have shape {(D, P, P)} to go with `start`, got {Q.shape}.")
    sigma = np.array([scales(a, b**0.5, D, P) for a, b in cells])
    squares = sigma[:, 0] ** 2 * float(np.sum(np.square(np.asarray(start.z, np.float64))))
    batch = Batch(
        jnp.asarray(np.asarray(start.z)[:, None] * sigma[:, 0], Q.dtype),
        jnp.asarray(np.asarray(start.J)[:, :, None] * sigma[:, 1], Q.dtype),
        jnp.asarray(tol * squares, Q.dtype),
        jnp.zeros(len(cells), jnp.int32),
    )
    ends = _Ends(len(cells), min(TOP, D))
    bar = resolve(progress)
    bar.start(label, len(cells))
    try:
        _run(jnp.reshape(Q, (D * P, P)), batch, ends, max_steps, second_order, bar)
    finally:
        bar.close()
    initial = sigma[:, 1] ** 2 * np.linalg.norm(np.asarray(start.J, np.float64), 2) ** 2
    return ends.dataset(residuals, jacobians, initial, squares)


def _run(tensor: Array, batch: Batch, ends: _Ends, max_steps: int, second_order: bool, bar: Progress) -> None:
    here = np.arange(len(ends.outcome))
    goal = np.asarray(batch.goal)
    done, late, before = 0, 0, None
    while len(here):
        count = min(LOOK if done < LATE else LATE_LOOK, max_steps - done)
        batch = _advance(tensor, _padded(batch, len(here)), count, second_order=second_order)
        done += count
        squares = np.sum(np.square(np.asarray(batch.z, np.float64)), axis=0)[: len(here)]
        diverged = ~np.isfinite(squares)
        converged = squares <= goal[here]
        late += count == LATE_LOOK
        if late and late % REST_LOOKS == 0:
            now = _top_mode(batch, len(here))
            if before is not None:
                converged |= (np.abs(now[0] - before[0, here]) < AT_REST) & (now[1] < before[1, here])
            before = np.full((2, len(goal)), np.inf)
            before[:, here] = now
        ending = np.full(len(here), done >= max_steps) | diverged | converged
        if ending.any():
            outcome = np.where(diverged, Outcome.DIVERGED, np.where(converged, Outcome.CONVERGED, Outcome.UNFINISHED))
            gone = np.flatnonzero(ending)
            ends.put(here[gone], outcome[gone], squares[gone], _columns(batch, gone))
            here, batch = here[~ending], _columns(batch, np.flatnonzero(~ending))
        bar.update(len(goal) - len(here), f"step {done:,}")


def _step(tensor: Array, z: Array, J: Array, second_order: bool) -> tuple[Array, Array]:
    w = jnp.sum(J * z[:, None], axis=0)
    bend = (tensor @ w).reshape(J.shape)
    push = J - bend / 2 if second_order else J
    z = z - jnp.sum(push * w[None], axis=1)
    return jnp.where(jnp.sum(jnp.square(z), axis=0) < BLOWN_UP, z, jnp.nan), J - bend


def _steps(tensor: Array, batch: Batch, count: Array | int, second_order: bool) -> Batch:
    def body(_: Any, batch: Batch) -> Batch:
        z, J = _step(tensor, batch.z, batch.J, second_order)
        on_the_way = jnp.sum(jnp.square(batch.z), axis=0) > batch.goal
        return Batch(z, J, batch.goal, batch.steps + on_the_way)

    return lax.fori_loop(0, count, body, batch)


_advance = jit(_steps, static_argnames="second_order", donate_argnames="batch")


def _padded(batch: Batch, n: int) -> Batch:
    """To a whole number of groups, with starts that have nothing to do."""
    more = -n % (LANES if n <= MANY else MANY)
    return Batch(*(jnp.pad(leaf[..., :n], [(0, 0)] * (leaf.ndim - 1) + [(0, more)]) for leaf in batch))


def _columns(batch: Batch, columns: np.ndarray) -> Batch:
    return Batch(*(leaf[..., columns] for leaf in batch))


def _top_mode(batch: Batch, n: int) -> np.ndarray:
    """Top eigenvalue of every start and the size of the residual along it, `(2, n)`."""
    J = np.moveaxis(np.asarray(batch.J[..., :n], np.float64), 2, 0)
    fine: Any = np.isfinite(J).all(axis=(1, 2))
    J = np.where(fine[:, None, None], J, 0.0)
    values, vectors = np.linalg.eigh(J @ np.swapaxes(J, 1, 2))
    along = np.abs(
        np.einsum("bd,db->b", vectors[:, :, -1], np.where(fine, np.asarray(batch.z[:, :n], np.float64), 0.0))
    )
    return np.where(fine, np.stack([values[:, -1], along]), np.inf)


class _Ends:
    """How each start ended."""

    def __init__(self, cells: int, modes: int) -> None:
        self.outcome = np.full(cells, Outcome.UNFINISHED, np.int8)
        self.steps = np.zeros(cells, np.int64)
        self.squares = np.full(cells, np.nan)
        self.top = np.full((cells, modes), np.nan)

    def put(self, cells: np.ndarray, outcome: np.ndarray, squares: np.ndarray, batch: Batch) -> None:
        self.outcome[cells], self.steps[cells], self.squares[cells] = outcome, np.asarray(batch.steps), squares
        J = np.moveaxis(np.asarray(batch.J, np.float64), 2, 0)
        fine = outcome != Outcome.DIVERGED
        values = np.linalg.eigvalsh(J[fine] @ np.swapaxes(J[fine], 1, 2))[:, ::-1]
        self.top[cells[fine]] = values[:, : self.top.shape[1]]

    def dataset(
        self, residuals: Sequence[float], jacobians: Sequence[float], initial: np.ndarray, squares: np.ndarray
    ) -> xr.Dataset:
        shape, dims = (len(residuals), len(jacobians)), ("residual", "jacobian")
        with np.errstate(invalid="ignore", divide="ignore"):
            loss = self.squares / squares
        return xr.Dataset(
            {
                "outcome": (dims, self.outcome.reshape(shape)),
                "steps": (dims, self.steps.reshape(shape)),
                "loss": (dims, loss.reshape(shape)),
                "initial": (dims, initial.reshape(shape)),
                "top": ((*dims, "mode"), self.top.reshape(*shape, -1)),
            },
            coords={"residual": list(residuals), "jacobian": list(jacobians)},
        )
