"""The house at a glance: its rooms, from the ground up, and the names that the package itself offers.

A room imports rooms below it only. The package, the tests, the reference and the digest of a study's code read this
table.
"""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """A file or a folder of the package.

    Attributes:
        name: as it is imported, below `secant`.
        offers: what of it is also reached from the package itself, `secant.NAME`.
        entered: whether users import it by name: such a room has a page in the reference.
    """

    name: str
    offers: tuple[str, ...] = ()
    entered: bool = True


TOWER = (
    Room("rooms", entered=False),
    Room("_version", ("__version__",), entered=False),
    Room("core", entered=False),
    Room("look"),
    Room("data"),
    Room("losses"),
    Room("nets"),
    Room("models", ("Model", "lift", "model")),
    Room("linalg"),
    Room("dynamics", ("Map", "Outcome", "Probe", "Stop", "Trajectory", "flow", "sde", "simulate")),
    Room("theory"),
    Room(
        "curvature",
        (
            "batch_critical_lr",
            "batch_sharpness",
            "critical_lr",
            "critical_point",
            "gauss_newton",
            "gradient_noise",
            "hessian",
            "jacobian",
            "loss_split",
            "ntk",
            "output_hessian",
            "second_derivative",
            "stochastic_critical_lr",
        ),
    ),
    Room("kernels", ("kernel", "recommend")),
    Room("expansion", ("expand",)),
    Room("features", ("agop", "alignment")),
    Room(
        "optim",
        (
            "Batches",
            "Problem",
            "control",
            "coordinate_check",
            "estimate_max_lr",
            "find_max_lr",
            "gradient_descent",
            "gradient_field",
            "mirror_descent",
            "newton",
            "optimisers",
            "perturbed",
            "scaling_test",
            "schedules",
            "steepest_descent",
            "svag",
            "train",
        ),
    ),
    Room("measure"),
    Room("lab", ("Erratum", "Finding", "Study", "Tolerance", "catalog", "run", "sweep", "verify")),
    Room("monitors", ("monitor",)),
    Room("studies", entered=False),
    Room("atlas"),
    Room("cli", entered=False),
    Room("__main__", entered=False),
)
"""From the ground up."""

ROOMS = tuple(room.name for room in TOWER)
"""Their names, in that order."""

ENTERED = tuple(room.name for room in TOWER if room.entered)
"""Those that users import."""

HOME_OF = {name: f"secant.{room.name}" for room in TOWER for name in room.offers}
"""Name -> the room that offers it."""
