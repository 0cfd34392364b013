"""Rows of stochastic differential equations and of amplified noise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import secant as sc
from bench import environments
from bench.row import Row, alternate, processor_seconds, row

PATHS, DIM, STEPS = 20_000, 5, 200
RATES = np.arange(1.0, DIM + 1) / DIM


def drift(x: Any) -> Any:
    """Each coordinate at its own rate."""
    return -jnp.asarray(RATES, x.dtype) * x


def diffusion(x: Any) -> Any:
    """A matrix that depends on the point."""
    bent = jnp.tanh(x)
    return 0.3 * (jnp.eye(DIM) + 0.2 * jnp.outer(bent, bent))


def _ensemble(name: str, peer: str, target: float) -> Row:
    start = np.ones(DIM, np.float32)

    def ours() -> np.ndarray:
        return np.asarray(sc.sde(drift, diffusion, start, 1.0, steps=STEPS, paths=PATHS, samples=2).state)

    last = ours()
    report = environments.run("sde", "sde_ensemble", peer=peer, paths=PATHS, dim=DIM, steps=STEPS)
    best, theirs = report.best()
    # The same law: means within five standard errors of a difference.
    error = np.sqrt(2 * last.var(0) / PATHS)
    assert (np.abs(last.mean(0) - np.array(theirs.values["mean"])) < 5 * error).all(), "other means"
    work = f"{PATHS:,} paths in {DIM} dimensions, Sigma(x), {STEPS} steps; processor seconds"
    return Row(name, work, best, theirs.median, processor_seconds(ours), target, "at least")


@row
def sde_ensemble() -> Row:
    """Against diffrax, a path at a time under vmap."""
    return _ensemble("sde_ensemble", "diffrax", 2.5)


@row
def sde_ensemble_torch() -> Row:
    """Against torchsde, a batch of paths."""
    return _ensemble("sde_ensemble_torch", "torchsde", 6.0)


@row
def svag_step() -> Row:
    """A step with amplified noise is two gradients and little more."""
    rng = np.random.default_rng(0)
    net = sc.nets.mlp([256, 256])
    problem = sc.Problem(net.apply, rng.normal(size=(2_048, 256)).astype(np.float32), np.ones(2_048, np.float32), "mse")
    params = net.init(jax.random.key(0), (1, 256))
    batches = sc.Batches(128, replace=True)
    told = {"steps": 200, "stop": sc.Stop(every=200)}
    rule = sc.svag(problem, batches, 1e-3, 4)

    def plain() -> Any:
        return jax.block_until_ready(sc.train(problem, params, lr=1e-3, batches=batches, reduce=False, **told).state)

    ours, theirs = alternate(lambda: jax.block_until_ready(sc.simulate(rule, params, **told).state), plain, 5)
    return Row("svag_step", "200 steps of SVAG, 256-256-256-1, batches of 128", "steps of SGD", theirs, ours, 2.2)
