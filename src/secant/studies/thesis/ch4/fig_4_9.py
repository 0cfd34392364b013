"""Figures 4.9 and C.18 to C.21: batch sizes, on deeper networks, with wrong labels, and with PyTorch's weights."""

from typing import Literal

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, options, scaled, study
from secant.lab.verdicts.significance import proportion
from secant.studies.shared.features import batch_sizes, limits, tasks
from secant.studies.shared.features.batch_claims import draw_sizes, order_findings
from secant.studies.shared.features.tasks import SHALLOW, TITLES, Sizes, scored


class Config(Options):
    panel: str = scaled(smoke="rank-2", laptop="rank-3", help=f"one of {', '.join(TITLES)}")
    batches: tuple[int, ...] = options.batches((4, 40), (5, 50), (5, 10, 50, 100, 2_000), shortest=2, ascending=True)
    width: int = options.width(96, 256, at_least=8)
    samples: int = options.samples(200, 2_000, at_least=8)
    held_out: int = scaled(smoke=200, laptop=2_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = options.dim(20, 100, at_least=10)
    label_noise: float = option(0.1, at_least=0, at_most=0.5, help="share of wrong labels of real data")
    share: float = option(0.5, at_least=1e-3, at_most=2, help="without lr: step size over the critical one at first")
    halvings: int = option(6, at_least=0, at_most=10, help="without lr: halvings at most, until small batches train")
    lr: float | None = options.lr(None, at_least=1e-6, at_most=1e3)
    parametrization: Literal["ntk", "pytorch"] = scaled(
        smoke="pytorch", laptop="ntk", help="of the weights; PyTorch's has biases too"
    )
    goal: float = scaled(
        smoke=0.1, laptop=1e-2, paper=1e-3, at_least=1e-6, at_most=1, help="training loss at which a run ends"
    )
    epochs: int = scaled(smoke=60, laptop=40, paper=200, at_least=1, help="passes over the data at most")
    steps: int = options.steps(3_000, 16_000, 80_000, at_least=20)
    pause: int = scaled(smoke=2, laptop=2, paper=1, at_least=1, help="passes between two looks")
    draws: int = options.draws(6, 4, 6, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses unknown panels, batches larger than the data, and what no memory holds."""
        tasks.check_panel("panel", self.panel)
        limits.check_runs(self, deep=self.panel not in SHALLOW)


@study(
    "thesis/fig-4.9", section="4.4", title="Smaller batches, better features, in deeper networks", precision="float32"
)
def run(config: Config) -> xr.Dataset:
    r"""As in table 4.1, which is panel a of figure 4.9, stochastic gradient descent has one step size, half the
    critical one of all samples, and batches of several sizes. The smaller the batch, the more catapults, the larger the
    alignment of the gradient outer product with the truth, and the smaller the test loss or error.

    Here four-layer ReLU networks of width 256 learn $f^*(x) = x_1x_2(x_1 + \dots + x_{10})$ (panel b) or, by `panel`,
    the staircase $x_1 + x_1x_2 + x_1x_2x_3 + x_1x_2x_3x_4$, USPS or Fashion-MNIST, two classes with a tenth of the
    labels wrong (figure C.21). PyTorch's own parametrisation should show the same trend (figure C.18); the thesis's
    step size is then 0.01 for both synthetic tasks. On the right are the validation scores on the way (figures C.19 and
    C.20).

    With half the critical step of the start, batches of 5 may not train the deeper networks: their kernel grows. Where
    a draw does not reach the goal of the training loss with the smallest batches, its step is halved until it does, and
    all batch sizes take that one; whether half is enough is a finding.

    For real data the truth is the outer product of a convolutional network that has been trained on all samples with
    true labels.
    """
    sizes = Sizes(config.width, config.samples, config.held_out, config.dim, config.label_noise)
    task = tasks.feature_task(config.panel, sizes._replace(parametrization=config.parametrization))
    limits.check_batches("batches", config.batches[-1], len(task.draw(config.seed).y))
    setting = batch_sizes.Setting(config.goal, config.epochs, config.steps, config.pause)
    runs = task, setting, config.batches, range(config.seed, config.seed + config.draws)
    if config.lr is None:
        found = batch_sizes.largest_that_trains(*runs, share=config.share, halvings=config.halvings)
    else:
        found = batch_sizes.batch_sizes(*runs, lr=config.lr).isel(share=0, drop=True)
    return found.assign(tasks.behind_the_truth(task))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield from tasks.truth_finding(config.panel, data, data.test.where(batch_sizes.ended_well(data)))
    if config.lr is None:
        rungs = [f"{int(count)} with {config.share / 2**i:g}" for i, count in enumerate(data.trained.values)]
        yield claim(
            "smallest-train",
            f"share of draws that batches of {config.batches[0]} train with {config.share:g} of the critical step",
        ).at_least(
            0.5,
            proportion(np.arange(config.draws) < int(data.trained[0])),
            "the thesis trains with half the critical step, whatever the batch size: most draws do",
            note=f"draws that are trained, of {config.draws}: {', '.join(rungs)} of the critical step or more",
        )
    yield from order_findings(data, scored(data))


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = draw_sizes(data, figure, scored(data), curves=True)
    title = TITLES[config.panel]
    panels[0].set_title(f"{title[0].upper()}{title[1:]}\nshare of steps beyond critical")
