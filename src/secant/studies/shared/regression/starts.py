"""Eigenvalues and starts in the phase plane of two eigenvalues, as options of a study."""

from __future__ import annotations

from secant.lab.registry.options import Shared

epsilon = Shared("minus the second eigenvalue", above=0)
epsilons = Shared("minus the second eigenvalue", longest=20, distinct=True)
residuals = Shared("rescaled residuals at the start", at_least=-2, at_most=2)
curvatures = Shared("rescaled curvatures at the start", above=0, at_most=8)


def check_starts(residuals: tuple[float, ...], curvatures: tuple[float, ...], epsilon: float) -> None:
    r"""Raises an error for lists of unequal length, and for points that belong to no parameters.

    For eigenvalues $\{1, -\epsilon\}$ without offset a point has parameters if $T \ge 2\tilde z$ and
    $T \ge -2\epsilon\tilde z$.
    """
    if len(residuals) != len(curvatures):
        raise ValueError(f"residuals: must be as many as curvatures, got {len(residuals)} and {len(curvatures)}.")
    for z, T in zip(residuals, curvatures, strict=True):
        least = max(2 * z, -2 * epsilon * z)
        if least > T:
            raise ValueError(f"curvatures: must be at least {least:g} with the residual {z:g}, got {T:g}.")
