"""Equation (4.2): the loss, split between the top of the tangent kernel and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses, measure, nets
from secant.core.types import Params
from secant.curvature import loss_split, ntk
from secant.curvature.tangent_kernel import pair_kernel
from secant.data import regression
from secant.dynamics import Probe, Stop
from secant.expansion import expand
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.optim import Problem, train

RISE = 1.2
"""A loss has risen if it passes this many times the smallest before."""


@dataclass(frozen=True)
class Config:
    """Networks, data and step size."""

    width: int = scaled(smoke=512, laptop=512, paper=1_024, at_least=8, at_most=10**6, help="hidden neurons")
    samples: int = scaled(
        smoke=16, laptop=48, paper=128, at_least=8, at_most=2_000, help="training points of the rank-2 task"
    )
    dim: int = option(10, at_least=3, at_most=10_000, help="input dimension")
    outputs: int = option(3, at_least=2, at_most=100, help="outputs of the second network")
    top: int = option(5, at_least=1, at_most=2_000, help="directions at the top of the kernel, times the outputs")
    ratio: float = option(1.5, above=1, at_most=2, help="step size over the critical one")
    steps: int = scaled(smoke=60, laptop=120, paper=400, at_least=20, at_most=100_000, help="gradient-descent steps")
    seed: int = option(0, at_least=0, help="random seed")

    def check(self) -> None:
        """Refuses more directions than there are, more outputs than pairs of coordinates, and too large kernels."""
        if self.top > self.samples:
            raise ValueError(f"top: must be at most samples, which is {self.samples}, got {self.top}.")
        if self.outputs >= self.dim:
            raise ValueError(f"outputs: must be below dim, which is {self.dim}, got {self.outputs}.")
        rows = self.outputs * self.samples
        fits_memory(8 * 6 * rows**2 + 8 * 4 * rows * self.width * (self.dim + self.outputs), "width or samples")


@study(
    "thesis/eq-4.2", section="4.2", title="The loss at the top of the kernel, and the rest",
    statement=r"""
    With $\mathcal P_{\le s}$ the projection on the first $s$ eigenvectors of the current tangent kernel, the mean
    squared loss splits exactly at every step, $$\mathcal L = \frac1n \|f - y\|^2
    = \frac1n \|\mathcal P_{\le s}(f - y)\|^2 + \frac1n \|\mathcal P_{> s}(f - y)\|^2
    = \mathcal L_{\le s} + \mathcal L_{> s},$$ with $\mathcal L_{\le n} = \mathcal L$; for $k$ outputs the kernel has
    $kn$ directions. It is run through a catapult: with a step size above the critical one the loss rises and falls,
    and the kernel ends below the border, $\lambda_{\max}(K) < n/\eta$.

    One step changes the residual by $f' - y = (I - \frac{2\eta}{n} K)(f - y) + \Delta$ with
    $\Delta_i = \frac12 \langle w' - w, H_{f_i} (w' - w) \rangle$ (equation (4.3)).""",
)
def run(config: Config) -> xr.Dataset:
    key_data, key_net = jax.random.split(jax.random.key(config.seed))
    task = regression("rank-2", key_data, samples=config.samples, test_samples=1, dim=config.dim)
    x = jnp.asarray(task.train.x)
    # Further outputs learn products of other pairs of coordinates.
    columns = [task.train.y] + [task.train.x[:, i] * task.train.x[:, i + 1] for i in range(1, config.outputs)]
    targets = {1: jnp.asarray(task.train.y), config.outputs: jnp.asarray(np.stack(columns, axis=1))}
    runs = [_catapult(x, y, k, key_net, config) for k, y in targets.items()]
    data = xr.concat(runs, "outputs", join="outer").assign_coords(outputs=list(targets))
    return data.assign(bend=("reading", list(_bend(x, targets[1], key_net, config))))


def _catapult(x: jax.Array, y: jax.Array, outputs: int, key: jax.Array, config: Config) -> xr.Dataset:
    """Gradient descent with a step size above the critical one, the loss split at every step."""
    net = nets.mlp([config.width], outputs, activation="relu")
    start = net.init(key, x.shape)
    s = config.top * outputs

    def split(params: Params) -> jax.Array:
        """The loss beyond the first s directions by projection; by parts, within s and within all."""
        found = loss_split(net.apply, params, x, y, losses.mean_mse)
        residual = (net.apply(params, x) - y).reshape(-1)
        top = found.directions[:, :s]
        rest = residual - top @ (top.T @ residual)
        return jnp.stack([found.within(s), rest @ rest / len(x), found.within(residual.size), found.eigenvalues[0]])

    lr = config.ratio * len(x) / float(np.linalg.eigvalsh(ntk(net.apply, start, x).dense())[-1])
    problem = Problem(net.apply, x, y, losses.mean_mse)
    data = train(
        problem, start, lr=lr, steps=config.steps,
        probes={"loss": measure.loss(), "split": Probe(split, dims=("part",))},
        stop=Stop(diverged=lambda params: problem.objective(params) > 1e9),
    ).dataset
    parts = dict(zip(("top", "rest", "all", "kernel"), np.moveaxis(data.split.values, -1, 0), strict=True))
    values = {name: ("step", value) for name, value in parts.items()}
    return xr.Dataset(values | {"loss": data.loss, "lr": lr}, coords={"step": data.step})


def _bend(x: jax.Array, y: jax.Array, key: jax.Array, config: Config) -> tuple[float, float]:
    r"""What a step adds to the linear map, over $\langle w' - w, H (w' - w)\rangle$: slope and scatter of the ratio.

    In the quadratic model the Hessians are constant, so nothing is left to the choice of the point between.
    """
    net = nets.mlp([config.width], activation="relu")

    @jax.jit
    def one_step(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        start = net.init(key, x.shape)
        model = expand(net.apply, start, 2)
        kernel = pair_kernel(net.apply)(start, x, None)
        lr = config.ratio * len(x) / jnp.linalg.eigvalsh(kernel)[-1]
        residual, pull = jax.vjp(lambda params: model(params, x) - y, start)
        move = jax.tree.map(lambda g: -lr * g, pull(2 / len(x) * residual)[0])
        after = model(jax.tree.map(jnp.add, start, move), x) - y
        added = after - (residual - 2 * lr / len(x) * kernel @ residual)

        def slope(params: Params) -> jax.Array:
            return jax.jvp(lambda p: model(p, x), (params,), (move,))[1]

        curved = jax.jvp(slope, (start,), (move,))[1]
        ratio = added @ curved / (curved @ curved)
        return ratio, jnp.linalg.norm(added - ratio * curved) / jnp.linalg.norm(added)

    ratio, scatter = one_step(key)
    return float(ratio), float(scatter)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = "rounding: orthonormal directions to some units in the last place"
    for k in data.outputs.values:
        one = data.sel(outputs=k).dropna("step", subset=["loss"])
        name = "one output" if k == 1 else f"{k} outputs"
        for label, gap in (
            (f"L against L_<=s + L_>s with s = {config.top * k}", one.loss - one.top - one.rest),
            ("L against the sum over all directions", one.loss - one["all"]),
        ):
            yield claims.zero(
                f"{name}: {label}, largest relative difference", (np.abs(gap) / one.loss).max(), 1e-12, why
            )
        rise = float((one.loss.values / np.minimum.accumulate(one.loss.values)).max())
        falls = f"{name}: kernel at the end over the border n / eta"
        yield claims.at_least(
            f"{name}: a catapult, largest loss over the smallest before it", RISE, rise,
            "below the critical step size the loss never rises",
        )
        if one.sizes["step"] > config.steps:
            yield claims.at_most(
                falls, 1.0, one.kernel[-1] * one.lr / config.samples, "only below the border can the loss fall"
            )
        else:
            yield claims.undecided(falls, 1.0, f"the loss diverges in {one.sizes['step'] - 1} steps", "at most")
    ratio, scatter = data.bend.values
    yield Erratum(
        "what a step of the quadratic model adds to the linear map, over <w' - w, H (w' - w)>",
        printed=r"\Delta_i = \langle w' - w, H_{f_i} (w' - w) \rangle",
        corrected=r"\Delta_i = \tfrac12 \langle w' - w, H_{f_i} (w' - w) \rangle", printed_value=1.0,
        corrected_value=0.5, measured=ratio, tolerance=Tolerance(1e-10, why="exact in the quadratic model; rounding"),
        why=f"Taylor's factor one half is missing; the samples agree on it to {scatter:.0e}.",
        where="equations (4.3) and (4.4)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (10.5, 4.2), 3)
    ink = sheet.ink()
    shown = data.isel(step=slice(0, min(80, data.sizes["step"])))
    for axes, k in zip(panels[:2], data.outputs.values, strict=True):
        one = shown.sel(outputs=k)
        s = config.top * k
        axes.semilogy(one.step, one.loss, color=ink, lw=1, ls="--", label=r"$\mathcal{L}$")
        axes.semilogy(one.step, one.top, color="C0", label=rf"$\mathcal{{L}}_{{\leq {s}}}$")
        axes.semilogy(one.step, one.rest, color="C1", label=rf"$\mathcal{{L}}_{{> {s}}}$")
        name = "One output" if k == 1 else f"{k} outputs"
        axes.set(title=f"{name}: {k * config.samples} directions", xlabel="step")
        axes.legend()
    panels[0].set_ylabel("loss")
    for i, k in enumerate(data.outputs.values):
        one = shown.sel(outputs=k)
        label = "one output" if k == 1 else f"{k} outputs"
        panels[2].plot(one.step, one.kernel * one.lr / config.samples, color=f"C{2 + i}", label=label)
    panels[2].axhline(1, color=ink, lw=1.2, ls="--")
    panels[2].text(float(shown.step[-1]), 1.02, "critical", ha="right", color=ink)
    panels[2].set(
        title="The kernel falls", xlabel="step", ylabel=r"$\eta\,\lambda_{\max}(K)\,/\,n$", ylim=(0, None),
    )
    panels[2].legend(loc="lower left")
