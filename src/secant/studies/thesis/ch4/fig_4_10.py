"""Figures 4.10 and C.23: with a small step size the batch size does not matter."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, estimate, option, options, ratio_of_means, scaled, sheet, study
from secant.studies.shared.features.batch_claims import draw_by_size, draw_curves, gains, goal_finding, measures
from secant.studies.shared.features.batch_sizes import Setting, batch_sizes, ended_well
from secant.studies.shared.features.limits import check_runs
from secant.studies.shared.features.tasks import Sizes, feature_task

LITTLE = 0.25
"""An effect with small steps is little if it is at most this share of the effect with large steps."""

WIDTH_OF_A_LINE = 0.05
"""Two curves coincide if their distance, in units of where they begin, stays below this everywhere."""


class Config(Options):
    batches: tuple[int, ...] = options.batches((4, 40), (5, 50), (5, 10, 50, 100), shortest=2, ascending=True)
    width: int = options.width(96, 256, 1_024, at_least=8)
    samples: int = options.samples(200, 600, 2_000, at_least=8)
    held_out: int = scaled(smoke=200, laptop=1_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = options.dim(20, 50, 100, at_least=2)
    large: float = option(0.5, at_least=1e-3, at_most=2, help="the larger step over the critical one of all samples")
    small: float = option(0.025, at_least=1e-3, at_most=2, help="the smaller step over the same critical one")
    goal: float = scaled(
        smoke=0.1, laptop=5e-2, paper=1e-3, at_least=1e-6, at_most=1, help="training loss at which a run ends"
    )
    epochs: int = scaled(smoke=150, laptop=200, paper=300, at_least=1, help="passes over the data at most")
    steps: int = options.steps(6_000, 24_000, 120_000, at_least=20)
    pause: int = scaled(smoke=5, laptop=10, paper=5, at_least=1, help="passes between two looks")
    draws: int = options.draws(6, 6, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses batches larger than the data, and a smaller step size that is not smaller."""
        check_runs(self)
        if self.small >= self.large:
            raise ValueError(f"small: must be below the larger step size, {self.large}, got {self.small}.")


@study("thesis/fig-4.10", section="4.4", title="With small steps the batch size does not matter", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Smaller batches learn better features because their steps exceed the critical step of their batch. With a step
    size of a fortieth of the critical one of all samples no step exceeds it. Batch size then has little effect on test
    loss and alignment; with half the critical step it has an effect (figure 4.10, on the task of table 4.1,
    $f^*(x) = x_1x_2$). The validation losses on the way do not differ either, step by step (figure C.23).
    """
    return batch_sizes(
        feature_task("rank-2", Sizes(config.width, config.samples, config.held_out, config.dim)),
        Setting(config.goal, config.epochs, config.steps, config.pause),
        config.batches,
        range(config.seed, config.seed + config.draws),
        shares=(config.large, config.small),
        count=False,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    few, *_, many = config.batches
    trained = data.where(ended_well(data))
    for name, sign, what in measures("loss"):
        gain = gains(trained[name], sign, few, many)
        large, small = (gain.sel(share=share).values for share in (config.large, config.small))
        over, steps = ratio_of_means(small, large), "of the critical step"
        why = "'little effect', for which the thesis has no number: a quarter at most"
        note = f"{np.nanmean(small):.3g} and {np.nanmean(large):.3g}"
        yield claim(
            f"{name}-gain", f"{what}: gain of batches of {few} over {many} with {config.large:g} {steps}"
        ).at_least(0.0, estimate(large), "smaller batches, better features")
        sentence = f"{what}: size of the gain with {config.small:g} {steps}, over that with {config.large:g}"
        yield claim(f"{name}-effect", sentence).at_most(LITTLE, over._replace(value=abs(over.value)), why, note=note)
    apart = on_the_way(*(data.sel(batch=size, share=config.small) for size in (few, many)))
    yield claim(
        "validation-loss",
        f"validation loss with {config.small:g} of the critical step: largest distance of batches of {few} and {many}"
        " at the same step, over the loss at the start",
        given=apart,
        otherwise="the two batch sizes have no look in common but the first",
    ).at_most(WIDTH_OF_A_LINE, estimate(apart), "the curves coincide: to a twentieth, about the width of a line")
    yield goal_finding(data)


def on_the_way(few: xr.Dataset, many: xr.Dataset) -> list[float]:
    """The largest distance of two validation curves of each draw at the same step, over the loss at the start."""
    steps = np.intersect1d(few["at"], many["at"])  # NaN, where one has more looks than the other, is not in both
    apart = []
    for seed in range(few.sizes["seed"]):
        both = steps[steps <= min(float(one.stopped_at[seed]) for one in (few, many))]
        lines = [one.curve[seed].values[np.isin(one["at"], both)] for one in (few, many)]
        if len(both) > 1:
            apart.append(np.abs(np.subtract(*lines)).max() / lines[0][0])
    return apart


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (12, 3.6), 3)
    for axes, (name, _, what) in zip(panels, measures("loss"), strict=False):
        for share, colour in ((config.large, "C0"), (config.small, "C1")):
            draw_by_size(axes, data[name].sel(share=share), colour, rf"$\eta = {share:g}\,\eta_{{\mathrm{{crit}}}}$")
        axes.set_title(what.capitalize())
    draw_curves(panels[2], data.sel(share=config.small))
    panels[2].set_title("Validation loss, the smaller step size")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
