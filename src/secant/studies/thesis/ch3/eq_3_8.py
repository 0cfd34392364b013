"""Equations (3.7) and (3.8): a linear model has one critical step size, and it is also the largest."""

from typing import Any

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
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study
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
    $\eta_{\mathrm{crit}} = 2/\lambda_{\max}(K)$. Below this step size the loss decreases monotonically, above it the
    loss grows. The critical step size is therefore the maximal one.
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
    problem = Problem(linear, x, y, losses.half_sum)
    probes: dict[str, Any] = {"loss": measure.loss(), "residual": residual}
    done = train(problem, start, steps=config.steps, over={"lr": lrs}, probes=probes)

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
    found = {
        "predicted": (("ratio", "step", "sample"), np.asarray(predicted)),
        "growth": ("fine", np.asarray(growth)),
        "kernel_change": np.abs(np.asarray(last) - kernel).max() / np.abs(kernel).max(),
        "critical": critical,
        "critical_hessian": 2 / float(sharpness(start, direction)),
    }
    return done.dataset.rename(lr="ratio").assign(found).assign_coords(ratio=list(config.ratios), fine=fine)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    squares = (data.predicted**2).sum("sample")
    size = np.sqrt(squares)
    gap = np.sqrt(((data.residual - data.predicted) ** 2).sum("sample")) / np.maximum(size, size[:, 0])
    rounding = 10 * config.steps * np.finfo(float).eps * np.sqrt(config.width * config.dim)
    name = r"residual against $(I - \eta K)^t r(0)$, every step and step size: largest gap over $|r(t)|$ or $|r(0)|$"
    why = "rounding of outputs as large as these: ten units a step, times the root of the terms"
    yield claim("residual", name).zero(gap.max(), rounding, why)
    kernel = claim("kernel", "largest relative change of the tangent kernel in training")
    yield kernel.zero(data.kernel_change, rounding / config.steps, "rounding of one evaluation")
    why = "the Krylov space holds all eigenvectors with an eigenvalue above zero; rounding"
    critical = claim("critical", r"$2/\lambda_{\max}$ of the loss's Hessian over $2/\lambda_{\max}(K)$")
    yield critical.equal(1.0, data.critical_hessian / data.critical, 1e-10, why)
    below, above, before = data.ratio < 1, data.ratio > 1, data.loss.shift(step=1)
    change = (data.loss / before).where(below & (before > 1e-20 * data.loss.isel(step=0)))
    none = "all step sizes are critical or above"
    factor = claim("below", "below: largest factor of the loss in one step", given=below, otherwise=none)
    yield factor.at_most(1.0, change.max(), "every direction shrinks; rounding", slack=1e-12)
    ends = data.loss.isel(step=-1) / data.loss.isel(step=0)
    # Here the theory says that the first direction has outgrown its share of the first loss.
    in_time = (squares.isel(step=-1) > squares.isel(step=0))[above]
    slow = "in so few steps the first direction does not outgrow the others" if above.any() else "none is above"
    grown = above.any() & in_time.all()
    ratio = claim("above", "above: smallest ratio of the last loss to the first", given=grown, otherwise=slow)
    yield ratio.at_least(1.0, ends.where(above).min(), "the loss grows")
    falls = ends < 1
    low, high = data.ratio.where(falls).max(), data.ratio.where(~falls).min()
    name, none = "largest step size from which the loss falls, over the critical one", "the loss falls from all or none"
    threshold = claim("threshold", name, given=falls.any() & ~falls.all(), otherwise=f"{none} of the step sizes")
    why = "half the distance between neighbouring step sizes"
    yield threshold.equal(1.0, (low + high) / 2, abs(high - low) / 2, why)
    one_step = claim("one-step", "loss after one step just above the critical step size, over the loss before")
    if not above.any():
        yield one_step.undecided(1.0, "no step size is above the critical one")
        return
    first = data.isel(ratio=int(above.argmax("ratio")))
    start, after = (first.predicted[:2] ** 2).sum("sample")
    printed = r"\eta > \eta_{\mathrm{crit}} \Rightarrow \mathcal L(t+1) > \mathcal L(t)", 1.0
    right = r"\mathcal L(1)/\mathcal L(0) = \sum_i (1 - \eta\lambda_i)^2 r_i^2 / \sum_i r_i^2", float(after / start)
    note = (
        f"At {float(first.ratio):g} critical step sizes one direction alone grows. Once it dominates, the loss grows."
    )
    found, near = first.loss[1] / first.loss[0], Tolerance(0.0, 1e-10, why="rounding")
    yield one_step.erratum(printed, right, found, near, note=note, where="section 3.2, after equation (3.8)")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    sheet.guide(right, data.fine, data.growth, r"$\max_i (1 - \eta\lambda_i)^2$")
    for i, ratio in enumerate(data.ratio.values):
        one, name = data.isel(ratio=i, step=slice(0, 201)), rf"$\eta = {ratio:g}\,\eta_{{\mathrm{{crit}}}}$"
        left.plot(one.step, one.loss / one.loss[0], color=f"C{i}", label=name)
        sheet.guide(left, one.step, (one.predicted**2).sum("sample") / (one.predicted[0] ** 2).sum(), lw=0.8)
        right.plot(ratio, data.loss[i, -1] / data.loss[i, -2], "o", ms=7, color=f"C{i}")
    sheet.guide(left, [], [], r"$(I - \eta K)^t$", lw=0.8)
    legend = {"fontsize": 8, "ncols": 2, "loc": "upper right"}
    sheet.label(left, "Loss", "step", r"$\mathcal{L}(t)/\mathcal{L}(0)$", legend, yscale="log", ylim=(1e-6, 1e6))
    sheet.mark(right, x=1, y=1, lw=0.8, ls=":")
    right.text(0.97, 3.6, "loss falls", ha="right", color=sheet.ink())
    right.text(1.03, 3.6, "loss grows", color=sheet.ink())
    x, y = r"$\eta\,/\,\eta_{\mathrm{crit}}$", r"$\mathcal{L}(t+1)/\mathcal{L}(t)$"
    sheet.label(right, "Factor of the loss in one step, late", x, y, "upper left", ylim=(0, 5.2))
