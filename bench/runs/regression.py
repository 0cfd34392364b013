"""Rows of quadratic regression: cells of a phase plane, and their step against its matrix product alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.row import Row, alternate, row
from secant.dynamics import Outcome
from secant.theory.regression import phase_plane as planes
from secant.theory.regression import quadratic_regression as model

D, P = 60, 120
STEPS = 1_000
RESIDUALS = tuple(np.linspace(0.05, 0.8, 16))
JACOBIANS = tuple(np.linspace(0.02, 0.6, 12))


def draw(seed: int, dtype: Any) -> tuple[Any, model.Regression]:
    """The same numbers in every type: drawn in float64 and rounded."""
    with jax.enable_x64(True):
        tensor, start = jax.random.split(jax.random.key(seed))
        Q, unit = model.random_tensor(tensor, D, P), model.random_start(start, D, P)
        return jax.tree.map(lambda leaf: leaf.astype(dtype), (Q, unit))


@row
def phase_plane() -> Row:
    seeds, cell = 8, (0.3, 0.1)
    with jax.enable_x64(True):
        Q, unit = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(draw(seed, jnp.float64) for seed in range(seeds)))
        sigma = model.scales(cell[0], cell[1] ** 0.5, D, P)

        def by_hand(Q: Any, z: Any, J: Any) -> Any:
            def step(state: Any, _: None) -> Any:
                z, J = state
                w = jnp.einsum("ai,a->i", J, z)
                z = z - jnp.einsum("ai,i->a", J, w) + 0.5 * jnp.einsum("aij,i,j->a", Q, w, w)
                return (z, J - jnp.einsum("aij,j->ai", Q, w)), None

            (z, J), _ = jax.lax.scan(step, (z, J), length=STEPS)
            return jnp.linalg.eigvalsh(J @ J.T)[-1]

        by_vmap = jax.jit(jax.vmap(by_hand))

        def peer() -> Any:
            with jax.enable_x64(True):
                return jax.block_until_ready(by_vmap(Q, sigma.z * unit.z, sigma.J * unit.J))

    def one(seed: int, residuals: Any = RESIDUALS, jacobians: Any = JACOBIANS) -> Any:
        return planes.phase_plane(*draw(seed, jnp.float32), residuals, jacobians, max_steps=STEPS)

    ends = [one(seed, cell[:1], cell[1:]) for seed in range(seeds)]
    assert all(int(end.outcome[0, 0]) == Outcome.CONVERGED for end in ends)
    mine, theirs = np.median([float(end.top[0, 0, 0]) for end in ends]), float(np.median(peer()))
    assert abs(mine / theirs - 1) < 1e-4, f"the medians of the cell are {mine} and {theirs}"

    ours_seconds, peer_seconds = alternate(lambda: one(0), peer, rounds=3)
    cells = len(RESIDUALS) * len(JACOBIANS)
    work = (
        f"a cell of figure 4 (D = {D}, P = {P}) to its end or {STEPS} steps, one seed; ours of a plane of {cells} cells"
    )
    return Row(
        "phase_plane",
        work,
        "jit(vmap(scan)) over 8 seeds, einsum, float64",
        peer_seconds / seeds,
        ours_seconds / cells,
        8,
        "at least",
    )


@row
def phase_plane_step() -> Row:
    """A step of many starts against its one matrix product."""
    starts, count = 192, 100
    Q, unit = draw(0, jnp.float32)
    tensor = Q.reshape(D * P, P)
    sigma = model.scales(0.3, 0.3, D, P)
    z, J = (np.repeat(np.asarray(leaf)[..., None], starts, -1) for leaf in (sigma.z * unit.z, sigma.J * unit.J))

    def ours() -> Any:
        batch = planes.Batch(z, J, np.zeros(starts, np.float32), np.zeros(starts, np.int32))
        return jax.block_until_ready(planes.advance(tensor, batch, count, second_order=True))

    @jax.jit
    def products(tensor: Any, w: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, w: w + 1e-30 * (tensor @ w)[:P], w)

    mine, theirs = alternate(ours, lambda: jax.block_until_ready(products(tensor, J[0])))
    work = f"one step of {starts} starts of figure 4 (D = {D}, P = {P}), float32"
    return Row(
        "phase_plane_step", work, "its matrix product with the tensor alone, compiled", theirs / count, mine / count, 2
    )
