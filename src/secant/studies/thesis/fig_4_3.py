"""Figures 4.2, 4.3 and C.2 to C.5: a catapult happens in the first few directions of the tangent kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._catapult_panels import DENSE, PANELS, Networks, known_panel, network, start_of
from secant.studies.thesis._catapult_runs import Looks, descend, until_its_end

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config(Networks):
    """Networks, data and the run."""

    panels: tuple[str, ...] = scaled(
        smoke=("shallow",), laptop=("fcn", "rank-2"),
        paper=("fcn", "cnn", "rank-2", "wide-resnet", "fcn-10", "cnn-10"), help=f"some of {', '.join(PANELS)}",
    )  # fmt: skip
    width: int = scaled(smoke=256, laptop=1_024, paper=1_024, at_least=4, help="neurons a layer, fully connected")
    top: int = option(5, at_least=1, help="directions at the top of the kernel, times the outputs")
    ratio: float | None = option(
        None, above=0, help="step size over the critical one; by default the printed one over its own"
    )
    steps: int = scaled(smoke=30, laptop=40, paper=150, at_least=10, help="gradient-descent steps")
    draws: int = scaled(smoke=2, laptop=2, paper=5, at_least=1, help="draws of data and weights")


@study(
    "thesis/fig-4.3",
    section="4.3.1",
    title="A catapult happens at the top of the kernel",
    statement=r"""
    Gradient descent with a constant step above the critical one, $\eta > n/\|K\|_2$, on 128 images of two classes of
    CIFAR-10 or 128 samples of $f^*(x) = x_1x_2$. Split the loss between the first $s$ eigenvectors of the current
    tangent kernel and the rest: the spike is in $\mathcal L_{\le 5}$ alone, $\mathcal L_{>5}$ falls almost
    monotonically (figures 4.3, C.3 and C.4; for ten outputs 10, 30 or 50 directions, figure C.5), and $\|K\|_2$ is
    smaller after the catapult than before (figures 4.2 and C.2).

    If $\mathcal L_{>s}$ does not rise, the rise of $\mathcal L_{\le s}$ up to the peak is at least that of the loss.
    The step size is the printed one over the printed critical one, times the critical one that is measured here.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    if not config.panels:
        raise ValueError("panels: at least one.")
    found = []
    for name in config.panels:
        panel = known_panel(name)
        net = network(panel, config)
        starts = [start_of(name, config, config.seed + i, net) for i in range(config.draws)]
        ratio = panel.ratio if config.ratio is None else config.ratio
        run = descend(
            starts,
            [ratio * start.critical for start in starts],
            steps=config.steps,
            looks=Looks(split=(min(config.top * panel.outputs, starts[0].y.size - 1),)),
            together=panel.network in DENSE and panel.outputs == 1,
            label=panel.title,
        )
        found.append(run.isel(s=0, drop=True).assign(start=("run", [start.critical for start in starts])))
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


def ended(data: xr.Dataset) -> xr.Dataset:
    """One run, without the steps that others of another panel made."""
    return until_its_end(data.dropna("step", subset=["loss"]))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    for name in config.panels:
        panel, runs = PANELS[name], data.sel(panel=name)
        rows = [_judged(ended(runs.isel(run=i))) for i in range(runs.sizes["run"])]
        low, high = (np.array([row[key] for row in rows]) for key in ("share", "rises"))
        s = config.top * panel.outputs
        yield Finding(
            f"{panel.title}: runs that diverge",
            predicted=0.0,
            measured=float((runs.outcome == Outcome.DIVERGED).sum()),
            tolerance=Tolerance(0.0, why="a catapult comes back"),
        )
        yield Finding(
            f"{panel.title}: largest loss over the smallest before, the least of all draws",
            predicted=2.0,
            measured=min(row["height"] for row in rows),
            relation="at least",
            tolerance=Tolerance(0.0, why="a catapult: the loss at least doubles"),
        )
        if min(row["height"] for row in rows) <= 1:
            continue  # a loss that never rises has no spike to split
        yield Finding(
            f"{panel.title}: rise of the loss within {s} directions over that of the loss, to the peak",
            predicted=1.0,
            measured=float(low.min()),
            relation="at least",
            tolerance=Tolerance(0.1, why="'almost' monotone: the rest may add a tenth of the spike"),
        )
        yield Finding(
            f"{panel.title}: all rises of the loss beyond {s} directions, over the height of the spike",
            predicted=0.0,
            measured=float(high.max()),
            tolerance=Tolerance(0.1, why="'almost' monotone: a tenth of the spike"),
        )
        yield Finding(
            f"{panel.title}: norm of the kernel after over before, the most of all draws",
            predicted=1.0,
            measured=max(row["kernel"] for row in rows),
            relation="at most",
            tolerance=Tolerance(0.0, why="the catapult lowers it"),
        )
        if config.draws > 1 and config.data == "cifar10" and panel.critical is not None and _full_size(name, config):
            critical = runs.start
            yield Finding(
                f"{panel.title}: critical step size at the start, against the printed one",
                predicted=panel.critical,
                measured=float(critical.mean()),
                tolerance=Tolerance(relative=0.02, why="the rounding of the printed number"),
                uncertainty=float(critical.std(ddof=1)),
                note="the uncertainty is the spread from draw to draw, for the thesis has one. How pixels are scaled is"
                " not said"
                if panel.target is None
                else "the uncertainty is the spread from draw to draw; depth and width of this network are not said",
            )


def _full_size(name: str, config: Config) -> bool:
    kind = PANELS[name].network
    if config.parametrization != "ntk":
        return False
    if kind == "fcn":
        return config.width == 1_024
    return config.side == 32 and (config.channels == 512 if kind == "cnn" else config.widen == 10)


def _judged(one: xr.Dataset) -> dict[str, float]:
    loss, within, beyond = (one[key].values.astype(float) for key in ("loss", "within", "beyond"))
    # Finite values only: the last of a run that diverges may not be.
    good = np.isfinite(loss) & np.isfinite(within) & np.isfinite(beyond)
    loss, within, beyond = loss[good], within[good], beyond[good]
    peak = int(np.argmax(loss))
    before = int(np.argmin(loss[: peak + 1]))
    height = max(loss[peak] - loss[before], np.finfo(float).tiny)
    return {
        "height": loss[peak] / loss[before],
        "share": (within[peak] - within[before]) / height,
        "rises": float(np.clip(np.diff(beyond), 0, None).sum() / height),
        "kernel": float(one.critical[0] / one.critical.values[good][-1]),
    }


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    count = len(config.panels)
    figure.set_size_inches(max(5.0, 3.7 * count), 5.6)
    grid = figure.subplots(2, count, sharex="col", squeeze=False)
    for top, bottom, name in zip(grid[0], grid[1], config.panels, strict=True):
        one, panel = ended(data.sel(panel=name).isel(run=0)), PANELS[name]
        s = config.top * panel.outputs
        top.semilogy(one.step, one.loss, "--", color=ink, lw=1, label=r"$\mathcal{L}$")
        top.semilogy(one.step, one.within, color="C0", lw=1.6, label=rf"$\mathcal{{L}}_{{\leq {s}}}$")
        top.semilogy(one.step, one.beyond, color="C1", lw=1.6, label=rf"$\mathcal{{L}}_{{> {s}}}$")
        top.set_title(f"{panel.title}\n{float(one.lr[0] / one.start):.2f} critical steps", loc="left")
        bottom.plot(one.step, float(one.critical[0]) / one.critical, color="C2", lw=1.6)
        bottom.axhline(float(one.critical[0] / one.lr[0]), color=ink, ls="--", lw=1)
        bottom.set_ylim(0, None)
        bottom.set_xlabel("step")
    grid[0][0].set_ylabel("loss")
    grid[1][0].set_ylabel(r"$\|K_t\|_2 / \|K_0\|_2$")
    grid[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    grid[1][-1].plot([], [], color="C2", lw=1.6, label=r"$\|K_t\|_2$")
    grid[1][-1].plot([], [], "--", color=ink, lw=1, label="critical")
    grid[1][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
