"""The phase plane of two eigenvalues: the rule that ends a run, and the figure of the plane."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop
from secant.lab import sheet
from secant.theory.edge import two_eigenvalue

FAR = 1e3
"""A residual or a curvature that exceeds this, in units of the step size, does not come back."""


def at_rest(residual: float, every: int = 50) -> Stop:
    """Ends a run whose residual has become this small, or that has left the plane.

    Args:
        residual: the rescaled residual that counts as zero.
        every: steps between two looks.
    """
    return Stop(
        converged=lambda p: jnp.abs(p.z) < residual,
        diverged=lambda p: (jnp.abs(p.z) > FAR) | (jnp.abs(p.T) > FAR),
        every=every,
    )


def draw_plane(axes: Any, second: float, E: float, f_z: xr.DataArray, f_T: xr.DataArray, top: float) -> None:
    r"""Draws a phase plane up to the curvature `top`: points without parameters, directions of steps, and nullclines.

    Args:
        axes: the axes to draw in.
        second: the second eigenvalue (the first is one).
        E: rescaled offset.
        f_z: curvatures at which a step does not change the residual, over the dimension `z`.
        f_T: curvatures at which a step does not change the curvature, over the dimension `z`.
        top: the largest curvature.
    """
    ends = float(f_z.z[0]), float(f_z.z[-1])
    wide, tall = np.linspace(*ends, 200), np.linspace(0, top, 200)
    least = np.minimum(*(np.asarray(part) for part in two_eigenvalue.weights(wide, tall[:, None], second, E)))
    axes.contourf(wide, tall, least, levels=[least.min() - 1, 0], colors=[sheet.faint()], alpha=0.8)
    z, T = np.meshgrid(0.9 * np.linspace(*ends, 13), top * np.linspace(0.06, 0.95, 11))
    after = two_eigenvalue.two_eigenvalue(second, E).step(two_eigenvalue.Point(z, T))
    arrow = {"alpha": 0.4, "width": 0.004, "angles": "xy", "scale_units": "xy", "scale": 1}
    across, up = 0.03 * (ends[1] - ends[0]) * np.sign(after.z - z), 0.03 * top * np.sign(after.T - T)
    inside = np.asarray(two_eigenvalue.admissible(z, T, second, E))
    axes.quiver(z[inside], T[inside], across[inside], up[inside], color=sheet.ink(), **arrow)
    for curve, colour, label in ((f_z, "C0", r"$\Delta\tilde z = 0$"), (f_T, "C1", r"$\Delta T = 0$")):
        axes.plot(curve.z, curve.where(np.abs(curve) < 2 * top), color=colour, label=label)
    axes.axvline(0, color="C0", lw=1.6)
    axes.set(xlim=ends, ylim=(0, top))
    axes.grid(False)
