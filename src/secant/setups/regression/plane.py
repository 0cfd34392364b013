"""Descent in the phase plane of two eigenvalues: when a run there is over."""

from __future__ import annotations

import jax.numpy as jnp

from secant.dynamics import Stop

FAR = 1e3
"""A residual or a curvature beyond this, in units of the step size, does not come back."""


def at_rest(residual: float, every: int = 50) -> Stop:
    """Ends a run whose residual has become this small, or that has left the plane.

    Args:
        residual: the rescaled residual that counts as none.
        every: look every so many steps.
    """
    return Stop(
        converged=lambda p: jnp.abs(p.z) < residual,
        diverged=lambda p: (jnp.abs(p.z) > FAR) | (jnp.abs(p.T) > FAR),
        every=every,
    )
