"""Figure C.17: catapults do not help where every direction matters."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, estimate, option, options, scaled, sheet, study
from secant.lab.verdicts.significance import falling_trend
from secant.studies.shared.catapults import raises
from secant.studies.shared.catapults.raises_drawn import draw_branches, draw_ends
from secant.studies.shared.features.limits import check_memory
from secant.studies.shared.features.tasks import Sizes, feature_task
from secant.theory.wide.relu_gradients import alignment_with_identity


class Config(Options):
    width: int = options.width(128, 1_024, at_least=8)
    samples: int = options.samples(48, 128, at_least=8)
    tests: int = scaled(smoke=200, laptop=2_000, at_least=10, help="test samples")
    dim: int = options.dim(40, 100, at_least=2)
    lr: float = options.lr(6.0, at_least=1e-3, at_most=1e3)
    at: tuple[int, ...] = option(
        (30, 120, 180, 280), at_least=1, ascending=True, help="steps at which the step size is raised"
    )
    to: tuple[float, ...] = option(
        (7.0, 12.0, 40.0, 80.0), at_least=1e-3, at_most=1e4, ascending=True, help="step sizes after each of the raises"
    )
    steps: int = options.steps(1_000, 2_000, 4_000, at_least=20)
    goal: float = option(1e-2, at_least=1e-6, at_most=1, help="training loss at which a run ends")
    every: int = option(20, at_least=2, at_most=10_000, help="steps between two looks")
    draws: int = options.draws(6, 6, 10, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Refuses lists of different lengths, and raises behind the last step."""
        if len(self.to) != len(self.at):
            raise ValueError(f"to: must have as many entries as at, {len(self.at)}, got {len(self.to)}.")
        raises.check_schedule(self.at[-1], self.steps)
        check_memory(
            draws=self.draws,
            samples=self.samples,
            held_out=self.tests,
            dim=self.dim,
            width=self.width,
            steps=self.steps,
            deep=False,
        )


@study("thesis/fig-C.17", section="C.4", title="Catapults where every direction matters", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""For $f^*(x) = \|x\|/\sqrt d$ all input directions matter equally: the expected gradient outer product is
    $I/d^2$. A two-layer ReLU network of width 1024 learns this target from 128 samples by gradient descent. The step
    size of 6 is raised up to four times, to 7, 12, 40 and 80. Unlike for targets of low rank, catapults improve neither
    the alignment of the network's gradient outer product with the truth nor the test loss.

    Here each number of raises is a run of its own from the same start, trained to the same loss. The study judges the
    whole trend: a first, small catapult does lower the test loss a little, but later ones spoil it.

    The theory gives the alignment at the start. Gradients $g$ at inputs $x$ and $x'$ are Gaussian in a wide network,
    each with covariance $\frac12 I$. Half of the neurons that see one input see the other, so the covariance between
    the two is $\frac14 I$: one direction is common to all inputs and holds as much of the trace as the other $d - 1$.
    The alignment with the identity, $\operatorname{tr} G/(\sqrt d\,\|G\|_F)$, is about $2/\sqrt d$.
    """
    task = feature_task("full-rank", Sizes(config.width, config.samples, config.tests, config.dim))
    return raises.raised(
        task,
        lr=config.lr,
        raises=tuple(zip(config.at, config.to, strict=True)),
        steps=config.steps,
        every=config.every,
        seeds=range(config.seed, config.seed + config.draws),
        goal=config.goal,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    end = raises.trained(data)
    for name, what, sign in (("alignment", "alignment falls", 1.0), ("test", "test loss rises", -1.0)):
        rho, p = falling_trend(sign * end[name], "raises")
        means = ", ".join(f"{value:.3g}" for value in end[name].mean("seed").values)
        note = f"Spearman correlation {sign * rho:.2f}, mean over seeds; by raises on average {means}"
        trend = claim(f"{name}-trend", f"{what} with the number of raises")
        yield trend.significant(p, "by permutation within seeds", note)
    yield claim("start", "alignment at the start, mean over draws").equal(
        alignment_with_identity(config.dim, config.samples),
        estimate(data.aligned.isel(raises=0, look=0)),
        0,
        "traces fluctuate by 1/d in their square between draws, and averages over neurons by 1/m",
        relative=2 / config.dim + 2 / config.width,
    )
    thrown = end.where(raises.catapults(data) > 0).mean("raises")
    for name, what, falls in (("alignment", "alignment", False), ("test", "test loss", True)):
        logs = np.log(thrown[name] / end[name].sel(raises=0))
        after = claim(f"{name}-after", f"ln of the {what} after catapults over that after no catapult, mean over draws")
        judged = after.at_least if falls else after.at_most
        both = f"{int(np.isfinite(logs).sum())} draws with both"
        yield judged(0.0, estimate(logs), "no improvement", note=both)
    yield raises.catapults_finding("full rank", data)
    yield raises.trained_finding("full rank", data)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    loss, aligned, test = sheet.panels(figure, (11, 3.6), 3)
    draw_branches(loss, data, "loss")
    loss.set_title("Training loss, one draw", loc="left")
    for axes, name, title in ((aligned, "alignment", "Alignment with the truth"), (test, "test", "Test loss")):
        draw_ends(axes, data, name)
        axes.set_title(title, loc="left")
    aligned.set_ylim(bottom=0)
    test.set_yscale("log")
