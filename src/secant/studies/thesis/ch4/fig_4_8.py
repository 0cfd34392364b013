"""Figures 4.8, C.13, C.15 and C.16: the more catapults, the better the features."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Tolerance, estimate, study
from secant.lab.verdicts.significance import falling_trend
from secant.studies.shared.about import about
from secant.studies.shared.catapults import raises
from secant.studies.shared.catapults.courses import RaisesConfig, course_of, raises_of, seeds_of, task_of, width_of
from secant.studies.shared.catapults.raises import BLOCK
from secant.studies.shared.catapults.raises_drawn import draw_branches, draw_ends
from secant.studies.shared.features.tasks import TITLES, behind_the_truth, scored, truth_finding


@study("thesis/fig-4.8", section="4.4", title="The more catapults, the better the features", precision="float32")
def run(config: RaisesConfig) -> xr.Dataset:
    r"""A network learns by gradient descent, and its step size is raised again and again. Where the step size exceeds
    the critical one, the loss catapults: it shoots up, comes down again, and the critical step size is larger than
    before. With the number of catapults the alignment of the network's average gradient outer product with that of the
    target grows, and the test loss falls (figures 4.8 and C.13; figure C.15 shows the matrix's first rows and columns).

    Here each number of raises is a run of its own from the same start, trained to the same loss. A raise to a step size
    below the critical one is no catapult, and changes little. Between raises the kernel may grow again, but only to
    where the step in use is critical: beyond that the loss would not fall. USPS and Fashion-MNIST belong to figure
    C.16; the outer product of a convolutional network trained on all samples is their truth. SVHN and CelebA are not
    available.
    """
    found = []
    for panel in config.panels:
        task = task_of(config, panel)
        one = raises.raised(
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
def check(data: xr.Dataset, config: RaisesConfig) -> Findings:
    for panel in config.panels:
        one, title, of = _one(data, panel, config), TITLES[panel], about(panel, TITLES[panel])
        end, what = raises.trained(one), scored(one)
        yield from truth_finding(panel, one, end.test)
        for name, label, better, sign in (
            ("alignment", "alignment", "grows", -1.0),
            ("test", f"test {what}", "falls", 1.0),
        ):
            rho, p = falling_trend(sign * end[name], "raises")
            yield of(f"{name}-trend", f"{label} {better} with the number of raises").significant(
                p,
                "by permutation within seeds",
                f"Spearman correlation {sign * rho:.2f}, mean over seeds; by raises on average {_listed(end[name])}",
            )
            gain = sign * (end[name].isel(raises=0) - end[name].where(raises.catapults(one) > 0).mean("raises"))
            yield of(f"{name}-gain", f"{label} with catapults against none, mean gain").at_least(
                0.0, estimate(gain), "catapults help", note=f"{int(gain.notnull().sum())} draws with both"
            )
        # Each catapult lowers the norm of the kernel, on its way to where the step is below the critical one.
        thrown = raises.catapulted(one) & end.outcome.notnull()
        course, width = course_of(config, panel), width_of(config, panel)
        steps = xr.DataArray([course.lr, *course.to], dims="raises")
        # The first look of a branch is before its raise.
        most = one.critical_along.isel(look=slice(1, None)).max("look")
        lowers, by = Tolerance(why="every catapult lowers the norm of the kernel"), "by raises, the first without one,"
        why = "a loss that falls has a step below the critical one by the Hessian, from which the critical one by the"
        close = Tolerance(np.log(width) / np.sqrt(width), why=f"{why} kernel differs by log m / sqrt m (appendix C.1)")
        before = f"before the raises it is {_listed(one.before.isel(raises=slice(1, None)))}"
        ends, largest = "critical step at the end over the", "largest critical step after the catapult over the"
        for key, sentence, values, tolerance, note in (
            ("step-before", f"{ends} one before the catapult", end.critical / end.before, lowers, before),
            ("step-largest", f"{largest} step size", most / steps, close, f"{by} the largest is {_listed(most)}"),
            ("step-end", f"{ends} step size", end.critical / steps, close, f"{by} it is {_listed(end.critical)}"),
        ):
            growth = np.log(values.where(thrown)).mean("raises")
            none = "no raise is followed by a catapult in a run that is trained"
            yield of(key, f"ln of the {sentence}, mean over draws", given=thrown, otherwise=none).at_least(
                0.0, estimate(growth), slack=tolerance, note=note
            )
        yield raises.catapults_finding(title, one, panel)
        yield raises.trained_finding(title, one, panel)


def _listed(values: xr.DataArray) -> str:
    return ", ".join(f"{value:.3g}" for value in values.mean("seed").values)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: RaisesConfig) -> None:
    heights = [3.1] * len(config.panels) + [1.9]
    figure.set_size_inches(11, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    for part, panel in zip(parts, config.panels, strict=False):
        one, title = _one(data, panel, config), TITLES[panel]
        loss, aligned, test = part.subplots(1, 3)
        draw_branches(loss, one, "loss")
        loss.set_title(f"{title[0].upper()}{title[1:]}: training loss")
        for axes, name, label in ((aligned, "alignment", "Alignment"), (test, "test", f"Test {scored(one)}")):
            draw_ends(axes, one, name)
            axes.set_title(label)
    _draw_blocks(_one(data, config.panels[0], config), parts[-1], TITLES[config.panels[0]])


def _draw_blocks(data: xr.Dataset, part: Figure, title: str) -> None:
    """The first rows and columns of the gradient outer products of one draw, entries scaled to [0, 1]."""
    whole = raises.trained(data).outcome.notnull().all("raises")
    shown = data.block.isel(seed=int(whole.argmax("seed")))
    images = [("truth", data.truth.values), *((f"{n} raises", shown.sel(raises=n).values) for n in data.raises.values)]
    for axes, (name, image) in zip(part.subplots(1, len(images)), images, strict=True):
        if np.isfinite(image).all():
            low, high = float(image.min()), float(image.max())
            axes.imshow((image - low) / max(high - low, 1e-30), cmap="viridis", vmin=0, vmax=1)
        else:
            axes.text(0.5, 0.5, "diverged", ha="center", va="center", transform=axes.transAxes)
        axes.set_title("1 raise" if name == "1 raises" else name, fontsize=9)
        axes.set(xticks=[], yticks=[])
    part.suptitle(f"First rows and columns of the gradient outer product, {title}, one draw", fontsize=10)
