"""Table 4.1 and figure 4.9: smaller batches, more catapults, better features."""

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Options, claim, option, options, scaled, study
from secant.studies.shared.features.batch_claims import draw_sizes, order_findings
from secant.studies.shared.features.batch_sizes import Setting, batch_sizes
from secant.studies.shared.features.limits import check_runs
from secant.studies.shared.features.tasks import Sizes, feature_task

PRINTED = {2_000: (0.81, 0.74), 50: (0.84, 0.71), 10: (0.89, 0.59), 5: (0.95, 0.42)}
"""Alignment and test loss of the table, means of three runs, by batch size."""

RUNS = 3
"""Runs behind each number of the table."""


class Config(Options):
    batches: tuple[int, ...] = options.batches(
        (4, 200), (5, 10, 50, 2_000), (5, 10, 50, 100, 2_000), shortest=2, ascending=True
    )
    width: int = options.width(96, 1_024, at_least=8)
    samples: int = options.samples(200, 2_000, at_least=8)
    held_out: int = scaled(smoke=200, laptop=5_000, at_least=10, help="for validation, and for testing")
    dim: int = options.dim(20, 100, at_least=2)
    share: float = option(0.5, at_least=1e-3, at_most=2, help="step size over the critical one of all samples")
    goal: float = scaled(smoke=2e-2, laptop=1e-3, at_least=1e-6, at_most=1, help="training loss at which a run ends")
    epochs: int = scaled(smoke=100, laptop=40, paper=60, at_least=1, help="passes over the data at most")
    steps: int = options.steps(600, 4_000, 6_000, at_least=20)
    draws: int = options.draws(6, 6, 9, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses batches larger than the data, and what no memory holds."""
        check_runs(self)


@study("thesis/table-4.1", section="4.4", title="Smaller batches, better features", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""A two-layer ReLU network of width 1024 learns $f^*(x) = x_1x_2$ from 2,000 noisy samples in 100 dimensions by
    stochastic gradient descent with a constant step, half the critical one of all samples. A batch of $b$ samples has a
    critical step of its own, $b/\lambda_{\max}(K_b)$, which is smaller for smaller batches: the smaller the batch, the
    more steps exceed it, each a catapult. The alignment of the network's average gradient outer product with that of
    the target grows then, and the test loss falls (table 4.1, figure 4.9a).

    Batches are drawn without replacement, epoch by epoch. A run ends at a training loss of $10^{-3}$. The study looks
    after each epoch, for the full batch every 20 steps, and reports the look with the smallest validation loss.
    Catapults are counted up to there.
    """
    return batch_sizes(
        feature_task("rank-2", Sizes(config.width, config.samples, config.held_out, config.dim)),
        Setting(config.goal, config.epochs, config.steps),
        config.batches,
        range(config.seed, config.seed + config.draws),
        shares=(config.share,),
    ).isel(share=0, drop=True)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield from order_findings(data)
    runs = data.sizes["seed"]
    for size in [size for size in config.batches if size in PRINTED]:
        for name, what, printed in zip(("aligned", "test"), ("alignment", "test loss"), PRINTED[size], strict=True):
            values = data[name].sel(batch=size)
            error = float(values.std(ddof=1)) * float(np.sqrt(1 / RUNS + 1 / runs))
            yield claim(
                f"{name}-{size}-table",
                f"{what} with batches of {size:,}, against the table",
                given=(config.samples, config.dim, config.width, config.share) == (2_000, 100, 1_024, 0.5),
                otherwise="the table has 2,000 samples in 100 dimensions and width 1,024",
            ).equal(
                printed,
                Estimate(float(values.mean()), error, runs - 1),
                0.005,
                "the table's rounding",
                note=f"the error is that of the difference of our {runs} runs and its {RUNS}, with our spread",
            )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = draw_sizes(data, figure)
    if config.samples != 2_000:
        return
    for axes, column in zip(panels[1:], (0, 1), strict=True):
        shown = [(place, PRINTED[size][column]) for place, size in enumerate(config.batches) if size in PRINTED]
        axes.plot(*np.array(shown).reshape(-1, 2).T, "x", color="C1", ms=8, mew=2, zorder=4, label="the thesis's table")
        axes.legend()
