"""The tasks of figures 4.8 and C.13 to C.16, each with the steps at which its step size is raised."""

from __future__ import annotations

from typing import Literal, NamedTuple

from secant.lab import Options, option, options, scaled
from secant.studies.shared.catapults.raises import Raises, check_schedule
from secant.studies.shared.features.limits import check_sizes
from secant.studies.shared.features.tasks import SHALLOW, FeatureTask, Sizes, feature_task


class Course(NamedTuple):
    """The step sizes of a panel, at the start and after each raise, and its number of training samples."""

    lr: float
    at: tuple[int, ...]
    to: tuple[float, ...]
    samples: int


COURSES = {
    "rank-2": Course(5.0, (50, 150, 220, 280, 350, 400), (8.0, 16.0, 30.0, 50.0, 75.0, 80.0), 2_000),
    "rank-3": Course(5.0, (20, 60, 80), (40.0, 100.0, 150.0), 1_000),
    "rank-4": Course(5.0, (50, 75, 110), (15.0, 40.0, 60.0), 1_000),
    "usps": Course(4.0, (10, 30, 45), (15.0, 30.0, 40.0), 1_000),
    "fashion-mnist": Course(3.0, (6, 20, 30), (10.0, 40.0, 55.0), 1_000),
}
"""The raises of the thesis, which does not state the step sizes at the start; these are below the critical ones."""

SHORT = {
    "rank-2": Course(4.0, (40, 90, 140), (7.0, 12.0, 20.0), 300),
    "digits": Course(4.0, (10, 30, 45), (12.0, 24.0, 40.0), 200),
}
"""Fewer raises, for networks that are too narrow to survive all raises of the thesis."""


class RaisesConfig(Options):
    """Tasks and sizes."""

    panels: tuple[str, ...] = scaled(
        smoke=("rank-2",),
        laptop=("rank-2",),
        paper=("rank-2", "rank-3", "rank-4", "usps", "fashion-mnist"),
        distinct=True,
        help=f"some of {', '.join(COURSES)}",
    )
    course: Literal["thesis", "short"] = scaled(
        smoke="short", laptop="thesis", help="the raises of the thesis, or fewer, for small networks"
    )
    shallow: int = scaled(smoke=192, laptop=1_024, at_least=8, help="width of two-layer networks")
    deep: int = scaled(smoke=64, laptop=256, at_least=8, help="width of four-layer networks")
    samples: int = options.samples(300, 2_000, at_least=8)
    held_out: int = scaled(smoke=300, laptop=2_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = options.dim(40, 100, at_least=10)
    steps: int = options.steps(400, 1_500, 5_000, at_least=20)
    goal: float = scaled(
        smoke=5e-2, laptop=5e-3, paper=1e-3, at_least=1e-6, at_most=1, help="training loss at which a run ends"
    )
    every: int = option(20, at_least=2, at_most=10_000, help="steps between two looks")
    draws: int = options.draws(5, 5)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Checks that the panels exist, and that all raises come before the last step."""
        for panel in self.panels:
            check_schedule(course_of(self, panel).at[-1], self.steps)
            sizes = Sizes(width_of(self, panel), self.samples, self.held_out, self.dim)
            check_sizes(sizes, draws=self.draws, steps=self.steps, deep=panel not in SHALLOW)


def course_of(config: RaisesConfig, panel: str) -> Course:
    """The step sizes of a panel."""
    known = COURSES if config.course == "thesis" else SHORT
    if panel not in known:
        raise ValueError(f"panels: there is no {panel!r} with course={config.course}. There are {', '.join(known)}.")
    return known[panel]


def raises_of(config: RaisesConfig, panel: str) -> Raises:
    """The raises of a panel: steps, and the step size from each of these steps on."""
    course = course_of(config, panel)
    return tuple(zip(course.at, course.to, strict=True))


def width_of(config: RaisesConfig, panel: str) -> int:
    """The width of a panel's network."""
    return config.shallow if panel in SHALLOW else config.deep


def task_of(config: RaisesConfig, panel: str) -> FeatureTask:
    """The task of a panel."""
    samples = min(config.samples, course_of(config, panel).samples)
    return feature_task(panel, Sizes(width_of(config, panel), samples, config.held_out, config.dim))


def seeds_of(config: RaisesConfig) -> range:
    """The seeds of the draws."""
    return range(config.seed, config.seed + config.draws)
