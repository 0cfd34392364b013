"""All rows of the table, by name, in the order they are measured."""

from bench import (  # noqa: F401
    agreement,
    convex_agreement,
    curvature,
    dual_newton,
    features,
    infinite_width,
    interpolants,
    kernels,
    margins,
    monitors,
    monitors_torch,
    noise,
    quadratic_models,
    regression,
    spine,
    stochastic,
    studies,
    sweeps,
    training,
    width,
    worst_cases,
)
from bench.row import ROWS

__all__ = ["ROWS"]
