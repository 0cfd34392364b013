"""Figure C.14: weights near zero find the features without any catapult."""

from dataclasses import replace

import jax
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Findings, claim, estimate, option, reuse, scaled, sheet, study
from secant.studies.shared.catapults.courses import RaisesConfig, course_of, seeds_of, task_of
from secant.studies.shared.catapults.raises import raised, trained
from secant.studies.shared.catapults.raises_drawn import draw_ends
from secant.studies.shared.features.tasks import TITLES, Draw, FeatureTask
from secant.studies.thesis.ch4.fig_4_8 import run as figure_4_8


class Config(RaisesConfig):
    panels: tuple[str, ...] = option(("rank-2",), distinct=True, help="panels of figure 4.8")
    sigma: float = option(0.1, at_least=1e-3, below=1, help="standard deviation of the weights near zero")
    longer: float = scaled(
        smoke=3.0, laptop=1.3, paper=1.0, at_least=0.1, at_most=100, help="steps near zero over those of other runs"
    )
    near: float = scaled(
        smoke=0.05, laptop=2e-2, paper=1e-3, at_least=1e-6, at_most=1, help="training loss that ends a run near zero"
    )


@study("thesis/fig-C.14", section="C.4", title="Weights near zero need no catapults", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""The runs of figure 4.8 are compared with a run whose weights all begin near zero, $N(0, 0.1^2)$, with the same
    step size and without any raise. This run has the smallest test loss and the best alignment of all. Catapults bring
    a network of ordinary weights closer to what weights near zero learn by themselves.
    """
    found = []
    for panel in config.panels:
        task = task_of(config, panel)

        def near_zero(seed: int, task: FeatureTask = task) -> Draw:
            one = task.draw(seed)
            return one._replace(start=jax.tree.map(lambda leaf: config.sigma * leaf, one.start))

        one = raised(
            replace(task, draw=near_zero),
            lr=course_of(config, panel).lr,
            raises=(),
            every=config.every,
            steps=int(config.longer * config.steps),
            seeds=seeds_of(config),
            goal=config.near,
        )
        found.append(one.isel(raises=0, drop=True))
    near = xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))
    ends = ["test", "alignment", "training", "critical", "outcome", "ended"]
    near = near[[*ends, "loss"]].rename({"step": "near_step"} | {name: f"near_{name}" for name in (*ends, "loss")})
    return reuse(figure_4_8, config)[[*ends, "strong"]].merge(near)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for panel in config.panels:
        one, title = data.sel(panel=panel), TITLES[panel]
        end, reached = trained(one), one.near_outcome == Outcome.CONVERGED
        last = len(course_of(config, panel).at)
        what = "loss" if np.isnan(one.strong) else "error"
        for name, label, sign in (("alignment", "alignment", 1.0), ("test", f"test {what}", -1.0)):
            means = ", ".join(f"{value:.3f}" for value in end[name].mean("seed").values[: last + 1])
            note = f"near zero {float(one[f'near_{name}'].mean()):.3f}; by raises {means}"
            for key, number, against in (("none", 0, "no raise"), ("all", last, "all raises")):
                gain = sign * (one[f"near_{name}"].where(reached) - end[name].sel(raises=number))
                sentence = f"{title}: {label} of weights near zero against {against}, mean gain"
                why = "the smallest test loss and the best alignment of all"
                yield claim(f"{panel}-{name}-{key}", sentence).at_least(0.0, estimate(gain), why, note=note)
        after, before = (one.near_loss.isel(near_step=part).values for part in (slice(1, None), slice(-1)))
        sentence = f"{title}: largest growth factor of the training loss of weights near zero in one step"
        why = "no catapult: below its critical step gradient descent only falls, to the rounding of float32"
        yield claim(f"{panel}-rise", sentence).at_most(1.0, (after / before).max(), why, slack=1e-5)
        sentence = f"{title}: share of the draws that weights near zero train, and that are compared"
        losses = ", ".join(f"{float(value):.2g}" for value in one.near_training)
        yield claim(f"{panel}-trained", sentence).at_least(
            0.5,
            estimate(reached),
            "runs of different training losses are not compared; most are trained as far",
            note=f"{int(reached.sum())} of {reached.size}; training losses at the end {losses}",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    rows = sheet.panels(figure, (11, 3.5 * len(config.panels)), 3, len(config.panels), squeeze=False)
    for row, panel in zip(rows, config.panels, strict=True):
        one, title = data.sel(panel=panel), TITLES[panel]
        shown = one.isel(raises=slice(len(course_of(config, panel).at) + 1))
        what = "loss" if np.isnan(one.strong) else "error"
        for seed in one.seed:
            steps = one.near_step <= one.near_ended.sel(seed=seed)
            row[0].semilogy(one.near_step[steps], one.near_loss.sel(seed=seed)[steps], color="C1", lw=1.2, alpha=0.8)
        sheet.label(row[0], f"{title[0].upper()}{title[1:]}: training loss, near zero", "step")
        for axes, name, label in ((row[1], "alignment", "Alignment"), (row[2], "test", f"Test {what}")):
            draw_ends(axes, shown, name)
            sheet.mark(axes, y=one[f"near_{name}"], color="C1", lw=1, label="near zero, every draw")
            axes.set_title(label, loc="left")
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
