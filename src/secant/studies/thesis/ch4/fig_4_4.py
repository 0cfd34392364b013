"""Figures 4.4, C.6 and C.7: raise the step size above the critical one again, and the loss catapults again."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from secant.curvature import kernel_critical_lr
from secant.dynamics import Outcome, Probe, Stop
from secant.lab import Figure, Findings, estimate, option, options, scaled, sheet, study
from secant.lab.verdicts.claims import Claim
from secant.lab.verdicts.significance import proportion
from secant.optim import Problem, control, train
from secant.studies.shared.about import about
from secant.studies.shared.catapults.panels import PANELS, Networks, Start, check_panels, starts_of
from secant.studies.shared.catapults.runs import CEILING, Looks, descend, until_its_end

RAISES = {"fcn": ((0, 6.0), (15, 10.0), (60, 15.0)), "cnn": ((0, 8.0), (10, 15.0), (40, 20.0))}
"""Printed steps, and the printed step size from each of them on."""

AT_ONCE = {"fcn": 60.0, "cnn": 40.0}
"""Step sizes that figure C.7 calls the ones at convergence, and uses from the start."""

REST, SETTLE = 5, 0.5
"""The automatic run: steps before each catapult, and its step size over the critical one then."""

RISE = 1.2
"""A loss has risen if it passes this many times the smallest since the raise."""


class Config(Networks):
    panels: tuple[str, ...] = scaled(
        smoke=("fcn",), laptop=("fcn",), paper=("fcn", "cnn"), distinct=True, help=f"some of {', '.join(RAISES)}"
    )
    width: int = options.width(256, 1_024, at_least=4)
    top: int = option(10, at_least=1, help="directions at the top of the kernel")
    steps: int = options.steps(90, 100, 150, at_least=65, at_most=10**6)
    draws: int = options.draws(4, 4, at_least=2, at_most=1_000)
    direct: int = scaled(smoke=12, laptop=12, at_least=2, at_most=1_000, help="draws with large steps from the start")
    catapults: int = option(3, at_least=2, at_most=100, help="catapults of the automatic run, which has the first draw")
    ratio: float = options.ratio(1.3, at_least=1.01, at_most=4)

    def check(self) -> None:
        """Refuses unknown panels, and a top that holds all directions."""
        super().check()
        check_panels("panels", self.panels, RAISES)
        if self.top >= self.samples:
            raise ValueError(f"top: must be below the number of samples, {self.samples}, got {self.top}.")


@study("thesis/fig-4.4", section="4.3.1", title="One catapult after another", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent is as in figure 4.3, and its step size is raised twice: from 6 to 10 and 15 after 15 and 60
    steps (the 5-layer FCN), and from 8 to 15 and 20 after 10 and 40 (the 5-layer CNN). Every raise above the current
    critical step $n/\|K\|_2$ triggers another catapult, confined to the first 10 directions of the kernel (figure C.6),
    and lowers $\|K\|_2$ again. From the start, the last step size would diverge (figure C.7).

    Here step sizes are the printed ones over the printed critical ones, 3.6 and 4.5, times what is measured. The step
    sizes that figure C.7 calls the last are 60 and 40; those of figure 4.4 are 15 and 20. Both are tried from the
    start.

    Without a schedule: after each catapult the step is set above the critical one that is measured then, three times,
    and then to half of it.
    """
    runs = [_panel(name, config) for name in config.panels]
    return xr.concat(runs, "panel", join="outer").assign_coords(panel=list(config.panels))


def _panel(name: str, config: Config) -> xr.Dataset:
    """Three runs: raised; with two large steps from the start, up to the last raise; and automatic."""
    panel = PANELS[name]
    starts, critical = starts_of(name, config, max(config.draws, config.direct))
    units = critical / float(panel.critical or np.nan)
    begins, sizes = [step for step, _ in RAISES[name]], [size for _, size in RAISES[name]]
    schedule = np.repeat(sizes, np.diff([*begins, config.steps]))
    raised = descend(
        starts[: config.draws],
        np.multiply.outer(units[: config.draws], schedule),
        steps=config.steps,
        looks=Looks(split=(config.top,)),
        together=name != "cnn",
        label=f"{panel.title}, raised",
    )
    few, own, label = starts[: config.direct], units[: config.direct], f"{panel.title}, at once"
    # Most diverge within a few steps, and would wait for the last: they run one after the other.
    at_once = [
        descend(few, size * own, steps=begins[-1], looks=Looks(), together=False, label=label)
        for size in (sizes[-1], AT_ONCE[name])
    ]
    data = raised.isel(s=0, drop=True).rename(run="draw").assign(start=("draw", critical[: config.draws]))
    direct = xr.concat([one[["loss", "outcome"]].reindex(step=data.step) for one in at_once], "size").rename(run="one")
    return data.assign(
        {"direct": direct.loss, "direct_outcome": direct.outcome}
        | {key: value.reindex(step=data.step) for key, value in _automatic(starts[0], config, panel.title).items()}
    )


def _automatic(start: Start, config: Config, title: str) -> dict[str, xr.DataArray]:
    """Catapults on purpose. Step size, critical step size and number of catapults belong to the step made next."""
    import optax

    problem = Problem(start.net.apply, start.x, start.y, start.loss)
    critical = kernel_critical_lr(start.net.apply, start.loss)
    measured = lambda params: critical(params, problem.x)  # noqa: E731
    controller = control.catapults(config.catapults, over=config.ratio, share=SETTLE, rest=REST, critical=measured)

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
    # The state after a step knows with what the step was made.
    made = found.isel(step=slice(1, None)).assign_coords(step=found.step.values[:-1])
    kept = {f"auto_{key}": made[f"lr_{key}"] for key in ("critical", "count", "begun")}
    return {"auto_loss": found.loss, "auto_lr": made.lr} | kept


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        panel, one = PANELS[name], data.sel(panel=name)
        of, critical = about(name, panel.title), float(panel.critical or np.nan)
        yield of("diverge", "draws that diverge when raised").zero(
            (one.outcome == Outcome.DIVERGED).sum(), 0, "each catapult comes back"
        )
        yield from _judge_raises(of, name, one, config)
        for place, size, which in (
            (0, RAISES[name][-1][1], "the last step size of figure 4.4"),
            (1, AT_ONCE[name], "the step size that figure C.7 prints"),
        ):
            lost = proportion(one.direct_outcome.isel(size=place) == Outcome.DIVERGED)
            sentence = f"share of draws that diverge from the start with {size:g}, {size / critical:.1f} critical steps"
            yield of(f"from-start-{size:g}", sentence).at_least(
                0.5, lost, "figure C.7: it diverges, in most draws at least", note=which
            )
        yield from _judge_automatic(of, one, config)


def _judge_raises(of: Callable[..., Claim], name: str, one: xr.Dataset, config: Config) -> Findings:
    """The claims about raises to a step above the critical one at that time; nothing is claimed about other raises."""
    found, whole = [], one.isel(draw=(one.outcome != Outcome.DIVERGED).values)
    runs = [until_its_end(whole.isel(draw=i)) for i in range(whole.sizes["draw"])]
    if not runs:
        yield of("follow", "catapults that follow raises").undecided(1.0, "every draw diverges")
        return
    for (begin, size), (end, _) in itertools.pairwise((*RAISES[name], (config.steps, np.nan))):
        seen = xr.concat([_raise(run, begin, end) for run in runs], "draw", join="outer")
        counted = seen.where(seen.above > 1)
        found.append(counted)
        above = counted.above.dropna("draw")
        yield of(
            f"rise-{size:g}",
            f"share of draws whose loss rises to {RISE:g} times the smallest before, step size {size:g}",
            given=above.size,
            otherwise="in no draw the step is above the critical one then",
        ).equal(
            1.0,
            estimate(counted.height.dropna("draw") > RISE),
            0,
            "every raise above the critical step triggers a catapult",
            note=f"{above.size} of {len(runs)} draws are above the critical step then, {float(above.mean()):.2f} of it"
            f" on average; the loss rises to {float(np.exp(np.log(counted.height).mean())):.3g} times, geometric mean",
        )
    every = xr.concat(found, "raise", join="outer").mean("raise")
    yield of("share", f"rise within {config.top} directions over all of it, mean over raises and draws").at_least(
        1.0, estimate(every.share), "the rest may add a tenth of the spike, as in figure 4.3", slack=0.1
    )
    yield of("kernel", "ln of the norm of the kernel after a raise over before, mean over raises and draws").at_most(
        0.0, estimate(every.kernel), "each catapult lowers it", note="between catapults it grows again"
    )


def _raise(run: xr.Dataset, begin: int, end: int) -> xr.Dataset:
    """One draw between two raises: NaN if it has ended before, or if the loss does not rise."""
    part = run.sel(step=slice(begin, end))
    loss, within, critical = (part[key].values.astype(float) for key in ("loss", "within", "critical"))
    if len(loss) < 2:
        return xr.Dataset(dict.fromkeys(("above", "height", "share", "kernel"), np.nan))
    peak = int(np.argmax(loss / np.minimum.accumulate(loss)))
    foot = int(np.argmin(loss[: peak + 1]))
    rise, (first, last) = loss[peak] - loss[foot], critical[[0, -1]]
    alive = 0 < first < np.inf and 0 < last < np.inf  # a network that has died has no kernel
    return xr.Dataset(
        {
            "above": float(part.lr[0]) / first,
            "height": loss[peak] / loss[foot],
            "share": (within[peak] - within[foot]) / rise if rise > 0 else np.nan,
            "kernel": np.log(first / last) if alive else np.nan,
        }
    )


def _judge_automatic(of: Callable[..., Claim], one: xr.Dataset, config: Config) -> Findings:
    count, sizes, begun, loss = (one[f"auto_{key}"].dropna("step").values for key in ("count", "lr", "begun", "loss"))
    done = np.flatnonzero(count >= config.catapults)
    after, thrown = loss[done[0] if len(done) else len(loss) :], sizes[np.flatnonzero(np.diff(begun, prepend=0))]
    yield of(
        "automatic",
        "catapults of the automatic run",
        given=not count[-1] < config.catapults == begun[-1],
        otherwise="the run ends while the last of them has not come down; take more steps",
    ).equal(config.catapults, count[-1], 0, "so many are asked for")
    falls = "with half the critical step it only falls, to the rounding of float32"
    yield of(
        "automatic-rest",
        "largest rise of the loss in a step after the last catapult of the automatic run",
        given=len(after) > 1,
        otherwise="the run ends before",
    ).at_most(1.0, lambda: (after[1:] / after[:-1]).max(), falls, slack=1e-5)
    yield of(
        "automatic-sizes",
        "step size of a catapult of the automatic run over that of the catapult before, the least",
        given=len(thrown) > 1,
        otherwise="the run does not have two",
    ).at_least(
        1.0,
        lambda: (thrown[1:] / thrown[:-1]).min(),
        "each catapult lowers the norm of the kernel and so raises the critical step",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    count = len(config.panels)
    grid = sheet.panels(figure, (11, 2.0 + 2.9 * count), 3, count, squeeze=False)
    for (loss, sizes, auto), name in zip(grid, config.panels, strict=True):
        one = data.sel(panel=name).isel(draw=0)
        loss.semilogy(one.step, one.within, color="C0", lw=1.5, label=rf"$\mathcal{{L}}_{{\leq {config.top}}}$")
        loss.semilogy(one.step, one.beyond, color="C1", lw=1.5, label=rf"$\mathcal{{L}}_{{> {config.top}}}$")
        low, high = loss.get_ylim()
        for place, size, style in ((0, RAISES[name][-1][1], ":"), (1, AT_ONCE[name], "--")):
            direct = one.direct.isel(size=place, one=0)
            shown = direct.where(direct < 3 * high)
            loss.semilogy(one.step, shown, color="C3", ls=style, lw=1.3, label=f"{size:g} from the start")
        loss.set(title=f"{PANELS[name].title}, raised twice", ylabel="loss", ylim=(low, 3 * high))
        sizes.plot(one.step, one.critical, color="C2", lw=1.6, label=r"critical, $n/\|K\|_2$")
        auto.semilogy(one.step, one.auto_loss, color="C0", lw=1.5, label="loss")
        auto.semilogy(one.step, one.auto_critical, color="C2", lw=1.5, label="critical")
        auto.set_title(f"Automatic, {config.catapults} catapults")
        for axes, size in ((sizes, one.lr), (auto, one.auto_lr)):
            sheet.guide(axes, one.step, size, r"step size $\eta$", lw=1.3, drawstyle="steps-post")
        sizes.set(title="Step sizes", ylim=(0, None))
        for axes in (loss, sizes, auto):
            sheet.label(axes, x="step", legend={"fontsize": 8})
