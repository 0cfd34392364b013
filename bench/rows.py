"""All rows of the table, by name, in the order they are measured."""

from bench import studies  # noqa: F401
from bench.convex import agreement as convex_agreement  # noqa: F401
from bench.convex import dual_newton, interpolants, margins, worst_cases  # noqa: F401
from bench.curvature import features, hessian, noise, tangent_kernel, width  # noqa: F401
from bench.row import ROWS
from bench.runs import monitors, monitors_torch, quadratic_models, regression, spine, stochastic, sweeps, training  # noqa: F401
from bench.wide import agreement, infinite_width  # noqa: F401

__all__ = ["ROWS"]
