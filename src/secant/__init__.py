"""Deep-learning theory you can run.

Secant predicts how a neural network will train, measures how it really trains, and lays the two side by side: at
finite step size, finite width and finite depth.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from secant._version import __version__

if TYPE_CHECKING:
    from secant import atlas, data, dynamics, lab, theory
    from secant.dynamics import (
        Map,
        Outcome,
        Probe,
        Stop,
        Trajectory,
        flow,
        gradient_descent,
        gradient_field,
        simulate,
    )
    from secant.lab import Erratum, Finding, Study, Tolerance, catalog, run, verify

__all__ = [
    "Erratum",
    "Finding",
    "Map",
    "Outcome",
    "Probe",
    "Stop",
    "Study",
    "Tolerance",
    "Trajectory",
    "__version__",
    "atlas",
    "catalog",
    "data",
    "dynamics",
    "flow",
    "gradient_descent",
    "gradient_field",
    "lab",
    "run",
    "simulate",
    "theory",
    "verify",
]

# Names are imported when they are first used, so that `import secant` costs no more than the part of it in use.
_ROOMS = ("atlas", "data", "dynamics", "lab", "theory")
_HOMES = {
    "secant.dynamics": (
        "Map",
        "Outcome",
        "Probe",
        "Stop",
        "Trajectory",
        "flow",
        "gradient_descent",
        "gradient_field",
        "simulate",
    ),
    "secant.lab": ("Erratum", "Finding", "Study", "Tolerance", "catalog", "run", "verify"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"secant.{name}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'secant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
