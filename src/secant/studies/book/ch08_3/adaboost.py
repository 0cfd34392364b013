"""Section 8.3: AdaBoost is coordinate descent on the exponential loss, and small steps find the largest l1 margin."""

import math
from typing import Any

import numpy as np
import xarray as xr

from secant import data as datasets
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real
from secant.theory.bias.margins import TIED, boost, max_margin

STEPS = (0.1, 0.03, 0.01)
SIGNS = "-++++--+ -++--+++ +-+++-++ +-++-++- +-+-+++- ++-++++- ++-+++-+ ++++--+-"
CYCLE = np.array([[1.0 if sign == "+" else -1.0 for sign in row] for row in SIGNS.split()])
"""Eight samples and eight learners: AdaBoost cycles through three of them for ever, and misses the largest margin."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="breast-cancer", help="random, or a data set that secant.data knows")
    samples: int = options.samples(40, 200, at_least=10, at_most=500)
    learners: int = scaled(smoke=30, laptop=300, at_least=5, at_most=1_000, help="weak learners")
    right: float = option(0.7, at_least=0.6, at_most=0.9, help="share of samples on which a random learner is right")
    rounds: int = scaled(smoke=150, laptop=2_000, at_least=20, at_most=10**5, help="rounds beside scikit-learn")
    path: int = scaled(smoke=3_000, laptop=40_000, at_least=2_000, at_most=10**6, help="rounds of small steps")


def stumps(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Whether each feature of real data is above some of its quantiles, 1 or -1, and labels."""
    chosen: dict[str, Any] = {"classes": config.classes, "samples": config.samples, "seed": config.seed}
    x, y = datasets.load(config.data, test_samples=1, labels="signs", dtype=np.float64, **chosen).train
    levels = np.linspace(0, 1, max(1, config.learners // x.shape[1]) + 2)[1:-1]
    said = np.where(x[:, :, None] > np.quantile(x, levels, axis=0).T, 1.0, -1.0).reshape(len(x), -1)
    said = np.unique(said, axis=1)
    # Line search would have no end with a learner that is always right or wrong, or gives all samples one label.
    return said[:, (np.abs(said.sum(0)) < len(x)) & (np.abs(y @ said) < len(x))], y


def learners(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """What random learners answer, -1 or 1, and labels; the largest margin of the learners is positive."""
    y = random.choice([-1.0, 1.0], size=config.samples)
    y[:2] = 1.0, -1.0
    said = np.where(random.random((config.samples, config.learners)) < config.right, y[:, None], -y[:, None])
    # No learner is always right or wrong; the mean of all of them is right on every sample.
    for j in range(config.learners):
        if abs((said[:, j] * y).sum()) == config.samples:
            said[j % config.samples, j] *= -1
    weak = np.flatnonzero((said * y[:, None]).sum(1) <= 0)
    for i in weak:
        wrong = np.flatnonzero(said[i] != y[i])
        said[i, wrong[: len(wrong) - (config.learners - 1) // 2]] *= -1
    return said, y


def promised(step: float, samples: int, rounds: int, largest: float) -> float:
    """The certain share of the largest margin: log L begins at log n and falls by step (margin - step/2) a round."""
    return 1 - step / (2 * largest) - math.log(samples) / (step * rounds * largest)


def by_scikit(said: np.ndarray, y: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The learner that scikit-learn's AdaBoost takes each round, and its weight."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import AdaBoostClassifier

    class Learner(ClassifierMixin, BaseEstimator):
        """The weak learner of both programs: it chooses the column with the largest edge, or its opposite."""

        def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> "Learner":
            self.classes_ = np.unique(y)
            edges = (sample_weight * y) @ X
            self.j_ = int(np.argmax(np.abs(edges) >= (1 - TIED) * np.abs(edges).max()))
            self.sign_ = 1.0 if edges[self.j_] > 0 else -1.0
            return self

        def predict(self, X: np.ndarray) -> np.ndarray:
            return self.sign_ * X[:, self.j_]

    found = AdaBoostClassifier(Learner(), n_estimators=rounds, learning_rate=1.0).fit(said, y)
    columns = np.array([one.j_ for one in found.estimators_])
    return columns, np.array([one.sign_ for one in found.estimators_]) * found.estimator_weights_[: len(columns)]


@study("book/adaboost", section="8.3", title="AdaBoost is coordinate descent")
def run(config: Config) -> xr.Dataset:
    r"""With weak learners for coordinates, AdaBoost is coordinate descent on the exponential loss with exact line
    search: it moves the weight of the learner with the largest edge $r$ by $\frac12\log\frac{1 + r}{1 - r}$. Steepest
    descent in $\ell_1$ with small steps reaches the largest $\ell_1$ margin. Steps of exact line search do not get
    small, and AdaBoost can miss this margin.
    """
    drawn = config.data == real.RANDOM
    said, y = learners(np.random.default_rng(config.seed), config) if drawn else stumps(config)
    Z = said * y[:, None]
    columns, alphas = by_scikit(said, y, config.rounds)
    ours = boost(Z, len(columns))
    small = [boost(Z, config.path, step=step) for step in STEPS]
    cycle, fine = boost(CYCLE, 2_000), boost(CYCLE, config.path, step=STEPS[-1])
    kept = np.unique(np.geomspace(1, config.path, 80).astype(int)) - 1
    return xr.Dataset(
        {
            "column": (("program", "round"), np.stack([columns, ours.columns])),
            "weight": (("program", "round"), np.stack([alphas / 2, ours.steps])),
            "log_loss": ("round", ours.log_loss),
            "margin": ("round", ours.margins),
            "small": (("step", "at"), np.stack([one.margins[kept] for one in small])),
            "taken": ("turn", cycle.columns[-60:]),
            "turned": ("rounds", cycle.margins),
            "fine": ("at", fine.margins[kept]),
            "fine_largest": max_margin(CYCLE, 1).margin,
            "largest": max_margin(Z, 1).margin,
            "z": (("sample", "learner"), Z),
        },
        coords={"program": ["scikit-learn", "ours"], "step": list(STEPS), "at": kept + 1},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ours, theirs = (data.sel(program=name) for name in ("ours", "scikit-learn"))
    others, apart = int((ours.column != theirs.column).sum()), np.abs(ours.weight - theirs.weight).max()
    yield claim("learners", "rounds in which scikit-learn takes another learner").count(0, others)
    yield claim("weights", "steps against half of scikit-learn's weights").zero(
        apart, 1e-9, "rounding of weights that many rounds multiply"
    )
    Z, w, slopes = data.z.values, np.zeros(data.sizes["learner"]), []
    for j, step in list(zip(ours.column.values, ours.weight.values, strict=True))[:20]:
        w[j] += step
        slopes.append(abs(np.exp(-Z @ w) @ Z[:, j]) / np.exp(-Z @ w).sum())
    name = r"slope of $\log L$ along the learner after its step, twenty rounds"
    yield claim("line-search", name).zero(max(slopes), 1e-13, "line search")
    growth, largest, eight = data.log_loss.diff("round").max(), float(data.largest), float(data.fine_largest)
    yield claim("descent", r"largest growth of $\log L$ in a round").at_most(0.0, growth, "it descends")
    why = r"1 less half a step over the margin, less $\log n$ over the path, with $n$ samples"
    for step in STEPS:
        found, bound = data.small.sel(step=step)[-1] / largest, promised(step, config.samples, config.path, largest)
        steps = f"steps of {step:g}"
        yield claim(f"small-{step:g}", f"{steps}: margin at the end over the largest").at_least(bound, found, why)
        yield claim(f"largest-{step:g}", f"{steps}: this margin over the largest, as a bound").at_most(
            1.0, found, "no margin is larger", slack=1e-10
        )
    found, bound = float(data.fine[-1] / eight), promised(STEPS[-1], 8, config.path, eight)
    yield claim("eight-small", "eight samples, small steps: margin over the largest").at_least(
        bound, found, "the bound for small steps"
    )
    name = "eight samples, exact line search: margin over the largest after 2,000 rounds"
    yield claim("eight-exact", name).at_most(
        0.95, float(data.turned[-1] / eight), "it cycles for ever", note="the largest is 3/8, and it reaches 1/3"
    )
    yield claim("eight-margin", "eight samples, exact line search: margin").equal(
        1 / 3, data.turned[-1], 1e-3, "its cycle of three"
    )
    turns = len(np.unique(data.taken.values))
    yield claim("eight-cycle", "eight samples: learners that still take turns").count(3, turns, "a cycle of three")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, step in enumerate(STEPS):
        left.plot(data["at"], data.small.sel(step=step), color=f"C{i}", label=f"steps of {step:g}")
    right.plot(np.arange(1, data.sizes["rounds"] + 1), data.turned, color="C3", label="AdaBoost")
    left.plot(np.arange(1, data.sizes["round"] + 1), data.margin, color="C3", label="AdaBoost")
    right.plot(data["at"], data.fine, color="C2", label=f"steps of {STEPS[-1]:g}")
    first, largest = f"{data.sizes['learner']} learners, {config.samples} samples", float(data.largest)
    for axes, title, most, limits in (
        (left, first, largest, (-largest, 1.2 * largest)),
        (right, "Eight samples on which AdaBoost cycles", float(data.fine_largest), (-0.05, 0.42)),
    ):
        sheet.mark(axes, y=most, label=r"largest $\ell_1$ margin")
        sheet.label(axes, title, "round", "margin", "lower right", xscale="log", ylim=limits)
