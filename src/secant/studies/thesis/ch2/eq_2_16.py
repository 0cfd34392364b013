"""Equation (2.16): the tangent kernel guarantees that gradient descent makes progress."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import losses, measure, nets
from secant.core.device import jit, to_device
from secant.core.types import Params
from secant.curvature import convergence, hessian, kernel_matrix
from secant.data import regression
from secant.dynamics import Probe
from secant.expansion import expand
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, sheet, study
from secant.linalg.norm import spectral_norm
from secant.optim import Problem, train


class Config(Seeded):
    width: int = options.width(128, 512, 2_048, at_least=8, at_most=100_000)
    samples: int = options.samples(20, at_least=2, at_most=2_000)
    dim: int = options.dim(10, at_least=2, at_most=10_000)
    fraction: float = option(0.5, at_least=1e-3, below=1, help="step size times the largest curvature of the loss")
    steps: int = options.steps(150, 400, 1_000, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses a kernel whose gradients do not fit the memory."""
        fits_memory(8 * 3 * self.samples * self.width * (self.width + self.dim + 1), "width or samples")


@study("thesis/eq-2.16", section="2.4", title="A kernel that guarantees progress")
def run(config: Config) -> xr.Dataset:
    r"""For $\mathcal L = \frac12 \sum_i (f(w; x_i) - y_i)^2$ with residual $r = f - y$ and tangent kernel $K$,
    $$\|\nabla \mathcal L(w)\|^2 = r^\top K(w)\, r \;\ge\; 2\,\lambda_{\min}(K(w))\,\mathcal L(w).$$
    So the loss satisfies the Polyak-Lojasiewicz condition with $\mu = \lambda_{\min}(K)$ wherever this is positive.
    If the condition holds along the way with one $\mu$, and the step size is at most
    $1/\lambda_{\max}(H_{\mathcal L})$, gradient descent reaches a global minimum at a guaranteed rate:
    $\mathcal L(t+1) \le (1 - \eta\mu)\,\mathcal L(t)$.
    """
    key_data, key_net = jax.random.split(jax.random.key(config.seed))
    task = regression("rank-2", key_data, samples=config.samples, test_samples=1, dim=config.dim)
    x, y = map(jnp.asarray, task.train)
    net = nets.mlp([config.width] * 2, activation="tanh")
    start = net.init(key_net, x.shape)
    problem = Problem(net.apply, x, y, losses.half_sum)
    direction = to_device(np.random.default_rng(config.seed).normal(size=nets.count_parameters(start)))

    def square(params: Params) -> dict[str, jax.Array]:
        """The squared gradient; the kernel's smallest eigenvalue, its value along the residual, and its largest."""
        gradient = ravel_pytree(jax.grad(problem.objective)(params))[0]
        found = convergence(net.apply, params, x, y, losses.half_sum)
        beside = {"smallest": found.smallest, "along": found.ratio, "largest": found.largest}
        return {"value": gradient @ gradient, **beside}

    def sharpness(params: Params) -> jax.Array:
        return spectral_norm(hessian(net.apply, params, x, y, losses.half_sum).flat_product(), direction, 20).value

    lr = config.fraction / float(jax.jit(sharpness)(start))
    probes: dict[str, Any] = {"loss": measure.loss(), "square": Probe(square), "sharpness": Probe(sharpness, every=10)}
    data = train(problem, start, lr=lr, steps=config.steps, probes=probes).dataset

    def one_step(start: Params) -> dict[str, jax.Array]:
        """A step 1 / lambda_max of the linearised network, whose targets leave the slowest direction alone."""
        values, vectors = jnp.linalg.eigh(kernel_matrix(net.apply, start, x))
        slowest = Problem(expand(net.apply, start, 1), x, net.apply(start, x) - vectors[:, 0], losses.half_sum)
        loss, slope = jax.value_and_grad(slowest.objective)(start)
        after = slowest.objective(jax.tree.map(lambda p, g: p - g / values[-1], start, slope))
        return {"factor": after / loss, "rate": convergence(net.apply, start, x, y, losses.half_sum).rate}

    beside = {"lr": lr} | {name: float(value) for name, value in jit(one_step, quick=True)(start).items()}
    return data.rename({f"square_{name}": name for name in ("smallest", "along", "largest")}).assign(beside)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    loss, mu = data.loss, data.smallest.min()
    alive = loss > 1e-20  # above the rounding of squared differences of outputs of order one
    gap, why = (
        np.abs(2 * loss * data.along / data.square - 1),
        "rounding of sums over all weights, relative to residuals",
    )
    yield claim("square", r"squared gradient against $r^\top K r$, every step: largest relative difference").zero(
        gap.where(alive).max(), 1e-11, f"{why} that shrink"
    )
    ratio = (data.square / (2 * data.smallest * loss)).where(alive).min()
    yield claim("condition", r"smallest squared gradient over $2\lambda_{\min}(K)\,\mathcal L$, every step").at_least(
        1.0, ratio, "rounding", slack=1e-11
    )
    yield claim("step-size", "step size times the largest curvature of the loss on the way").at_most(
        1.0, data.lr * data.sharpness.max(), "the guarantee's assumption, measured every ten steps"
    )
    factor = (loss / loss.shift(step=1)).where(alive).max()
    note = rf"with $\mu = {mu:.3g}$, the smallest eigenvalue on the way"
    yield claim("factor", r"largest factor of the loss in a step, over the guaranteed $1 - \eta\mu$").at_most(
        1.0, factor / (1 - data.lr * mu), "rounding", slack=1e-11, note=note
    )
    name = r"factor of the loss in a step $1/\lambda_{\max}$ of the linearised network, along its slowest direction"
    why = r"$(1 - \lambda_{\min}/\lambda_{\max})^2$; rounding"
    yield claim("slowest", name).equal(data.rate, data.factor, 1e-9, why)
    yield claim("eigenvalue", "smallest eigenvalue of the kernel, least over first").at_least(
        0.5, mu / data.smallest[0], r"half of the first eigenvalue can then serve as $\mu$ for the whole run"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2, subplot_kw={"yscale": "log", "xlabel": "step"})
    guarantee = data.loss[0] * (1 - data.lr * data.smallest.min()) ** data.step
    left.plot(data.step, data.loss, color="C0", label="gradient descent")
    sheet.guide(left, data.step, guarantee, r"guaranteed, $(1 - \eta\mu)^t\,\mathcal{L}(0)$")
    sheet.label(left, "Loss", y=r"$\mathcal{L}$", legend="lower left")
    right.fill_between(data.step, data.smallest, data.largest, color=sheet.faint(), alpha=0.35, lw=0)
    look = {"ms": 4, "color": "C1", "markevery": max(1, config.steps // 18), "zorder": 3}
    right.plot(data.step, data.square / (2 * data.loss), "o", label=r"$\|\nabla\mathcal{L}\|^2 / 2\mathcal{L}$", **look)
    right.plot(data.step, data.along, color="C0", label=r"$r^\top K r / \|r\|^2$")
    middle = config.steps // 2
    for border, name, below in ((data.largest, "max", 0.85), (data.smallest, "min", 0.9)):
        sheet.guide(right, data.step, border)
        right.text(middle, border[middle] * below, rf"$\lambda_{{\{name}}}(K)$", va="top", color=sheet.ink())
    sheet.label(right, "Squared gradient over twice the loss", legend="center right")
