"""Diagonal networks under gradient descent: runs over many data sets and step sizes, and the law of their ends."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from secant.core.device import jit
from secant.theory.bias import diagonal

LARGE = 10**6
"""From so many entries of the data of one draw on, runs are compiled, for a processor or a GPU."""


def descend(
    X: np.ndarray, y: np.ndarray, lr: np.ndarray, alpha: float, steps: int, batch: int, rng: np.random.Generator
) -> diagonal.Descent:
    """Runs over draws and step sizes: on random batches, or on all samples where a batch holds them all."""
    n, shape = X.shape[1], (*lr.shape[:2], X.shape[2])
    run = diagonal.begin(alpha, shape)
    # A batch stands for all samples: its gradient is right on average.
    scale = np.sqrt(n / batch)
    if X[0].size >= LARGE:
        picked = None if batch >= n else rng.integers(n, size=(steps, *lr.shape[:2], batch))
        return compiled(run, X, y, lr, steps, picked)
    rows = np.arange(len(X))[:, None, None]
    for _ in range(steps):
        if batch >= n:
            run = diagonal.step(run, X[:, None], y[:, None], lr)
        else:
            some = rng.integers(n, size=(*lr.shape[:2], batch))
            run = diagonal.step(run, scale * X[rows, some], scale * y[rows, some], lr)
    return run


def compiled(
    run: diagonal.Descent, X: np.ndarray, y: np.ndarray, lr: np.ndarray, steps: int, picked: np.ndarray | None
) -> diagonal.Descent:
    """All steps for large data, draw after draw on the default device."""

    def all_steps(run: diagonal.Descent, X: Any, y: Any, lr: Any, picked: Any) -> diagonal.Descent:
        def one(t: Any, run: diagonal.Descent) -> diagonal.Descent:
            if picked is None:
                return diagonal.step(run, X, y, lr, jnp)
            scale = jnp.sqrt(len(y) / picked.shape[-1])
            return diagonal.step(run, scale * X[picked[t]], scale * y[picked[t]], lr, jnp)

        return lax.fori_loop(0, steps, one, run)

    with jax.enable_x64(True):
        go = jit(all_steps, long=True)
        ends = []
        for draw, rates in enumerate(lr):
            rows = None if picked is None else picked[:, draw]
            begin = diagonal.Descent(*(part[draw] for part in run))
            ends.append(jax.device_get(go(begin, X[draw], y[draw], rates, rows)))
    return diagonal.Descent(*(np.stack(parts) for parts in zip(*ends, strict=True)))


def judged(run: diagonal.Descent, X: np.ndarray, y: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
    """How far runs are from their law, where they end by it, and their gains."""
    inside = np.isfinite(run.w).all(-1) & np.isfinite(run.log_gain).all(-1)
    fine = inside & (np.abs(np.einsum("knd,krd->krn", X, np.where(inside[..., None], run.w, 0))).max(-1) < 1e6)
    off, ends = np.full(run.w.shape[:2], np.nan), np.full(run.w.shape, np.nan)
    for draw in np.flatnonzero(fine.any(1)):
        kept = diagonal.Descent(*(part[draw][fine[draw]] for part in run))
        # The law holds at every time for the outputs of that time. With the targets it gives the end.
        now = diagonal.law(kept, X[draw], kept.w @ X[draw].T, alpha)
        off[draw, fine[draw]] = np.abs(now - kept.w).max(-1) / np.abs(kept.w).max(-1)
        ends[draw, fine[draw]] = diagonal.law(kept, X[draw], y[draw], alpha)
    return {"off": off, "end": ends, "gain": run.log_gain, "negative": (run.u < 0).any(-1) | (run.v < 0).any(-1)}


def reference(X: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the flow ends, and the largest stable step there, of every draw."""
    flow = np.stack([diagonal.limit(one, values, alpha) for one, values in zip(X, y, strict=True)])
    speed = 4 * np.sqrt(flow**2 + 4 * alpha**4)
    edge = [2 / np.linalg.eigvalsh((one * now) @ one.T)[-1] for one, now in zip(X, speed, strict=True)]
    return flow, np.array(edge)
