"""Equation (4.2): the loss, split between the top of the tangent kernel and the rest."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses, measure, nets
from secant.core.device import to_device
from secant.core.types import Params
from secant.curvature import loss_split, ntk
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.data import regression
from secant.dynamics import Probe, Stop
from secant.expansion import expand
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, sheet, study
from secant.optim import Problem, train
from secant.studies.shared.about import about

RISE = 1.2
"""A loss has risen if it passes this many times the smallest before."""


class Config(Seeded):
    width: int = options.width(512, 512, 1_024, at_least=8, at_most=10**6)
    samples: int = options.samples(16, 48, 128, at_least=8, at_most=2_000)
    dim: int = options.dim(10, at_least=3, at_most=10_000)
    outputs: int = option(3, at_least=2, at_most=100, help="outputs of the second network")
    top: int = option(5, at_least=1, at_most=2_000, help="directions at the top of the kernel, for each output")
    ratio: float = options.ratio(1.5, above=1, at_most=2)
    steps: int = options.steps(60, 120, 400, at_least=20, at_most=100_000)

    def check(self) -> None:
        """Refuses more directions than there are, more outputs than pairs of coordinates, and kernels beyond memory."""
        if self.top > self.samples:
            raise ValueError(f"top: must be at most samples, which is {self.samples}, got {self.top}.")
        if self.outputs >= self.dim:
            raise ValueError(f"outputs: must be below dim, which is {self.dim}, got {self.outputs}.")
        rows = self.outputs * self.samples
        fits_memory(8 * 6 * rows**2 + 8 * 4 * rows * self.width * (self.dim + self.outputs), "width or samples")


@study("thesis/eq-4.2", section="4.2", title="The loss at the top of the kernel, and the rest")
def run(config: Config) -> xr.Dataset:
    r"""With $\mathcal P_{\le s}$ the projection on the first $s$ eigenvectors of the current tangent kernel, the mean
    squared loss splits exactly at every step, $$\mathcal L = \frac1n \|f - y\|^2
    = \frac1n \|\mathcal P_{\le s}(f - y)\|^2 + \frac1n \|\mathcal P_{> s}(f - y)\|^2
    = \mathcal L_{\le s} + \mathcal L_{> s},$$ with $\mathcal L_{\le n} = \mathcal L$; for $k$ outputs the kernel has
    $kn$ directions. The runs go through a catapult: with a step size above the critical one the loss rises and falls,
    and the kernel ends below the border, $\lambda_{\max}(K) < n/\eta$.

    One step changes the residual by $f' - y = (I - \frac{2\eta}{n} K)(f - y) + \Delta$ with
    $\Delta_i = \frac12 \langle w' - w, H_{f_i} (w' - w) \rangle$ (equation (4.3)).
    """
    key_data, key_net = jax.random.split(jax.random.key(config.seed))
    task = regression("rank-2", key_data, samples=config.samples, test_samples=1, dim=config.dim)
    x = to_device(task.train.x)
    # Further outputs learn products of other pairs of coordinates.
    columns = [task.train.y] + [task.train.x[:, i] * task.train.x[:, i + 1] for i in range(1, config.outputs)]
    targets = {1: to_device(task.train.y), config.outputs: to_device(np.stack(columns, axis=1))}
    runs = [_catapult(x, y, k, key_net, config) for k, y in targets.items()]
    data = xr.concat(runs, "outputs", join="outer").assign_coords(outputs=list(targets))
    net = nets.mlp([config.width], activation="relu")
    bend = jax.jit(_bend, static_argnums=0)(net.apply, net.init(key_net, x.shape), x, targets[1], float(runs[0].lr))
    return data.assign(bend=("reading", np.asarray(bend)))


def _catapult(x: jax.Array, y: jax.Array, outputs: int, key: jax.Array, config: Config) -> xr.Dataset:
    """Gradient descent with a step size above the critical one. The loss is split at every step."""
    net = nets.mlp([config.width], outputs, activation="relu")
    start, s = net.init(key, x.shape), config.top * outputs

    def split(params: Params) -> dict[str, jax.Array]:
        """The loss within the first s directions by parts, beyond them by projection, and by parts within all."""
        found = loss_split(net.apply, params, x, y, losses.mean_mse)
        residual = (net.apply(params, x) - y).reshape(-1)
        top = found.directions[:, :s]
        rest = residual - top @ (top.T @ residual)
        whole, kernel = found.within(residual.size), found.eigenvalues[0]
        return {"value": found.within(s), "rest": rest @ rest / len(x), "all": whole, "kernel": kernel}

    lr = config.ratio * len(x) / float(np.linalg.eigvalsh(ntk(net.apply, start, x).dense())[-1])
    problem = Problem(net.apply, x, y, losses.mean_mse)
    data = train(
        problem,
        start,
        lr=lr,
        steps=config.steps,
        probes={"loss": measure.loss(), "top": Probe(split)},
        stop=Stop(diverged=lambda params: problem.objective(params) > 1e9),
    ).dataset.rename({f"top_{part}": part for part in ("rest", "all", "kernel")})
    return data[["loss", "top", "rest", "all", "kernel"]].assign(lr=lr)


def _bend(f: Any, start: Params, x: jax.Array, y: jax.Array, lr: float) -> jax.Array:
    r"""What a step adds to the linear map, over $\langle w' - w, H (w' - w)\rangle$: slope and scatter of the ratio.

    In the quadratic model the Hessians are constant, so nothing is left to the choice of the point between.
    """
    model, kernel = expand(f, start, 2), pair_kernel(f)(start, x, None)
    residual, pull = jax.vjp(lambda params: model(params, x) - y, start)
    move = jax.tree.map(lambda g: -lr * g, pull(2 / len(x) * residual)[0])
    after = model(jax.tree.map(jnp.add, start, move), x) - y
    added = after - (residual - 2 * lr / len(x) * kernel @ residual)

    def along(f: Any) -> Any:
        """The derivative in the direction of the step."""
        return lambda params: jax.jvp(f, (params,), (move,))[1]

    curved = along(along(lambda params: model(params, x)))(start)
    slope = added @ curved / (curved @ curved)
    return jnp.stack([slope, jnp.linalg.norm(added - slope * curved) / jnp.linalg.norm(added)])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = "rounding: orthonormal directions to some units in the last place"
    for k in data.outputs.values:
        one, name = data.sel(outputs=k).dropna("step", subset=["loss"]), "one output" if k == 1 else f"{k} outputs"
        of, loss = about(f"outputs-{k}", name), one.loss.values
        for key, sum_, gap in (
            ("split", rf"$L_{{\le s}} + L_{{>s}}$ with $s = {config.top * k}$", one.loss - one.top - one.rest),
            ("all-directions", "the sum over all directions", one.loss - one["all"]),
        ):
            sentence = f"$L$ against {sum_}, largest relative difference"
            yield of(key, sentence).zero((np.abs(gap) / one.loss).max(), 1e-12, why)
        yield of("rise", "a catapult, largest loss over the smallest before it").at_least(
            RISE, (loss / np.minimum.accumulate(loss)).max(), "below the critical step size the loss never rises"
        )
        back, diverges = one.sizes["step"] > config.steps, f"the loss diverges in {one.sizes['step'] - 1} steps"
        yield of("border", r"kernel at the end over the border $n/\eta$", given=back, otherwise=diverges).at_most(
            1.0, one.kernel[-1] * one.lr / config.samples, "only below the border can the loss fall"
        )
    ratio, scatter = data.bend.values
    added = r"what a step of the quadratic model adds to the linear map, over $\langle w' - w, H (w' - w)\rangle$"
    yield claim("taylor-factor", added).erratum(
        (r"\Delta_i = \langle w' - w, H_{f_i} (w' - w) \rangle", 1.0),
        (r"\Delta_i = \tfrac12 \langle w' - w, H_{f_i} (w' - w) \rangle", 0.5),
        ratio,
        1e-10,
        "exact in the quadratic model; rounding",
        note=f"Taylor's factor one half is missing; the samples agree on it to {scatter:.0e}.",
        where="equations (4.3) and (4.4)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    *parts, kernel = sheet.panels(figure, (10.5, 4.2), 3)
    shown = data.isel(step=slice(80))
    for i, (axes, k) in enumerate(zip(parts, data.outputs.values, strict=True)):
        one, s, name = shown.sel(outputs=k), config.top * k, "one output" if k == 1 else f"{k} outputs"
        sheet.guide(axes, one.step, one.loss, r"$\mathcal{L}$", lw=1)
        axes.semilogy(one.step, one.top, color="C0", label=rf"$\mathcal{{L}}_{{\leq {s}}}$")
        axes.semilogy(one.step, one.rest, color="C1", label=rf"$\mathcal{{L}}_{{> {s}}}$")
        sheet.label(axes, f"{name.capitalize()}: {k * config.samples} directions", "step", legend="best")
        kernel.plot(one.step, one.kernel * one.lr / config.samples, color=f"C{2 + i}", label=name)
    parts[0].set_ylabel("loss")
    sheet.mark(kernel, y=1)
    kernel.text(float(shown.step[-1]), 1.02, "critical", ha="right", color=sheet.ink())
    sheet.label(kernel, "The kernel falls", "step", r"$\eta\,\lambda_{\max}(K)\,/\,n$", "lower left", ylim=(0, None))
