"""Figures 4.7, C.8, C.9, C.11, C.12 and C.22: spikes in stochastic training are catapults in the first direction."""

from typing import Literal

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, estimate, option, options, scaled, sheet, study
from secant.measure.events import spikes
from secant.optim import schedules
from secant.studies.shared.about import about
from secant.studies.shared.catapults.panels import DENSE, PANELS, Networks, check_panels, starts_of
from secant.studies.shared.catapults.runs import Looks, descend, ended
from secant.studies.shared.catapults.splits_drawn import draw_splits, legends_beside
from secant.studies.shared.features.limits import check_batches

SPIKE = 1.5
"""A spike rises to at least this many times the loss where it began."""

NEARLY = 0.1
"""This share of a spike, and of all rises, may be elsewhere: the thesis has no number for 'nearly monotone'."""


class Config(Networks):
    panels: tuple[str, ...] = scaled(
        smoke=("shallow",),
        laptop=("fcn", "cnn"),
        paper=("fcn", "cnn", "wide-resnet", "vit", "myrtle"),
        distinct=True,
        help=f"some of {', '.join(PANELS)}",
    )
    samples: int = options.samples(32, 64, 128, at_least=4, at_most=5_000)
    width: int = options.width(256, 1_024, at_least=4)
    batch: int = options.batch(8, 16, 32)
    ratio: float | None = options.ratio(None, at_least=1e-2, at_most=20)
    schedule: Literal["constant", "cyclical"] = option("constant", help="constant, or triangles up and down")
    low: float = option(0.5, at_least=1e-3, at_most=20, help="smallest step of a cycle over the critical one at first")
    high: float = option(2.0, at_least=1e-3, at_most=20, help="largest step of a cycle over the same")
    period: int = scaled(smoke=30, laptop=40, paper=100, at_least=2, at_most=10**6, help="steps of a cycle")
    goal: float = option(1e-3, at_least=1e-8, at_most=1, help="training loss at which a run ends")
    steps: int = options.steps(60, 60, 2_000, at_least=10, at_most=10**6)
    draws: int = options.draws(4, 1, at_most=1_000)

    def check(self) -> None:
        """Refuses unknown panels, batches larger than the data, and a cycle that does not go up."""
        super().check()
        check_panels("panels", self.panels)
        check_batches("batch", self.batch, self.samples)
        if self.low >= self.high:
            raise ValueError(f"low: a cycle goes from low up to high; must be below {self.high}, got {self.low}.")


@study(
    "thesis/fig-4.7", section="4.3.2", title="Spikes of stochastic gradient descent are catapults", precision="float32"
)
def run(config: Config) -> xr.Dataset:
    r"""Stochastic gradient descent trains a 5-layer FCN, a 5-layer CNN, Wide ResNet 10-10, ViT-4 (figures 4.7 and C.8)
    and Myrtle-5 on ten classes (figure C.11), with batches of 32 of 128 images and a constant step size, until the loss
    is below $10^{-3}$. The loss of all samples has many spikes. At every spike $\|K\|_2$, of all samples, drops; the
    spike is in the first eigendirection of the kernel, $\mathcal L_{\le 1}$; and $\mathcal L_{>1}$ falls nearly
    monotonically, with small oscillations. The thesis claims the same for PyTorch's own parametrisation (figure C.9)
    and for synthetic targets in batches of 5 (figure C.22). With a cyclical schedule there are spikes whenever the step
    size rises (figure C.12).

    The step size is the printed one over the printed critical one of figures 4.3 and C.4, times the critical one
    measured here; where it is not printed, 1.5 times that, and for synthetic targets half of it, as in figure 4.9.
    """
    found = []
    for name in config.panels:
        panel = PANELS[name]
        starts, critical = starts_of(name, config, config.draws)
        sizes = np.full(config.steps, panel.ratio if config.ratio is None else config.ratio)
        if config.schedule == "cyclical":
            cycle = schedules.cyclical(config.low, config.high, config.period)
            sizes = np.array([float(cycle(step)) for step in range(config.steps)])
        one = descend(
            starts,
            np.multiply.outer(critical, sizes),
            steps=config.steps,
            looks=Looks(split=(1,), batch=True),
            batch=config.batch,
            goal=config.goal,
            seeds=range(config.seed, config.seed + config.draws),
            together=panel.network in DENSE and panel.outputs == 1,
            label=panel.title,
        )
        found.append(one.isel(s=0, drop=True).rename(run="draw"))
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


def spikes_of(*runs: xr.Dataset) -> np.ndarray:
    """The spikes of all runs that come back: where they begin, how the kernel falls, their share in one direction."""
    rows = []
    for one in runs:
        for spike in spikes(one.loss.values, factor=SPIKE):
            if spike.end is not None:
                rise, within = (float(one[key][spike.peak] - one[key][spike.start]) for key in ("loss", "within"))
                rows.append((spike.start, float(one.critical[spike.start] / one.critical[spike.end]), within / rise))
    return np.reshape(rows, (-1, 3)).T


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        runs = [ended(data.sel(panel=name).isel(draw=draw)) for draw in range(config.draws)]
        _, kernel, share = spikes_of(*runs)
        count = len(kernel)
        of = about(name, PANELS[name].title)
        yield of("spikes", f"spikes that come back, each above {SPIKE:g} times where it began").at_least(
            1.0, count, "otherwise there is nothing to judge"
        )
        # The spikes are the repeats, and their spread is the error.
        few, median = f"{count or 'no'} spike comes back; an error needs two", lambda x: f"median {np.median(x):.3g}"
        spiked = about(name, PANELS[name].title, given=count > 1, otherwise=few)
        yield spiked("kernel", "ln of the norm of the kernel after a spike over before, mean over spikes").at_most(
            0.0, estimate(np.log(kernel)), "it drops", note=median(np.log(kernel)) if count > 1 else ""
        )
        yield spiked("every", "share of spikes at which the norm of the kernel drops").equal(
            1.0, estimate(kernel < 1), 0, "'at every spike'", note=f"{(kernel < 1).sum()} of {count} spikes"
        )
        sentence = "rise of the loss in the first direction over that of the loss, mean over spikes"
        why, note = "the rest oscillates by little: a tenth of the spike", median(share) if count > 1 else ""
        yield spiked("first", sentence).at_least(1.0, estimate(share), why, slack=NEARLY, note=note)
        all_of, beyond = (
            sum(np.clip(np.diff(one[key].values), 0, None).sum() for one in runs) for key in ("loss", "beyond")
        )
        sentence = "all rises of the loss beyond the first direction over all rises of the loss"
        yield of("beyond", sentence, given=all_of > 0, otherwise="the loss never rises").at_most(
            NEARLY, beyond / (all_of or np.nan), "'nearly monotone': a tenth"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    runs = [(PANELS[name].title, 1, ended(data.sel(panel=name).isel(draw=0))) for name in config.panels]
    grid = draw_splits(figure, runs, 3.1)
    for (top, bottom), (_, _, one) in zip(grid.T, runs, strict=True):
        # The part in the first direction passes through zero again and again; a hint of that is enough.
        top.set_ylim(float(one.loss.min()) / 30, 2 * float(one.loss.max()))
        begins = one.step.values[spikes_of(one)[0].astype(int)]
        sheet.mark(bottom, x=begins, label="a spike begins", color="C3", ls="-", lw=0.7, alpha=0.6)
    legends_beside(grid)
