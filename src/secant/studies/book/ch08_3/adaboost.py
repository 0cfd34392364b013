"""Section 8.3: AdaBoost is coordinate descent on the exponential loss, and small steps find the largest l1 margin."""

import math

import numpy as np
import xarray as xr

from secant import data as datasets
from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real
from secant.theory.bias.margins import TIED, boost, max_margin

STEPS = (0.1, 0.03, 0.01)
CYCLE = np.array(
    [
        [-1, 1, 1, 1, 1, -1, -1, 1],
        [-1, 1, 1, -1, -1, 1, 1, 1],
        [1, -1, 1, 1, 1, -1, 1, 1],
        [1, -1, 1, 1, -1, 1, 1, -1],
        [1, -1, 1, -1, 1, 1, 1, -1],
        [1, 1, -1, 1, 1, 1, 1, -1],
        [1, 1, -1, 1, 1, 1, -1, 1],
        [1, 1, 1, 1, -1, -1, 1, -1],
    ],
    float,
)
"""Eight samples and eight learners on which AdaBoost takes turns for ever and misses the largest margin."""


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="breast-cancer", help="random, or a data set that secant.data knows")
    samples: int = options.samples(40, 200, at_least=10, at_most=500)
    learners: int = scaled(smoke=30, laptop=300, at_least=5, at_most=1_000, help="weak learners")
    right: float = option(0.7, at_least=0.6, at_most=0.9, help="share of samples on which a random learner is right")
    rounds: int = scaled(smoke=150, laptop=2_000, at_least=20, at_most=10**5, help="rounds beside scikit-learn")
    path: int = scaled(smoke=3_000, laptop=40_000, at_least=2_000, at_most=10**6, help="rounds of small steps")


def stumps(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Whether each feature of real data is above some of its quantiles, 1 or -1, and labels."""
    x, y = datasets.load(
        config.data,
        classes=config.classes,
        samples=config.samples,
        test_samples=1,
        labels="signs",
        seed=config.seed,
        dtype=np.float64,
    ).train
    levels = np.linspace(0, 1, max(1, config.learners // x.shape[1]) + 2)[1:-1]
    said = np.where(x[:, :, None] > np.quantile(x, levels, axis=0).T, 1.0, -1.0).reshape(len(x), -1)
    said = np.unique(said, axis=1)
    # None that says the same of all, nor one that is always right or wrong: line search would have no end.
    return said[:, (np.abs(said.sum(0)) < len(x)) & (np.abs(y @ said) < len(x))], y


def learners(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """What random learners say, -1 or 1, and labels; learners whose largest margin is positive."""
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
    """Of the largest margin: log L falls by at least step times margin - step/2 a round, from log n."""
    return 1 - step / (2 * largest) - math.log(samples) / (step * rounds * largest)


def by_scikit(said: np.ndarray, y: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The learner that scikit-learn's AdaBoost takes each round, and its weight."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import AdaBoostClassifier

    class Learner(ClassifierMixin, BaseEstimator):
        """Chooses the column with the largest edge, or its opposite: the one weak learner of both programs."""

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
    search: the learner with the largest edge $r$, by $\frac12\log\frac{1 + r}{1 - r}$. Steepest descent in $\ell_1$
    with small steps reaches the largest $\ell_1$ margin; with exact line search steps do not get small, and it need
    not.
    """
    if config.data == real.RANDOM:
        said, y = learners(np.random.default_rng(config.seed), config)
    else:
        said, y = stumps(config)
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
    yield claim("rounds-which-scikit", "rounds in which scikit-learn takes another learner").count(
        0, int((ours.column != theirs.column).sum())
    )
    yield claim("steps-half-scikit", "steps against half of scikit-learn's weights").zero(
        np.abs(ours.weight - theirs.weight).max(), 1e-9, "rounding of weights that many rounds multiply"
    )
    Z, w, slopes = data.z.values, np.zeros(data.sizes["learner"]), []
    for j, step in list(zip(ours.column.values, ours.weight.values, strict=True))[:20]:
        w[j] += step
        slopes.append(abs(np.exp(-Z @ w) @ Z[:, j]) / np.exp(-Z @ w).sum())
    yield claim("slope-log-l", "slope of log L along the learner after its step, twenty rounds").zero(
        max(slopes), 1e-13, "line search"
    )
    yield claim("growth-log-l", "largest growth of log L in a round").at_most(
        0.0, data.log_loss.diff("round").max(), "it descends"
    )
    largest = float(data.largest)
    for step in STEPS:
        found = data.small.sel(step=step)[-1] / largest
        yield claim(f"steps-{step:g}-margin-end", f"steps of {step:g}: margin at the end over the largest").at_least(
            promised(step, config.samples, config.path, largest),
            found,
            "1 - step/2 margin, less the logarithm of the samples over the path",
        )
        yield claim(f"steps-{step:g}-same", f"steps of {step:g}: the same").at_most(
            1.0, found, "none is larger", slack=1e-10
        )
    yield claim("eight-samples-small", "eight samples, small steps: margin over the largest").at_least(
        promised(STEPS[-1], 8, config.path, float(data.fine_largest)),
        float(data.fine[-1] / data.fine_largest),
        "the same bound",
    )
    yield claim(
        "eight-samples-exact", "eight samples, exact line search: margin over the largest after 2,000 rounds"
    ).at_most(
        0.95, float(data.turned[-1] / data.fine_largest), "it takes turns for ever", note="largest 3/8 and reached 1/3"
    )
    yield claim("eight-samples-exact-line", "eight samples, exact line search: margin").equal(
        1 / 3, data.turned[-1], 1e-3, "its cycle of three"
    )
    turns = data.taken.values
    yield claim("eight-samples-learners", "eight samples: learners that still take turns").count(
        3, len(np.unique(turns)), "a cycle of three"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, step in enumerate(STEPS):
        left.plot(data["at"], data.small.sel(step=step), color=f"C{i}", label=f"steps of {step:g}")
    left.plot(np.arange(1, data.sizes["round"] + 1), data.margin, color="C3", label="AdaBoost")
    sheet.mark(left, y=float(data.largest), label=r"largest $\ell_1$ margin")
    sheet.label(
        left,
        f"{data.sizes['learner']} learners, {config.samples} samples",
        "round",
        "margin",
        "lower right",
        xscale="log",
        ylim=(-float(data.largest), 1.2 * float(data.largest)),
    )
    right.plot(np.arange(1, data.sizes["rounds"] + 1), data.turned, color="C3", label="AdaBoost")
    right.plot(data["at"], data.fine, color="C2", label=f"steps of {STEPS[-1]:g}")
    sheet.mark(right, y=float(data.fine_largest), label=r"largest $\ell_1$ margin")
    sheet.label(
        right,
        "Eight samples on which it takes turns",
        "round",
        "margin",
        "lower right",
        xscale="log",
        ylim=(-0.05, 0.42),
    )
