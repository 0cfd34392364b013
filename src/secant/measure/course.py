"""The course of a run: its loss, the norm of its gradient, and the distance from the start."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.dynamics.probes import Probe
from secant.optim.measurement import Measurement, measurement
from secant.optim.problem import Problem


def loss(*, every: int = 1) -> Measurement:
    """The training loss."""
    return measurement(_loss, every=every)


def _loss(problem: Problem, every: int) -> Probe:
    return Probe(problem.objective, every, label="loss")


def gradient_norm(*, every: int = 1) -> Measurement:
    r"""$\|\nabla L\|$."""
    return measurement(_gradient_norm, every=every)


def _gradient_norm(problem: Problem, every: int) -> Probe:
    gradient = jax.grad(problem.objective)
    return Probe(lambda params: jnp.linalg.norm(ravel_pytree(gradient(params))[0]), every, label=r"$\|\nabla L\|$")


def distance(*, every: int = 1) -> Measurement:
    r"""Distance from the start, $\|\theta_t - \theta_0\|$."""
    return measurement(_distance, every=every)


def _distance(problem: Problem, every: int) -> Probe:
    def look(params: Any, start: Any) -> tuple[Array, Any]:
        difference = jax.tree.map(jnp.subtract, params, start)
        return jnp.linalg.norm(ravel_pytree(difference)[0]), start

    label = r"$\|\theta_t - \theta_0\|$"
    return Probe(look, every, label=label, memory=lambda params: jax.tree.map(jnp.copy, params))
