"""Data: synthetic targets and real sets behind one loader."""

from secant.data.load import NAMES, load
from secant.data.sets import MissingDataError
from secant.data.synthetic import TARGETS, Target, regression, two_clusters
from secant.data.task import Split, Task

__all__ = [
    "NAMES",
    "TARGETS",
    "MissingDataError",
    "Split",
    "Target",
    "Task",
    "load",
    "regression",
    "two_clusters",
]
