"""Figures 4.4, C.6 and C.7: raise the step size above the critical one again, and the loss catapults again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from secant.curvature import kernel_critical_lr
from secant.dynamics import Outcome, Probe, Problem, Stop, control, train
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._catapult_panels import PANELS, Networks, Start, known_panel, network, start_of
from secant.studies.thesis._catapult_runs import CEILING, Looks, descend, until_its_end

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RAISES = {"fcn": ((0, 6.0), (15, 10.0), (60, 15.0)), "cnn": ((0, 8.0), (10, 15.0), (40, 20.0))}
"""Printed steps, and the printed step size from each on."""

AT_ONCE = {"fcn": 60.0, "cnn": 40.0}
"""Step sizes that figure C.7 calls those at convergence, and uses from the start."""

REST, SETTLE = 5, 0.5
"""Of the automatic run: steps before each catapult, and its step size over the critical one then."""

RISE = 1.2
"""A loss has risen if it passes this many times its value at the raise."""


@dataclass(frozen=True)
class Config(Networks):
    """Networks, data and the runs."""

    panels: tuple[str, ...] = scaled(
        smoke=("fcn",), laptop=("fcn",), paper=("fcn", "cnn"), help=f"some of {', '.join(RAISES)}"
    )
    width: int = scaled(smoke=256, laptop=1_024, paper=1_024, at_least=4, help="neurons a layer, fully connected")
    top: int = option(10, at_least=1, help="directions at the top of the kernel")
    steps: int = scaled(smoke=90, laptop=100, paper=150, at_least=65, help="gradient-descent steps")
    catapults: int = option(3, at_least=1, help="of the automatic run")
    ratio: float = option(1.3, above=1, help="its step size over the critical one at the beginning of each")


@study(
    "thesis/fig-4.4",
    section="4.3.1",
    title="One catapult after another",
    statement=r"""
    Gradient descent as in figure 4.3 whose step size is raised twice, from 6 to 10 and 15 after 15 and 60 steps (the
    5-layer FCN) and from 8 to 15 and 20 after 10 and 40 (the 5-layer CNN). Every raise above the current critical step
    $n/\|K\|_2$ triggers another catapult, confined to the first 10 directions of the kernel (figure C.6), and lowers
    $\|K\|_2$ again. From the start, the last step size would diverge (figure C.7).

    Here step sizes are the printed ones over the printed critical ones, 3.6 and 4.5, times what is measured. The
    step sizes that figure C.7 calls the last are 60 and 40; those of figure 4.4 are 15 and 20. Both are tried from the
    start.

    Without a schedule: after each catapult the step is set above the critical one that is measured then, three times,
    and then to half of it.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    unknown = [name for name in config.panels if name not in RAISES]
    if unknown or not config.panels:
        raise ValueError(f"panels: some of {', '.join(RAISES)}; got {config.panels}.")
    runs = [_panel(name, config) for name in config.panels]
    return xr.concat(runs, "panel", join="outer").assign_coords(panel=list(config.panels))


def _panel(name: str, config: Config) -> xr.Dataset:
    """Raised; from the start with the last step size and with that of figure C.7; and automatic."""
    panel = known_panel(name)
    start = start_of(name, config, config.seed, network(panel, config))
    unit = start.critical / float(panel.critical or np.nan)
    sizes = np.empty(config.steps)
    for begin, size in RAISES[name]:
        sizes[begin:] = size * unit
    raised = descend(
        [start], sizes[None], steps=config.steps, looks=Looks(split=(config.top,)), label=f"{panel.title}, raised"
    )
    at_once = descend(
        [start] * 2,
        np.array([RAISES[name][-1][1], AT_ONCE[name]]) * unit,
        steps=config.steps,
        looks=Looks(),
        together=name != "cnn",
        label=f"{panel.title}, at once",
    )
    data = raised.isel(run=0, s=0, drop=True).assign(start=start.critical)
    return data.assign(
        {
            "direct": at_once.loss.rename(run="size").reindex(step=data.step),
            "direct_outcome": at_once.outcome.rename(run="size"),
        }
        | {key: value.reindex(step=data.step) for key, value in _automatic(start, config, panel.title).items()}
    )


def _automatic(start: Start, config: Config, title: str) -> dict[str, xr.DataArray]:
    """Catapults on purpose. Step size, critical step size and their number are those of the step made next."""
    import optax

    problem = Problem(start.net.apply, start.x, start.y, start.loss)
    critical = kernel_critical_lr(start.net.apply, start.loss)
    controller = control.catapults(
        config.catapults,
        over=config.ratio,
        share=SETTLE,
        rest=REST,
        critical=lambda params: critical(params, problem.x),
    )

    def look(state: Any) -> dict[str, Any]:
        found = control.reading(state.inner)
        return {"value": found.size, "critical": found.meter.critical, "count": found.done, "begun": found.begun}

    found = train(
        problem,
        start.params,
        rule=optax.chain(optax.sgd(1.0), controller),
        steps=config.steps,
        probes={"loss": problem.objective, "lr": Probe(look, whole=True)},
        stop=Stop(diverged=lambda params: ~(problem.objective(params) < CEILING)),
        label=f"{title}, automatic",
    ).dataset
    # The state after a step knows what it was made with.
    made = found.isel(step=slice(1, None)).assign_coords(step=found.step.values[:-1])
    return {
        "auto_loss": found.loss,
        "auto_lr": made.lr,
        "auto_critical": made.lr_critical,
        "auto_count": made.lr_count,
        "auto_begun": made.lr_begun,
    }


def phases(name: str, steps: int) -> list[tuple[int, int]]:
    """First and last step of every step size."""
    return list(itertools.pairwise([step for step, _ in RAISES[name]] + [steps]))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    for name in config.panels:
        panel, one = PANELS[name], data.sel(panel=name)
        title = panel.title
        yield Finding(
            f"{title}: raised, diverges",
            predicted=0.0,
            measured=float(one.outcome == Outcome.DIVERGED),
            tolerance=Tolerance(0.0, why="each catapult comes back"),
        )
        raised = until_its_end(one)
        before = []
        for number, (begin, end) in enumerate(phases(name, config.steps)):
            part = raised.sel(step=slice(begin, end))
            if part.sizes["step"] < 2:
                continue
            above = float(part.lr[0] / part.critical[0])
            if above <= 1:  # nothing is claimed of a raise that stays below
                continue
            which = f"{title}: step size {RAISES[name][number][1]:g}"
            rise = part.loss.values - part.loss.values[0]
            peak = int(np.argmax(rise))
            yield Finding(
                f"{which}, {above:.2f} of the critical one then: loss at the peak over before",
                predicted=RISE,
                measured=float(part.loss[peak] / part.loss[0]),
                relation="at least",
                tolerance=Tolerance(0.0, why="a catapult: the loss rises by more than it wavers"),
            )
            yield Finding(
                f"{which}: rise within {config.top} directions over all of it",
                predicted=1.0,
                measured=float(part.within[peak] - part.within[0]) / float(rise[peak] or np.nan),
                relation="at least",
                tolerance=Tolerance(0.1, why="the rest may add a tenth of the spike, as in figure 4.3"),
            )
            before.append((float(part.critical[0]), float(part.critical[-1])))
        yield Finding(
            f"{title}: norm of the kernel after a catapult over before, the most",
            predicted=1.0,
            measured=max(first / last for first, last in before),
            relation="at most",
            tolerance=Tolerance(0.0, why="each catapult lowers it"),
        )
        for place, size in enumerate((RAISES[name][-1][1], AT_ONCE[name])):
            ratio = size / float(panel.critical or np.nan)
            yield Finding(
                f"{title}: from the start with {size:g}, {ratio:.1f} critical steps: diverges",
                predicted=1.0,
                measured=float(one.direct_outcome[place] == Outcome.DIVERGED),
                tolerance=Tolerance(0.0, why="the claim of figure C.7"),
                note="the last step size of figure 4.4" if place == 0 else "the step size that figure C.7 prints",
            )
        yield from _judge_automatic(title, one, config)


def _judge_automatic(title: str, one: xr.Dataset, config: Config) -> Iterator[Finding]:
    count, sizes = one.auto_count.dropna("step"), one.auto_lr.dropna("step")
    yield Finding(
        f"{title}: catapults of the automatic run",
        predicted=float(config.catapults),
        measured=float(count[-1]),
        tolerance=Tolerance(0.0, why="so many are asked for"),
    )
    yield Finding(
        f"{title}: step size at its end over the critical one",
        predicted=1.0,
        measured=float(sizes[-1] / one.auto_critical.dropna("step")[-1]),
        relation="at most",
        tolerance=Tolerance(0.0, why="it settles below the critical step"),
    )
    begins = np.flatnonzero(np.diff(one.auto_begun.dropna("step").values, prepend=0))
    thrown = sizes.values[begins]
    yield Finding(
        f"{title}: step size of one of its catapults over that of the one before, the least",
        predicted=1.0,
        measured=float(np.min(thrown[1:] / thrown[:-1])) if len(thrown) > 1 else np.nan,
        relation="at least",
        tolerance=Tolerance(0.0, why="each lowers the norm of the kernel and so raises the critical step"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(11, 2.0 + 2.9 * len(config.panels))
    grid = figure.subplots(len(config.panels), 3, squeeze=False)
    for row, name in zip(grid, config.panels, strict=True):
        one, title = data.sel(panel=name), PANELS[name].title
        loss, sizes, auto = row
        loss.semilogy(one.step, one.within, color="C0", lw=1.5, label=rf"$\mathcal{{L}}_{{\leq {config.top}}}$")
        loss.semilogy(one.step, one.beyond, color="C1", lw=1.5, label=rf"$\mathcal{{L}}_{{> {config.top}}}$")
        low, high = loss.get_ylim()
        for place, size in enumerate((RAISES[name][-1][1], AT_ONCE[name])):
            direct = one.direct[place].values
            shown = np.where(direct < 3 * high, direct, np.nan)
            loss.semilogy(one.step, shown, color="C3", ls=(":", "--")[place], lw=1.3, label=f"{size:g} from the start")
        loss.set_ylim(low, 3 * high)
        loss.set_title(f"{title}, raised twice", loc="left")
        loss.set_ylabel("loss")
        loss.legend(fontsize=8)
        sizes.plot(one.step, one.critical, color="C2", lw=1.6, label=r"critical, $n/\|K\|_2$")
        sizes.step(one.step, one.lr, where="post", color=ink, ls="--", lw=1.3, label=r"step size $\eta$")
        sizes.set_title("Step sizes", loc="left")
        sizes.set_ylim(0, None)
        sizes.legend(fontsize=8)
        auto.semilogy(one.step, one.auto_loss, color="C0", lw=1.5, label="loss")
        auto.semilogy(one.step, one.auto_critical, color="C2", lw=1.5, label="critical")
        auto.step(one.step, one.auto_lr, where="post", color=ink, ls="--", lw=1.3, label=r"step size $\eta$")
        auto.set_title(f"Automatic, {config.catapults} catapults", loc="left")
        auto.legend(fontsize=8)
        for axes in row:
            axes.set_xlabel("step")
