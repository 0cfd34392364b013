"""Figure B.4b: in the catapult of a network the inverse width plays the part of the bend of a quadratic model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import stats

from secant.dynamics import Probe, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, scaled, study
from secant.optim import gradient_descent
from secant.studies.shared.catapults.peaks import draw_peaks, refuse_strangers
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.two_layer import remainders as model


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="cifar10", help="a data set that secant.data knows")
    classes: tuple[int, int] = scaled(
        smoke=(0, 1), laptop=(0, 2), at_least=0, distinct=True, help="two classes, +1 and -1"
    )
    samples: int = options.samples(20, at_least=4, at_most=10_000)
    widths: tuple[int, ...] = options.widths(
        (500, 2_000), (1_000, 3_000, 10_000), (1_000, 3_000, 10_000, 30_000, 100_000), at_least=100, ascending=True
    )
    width: int = options.width(2_000, 10_000)
    lrs: tuple[float, ...] = options.lrs(
        (1.8, 2.4, 2.8),
        (1.8, 2.2, 2.5, 2.8, 3.2),
        (1.8, 2.2, 2.5, 2.8, 3.2, 3.6),
        at_least=0.1,
        at_most=3.8,
        ascending=True,
    )
    lr: float = options.lr(2.8, at_least=2.2)
    draws: int = options.draws(6, 6, 20, at_least=3, at_most=10_000)
    steps: int = options.steps(40, 100, 400, at_least=40, at_most=10**5)

    def check(self) -> None:
        """Refuses a `width` or `lr` that is not among the values, and what no memory holds."""
        refuse_strangers(self, "width", "lr")
        weights = max(self.widths) * (self.samples + 1.0) * len(self.widths) * self.draws * (len(self.lrs) + 1)
        fits_memory(16 * weights, "widths, samples, draws or lrs")


@study("thesis/fig-B.4b", section="B.14", title="In a network the inverse width is the bend")
def run(config: Config) -> xr.Dataset:
    r"""A two-layer ReLU network learns twenty images of two classes above the critical step size. Larger widths, which
    play the part of a smaller $\gamma$, and larger step sizes raise the peak of the loss; larger step sizes lower the
    norm of the tangent kernel more; and the width has no effect on that norm at convergence.

    The thesis trains with a step size of 2.8 and does not say in which units. Here step sizes are in units of
    $1/\lambda_{\max}(K)$ at the start for the loss $\frac12\sum_i(f_i - y_i)^2$, as in the random quadratic models
    beside it: 2 is critical whatever the data.

    In those units the width enters the map of one sample only by the start of the orbit, $O(1/m)$. The peak should
    therefore be proportional to $m$, and the curvature where the catapult ends should not depend on $m$. With several
    samples the network then goes on to fit the other directions, slowly, and the norm rises again, by $O(1/m)$. Any
    effect of the width on the norm at convergence therefore vanishes with the width.
    """
    drawn, runs = [], []
    for seed in range(config.seed, config.seed + config.draws):
        x, y = model.signed_images(config.data, config.classes, config.samples, seed)
        drawn.append((model.spanned(x), y))
    for width in config.widths:
        draws = map(np.random.default_rng, range(config.seed, config.seed + config.draws))
        trials = [model.draw_trial(x, y, width, 0.5, draw) for (x, y), draw in zip(drawn, draws, strict=True)]
        runs.append(_descend(jax.tree.map(lambda *leaves: np.stack(leaves), *trials), config))
    return xr.concat(runs, "width", join="outer").assign_coords(width=list(config.widths), trial=range(config.draws))


def _descend(trials: model.Trial, config: Config) -> xr.Dataset:
    """Loss and norm of the kernel along every run of one width, in units of the trial's own step size."""

    def loss(params: model.Layers, trial: model.Trial) -> jax.Array:
        return jnp.sum((model.outputs(params, model.gates(params, trial.x), trial.x) - trial.y) ** 2) / 2

    def norm(params: model.Layers, trial: model.Trial) -> jax.Array:
        kernel = model.tangent_kernel(params, model.gates(params, trial.x), trial.x)
        return trial.lr * jnp.linalg.eigvalsh(kernel)[-1]

    return simulate(
        lambda trial, lr: gradient_descent(lambda p: loss(p, trial), lr * trial.lr),
        lambda trial: trial.start,
        config.steps,
        over={"trial": trials, "lr": jnp.asarray(config.lrs)},
        probes={"loss": loss, "kernel": Probe(norm)},
        stop=Stop(diverged=lambda p, trial: loss(p, trial) > 1e12),
    ).dataset


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rise, end = data.loss.max("step") / data.loss.isel(step=0), data.kernel.isel(step=-1)
    below, beyond = [lr for lr in config.lrs if lr < 2], [lr for lr in config.lrs if lr > 2]
    yield claim("below", "below 2: largest rise of the loss over the start", below, "no step size is below 2").at_most(
        0.0, lambda: (rise - 1).sel(lr=below).max(), "below the critical step size"
    )
    yield from _exponents(data, config)
    peaks, ends = np.log(data.loss.max("step")), np.log(end).sel(width=config.width, lr=beyond)
    none = "there are no two to compare, or some runs diverged"
    for key, name, values, axis in (
        ("peak-width", "peak of the loss rises with the width", peaks.sel(lr=config.lr), "width"),
        ("peak-step", "peak of the loss rises with the step size", peaks.sel(width=config.width, lr=beyond), "lr"),
        ("end-step", "norm of the kernel at the end falls with the step size", -ends, "lr"),
    ):
        given = values.sizes[axis] > 1 and bool(np.isfinite(values).all())
        steps = values.diff(axis).transpose(axis, "trial").values if given else np.array([[0.0, 1.0]])
        p = stats.ttest_1samp(steps, 0.0, axis=1, alternative="greater").pvalue.max()
        note = f"smallest mean change of the logarithm {steps.mean(axis=1).min():.2f}"
        judged = claim(key, f"{name}, least significant of neighbours", given, none)
        yield judged.significant(p, "one-sided t-tests, paired over draws", note)
    back = not (data.loss.isel(step=-1) > data.loss.isel(step=0)).any()
    late, edge = "some runs have not come back in time, or diverged", "a catapult ends below the edge"
    sentence = "norm of the kernel at the end times the step size: largest"
    yield claim("edge", sentence, back, late).at_most(2.0, (end * data.lr).max(), edge)


def _exponents(data: xr.Dataset, config: Config) -> Findings:
    """How peak and end depend on the width at the default step size."""
    one, smallest = data.sel(lr=config.lr), min(config.widths)
    low, last, peak = one.kernel.min("step"), one.kernel.isel(step=-1), one.loss.max("step")
    regain, spread = last / low - 1, np.log(max(config.widths) / smallest)
    finite = Tolerance(1 / np.sqrt(smallest), why=r"the start, $1/\sqrt m$ at the smallest width")
    none = Tolerance(0.05, why="no effect: over a decade less than an eighth")
    order = r"$-4\eta c (g - y) g$ a step with $c = |x|^2/(md)$ is first order"
    second = Tolerance(
        float(regain[0].mean()) / spread if spread and (regain > 0).all() else 0.0,
        why=f"{order}; the next is smaller by as much as is regained at the smallest width",
    )
    ends = np.log(data.kernel.isel(step=-1)).sel(width=config.width, lr=data.lr > 2).mean("trial")
    between = f"between step sizes {float(ends.lr[0]):g} and {float(ends.lr[-1]):g}"
    note = f"{between} the end changes by {float(np.exp(ends[0] - ends[-1])):.1f} times"
    lost = "one width has no exponent, or some networks diverged or regain nothing"
    for key, name, predicted, values, tolerance, remark in (
        ("peak-law", "the peak of the loss", 1.0, peak, finite, ""),
        ("end-law", "the norm of the kernel at the end", 0.0, last, none, note),
        ("low-law", "the norm of the kernel where the catapult leaves it, smallest", 0.0, low, none, note),
        ("regain-law", "what the norm regains after the catapult", -1.0, regain, second, ""),
    ):
        given = len(config.widths) > 1 and bool((np.isfinite(values) & (values > 0)).all())
        yield claim(key, f"exponent of {name} in the width, step size {config.lr:g}", given, lost).equal(
            predicted, partial(exponent, values), tolerance, note=remark
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    one = data.isel(trial=0, step=slice(0, 41))
    titles = (
        rf"Wider, higher peak ($\eta = {config.lr:g}$)",
        f"Larger steps, higher peak ($m = {config.width}$)",
        "Where the catapult ends, the width does not matter",
        "Larger steps end flatter",
    )
    widths = [(f"$m = {width}$", one.sel(width=width, lr=config.lr)) for width in config.widths]
    steps = [(rf"$\eta = {lr:g}$", one.sel(width=config.width, lr=lr)) for lr in config.lrs]
    grid = draw_peaks(figure, (10, 6.4), (widths, steps), titles, config.lr)
    grid[1, 0].set_ylabel(r"$\|K\|/\|K(0)\|$")
