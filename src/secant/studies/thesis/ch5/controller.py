"""Chapter 5: a step size that knows the critical one, against schedules that do not."""

from typing import Any

import jax
import numpy as np
import xarray as xr
from scipy import stats

from secant.data import NAMES, TARGETS
from secant.dynamics import Outcome
from secant.lab import Figure, Findings, Options, claim, estimate, option, options, scaled, sheet, study
from secant.lab.verdicts.significance import falling_trend
from secant.studies.shared.catapults import controllers
from secant.studies.shared.catapults.controllers import CONTROLLED, SCHEDULES, is_regression
from secant.studies.shared.features.limits import check_memory


class Config(Options):
    tasks: tuple[str, ...] = scaled(
        smoke=("rank-2",),
        laptop=("rank-2", "usps"),
        paper=("rank-2", "usps", "mnist", "fashion-mnist"),
        distinct=True,
        help="synthetic targets, and data sets of ten classes",
    )
    schedules: tuple[str, ...] = scaled(
        smoke=("constant", CONTROLLED), laptop=SCHEDULES, distinct=True, help=f"some of {', '.join(SCHEDULES)}"
    )
    ratios: tuple[float, ...] = options.ratios(
        (0.5, 8.0),
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        at_least=1e-2,
        at_most=100,
        shortest=2,
        ascending=True,
    )
    catapults: tuple[int, ...] = scaled(
        smoke=(0, 1, 2),
        laptop=(0, 1, 2, 4),
        paper=(0, 1, 2, 4, 8),
        at_least=0,
        at_most=100,
        shortest=3,
        ascending=True,
        help="numbers of catapults on purpose, rising",
    )
    over: float = option(1.5, at_least=1.01, at_most=4, help="step size over the critical one in a catapult")
    rest: int = scaled(smoke=10, laptop=25, paper=50, at_least=1, at_most=10**6, help="steps before each catapult")
    width: int = options.width(64, 128, 512, at_least=8)
    samples: int = options.samples(80, 1_000, 4_000, at_least=10)
    held_out: int = scaled(smoke=200, laptop=1_000, at_least=10, help="samples for validation, and for testing")
    dim: int = options.dim(10, 50, 100, at_least=2)
    batch: int = options.batch(80, 50, 100)
    steps: int = options.steps(120, 500, 4_000, at_least=10, at_most=10**6)
    look: int = scaled(smoke=20, laptop=20, paper=40, at_least=1, help="steps between two looks at held-out samples")
    draws: int = options.draws(8, 4, 8, at_least=3, at_most=1_000)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses unknown tasks and schedules, a controller without a rival, and runs without a look."""
        for name in self.tasks:
            if name not in (*TARGETS, *NAMES):
                raise ValueError(f"tasks: there is no {name!r}. There are {', '.join((*TARGETS, *NAMES))}.")
            if is_regression(name) and self.dim < TARGETS[name].least_dim:
                raise ValueError(f"dim: must be at least {TARGETS[name].least_dim} for {name}, got {self.dim}.")
        if unknown := sorted(set(self.schedules) - set(SCHEDULES)):
            raise ValueError(f"schedules: there is no {', '.join(unknown)}. There are {', '.join(SCHEDULES)}.")
        if CONTROLLED not in self.schedules or len(self.schedules) < 2:
            raise ValueError(f"schedules: must have {CONTROLLED!r} and another to compare, got {self.schedules}.")
        if self.look > self.steps:
            raise ValueError(f"look: must be at most the number of steps, {self.steps}, got {self.look}.")
        runs = self.draws * max(len(self.ratios) * len(self.schedules), len(self.catapults))
        check_memory(
            draws=runs,
            samples=self.samples,
            held_out=self.held_out,
            dim=max(self.dim, 784),
            width=self.width,
            steps=self.steps // self.look,
            deep=True,
        )


@study("thesis/controller", section="5", title="A step size that knows the critical one", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""'It would be promising to develop an algorithm that is aware of the critical learning rate and adapts the
    learning rate to be larger than the critical one. Therefore, a greater number of catapults will occur during
    training and possibly it leads to a better generalization.' Two such algorithms, `secant.control`, measure
    $\eta_{\mathrm{crit}} = 2/\lambda_{\max}(H)$ of the batch at every step. The first keeps the step at $\min(\eta,
    0.9\,\eta_{\mathrm{crit}})$, whatever $\eta$ is given. The second exceeds $\eta_{\mathrm{crit}}$ a given number of
    times on purpose and then settles below.

    The study compares both with a constant step, a warm-up over the first tenth and a cosine. Each has the same step
    sizes, the same number of steps and the same batches, on $f^*(x) = x_1x_2$ and on images of ten classes, with mean
    square loss. The score is the test loss, for images the error, at the look with the smallest validation loss.

    - Does the first controller spare the search for a step size?
    - Is this controller as good as the best schedule with the best step size?
    - Do catapults on purpose generalise better?

    A step with a controller costs about four times as much as a step without. The comparison does not count this cost.
    """
    panels = [_panel(task, config) for task in config.tasks]
    return xr.concat(panels, "task", join="outer").assign_coords(task=list(config.tasks))


def _panel(task: str, config: Config) -> xr.Dataset:
    sizes = config.width, config.samples, config.held_out, config.dim, min(config.batch, config.samples)
    setting = controllers.Setting(task, *sizes, config.steps, config.look)
    net = controllers.network_for(setting)
    seeds = range(config.seed, config.seed + config.draws)
    draws = jax.tree.map(lambda *leaves: np.stack(leaves), *(controllers.draw(net, setting, seed) for seed in seeds))
    kinds = [SCHEDULES.index(name) for name in config.schedules if name != CONTROLLED]
    free, kept, thrown = (
        controllers.runs(net, setting, rule, ratios, variants, draws, f"{task}, {label}")
        for rule, ratios, variants, label in (
            (controllers.scheduled(config.steps), config.ratios, kinds, "schedules"),
            (controllers.below_critical, config.ratios, [0], CONTROLLED),
            (controllers.thrown(config.over, config.rest), [1.0], config.catapults, "catapults"),
        )
    )
    by_name = xr.concat([free, kept], "variant", join="outer").rename(variant="schedule")
    by_count = thrown.isel(ratio=0).rename({"variant": "catapults"} | {name: f"thrown_{name}" for name in thrown})
    return xr.merge([by_name, by_count]).assign_coords(
        schedule=[*(SCHEDULES[kind] for kind in kinds), CONTROLLED],
        ratio=list(config.ratios),
        catapults=list(config.catapults),
        seed=list(seeds),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for task in config.tasks:
        # Logarithms are compared, so no error among so many samples counts as half an error.
        least = 0.0 if is_regression(task) else 0.5 / config.held_out
        one = data.sel(task=task)
        yield from _of_task(one.assign({name: one[name].clip(least) for name in ("score", "thrown_score")}), task)


def _of_task(data: xr.Dataset, task: str) -> Findings:
    names, unit = data.schedule.values.tolist(), _unit(task)
    others = [name for name in names if name != CONTROLLED]
    lost = (data.outcome == Outcome.DIVERGED).mean(("seed", "ratio"))
    note = "; ".join(f"{name} {float(lost.sel(schedule=name)):.0%}" for name in others)
    why = "below the critical step the loss of the batch falls, whatever the step given"
    name = f"{task}, {CONTROLLED}: share of the runs that diverge, over all step sizes given"
    yield claim(f"{task}-diverged", name).zero(lost.sel(schedule=CONTROLLED), 0, why, note=note)
    best = {name: controllers.tuned(data.sel(schedule=name)) for name in names}
    untuned = np.log(data.score).mean("ratio")
    for name in others:
        gain = (untuned.sel(schedule=name) - untuned.sel(schedule=CONTROLLED)).values
        p = float(stats.ttest_1samp(gain, 0.0, alternative="greater").pvalue)
        sentence = f"{task}: a smaller test {unit}, on average over step sizes given, than {name}"
        ratio = f"{np.exp(-gain.mean()):.3f} of it"
        yield claim(f"{task}-untuned-{name}", sentence).significant(p, "paired over seeds", ratio)
    champion, most = min(others, key=lambda name: float(np.log(best[name]).mean())), int(data.catapults[-1])
    rivals = {CONTROLLED: best[CONTROLLED], f"{most} catapults": data.thrown_score.sel(catapults=most)}
    scores = ", ".join(f"{name} {float(found.mean()):.3g}" for name, found in (best | rivals).items())
    sentence = f"ln of the test {unit} over that of the best schedule, its step size chosen by validation"
    for key, (name, values) in zip(("controlled", "catapults"), rivals.items(), strict=True):
        apart = np.log(values / best[champion]).values
        note = f"{np.exp(apart.mean()):.3g} times it; best is {champion}; {scores}"
        yield claim(f"{task}-tuned-{key}", f"{task}, {name}: {sentence}").at_most(
            0.0, estimate(apart), "as good as the best of them", note=note
        )
    rho, p = falling_trend(np.log(data.thrown_score), "catapults")
    by_number = ", ".join(f"{float(value):.3g}" for value in data.thrown_score.mean("seed"))
    diverged = data.thrown_outcome == Outcome.DIVERGED
    runs = f"{int(diverged.sum())} of {diverged.size} runs diverge"
    name = f"{task}: a test {unit} that falls with the number of catapults on purpose"
    yield claim(f"{task}-trend", name).significant(
        p, "by permutation within seeds", f"Spearman correlation {rho:.2f}; by number {by_number}; {runs}"
    )


def _unit(task: str) -> str:
    return "loss" if is_regression(task) else "error"


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    def spread(axes: Any, places: Any, values: xr.DataArray, **look: Any) -> None:
        error = values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])
        axes.errorbar(places, values.mean("seed"), error, fmt="o-", **look)

    rows = len(config.tasks)
    panels = sheet.panels(figure, (9.5, 3.4 * rows), 2, rows, squeeze=False, width_ratios=(1.6, 1))
    for (left, right), task in zip(panels, config.tasks, strict=True):
        one, score = data.sel(task=task), f"test {_unit(task)}"
        for i, name in enumerate(data.schedule.values.tolist()):
            look = {"lw": 2.4, "zorder": 4} if name == CONTROLLED else {"lw": 1.4}
            spread(left, one.ratio, one.score.sel(schedule=name), ms=4, capsize=2, color=f"C{i}", label=name, **look)
        left.set_xscale("log")
        sheet.ticks(left, one.ratio.values)
        left.minorticks_off()
        sheet.label(left, task, "step size given, over the critical one at the start", score, yscale="log")
        left.yaxis.set_major_formatter("{x:g}")
        left.yaxis.set_minor_formatter("{x:g}")
        values, places = one.thrown_score, np.arange(one.sizes["catapults"])
        right.plot(places, values.transpose("catapults", "seed"), "o", ms=3, color="C4", alpha=0.35)
        spread(right, places, values, color="C4", capsize=3)
        right.set_xticks(places, [str(count) for count in values.catapults.values])
        sheet.label(right, x="catapults on purpose", y=score, ylim=(0, 1.05 * values.max()))
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
