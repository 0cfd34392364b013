"""Equations (3.7) and (3.8): a linear model has one critical step size, and it is also the largest."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses, measure, nets
from secant.core.device import jit
from secant.core.types import Params
from secant.curvature import hessian, ntk
from secant.data import regression
from secant.dynamics import Probe
from secant.expansion import expand
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, options, sheet, study
from secant.linalg.norm import spectral_norm
from secant.optim import Problem, train
from secant.theory.descent.linear_descent import critical_step, loss_growth, residual_after


class Config(Seeded):
    width: int = options.width(64, 256, 1_024, at_least=2, at_most=10**6)
    samples: int = options.samples(24, 64, 128, at_least=2, at_most=10_000)
    dim: int = options.dim(10, at_least=2, at_most=10_000)
    ratios: tuple[float, ...] = options.ratios(
        (0.3, 0.6, 0.9, 0.99, 1.01, 1.1, 1.3, 1.6), at_least=0.01, at_most=10, ascending=True
    )
    steps: int = options.steps(400, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses runs whose loss leaves the range of numbers, and those that do not fit the memory."""
        grows = 2 * np.log10(max(abs(1 - 2 * ratio) for ratio in self.ratios))
        if grows * self.steps > 290:
            raise ValueError(
                f"steps: at {max(self.ratios):g} times the critical step size the loss grows by {10**grows:.3g} a step "
                f"and leaves the range of numbers; use at most {int(290 / grows)}, got {self.steps}."
            )
        fits_memory(3 * 8 * len(self.ratios) * self.steps * self.samples, "steps or samples")
        fits_memory(4 * 8 * self.samples * self.width * (self.dim + 1), "width or samples")


@study("thesis/eq-3.8", section="3.2", title="A linear model has one threshold")
def run(config: Config) -> xr.Dataset:
    r"""When $f$ is linear in $w$ the tangent kernel $K$ is constant, and gradient descent on
    $\frac12 \sum_i (f_i - y_i)^2$ obeys $$F(w(t+1)) - y = (I - \eta K)\,(F(w(t)) - y).$$ The Hessian of the loss,
    $\nabla F^\top \nabla F$, shares its positive eigenvalues with $K = \nabla F\,\nabla F^\top$, so
    $\eta_{\mathrm{crit}} = 2/\lambda_{\max}(K)$: below it the loss decreases monotonically, above it the loss grows,
    and the critical step size is the maximal one.
    """
    key_data, key_net = jax.random.split(jax.random.key(config.seed))
    task = regression("rank-2", key_data, samples=config.samples, test_samples=1, dim=config.dim)
    x, y = map(jnp.asarray, task.train)
    net = nets.mlp([config.width], activation="relu")
    start = net.init(key_net, x.shape)
    linear = expand(net.apply, start, 1)
    kernel = np.asarray(ntk(net.apply, start, x).dense())
    critical = float(jit(critical_step, quick=True)(kernel))
    lrs, steps, fine = critical * np.array(config.ratios), np.arange(config.steps + 1), np.linspace(0.02, 1.8, 179)
    residual = Probe(lambda params: linear(params, x) - y, dims=("sample",))
    done = train(
        Problem(linear, x, y, losses.half_sum),
        start,
        steps=config.steps,
        over={"lr": lrs},
        probes={"loss": measure.loss(), "residual": residual},
    )

    @jax.jit
    def theory(kernel: jax.Array, first: jax.Array) -> tuple[jax.Array, jax.Array]:
        return residual_after(first, kernel, lrs[:, None], steps[None, :]), loss_growth(kernel, critical * fine)

    @jax.jit
    def sharpness(params: Params, direction: jax.Array) -> jax.Array:
        bend = hessian(linear, params, x, y, losses.half_sum)
        return spectral_norm(bend.flat_product(), direction, 2 * config.samples).value

    predicted, growth = theory(kernel, done.dataset.residual.values[0, 0])
    last = ntk(linear, jax.tree.map(lambda leaf: np.asarray(leaf)[0], done.state), x).dense()
    direction = np.random.default_rng(config.seed).normal(size=nets.count_parameters(start))
    return done.dataset.rename(lr="ratio").assign(
        predicted=(("ratio", "step", "sample"), np.asarray(predicted)),
        growth=("fine", np.asarray(growth)),
        kernel_change=np.abs(np.asarray(last) - kernel).max() / np.abs(kernel).max(),
        critical=critical,
        critical_hessian=2 / float(sharpness(start, direction)),
        ratio=list(config.ratios),
        fine=fine,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    size = np.sqrt((data.predicted**2).sum("sample"))
    gap = np.sqrt(((data.residual - data.predicted) ** 2).sum("sample")) / np.maximum(size, size[:, 0])
    rounding = 10 * config.steps * np.finfo(float).eps * np.sqrt(config.width * config.dim)
    yield claim(
        "residual-i-eta",
        "residual against (I - eta K)^t r(0), every step and step size: largest difference over |r(t)| or |r(0)|",
    ).zero(gap.max(), rounding, "rounding of outputs as large as these: ten units a step, times the root of the terms")
    name = "tangent kernel after training: largest relative change"
    yield claim(name, name).zero(data.kernel_change, rounding / config.steps, "rounding of one evaluation")
    yield claim("2-lambda-max", "2 / lambda_max of the loss's Hessian over 2 / lambda_max(K)").equal(
        1.0,
        data.critical_hessian / data.critical,
        1e-10,
        "the Krylov space holds all eigenvectors with an eigenvalue above zero; rounding",
    )
    below, above, before = data.ratio < 1, data.ratio > 1, data.loss.shift(step=1)
    change = (data.loss / before).where(below & (before > 1e-20 * data.loss.isel(step=0)))
    yield claim(
        "below-factor-loss",
        "below: largest factor of the loss in one step",
        given=below,
        otherwise="all step sizes are critical or above",
    ).at_most(1.0, change.max(), "every direction shrinks; rounding", slack=1e-12)
    ends = data.loss.isel(step=-1) / data.loss.isel(step=0)
    # The first direction has outgrown its share of the first loss, by the theory.
    expected = (data.predicted**2).sum("sample")
    in_time = (expected.isel(step=-1) > expected.isel(step=0))[above]
    slow = "in so few steps the first direction does not outgrow the others"
    yield claim(
        "above-smallest-ratio",
        "above: smallest ratio of the last loss to the first",
        given=above.any() & in_time.all(),
        otherwise=slow if above.any() else "none is above",
    ).at_least(1.0, ends.where(above).min(), "the loss grows")
    falls = ends < 1
    low, high = data.ratio.where(falls).max(), data.ratio.where(~falls).min()
    yield claim(
        "step-size-which",
        "largest step size from which the loss falls, over the critical one",
        given=falls.any() & ~falls.all(),
        otherwise="the loss falls from all step sizes, or from none",
    ).equal(
        1.0, (low + high) / 2, abs(high - low) / 2, "half the distance between neighbouring step sizes of the sweep"
    )
    name = "loss after one step just above the critical step size, over the loss before"
    if not above.any():
        yield claim(name, name).undecided(1.0, "no step size is above the critical one")
        return
    first = data.isel(ratio=int(above.argmax("ratio")))
    start, after = (first.predicted[:2] ** 2).sum("sample")
    yield claim(name, name).erratum(
        (r"\eta > \eta_{\mathrm{crit}} \Rightarrow \mathcal L(t+1) > \mathcal L(t)", 1.0),
        (r"\mathcal L(1)/\mathcal L(0) = \sum_i (1 - \eta\lambda_i)^2 r_i^2 / \sum_i r_i^2", float(after / start)),
        first.loss[1] / first.loss[0],
        0,
        "rounding",
        relative=1e-10,
        note=f"At {float(first.ratio):g} times the critical step size only the first direction grows, and all "
        "others shrink; the loss keeps increasing once the first dominates.",
        where="section 3.2, after equation (3.8)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    sheet.guide(right, data.fine, data.growth, r"$\max_i (1 - \eta\lambda_i)^2$")
    for i, ratio in enumerate(data.ratio.values):
        one = data.isel(ratio=i, step=slice(0, 201))
        left.plot(
            one.step, one.loss / one.loss[0], color=f"C{i}", label=rf"$\eta = {ratio:g}\,\eta_{{\mathrm{{crit}}}}$"
        )
        sheet.guide(left, one.step, (one.predicted**2).sum("sample") / (one.predicted[0] ** 2).sum(), lw=0.8)
        right.plot(ratio, data.loss[i, -1] / data.loss[i, -2], "o", ms=7, color=f"C{i}")
    sheet.guide(left, [], [], r"$(I - \eta K)^t$", lw=0.8)
    left.set(title="Loss", xlabel="step", ylabel=r"$\mathcal{L}(t)/\mathcal{L}(0)$", yscale="log", ylim=(1e-6, 1e6))
    left.legend(fontsize=8, ncols=2, loc="upper right")
    sheet.mark(right, x=1, y=1, lw=0.8, ls=":")
    right.text(0.97, 3.6, "loss falls", ha="right", color=sheet.ink())
    right.text(1.03, 3.6, "loss grows", color=sheet.ink())
    sheet.label(
        right,
        "Factor of the loss in one step, late",
        r"$\eta\,/\,\eta_{\mathrm{crit}}$",
        r"$\mathcal{L}(t+1)/\mathcal{L}(t)$",
        "upper left",
        ylim=(0, 5.2),
    )
