"""Figures 4.8, C.13, C.15 and C.16: the more catapults, the better the features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, significant, study
from secant.studies.thesis._courses import RaisesConfig, course_of, raises_of, seeds_of, task_of
from secant.studies.thesis._feature_tasks import TITLES, behind_the_truth, truth_finding
from secant.studies.thesis._raises import BLOCK, catapults, raised, survived
from secant.studies.thesis._raises_drawn import draw_branches, draw_ends
from secant.studies.thesis._significance import falling_trend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TESTED: tuple[float, ...] = (0.767, 0.510, 0.374, 0.207, 0.207, 0.122, 0.122)
ALIGNED: tuple[float, ...] = (0.794, 0.909, 0.949, 0.979, 0.979, 0.984, 0.984)
CRITICAL: tuple[float, ...] = (6.2, 13.6, 22.3, 54.5, 49.4, 156.0)
"""One run of rank 2 by other code: test losses, alignments, and critical steps before the raises."""


@study(
    "thesis/fig-4.8",
    section="4.4",
    title="The more catapults, the better the features",
    statement=r"""
    A network is trained by gradient descent, and its step size raised again and again. Where it comes to lie above the
    critical one, the loss catapults: it shoots up, comes down again, and the critical step size is larger than before.
    With the number of catapults the alignment of the network's average gradient outer product with that of the target
    grows, and the test loss falls (figures 4.8 and C.13; the first rows and columns of the matrix, figure C.15).

    Here each number of raises is a run of its own from the same start, trained to the same loss. A raise to a step size
    below the critical one is no catapult, and changes little. USPS and Fashion-MNIST are those of figure C.16; their
    true outer product is that of a convolutional network trained on all samples. SVHN and CelebA are not available.""",
    precision="float32",
)
def run(config: RaisesConfig) -> xr.Dataset:
    found = []
    for panel in config.panels:
        task = task_of(config, panel)
        one = raised(
            task,
            lr=course_of(config, panel).lr,
            raises=raises_of(config, panel),
            steps=config.steps,
            every=config.every,
            seeds=seeds_of(config),
            goal=config.goal,
        )
        truth = (("row", "column"), task.truth[:BLOCK, :BLOCK])
        found.append(one.assign({"goal": config.goal, "truth": truth} | behind_the_truth(task)))
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


def _one(data: xr.Dataset, panel: str, config: RaisesConfig) -> xr.Dataset:
    """A panel, with its own raises only."""
    return data.sel(panel=panel).isel(raises=slice(len(course_of(config, panel).at) + 1))


@run.findings
def check(data: xr.Dataset, config: RaisesConfig) -> Iterator[Finding]:
    for panel in config.panels:
        one = _one(data, panel, config)
        yield from _of_panel(one, panel)
        if panel == "rank-2":
            yield from _of_rank_2(one, config)


def _of_panel(data: xr.Dataset, panel: str) -> Iterator[Finding]:
    end, title = survived(data), TITLES[panel]
    lost = int(end.outcome.isnull().sum())
    what = "loss" if np.isnan(data.strong) else "error"
    yield from truth_finding(panel, data)
    for name, claim, sign in (("alignment", "alignment grows", -1.0), ("test", f"test {what} falls", 1.0)):
        rho, p = falling_trend(sign * end[name], "raises")
        yield significant(
            f"{title}: {claim} with the number of raises",
            p,
            "by permutation within seeds",
            note=f"Spearman correlation {sign * rho:.2f}, mean over seeds; by raises on average "
            + ", ".join(f"{value:.3g}" for value in end[name].mean("seed").values),
        )
        first = end[name].isel(raises=0)
        gain = sign * (first - end[name].where(catapults(data) > 0).mean("raises"))
        yield Finding(
            f"{title}: {'alignment' if name == 'alignment' else f'test {what}'} with catapults against none, mean gain",
            predicted=0.0,
            measured=float(gain.mean()),
            relation="at least",
            tolerance=Tolerance(0.0, why="catapults help"),
            uncertainty=float(gain.std(ddof=1) / np.sqrt(int(gain.notnull().sum()))),
            note=f"{lost} of {data.outcome.size} runs diverge and are left out",
        )
    grown = end.critical.isel(raises=-1) / end.critical.isel(raises=0)
    yield Finding(
        f"{title}: critical step at the end with all raises over that with none, the least",
        predicted=2.0,
        measured=float(grown.min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="every catapult lowers the top of the tangent kernel"),
        note="critical steps before the raises on average "
        + ", ".join(f"{value:.3g}" for value in data.before.mean("seed").values[1:]),
    )
    happened = catapults(data).where(end.outcome.notnull())
    yield Finding(
        f"{title}: catapults in the runs with all raises, the fewest",
        predicted=2.0,
        measured=float(happened.isel(raises=-1).min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="otherwise there would be nothing to compare"),
        note="by raises on average " + ", ".join(f"{value:.2g}" for value in happened.mean("seed").values),
    )
    kept = end.training.where(end.outcome.notnull())
    yield Finding(
        f"{title}: training loss at the end over the goal, the most",
        predicted=1.0,
        measured=float(kept.max()) / float(data.goal),
        relation="at most",
        tolerance=Tolerance(0.0, why="otherwise runs of different training losses would be compared"),
    )


def _of_rank_2(data: xr.Dataset, config: RaisesConfig) -> Iterator[Finding]:
    """Against one run of other code, at the thesis's size."""
    if (config.samples, config.dim, config.shallow) != (2_000, 100, 1_024):
        return
    end, last = survived(data), len(TESTED) - 1
    yield Finding(
        "rank 2: critical step at the end with all raises, against other code",
        predicted=90.0,
        measured=float(end.critical.isel(raises=-1).mean()),
        relation="at least",
        tolerance=Tolerance(0.0, why="one run of other code comes from about 6 to beyond 90"),
        uncertainty=float(end.critical.isel(raises=-1).std(ddof=1) / np.sqrt(config.seeds)),
    )
    compared = [
        ("before", CRITICAL, f"critical step before raise {number}", number, number - 1) for number in (1, 2, 3)
    ]
    for number in (0, 1, last):
        compared += [("test", TESTED, f"test loss after {number} raises", number, number)]
        compared += [("alignment", ALIGNED, f"alignment after {number} raises", number, number)]
    for name, values, what, number, place in compared:
        ours = end[name].sel(raises=number)
        yield Finding(
            f"rank 2: {what}, against other code",
            predicted=values[place],
            measured=float(ours.mean()),
            tolerance=Tolerance(
                3 * float(ours.std(ddof=1)) * np.sqrt(1 + 1 / ours.size) + (0.05 if name == "before" else 0.005),
                why="three standard errors of a difference from one run, with our spread for both, and rounding",
            ),
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: RaisesConfig) -> None:
    rows = len(config.panels) + 1
    figure.set_size_inches(11, 3.1 * len(config.panels) + 1.9)
    parts: Any = figure.subfigures(rows, 1, height_ratios=[3.1] * len(config.panels) + [1.9])
    for part, panel in zip(parts, config.panels, strict=False):
        one, title = _one(data, panel, config), TITLES[panel]
        what = "loss" if np.isnan(one.strong) else "error"
        loss, aligned, test = part.subplots(1, 3)
        draw_branches(loss, one, "loss")
        loss.set_title(f"{title[0].upper()}{title[1:]}: training loss", loc="left")
        for axes, name, label in ((aligned, "alignment", "alignment"), (test, "test", f"test {what}")):
            draw_ends(axes, one, name)
            axes.set_title(label.capitalize(), loc="left")
        if panel == "rank-2" and config.samples == 2_000:
            for axes, values in ((aligned, ALIGNED), (test, TESTED)):
                axes.plot(one.raises, values, "x", color="C1", ms=7, mew=1.8, zorder=4, label="other code, one run")
            aligned.legend(loc="lower right")
    _draw_blocks(_one(data, config.panels[0], config), parts[-1], TITLES[config.panels[0]])


def _draw_blocks(data: xr.Dataset, part: Figure, title: str) -> None:
    """The first rows and columns of the gradient outer products of one draw, entries scaled to [0, 1]."""
    whole = survived(data).outcome.notnull().all("raises")
    shown = data.block.isel(seed=int(whole.argmax("seed")))
    images = [("truth", data.truth.values), *((f"{n} raises", shown.sel(raises=n).values) for n in data.raises.values)]
    for axes, (name, image) in zip(part.subplots(1, len(images)), images, strict=True):
        low, high = float(image.min()), float(image.max())
        axes.imshow((image - low) / max(high - low, 1e-30), cmap="viridis", vmin=0, vmax=1)
        axes.set_title("1 raise" if name == "1 raises" else name, loc="left", fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    part.suptitle(f"First rows and columns of the gradient outer product, {title}, one draw", fontsize=10)
