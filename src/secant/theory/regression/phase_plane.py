r"""The end of gradient descent over a plane of starts that share one second derivative.

All starts of one draw are multiples of the same residuals and Jacobian, so the tensor $Q$ is the same for the whole
plane. A step of all starts together is one matrix product with $Q$. It costs $2DP^2$ operations per start, but reads
$Q$ once per step instead of once per start. Starts lie side by side in the last axis, where the processor's lanes are.
Starts that have ended are dropped during the run, so that a few slow starts do not hold up the rest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array, lax
from jaxtyping import Float

from secant.core.device import jit
from secant.core.progress import Progress, resolve
from secant.dynamics import Outcome
from secant.dynamics import checkpoint as checkpoints
from secant.theory.regression.quadratic_regression import Regression, scales

LANES = 8
"""Starts leave in groups of this size, or of `CROWD` while more than two crowds remain, so few sizes are compiled."""

CROWD = 4 * LANES
"""In large planes, this many starts leave together."""

TOP = 4
"""The number of largest eigenvalues recorded at the end."""

BLOWN_UP = 1e6
"""A squared residual above this has diverged, in units of the step size."""

LOOK, LATE_LOOK, LATE = 100, 500, 1000
"""Steps between two looks, before and after step `LATE`. A **look** checks whether starts have ended."""

REST_LOOKS = 4
"""The number of late looks between two tests of whether a start is at rest."""

SAVE_SECONDS = 10.0
"""Seconds between two saves of a plane with a checkpoint."""

AT_REST = 1e-6
"""A top eigenvalue that moves by less between two such tests is at rest, if the residual along it falls."""


class Batch(NamedTuple):
    """Some starts that have not ended, side by side.

    Attributes:
        z: residuals, `(d, b)`.
        J: Jacobians, `(d, p, b)`.
        goal: squared residual below which a start has converged, `(b,)`.
        steps: steps to the goal so far, `(b,)`.
    """

    z: Any
    J: Any
    goal: Any
    steps: Any


class Standing(NamedTuple):
    """The progress of a plane: the starts that still run, and how the others have ended.

    Attributes:
        batch: the starts that still run.
        here: the cells of these starts, `(b,)`.
        done: steps taken.
        late: late looks taken.
        before: top eigenvalue of every cell and the residual along it at the last test for rest, `(2, cells)`.
        outcome: outcome of every cell, `(cells,)`.
        steps: steps of every cell.
        squares: squared residual of every cell at its end.
        top: largest eigenvalues of every cell at its end, `(cells, modes)`.
    """

    batch: Batch
    here: Any
    done: Any
    late: Any
    before: Any
    outcome: Any
    steps: Any
    squares: Any
    top: Any


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
    checkpoint: str | Path | None = None,
    label: str = "phase plane",
) -> xr.Dataset:
    r"""The outcome of gradient descent with step size one from every $(\tilde\sigma_z, \tilde\sigma_J^2)$ of a grid.

    A start has *converged* when its loss has fallen by the factor `tol`, or when it is at rest: its top eigenvalue no
    longer moves while the residual along it still falls. (With about as many residuals as parameters some eigenvalues
    are almost zero, and the loss takes forever.) A start has *diverged* when its squared residual is above $10^6$.

    Args:
        Q: second derivatives, symmetric; their type sets the precision. float32 is enough for statistics, because in
            $(z, J)$ all increments are proportional to $z$ and rounding sets no floor to the loss.
        start: residuals and Jacobian of unit variance.
        residuals: $\tilde\sigma_z$ of the grid.
        jacobians: $\tilde\sigma_J^2$ of the grid.
        max_steps: a start that has not ended after this many steps is unfinished.
        tol: the loss at convergence over the loss at the start.
        second_order: as in [`descent`][secant.theory.regression.quadratic_regression.descent].
        progress: receives the number of starts that have ended.
        checkpoint: a directory to save to and resume from.
        label: the name of the run in the progress display.

    Returns:
        A data set over `residual` and `jacobian`: `outcome`; `steps` to the outcome; `top`, the largest eigenvalues of
        $JJ^\top$ at the end, over `mode` as well; `initial`, the largest eigenvalue at the start; `loss`, the final
        loss over the first. Starts that diverged have no eigenvalues.

    Example:
        ```python
        import jax
        from secant.theory.regression import quadratic_regression as qr
        from secant.theory.regression.phase_plane import phase_plane

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
        raise ValueError("phase_plane: `residuals` and `jacobians` are scales and cannot be negative. Use 0 or more.")
    if max_steps < 1:
        raise ValueError(f"phase_plane: `max_steps` must be at least 1, got {max_steps}.")
    D, P = start.J.shape
    if Q.shape != (D, P, P):
        raise ValueError(f"phase_plane: `Q` must have shape {(D, P, P)} to go with `start`, got {Q.shape}.")
    sigma = np.array([scales(a, b**0.5, D, P) for a, b in cells])
    squares = sigma[:, 0] ** 2 * float(np.sum(np.square(np.asarray(start.z, np.float64))))
    batch = Batch(
        np.asarray(np.asarray(start.z)[:, None] * sigma[:, 0], Q.dtype),
        np.asarray(np.asarray(start.J)[:, :, None] * sigma[:, 1], Q.dtype),
        np.asarray(tol * squares, Q.dtype),
        np.zeros(len(cells), np.int32),
    )
    nothing = np.full(len(cells), np.nan)
    standing = Standing(
        batch,
        here=np.arange(len(cells)),
        done=np.array(0),
        late=np.array(0),
        before=np.full((2, len(cells)), np.inf),
        outcome=np.full(len(cells), Outcome.UNFINISHED, np.int8),
        steps=np.zeros(len(cells), np.int64),
        squares=nothing,
        top=np.tile(nothing[:, None], (1, min(TOP, D))),
    )
    folder, saved = checkpoints.resolve(checkpoint), None
    if folder is not None:
        saved = checkpoints.Checkpoint(
            folder, lambda: checkpoints.fingerprint(Q, start, cells, max_steps, tol, second_order)
        )
        found = saved.load(jax.eval_shape(lambda state: state, standing))
        standing = standing if found is None else _on_host(found[1])
    bar = resolve(progress)
    bar.start(label, len(cells))
    last_save = time.perf_counter()
    try:
        while len(standing.here):
            standing = _on(jnp.reshape(Q, (D * P, P)), standing, max_steps, second_order)
            ended = len(standing.here) == 0
            if saved is not None and (ended or time.perf_counter() - last_save > SAVE_SECONDS):
                saved.save(int(standing.done), standing, {})
                last_save = time.perf_counter()
            bar.update(len(cells) - len(standing.here), f"step {int(standing.done):,}")
    finally:
        bar.close()
    initial = sigma[:, 1] ** 2 * np.linalg.norm(np.asarray(start.J, np.float64), 2) ** 2
    return _dataset(standing, residuals, jacobians, initial, squares)


def over_draws(planes: xr.Dataset, draw: str = "draw") -> xr.Dataset:
    """Statistics over the draws of every cell: shares of outcomes, final curvature, and number of steps.

    Args:
        planes: results of [`phase_plane`][secant.theory.regression.phase_plane.phase_plane], concatenated along `draw`;
            missing draws are not-a-number.
        draw: name of the dimension of draws.

    Returns:
        `converged` and `diverged`, the shares. Over the converged draws: `curvature`, the median of the largest
        eigenvalue, with the quartiles `lower` and `upper`; `initial`, its median at the start; `steps`, their median.
    """
    known = planes.outcome.notnull()
    converged = planes.outcome == Outcome.CONVERGED
    final = planes.top.isel(mode=0).where(converged)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)  # cells where nothing converged
        lower, middle, upper = (final.quantile(q, draw).drop_vars("quantile") for q in (0.25, 0.5, 0.75))
        steps = planes.steps.where(converged).median(draw)
    return xr.Dataset(
        {
            "converged": converged.where(known).mean(draw),
            "diverged": (planes.outcome == Outcome.DIVERGED).where(known).mean(draw),
            "curvature": middle,
            "lower": lower,
            "upper": upper,
            "initial": planes.initial.median(draw),
            "steps": steps,
        }
    )


def _on(tensor: Array, at: Standing, max_steps: int, second_order: bool) -> Standing:
    """The plane at the next look, without the starts that have ended."""
    n, here = len(at.here), at.here
    count = int(min(LOOK if at.done < LATE else LATE_LOOK, max_steps - at.done))
    batch = advance(tensor, _padded(at.batch, n), count, second_order=second_order)
    batch = Batch(*map(np.asarray, batch))  # on the host, because sizes change all the time and would compile again
    done, late, before = at.done + count, at.late + (count == LATE_LOOK), at.before
    squares = np.sum(np.square(np.asarray(batch.z, np.float64)), axis=0)[:n]
    diverged = ~np.isfinite(squares)
    converged = squares <= np.asarray(batch.goal, np.float64)[:n]
    if late > at.late and late % REST_LOOKS == 0:
        now = _top_mode(batch, n)
        with np.errstate(invalid="ignore"):
            converged |= (np.abs(now[0] - before[0, here]) < AT_REST) & (now[1] < before[1, here])
        before = before.copy()
        before[:, here] = now
    ending = np.full(n, done >= max_steps) | diverged | converged
    outcome, steps, all_squares, top = (array.copy() for array in (at.outcome, at.steps, at.squares, at.top))
    if ending.any():
        gone, cells = _columns(batch, np.flatnonzero(ending)), here[ending]
        verdict = np.where(diverged, Outcome.DIVERGED, np.where(converged, Outcome.CONVERGED, Outcome.UNFINISHED))
        outcome[cells], steps[cells], all_squares[cells] = verdict[ending], np.asarray(gone.steps), squares[ending]
        fine = ~diverged[ending]
        J = np.moveaxis(np.asarray(gone.J, np.float64), 2, 0)[fine]
        top[cells[fine]] = np.linalg.eigvalsh(J @ np.swapaxes(J, 1, 2))[:, ::-1][:, : top.shape[1]]
    batch = _columns(batch, np.flatnonzero(~ending))
    return Standing(batch, here[~ending], done, late, before, outcome, steps, all_squares, top)


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


advance = jit(_steps, static_argnames="second_order", donate_argnames="batch", long=True)
"""`(tensor, batch, count, second_order) -> batch`: `count` steps of all starts; `tensor` is `Q` as `(d * p, p)`."""


def _padded(batch: Batch, n: int) -> Batch:
    """The batch filled up to a whole number of groups, with starts that do not move."""
    more = -n % (LANES if n <= 2 * CROWD else CROWD)
    return Batch(*(np.pad(leaf[..., :n], [(0, 0)] * (leaf.ndim - 1) + [(0, more)]) for leaf in batch))


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


def _on_host(standing: Standing) -> Standing:
    return Standing(Batch(*map(np.asarray, standing.batch)), *(np.array(part) for part in standing[1:]))


def _dataset(
    ends: Standing, residuals: Sequence[float], jacobians: Sequence[float], initial: np.ndarray, squares: np.ndarray
) -> xr.Dataset:
    shape, dims = (len(residuals), len(jacobians)), ("residual", "jacobian")
    loss = np.divide(ends.squares, squares, out=np.zeros_like(squares), where=squares > 0)
    return xr.Dataset(
        {
            "outcome": (dims, ends.outcome.reshape(shape)),
            "steps": (dims, ends.steps.reshape(shape)),
            "loss": (dims, loss.reshape(shape)),
            "initial": (dims, initial.reshape(shape)),
            "top": ((*dims, "mode"), ends.top.reshape(*shape, -1)),
        },
        coords={"residual": list(residuals), "jacobian": list(jacobians)},
    )
