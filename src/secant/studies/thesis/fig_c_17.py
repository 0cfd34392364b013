"""Figure C.17: catapults do not help where every direction matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, option, scaled, significant, study
from secant.studies.thesis._feature_tasks import Sizes, feature_task
from secant.studies.thesis._raises import catapults, raised, schedule, survived
from secant.studies.thesis._raises_drawn import draw_branches, draw_ends
from secant.studies.thesis._significance import falling_trend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Network, data and step sizes."""

    width: int = scaled(smoke=128, laptop=1_024, paper=1_024, at_least=8, help="hidden neurons")
    samples: int = scaled(smoke=48, laptop=128, paper=128, at_least=8, help="training samples")
    tests: int = scaled(smoke=200, laptop=2_000, paper=2_000, at_least=10, help="test samples")
    dim: int = scaled(smoke=40, laptop=100, paper=100, at_least=2, help="features")
    lr: float = option(6.0, above=0, help="step size at the start")
    at: tuple[int, ...] = option((30, 120, 180, 280), at_least=1, help="steps at which it is raised")
    to: tuple[float, ...] = option((7.0, 12.0, 40.0, 80.0), above=0, help="to so much, as many entries")
    steps: int = scaled(smoke=400, laptop=800, paper=2_000, at_least=20, help="gradient-descent steps")
    every: int = option(20, at_least=2, help="steps between two looks at kernel, test loss and alignment")
    seeds: int = scaled(smoke=4, laptop=5, paper=10, at_least=2, help="draws of data and weights")
    seed: int = option(0, at_least=0, help="of the first draw")


@study(
    "thesis/fig-C.17",
    section="C.4",
    title="Catapults where every direction matters",
    statement=r"""
    For $f^*(x) = \|x\|/\sqrt d$ all input directions matter alike: the expected gradient outer product is $I/d^2$. A
    two-layer ReLU network of width 1024 learns it from 128 samples by gradient descent with a step size of 6 that is
    raised up to four times, to 7, 12, 40 and 80. Unlike for targets of low rank, catapults improve neither the
    alignment of the network's gradient outer product with the truth nor the test loss.

    Here each number of raises is a run of its own from the same start, of the same length, judged at its end. The
    whole trend is judged: a first, small catapult does lower the test loss a little; those that follow spoil it.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    return raised(
        feature_task("full-rank", Sizes(config.width, config.samples, config.tests, config.dim)),
        lr=config.lr,
        raises=schedule(config.at, config.to, config.steps),
        steps=config.steps,
        every=config.every,
        seeds=range(config.seed, config.seed + config.seeds),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    end = survived(data)
    happened, lost = catapults(data).where(end.outcome.notnull()), int(end.outcome.isnull().sum())
    everything, nothing = end.isel(raises=-1), end.sel(raises=0)
    for name, what, sign in (("alignment", "alignment falls", 1.0), ("test", "test loss rises", -1.0)):
        rho, p = falling_trend(sign * end[name], "raises")
        yield significant(
            f"{what} with the number of raises",
            p,
            "by permutation within seeds",
            note=f"Spearman correlation {sign * rho:.2f}, mean over seeds; by raises on average "
            + ", ".join(f"{value:.3g}" for value in end[name].mean("seed").values),
        )
    for name, what in (("alignment", "alignment"), ("test", "test loss")):
        logs = xr.apply_ufunc(np.log, everything[name] / nothing[name])
        yield Finding(
            f"{what} after all raises over that after none, geometric mean",
            predicted=1.0,
            measured=float(np.exp(logs.mean())),
            relation="at most" if name == "alignment" else "at least",
            tolerance=Tolerance(0.0, why="no improvement"),
            uncertainty=float(logs.std(ddof=1) / np.sqrt(int(logs.notnull().sum()))),
        )
    yield Finding(
        "catapults in the runs with all raises, the fewest",
        predicted=2.0,
        measured=float(happened.isel(raises=-1).min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="otherwise there would be no catapults to judge"),
    )
    yield Finding(
        "training loss at the end over that of the start, the most",
        predicted=0.0,
        measured=float((end.training / data.loss.isel(step=0).sel(raises=0)).max()),
        tolerance=Tolerance(0.01, why="the runs compared have been trained"),
        note=f"{lost} of {data.outcome.size} runs diverge after a raise and are left out everywhere",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(11, 3.6)
    loss, aligned, test = figure.subplots(1, 3)
    draw_branches(loss, data, "loss")
    loss.set_title("Training loss, one draw", loc="left")
    for axes, name, title in ((aligned, "alignment", "Alignment with the truth"), (test, "test", "Test loss")):
        draw_ends(axes, data, name)
        axes.set_title(title, loc="left")
    aligned.set_ylim(bottom=0)
    test.set_yscale("log")
