"""All rows of the table, by name, in the order they are measured."""

from bench import curvature, features, kernels, quadratic_models, regression, spine, studies, sweeps, training, width  # noqa: F401
from bench.row import ROWS

__all__ = ["ROWS"]
