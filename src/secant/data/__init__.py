"""Data: synthetic targets, and real data sets behind one loader."""

from secant.data.errors import CorruptDataError, MissingDataError
from secant.data.load import NAMES, load
from secant.data.sets import fetch
from secant.data.synthetic import (
    TARGETS,
    QuadraticSample,
    Target,
    quadratic_sample,
    regression,
    single_sample,
    sphere,
    two_clusters,
)
from secant.data.task import Split, Task

__all__ = [
    "NAMES",
    "TARGETS",
    "CorruptDataError",
    "MissingDataError",
    "QuadraticSample",
    "Split",
    "Target",
    "Task",
    "fetch",
    "load",
    "quadratic_sample",
    "regression",
    "single_sample",
    "sphere",
    "two_clusters",
]
