"""Figure B.4b: in the catapult of a network the inverse width plays the part of the bend of a quadratic model."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import stats

from secant.dynamics import Probe, Stop, simulate
from secant.lab import Estimate, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.optim import gradient_descent
from secant.setups.two_layer.remainders import (
    Layers,
    Trial,
    draw_trial,
    gates,
    outputs,
    signed_images,
    spanned,
    tangent_kernel,
)
from secant.theory.power_law import fit_power_law


@dataclass(frozen=True)
class Config:
    """Data, widths and step sizes."""

    data: str = scaled(smoke="digits", laptop="cifar10", help="a data set that secant.data knows")
    classes: tuple[int, int] = scaled(
        smoke=(0, 1), laptop=(0, 2), at_least=0, distinct=True, help="two classes, +1 and -1"
    )
    samples: int = option(20, at_least=4, at_most=10_000, help="training samples")
    widths: tuple[int, ...] = scaled(
        smoke=(500, 2_000), laptop=(1_000, 3_000, 10_000), paper=(1_000, 3_000, 10_000, 30_000, 100_000), at_least=100,
        ascending=True, help="hidden neurons",
    )
    width: int = scaled(smoke=2_000, laptop=10_000, help="default width, one of `widths`")
    lrs: tuple[float, ...] = scaled(
        smoke=(1.8, 2.4, 2.8), laptop=(1.8, 2.2, 2.5, 2.8, 3.2), paper=(1.8, 2.2, 2.5, 2.8, 3.2, 3.6), at_least=0.1,
        at_most=3.8, ascending=True, help="step sizes over the inverse of the largest curvature; 2 is critical",
    )
    lr: float = option(2.8, at_least=2.2, help="default step size, one of `lrs`")
    seeds: int = scaled(smoke=6, laptop=6, paper=20, at_least=3, at_most=10_000, help="draws of data and weights")
    steps: int = scaled(smoke=60, laptop=100, paper=400, at_least=40, at_most=10**5, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses defaults that are not among the values, and what no memory holds."""
        for name, value, among in (("width", self.width, self.widths), ("lr", self.lr, self.lrs)):
            if value not in among:
                raise ValueError(f"{name}: {value:g} is not one of `{name}s`, {among}. Give one of them.")
        weights = max(self.widths) * (self.samples + 1.0) * len(self.widths) * self.seeds * (len(self.lrs) + 1)
        fits_memory(16 * weights, "widths, samples, seeds or lrs")


@study(
    "thesis/fig-B.4b", section="B.14", title="In a network the inverse width is the bend",
    statement=r"""
    A two-layer ReLU network on twenty images of two classes, trained above the critical step size: larger widths, which
    play the part of a smaller $\gamma$, and larger step sizes raise the peak of the loss; larger step sizes lower the
    norm of the tangent kernel more; and the width has no effect on that norm at convergence.

    The thesis trains with a step size of 2.8 and does not say in which units. Here step sizes are in units of
    $1/\lambda_{\max}(K)$ at the start for the loss $\frac12\sum_i(f_i - y_i)^2$, as those of the random quadratic
    models beside it are: 2 is critical whatever the data.

    In those units the map of one sample has an orbit that knows the width only by its start, $O(1/m)$. So the peak
    should be proportional to $m$, and the curvature where the catapult ends should not depend on it. With several
    samples the network then goes on to fit the other directions, slowly, and the norm rises again: by $O(1/m)$, so that
    what effect the width has on it at convergence vanishes with the width.""",
)
def run(config: Config) -> xr.Dataset:
    drawn = [_data(config, seed) for seed in range(config.seed, config.seed + config.seeds)]
    runs = []
    for width in config.widths:
        trials = [draw_trial(x, y, width, 0.5, np.random.default_rng(seed)) for seed, (x, y) in enumerate(drawn)]
        runs.append(_descend(trials, config))
    return xr.concat(runs, "width", join="outer").assign_coords(width=list(config.widths), trial=range(config.seeds))


def _data(config: Config, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = signed_images(config.data, config.classes, config.samples, seed)
    return spanned(x), y


def _descend(trials: list[Trial], config: Config) -> xr.Dataset:
    """Loss and norm of the kernel along every run of one width; a trial's own step size is the unit."""

    def loss(params: Layers, trial: Trial) -> jax.Array:
        return jnp.sum((outputs(params, gates(params, trial.x), trial.x) - trial.y) ** 2) / 2

    def norm(params: Layers, trial: Trial) -> jax.Array:
        kernel = tangent_kernel(params, gates(params, trial.x), trial.x)
        return trial.lr * jnp.linalg.eigvalsh(kernel)[-1]

    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *trials)
    return simulate(
        lambda trial, lr: gradient_descent(lambda p: loss(p, trial), lr * trial.lr), lambda trial: trial.start,
        config.steps, over={"trial": stacked, "lr": jnp.asarray(config.lrs)},
        probes={"loss": loss, "kernel": Probe(norm)}, stop=Stop(diverged=lambda p, trial: loss(p, trial) > 1e12),
    ).dataset


def _rises(values: xr.DataArray, axis: str) -> tuple[float, float]:
    """Smallest mean step up between neighbours along an axis, and the largest one-sided p-value of paired tests."""
    steps = values.diff(axis)
    table = steps.transpose(axis, "trial").values
    found = stats.ttest_1samp(table, 0.0, axis=1, alternative="greater")
    return float(table.mean(axis=1).min()), float(found.pvalue.max())


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    peak, end = np.log(data.loss.max("step")), np.log(data.kernel.isel(step=-1))
    name, below = "below 2: largest rise of the loss over the start", [lr for lr in config.lrs if lr < 2]
    if not below:
        yield claims.undecided(name, 0.0, "no step size is below 2", "at most")
    else:
        yield claims.at_most(
            name, 0.0, (data.loss.max("step") / data.loss.isel(step=0) - 1).sel(lr=below).max(),
            "below the critical step size",
        )
    yield from _exponents(data, config)
    beyond = [lr for lr in config.lrs if lr > 2]
    tests = {
        "peak of the loss rises with the width": (peak.sel(lr=config.lr), "width"),
        "peak of the loss rises with the step size": (peak.sel(width=config.width, lr=beyond), "lr"),
        "norm of the kernel at the end falls with the step size": (-end.sel(width=config.width, lr=beyond), "lr"),
    }
    for name, (values, axis) in tests.items():
        claim = f"{name}, of neighbours the largest"
        if values.sizes[axis] < 2 or not bool(np.isfinite(values).all()):
            why = "there are no two to compare, or some runs diverged"
            yield claims.undecided(f"{claim}: evidence in standard errors", 0.0, why, "at least")
            continue
        step, p = _rises(values, axis)
        note = f"smallest mean change of the logarithm {step:.2f}"
        yield claims.significant(claim, p, "one-sided t-tests, paired over draws", note)
    name = "norm of the kernel at the end times the step size: largest"
    if bool((data.loss.isel(step=-1) > data.loss.isel(step=0)).any()):
        yield claims.undecided(name, 2.0, "some runs have not come back in time, or diverged", "at most")
    else:
        yield claims.at_most(name, 2.0, (data.kernel.isel(step=-1) * data.lr).max(), "a catapult ends below the edge")


def _exponents(data: xr.Dataset, config: Config) -> Findings:
    """How peak and end depend on the width at the default step size."""
    one = data.sel(lr=config.lr).transpose("width", "trial", "step")
    low, last, peak = (values.values for values in (one.kernel.min("step"), one.kernel[..., -1], one.loss.max("step")))
    regain = last / low - 1
    finite = Tolerance(1 / np.sqrt(min(config.widths)), why="the start, 1/sqrt m at the smallest width")
    none = Tolerance(0.05, why="no effect: over a decade less than an eighth")
    spread = np.log(max(config.widths) / min(config.widths))
    second = Tolerance(
        float(regain[0].mean() / spread) if spread and (regain > 0).all() else 0.0,
        why="-4 eta c (g - y) g a step with c = |x|^2/(md) is first order; the next is as much smaller as what is "
        "regained at the smallest width",
    )
    beyond = [lr for lr in config.lrs if lr > 2]
    ends = np.log(data.kernel.isel(step=-1)).sel(width=config.width, lr=beyond).mean("trial")
    note = f"between step sizes {float(ends.lr[0]):g} and {float(ends.lr[-1]):g} the end changes by "
    note += f"{float(np.exp(ends[0] - ends[-1])):.1f} times"
    for name, predicted, values, tolerance, remark in (
        ("the peak of the loss", 1.0, peak, finite, ""), ("the norm of the kernel at the end", 0.0, last, none, note),
        ("the norm of the kernel where the catapult leaves it, smallest", 0.0, low, none, note),
        ("what the norm regains after the catapult", -1.0, regain, second, ""),
    ):
        name = f"exponent of {name} in the width, step size {config.lr:g}"
        if len(config.widths) < 2 or not (np.isfinite(values) & (values > 0)).all():
            yield claims.undecided(
                name, predicted, "one width has no exponent, or some networks diverged or regain nothing"
            )
            continue
        law = fit_power_law(config.widths, values)
        yield claims.equal(name, predicted, Estimate(law.exponent, law.error, law.freedom), tolerance, note=remark)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    (a, b), (c, d) = sheet.panels(figure, (10, 6.4), 2, 2, sharex=True, sharey="row")
    ink = sheet.ink()
    one = data.isel(trial=0, step=slice(0, 41))
    for i, width in enumerate(config.widths):
        part = one.sel(width=width, lr=config.lr)
        a.semilogy(part.step, part.loss, color=f"C{i}", label=f"$m = {width}$")
        c.plot(part.step, part.kernel, color=f"C{i}")
    for i, lr in enumerate(config.lrs):
        part = one.sel(width=config.width, lr=lr)
        b.semilogy(part.step, part.loss, color=f"C{i}", label=rf"$\eta = {lr:g}$")
        d.plot(part.step, part.kernel, color=f"C{i}")
    a.set(title=rf"Wider, higher peak ($\eta = {config.lr:g}$)", ylabel="loss")
    b.set(title=f"Larger steps, higher peak ($m = {config.width}$)")
    c.set(title="Where the catapult ends, the width does not matter", xlabel="step", ylabel=r"$\|K\|/\|K(0)\|$")
    d.set(title="Larger steps end flatter", xlabel="step")
    c.axhline(2 / config.lr, color=ink, lw=0.8, ls=":")
    c.annotate(
        r"$2/\eta$", (40, 2 / config.lr), xytext=(0, 3), textcoords="offset points", ha="right", va="bottom", color=ink
    )
    for axes in (a, b):
        axes.legend(fontsize=8, loc="upper right")
