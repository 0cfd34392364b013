"""Figure 4.11 and table C.1: across optimisers, test loss falls with alignment."""

from typing import Any, Literal

import jax
import numpy as np
import xarray as xr
from scipy import stats

from secant.lab import Figure, Findings, Options, estimate, option, options, scaled, sheet, study, unfold
from secant.lab.verdicts.significance import falling_trend
from secant.optim import optimisers
from secant.studies.shared.about import about
from secant.studies.shared.features.batch_claims import goal_finding
from secant.studies.shared.features.batch_sizes import Setting, Trial, batch_training, ended_well
from secant.studies.shared.features.limits import check_batches, check_sizes
from secant.studies.shared.features.tasks import TITLES, Sizes, feature_task

RULES = {
    "GD": optimisers.gd,
    "SGD": optimisers.gd,
    "momentum": optimisers.momentum,
    "Adadelta": optimisers.adadelta,
    "Adagrad": optimisers.adagrad,
    "RMSprop": optimisers.rmsprop,
    "Adam": optimisers.adam,
}
"""Optimisers by name; all but the first run on batches. Momentum is 0.9, and everything else as in PyTorch."""

STEPS = {
    "rank-2": {"GD": 2.0, "SGD": 2.0, "momentum": 2.0, "Adadelta": 2.0, "Adagrad": 0.1, "RMSprop": 1e-2, "Adam": 1e-2},
    "rank-3": {"GD": 2.0, "SGD": 2.0, "momentum": 2.0, "Adadelta": 2.0, "Adagrad": 1e-2, "RMSprop": 1e-2, "Adam": 1e-3},
    "rank-4": {"GD": 1.0, "SGD": 1.0, "momentum": 1.0, "Adadelta": 1.0, "Adagrad": 5e-3, "RMSprop": 1e-3, "Adam": 1e-3},
}
"""Step sizes of table C.1."""


class Config(Options):
    panel: Literal["rank-2", "rank-3", "rank-4"] = option("rank-2", help="the target")
    rules: tuple[str, ...] = option(tuple(RULES), shortest=4, distinct=True, help=f"some of {', '.join(RULES)}")
    batch: int = options.batch(20, 100)
    shallow: int = scaled(smoke=48, laptop=256, paper=1_024, at_least=8, help="width of the network of rank 2")
    deep: int = scaled(smoke=48, laptop=128, paper=256, at_least=8, help="width of the networks of the others")
    samples: int = options.samples(100, 600, 2_000, at_least=8)
    held_out: int = scaled(smoke=200, laptop=1_000, paper=5_000, at_least=10, help="for validation, and for testing")
    dim: int = options.dim(10, 50, 100, at_least=10)
    goal: float = scaled(
        smoke=5e-2, laptop=3e-3, paper=1e-3, at_least=1e-6, at_most=1, help="training loss at which a run ends"
    )
    steps: int = options.steps(1_000, 8_000, 40_000, at_least=20)
    pause: int = scaled(smoke=2, laptop=5, paper=2, at_least=1, help="passes between two looks")
    draws: int = options.draws(4, 6, at_least=2)
    seed: int = options.seed(0, at_most=2**31)

    @property
    def sizes(self) -> Sizes:
        """Network and data of the panel; deep networks have at most 1,000 training samples."""
        if self.panel == "rank-2":
            return Sizes(self.shallow, self.samples, self.held_out, self.dim)
        return Sizes(self.deep, min(self.samples, 1_000), self.held_out, self.dim)

    def check(self) -> None:
        """Refuses unknown rules, batches larger than the data, and what no memory holds."""
        if unknown := [name for name in self.rules if name not in RULES]:
            raise ValueError(f"rules: must be some of {', '.join(RULES)}, got {', '.join(unknown)}.")
        check_batches("batch", self.batch, self.sizes.samples)
        draws, sizes = self.draws * len(self.rules), self.sizes._replace(samples=self.samples)
        check_sizes(sizes, draws=draws, steps=self.steps, deep=self.panel != "rank-2")


@study("thesis/fig-4.11", section="4.4", title="Across optimisers, test loss falls with alignment", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent, stochastic gradient descent, momentum, Adadelta, Adagrad, RMSprop and Adam train one network
    on one task to a training loss of $10^{-3}$, with the step sizes of table C.1. Gradient descent uses all samples,
    the others use batches of 100. Test loss and alignment of the gradient outer product with the truth are strongly,
    negatively correlated: an optimiser that finds better features generalises better.

    The thesis gives the second of its four tasks rank 3 in figure 4.8 and rank 4 in the appendix; `panel` chooses
    between the two. Each run is judged at the step of its smallest validation loss.
    """
    samples, steps, parts = config.sizes.samples, STEPS[config.panel], []
    task, seeds = feature_task(config.panel, config.sizes), range(config.seed, config.seed + config.draws)
    draws, setting = task.draws(seeds), Setting(config.goal, 0, config.steps, config.pause)
    if "GD" in config.rules:
        whole = batch_training(task, setting, samples, samples, label="GD", count=False)
        sized = np.full(len(seeds), steps["GD"], np.float32)
        parts.append(whole(Trial(draws, sized)).drop_dims("look").expand_dims(rule=["GD"]))
    others = [name for name in config.rules if name != "GD"]
    rules = tuple(RULES[name](steps[name]) for name in others)

    def chosen(loss: Any, which: Any) -> Any:
        return optimisers.one_of(rules, which)(loss)

    training = batch_training(task, setting, config.batch, samples, chosen, label="optimisers", count=False)
    which, drawn = np.divmod(np.arange(len(rules) * len(seeds)), len(seeds))
    found = training(Trial(jax.tree.map(lambda leaf: leaf[drawn], draws), which.astype(np.int32)))
    # The best look is enough here.
    parts.append(unfold(found.drop_dims("look"), "seed", rule=others, seed=range(len(seeds))))
    return xr.concat(parts, "rule", join="outer").assign_coords(seed=list(seeds)).sel(rule=list(config.rules))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    trained = data.where(ended_well(data))
    means = trained.mean("seed")
    pairs = zip(config.rules, means.aligned.values, means.test.values, strict=True)
    table = "; ".join(f"{name} {aligned:.2f}, {test:.2f}" for name, aligned, test in pairs)
    aligned, test = (trained[name].transpose("seed", "rule").values for name in ("aligned", "test"))
    ordered = np.take_along_axis(test, aligned.argsort(axis=1), axis=1)
    rho, p = falling_trend(xr.DataArray(ordered, dims=("seed", "place")), "place")
    of = about(config.panel, TITLES[config.panel])
    yield of("trend", "test loss falls with alignment across optimisers").significant(
        p,
        "by permutation within seeds",
        f"Spearman correlation {rho:.2f}, mean over seeds; alignment and test loss: {table}",
    )
    # By Fisher's transformation.
    middle, count = np.arctanh(np.clip(_pearson(means), -1 + 1e-12, 1 - 1e-12)), int(np.isfinite(means.aligned).sum())
    low, high = np.tanh(middle + np.array([-1, 1]) * 1.96 / np.sqrt(max(count - 3, 1)))
    yield of("pearson", "Pearson correlation of test loss and alignment, mean over seeds").at_most(
        -np.sqrt(0.5),
        estimate([_pearson(trained.sel(seed=seed)) for seed in data.seed]),
        "strong: alignment explains at least half of the variance",
        note=f"for the {len(config.rules)} means over seeds {_pearson(means):.3f}, with 95 percent in"
        f" [{low:.2f}, {high:.2f}]",
    )
    lost = [f"{int((~ended_well(data.sel(rule=name))).sum())} of {name}" for name in config.rules]
    yield goal_finding(data, f"the others, {', '.join(n for n in lost if n[0] != '0') or 'none'}, are left out")


def _pearson(data: xr.Dataset) -> float:
    """The correlation over trained runs; NaN if they are too few or all alike."""
    pair = np.array([data.aligned, data.test])
    pair = pair[:, np.isfinite(pair).all(axis=0)]
    if pair.shape[1] < 4 or not np.ptp(pair, axis=1).all():
        return np.nan
    return float(stats.pearsonr(*pair).statistic)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (7.5, 4.4))
    for i, name in enumerate(config.rules):
        one = data.sel(rule=name)
        mean = one.mean("seed")
        axes.plot(one.aligned, one.test, "o", ms=4, color=f"C{i}", alpha=0.35)
        axes.plot(mean.aligned, mean.test, "D", ms=8, color=f"C{i}", label=name)
    title = f"{TITLES[config.panel].capitalize()}, {config.draws} draws and their means"
    sheet.label(axes, title, "alignment with the truth", "test loss")
    figure.legend(loc="outside right center")
