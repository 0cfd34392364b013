"""Figure 9.2: the more labels are random, the larger the measure of complexity, and the error on new images."""

import math

import numpy as np
import xarray as xr
from scipy import stats

from secant.kernels import label_complexity
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study
from secant.studies.shared.first_layer import descend, limit_kernel, pairs, unit_task

TITLES = {"digits": "8 by 8 digits", "mnist": "MNIST", "cifar10": "CIFAR-10"}
SEEN = {"loss": "l1 loss", "wrong": "classification error"}
RECORDED = ("complexity", "loss", "wrong", "left", "bounded")
DELTA = 0.01
"""Chance with which the bound may be missed."""


class Config(Seeded):
    panels: tuple[str, ...] = scaled(
        smoke=("digits",),
        laptop=("mnist", "cifar10"),
        longest=3,
        distinct=True,
        help=f"data sets, of {', '.join(TITLES)}",
    )
    classes: tuple[int, int] = option((0, 1), at_least=0, distinct=True, help="two classes, +1 and -1")
    fractions: tuple[float, ...] = scaled(
        smoke=(0.0, 0.25, 0.5, 0.75, 1.0),
        laptop=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        paper=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        at_least=0,
        at_most=1,
        shortest=3,
        longest=21,
        ascending=True,
        help="shares of random labels",
    )
    samples: int = options.samples(40, 200, 500, at_least=8, at_most=2_000)
    tests: int = scaled(smoke=100, laptop=400, at_least=10, at_most=10**4, help="test samples, at most")
    width: int = options.width(256, 1_024, 8_192, at_least=64, at_most=10**6)
    steps: int = options.steps(200, 400, 5_000, at_least=20, at_most=10**5)
    draws: int = options.draws(8, 5, at_least=3, at_most=100)

    def check(self) -> None:
        """Networks that a machine holds, and panels that there are."""
        for name in self.panels:
            if name not in TITLES:
                raise ValueError(f"panels: there is no {name!r}. There are {', '.join(TITLES)}.")
        fits_memory(
            50.0 * self.width * (self.samples + self.tests) + 16.0 * self.steps * self.samples * len(self.fractions),
            "width, samples or steps",
        )


@study("book/fig-9.2", section="9.3", title="A measure of complexity that follows the error")
def run(config: Config) -> xr.Dataset:
    r"""In two classes of images a share of the labels is drawn at random, and a wide layer of ReLU in front of fixed
    signs learns them. Three numbers grow with the share of random labels: the mean distance of the outputs from the
    true labels of new images, the share of new images with a wrong sign, and the measure
    $\sqrt{2\,y\cdot(H^*)^{-1}y\ \mathrm{tr}\,H^*}/n$ of equation (9.11). The measure needs the training data alone, and
    bounds the error.
    """
    found = {name: np.empty((len(config.panels), config.draws, len(config.fractions))) for name in RECORDED}
    for p, panel in enumerate(config.panels):
        for draw in range(config.draws):
            rng = np.random.default_rng((config.seed, draw, p))
            task = unit_task(panel, config.classes, config.samples, config.tests, config.seed + draw)
            kernel = limit_kernel(task.train.x)
            # All shares have one order of samples: a larger share contains the random labels of a smaller one.
            order, random = rng.permutation(config.samples), rng.choice([-1.0, 1.0], config.samples)
            counts = [round(fraction * config.samples) for fraction in config.fractions]
            place = np.argsort(order)
            labels = np.stack([np.where(place < count, random, task.train.y) for count in counts])
            w, a = pairs(rng, config.width, task.train.x.shape[1])
            rate = 1 / np.linalg.eigvalsh(kernel)[-1]
            residuals, outputs = descend(w, a, task.train.x, labels, rate, config.steps, task.test.x)
            limit = np.linalg.solve(kernel, labels.T).T @ limit_kernel(task.train.x, task.test.x)
            at = p, draw
            found["complexity"][at] = [label_complexity(kernel, y) for y in labels]
            found["loss"][at] = np.abs(outputs - task.test.y).mean(1)
            found["wrong"][at] = (outputs * task.test.y <= 0).mean(1)
            found["left"][at] = np.linalg.norm(residuals[-1], axis=1) / math.sqrt(config.samples)
            found["bounded"][at] = np.minimum(np.abs(limit - task.test.y), 1).mean(1)
    return xr.Dataset(
        {name: (("panel", "draw", "fraction"), values) for name, values in found.items()},
        coords={"panel": list(config.panels), "fraction": list(config.fractions)},
        attrs=task.attributes(),
    )


def ranks(one: xr.DataArray, other: xr.DataArray) -> np.ndarray:
    """Rank correlation over shares, of every draw."""
    return np.array([stats.spearmanr(a, b).statistic for a, b in zip(one.values, other.values, strict=True)])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    slack = 3 * math.sqrt(math.log(2 / DELTA) / (2 * config.samples))
    for panel in config.panels:
        one, title = data.sel(panel=panel), TITLES[panel]
        for name, words in SEEN.items():
            yield claim(
                f"order-{name}-{panel}",
                f"{title}: rank correlation of the measure with the {words}, over shares of random labels",
            ).at_least(0.5, estimate(ranks(one.complexity, one[name])), "halfway to a common order")
        for name, words in {"complexity": "measure", **SEEN}.items():
            rise = one[name].isel(fraction=-1) - one[name].isel(fraction=0)
            yield claim(
                f"rise-{name}-{panel}", f"{title}: rise of the {words} from fewest to most random labels"
            ).at_least(0.0, estimate(rise), "it rises")
        sentence = f"{title}: error of the widest network on true labels beyond the measure, largest"
        why = f"the bound's own term for {config.samples} samples, with probability {1 - DELTA:g}"
        yield claim(f"bound-{panel}", sentence, given=config.fractions[0] == 0, otherwise="no share is zero").at_most(
            slack, (one.bounded - one.complexity).where(one.fraction == 0).max(), why
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = np.atleast_1d(sheet.panels(figure, (6.5 * len(config.panels), 4.2), len(config.panels)))
    for axes, panel in zip(panels, config.panels, strict=True):
        one = data.sel(panel=panel)
        for i, (name, words) in enumerate((("complexity", "measure (9.11)"), *SEEN.items())):
            sheet.spread(axes, one[name], "draw", words.replace("l1", r"$\ell_1$"), color=f"C{i}")
        top = 1.35 * float(one.complexity.max())
        sheet.label(axes, TITLES[panel], "share of random labels", None, "upper left", ylim=(0, top))
