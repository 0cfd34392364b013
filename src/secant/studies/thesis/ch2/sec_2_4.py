"""Section 2.4: why gradient descent on a wide network converges, and that it does not need linearity for it."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses
from secant.core.types import Params
from secant.curvature.tangent_kernel import pair_kernel
from secant.dynamics import Probe
from secant.lab import Figure, Findings, claims, option, scaled, sheet, study
from secant.setups.width import (
    COPIES,
    KINDS,
    descend,
    direction,
    drawn,
    exponent,
    global_minimum,
    hessian_norm,
    law,
    logarithm,
    mark_widths,
    next_order,
    one_input,
    refuse_oversized,
)

OUTPUTS = {"fcn": "linear output", "output": "nonlinear output"}
"""The networks, by the kind of their output."""

SHARES = {"fcn": 1.0, "output": (0.5 / 1.1) ** 2}
"""Step size times the largest eigenvalue of the first kernel.

The slope of a swish output is 1/2 at the start and nowhere above 1.1, and the kernel grows with its square.
"""


@dataclass(frozen=True)
class Config:
    """Widths, networks, points and the run."""

    widths: tuple[int, ...] = scaled(
        smoke=(32, 128), laptop=(64, 128, 256, 512), paper=(64, 128, 256, 512, 1_024, 2_048, 4_096), at_least=8,
        shortest=2, ascending=True, help="neurons a layer, increasing",
    )  # fmt: skip
    seeds: int = scaled(smoke=12, laptop=12, at_least=2, at_most=10_000, help="random networks of each kind and width")
    samples: int = option(4, at_least=2, at_most=1_000, help="points that gradient descent fits")
    dim: int = option(8, at_least=2, at_most=10_000, help="input dimension")
    size: float = option(0.5, at_least=1e-3, at_most=100, help="root mean square of the inputs")
    steps: int = scaled(smoke=300, laptop=400, at_least=20, at_most=100_000, help="gradient-descent steps")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "thesis/sec-2.4", section="2.4", title="From a steady kernel to a global minimum",
    statement=r"""
    On $\mathcal L = \frac12\sum_i r_i^2$ the tangent kernel gives $\|\nabla\mathcal L\|^2 \ge 2\lambda_{\min}(K)\,
    \mathcal L$ (2.16). Where $\lambda_{\min}(K(w)) \ge \mu$ along the way, gradient descent with
    $\eta \le 1/\lambda_{\max}(H_{\mathcal L})$ converges exponentially to a global minimum, and its way is not longer
    than $2\sqrt{2\mathcal L(0)/\mu}$. Late in the run the loss falls by $(1 - \eta\lambda_{\min}(K))^2$ a step, or
    faster.

    In a wide network such a $\mu$ exists, because the kernel hardly moves: its rows are gradients, which the Hessian
    moves, so
    $$|\lambda_{\min}(K(w)) - \lambda_{\min}(K(w_0))| \le \sqrt n\,\sup\|H_f\|\,\ell\,
    \big(\|K(w)\|^{1/2} + \|K(w_0)\|^{1/2}\big)$$
    for a way of length $\ell$, which falls as $1/\sqrt m$.

    Linearity is sufficient for this and not necessary: with a nonlinear activation of the output the Hessian does not
    fall with the width, and gradient descent still finds a global minimum.""",
)
def run(config: Config) -> xr.Dataset:
    random = np.random.default_rng(config.seed)
    keys = jax.random.split(jax.random.key(config.seed), config.samples)
    x = jnp.concatenate([one_input(key, config.dim, config.size) for key in keys])
    y = jnp.asarray(random.uniform(0.1, 0.6, config.samples))  # within the range of both outputs
    for kind in OUTPUTS:
        refuse_oversized(
            "thesis/sec-2.4", KINDS[kind].by_width(config.dim, keys[0]), config.dim, config.widths,
            copies=2 * COPIES + config.seeds, itemsize=8,
        )
    kinds = [
        xr.concat([_runs(kind, width, x, y, config) for width in config.widths], "width").assign_coords(
            width=list(config.widths)
        )
        for kind in OUTPUTS
    ]
    return xr.concat(kinds, "kind").assign_coords(kind=list(OUTPUTS))


def _runs(kind: str, width: int, x: jax.Array, y: jax.Array, config: Config) -> xr.Dataset:
    net = KINDS[kind].make(width, config.dim, jax.random.key(config.seed))
    kernel, starts = pair_kernel(net.apply), drawn(net, x, (config.seed, width), config.seeds)
    lanczos = direction(starts[0])

    def look(params: Params) -> jax.Array:
        gradient = jax.grad(lambda p: losses.half_sum(net.apply(p, x), y))(params)
        square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))
        values = jnp.linalg.eigvalsh(kernel(params, x, None))
        return jnp.stack([square, values[0], values[-1]])

    probes = {
        "look": Probe(look, dims=("part",)),
        "norm": Probe(lambda params: hessian_norm(net.apply, params, x, lanczos).value, every=config.steps),
    }
    data = descend(net.apply, x, y, starts, config.steps, probes, SHARES[kind])
    square, smallest, largest = np.moveaxis(data.look.values, -1, 0)
    # A step is as long as the gradient, times the step size.
    steps = data.lr.values[:, None] * np.sqrt(square[:, :-1])
    length = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    parts = {"square": square, "smallest": smallest, "largest": largest, "length": length}
    return xr.Dataset(
        {
            "loss": (("network", "step"), data.loss.values), "lr": ("network", data.lr.values),
            "norm": (("network", "end"), data.norm.values),
            **{name: (("network", "step"), values) for name, values in parts.items()},
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    alive = data.loss > 1e-20  # above what rounding of outputs of order one leaves
    yield claims.at_least(
        "squared gradient over 2 lambda_min L, all runs and steps: smallest", 1.0,
        (data.square / (2 * data.smallest * data.loss)).where(alive).min(),
        "rounding, relative to residuals that shrink", slack=1e-9,
    )
    mu = data.smallest.min("step")
    bound = 2 * np.sqrt(2 * data.loss.isel(step=0) / mu)
    yield claims.at_most(
        "length of the way over 2 sqrt(2 L(0) / mu): largest", 1.0,
        (data.length.isel(step=-1) / bound).sel(kind="fcn").max(),
        "proved for step sizes of at most one over the curvature",
        note="linear outputs; with the others the kernel grows on the way, and the step is too long for the proof",
    )
    plain = data.sel(kind="fcn")
    yield claims.equal(
        "factor of the loss late in the run over (1 - eta lambda_min)^2: largest", 1.0,
        (_late(plain) / _predicted(plain)).max(), 0.01,
        "no run is slower, but for a kernel that still moves by a thousandth; one attains it",
    )
    change = np.abs(data.smallest - data.smallest.isel(step=0)).max("step")
    spread = np.sqrt(data.largest).max("step") + np.sqrt(data.largest.isel(step=0))
    guard = np.sqrt(config.samples) * data.norm.max("end") * data.length.isel(step=-1) * spread
    yield claims.at_most(
        "change of lambda_min over its bound by the norm of the Hessian: largest", 1.0,
        (change / guard).sel(kind="fcn").max(),
        "the bound; the norm is looked at for one output at both ends of the way",
    )
    yield claims.at_most(
        "change of lambda_min: exponent in the width", -0.5, exponent(change.sel(kind="fcn")),
        slack=logarithm(config.widths),
    )
    yield claims.zero(
        "nonlinear output: exponent of the norm of the Hessian in the width",
        exponent(data.norm.sel(kind="output").max("end")), next_order(config.widths, 0.5, 2.0),
    )
    ends = data.loss.isel(step=-1) / data.loss.isel(step=0)
    promised = ((1 - data.lr * data.smallest.isel(step=slice(0, -1))) ** 2).prod("step")
    for kind, name in OUTPUTS.items():
        at = {"kind": kind}
        yield global_minimum(f"{name}: last loss over the first: largest", ends.sel(at), promised.sel(at), 1e-4)


def _late(data: xr.Dataset) -> xr.DataArray:
    """Factor of the loss in a step, where the loss is small and still far above rounding."""
    fallen = data.loss < 1e-6 * data.loss.isel(step=0)
    ready = (fallen & (data.loss > 1e-20)).values
    factors = data.loss.values[..., 1:] / data.loss.values[..., :-1]
    last = np.where(ready[..., 1:], factors, np.nan)
    # Of the steps that count the last few: there the slowest direction is alone.
    rows = last.reshape(-1, last.shape[-1])
    picked = [row[np.isfinite(row)][-5:].mean() if np.isfinite(row).any() else np.nan for row in rows]
    return xr.DataArray(np.reshape(picked, last.shape[:-1]), dims=data.loss.dims[:-1], coords={"width": data.width})


def _predicted(data: xr.Dataset) -> xr.DataArray:
    return (1 - data.lr * data.smallest.isel(step=-1)) ** 2


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.8), 3)
    ink = sheet.ink()
    widest = data.isel(width=-1)
    for i, (kind, name) in enumerate(OUTPUTS.items()):
        loss = widest.loss.sel(kind=kind)
        left.semilogy(data.step, (loss / loss.isel(step=0)).transpose("step", "network"), color=f"C{i}", lw=1)
        left.plot([], [], color=f"C{i}", label=name)
    one = widest.sel(kind="fcn").isel(network=0)
    rate = (1 - float(one.lr * one.smallest.min())) ** data.step
    left.semilogy(data.step, rate, "--", color=ink, lw=1.2, label=r"guaranteed, $(1 - \eta\mu)^t$")
    left.set(title=f"Loss, width {int(data.width[-1])}", xlabel="step", ylabel=r"$\mathcal{L}/\mathcal{L}(0)$")
    left.set_ylim(1e-20, 3)
    left.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    for i, width in enumerate(data.width.values):
        drift = data.sel(kind="fcn", width=width).isel(network=0)
        middle.plot(data.step, drift.smallest / drift.smallest.isel(step=0), color=f"C{i}", lw=1.4, label=f"{width}")
    middle.axhline(1, ls=":", color=ink, lw=1)
    middle.set(title=r"$\lambda_{\min}(K)$ over its first value", xlabel="step")
    middle.set_xlim(0, 0.4 * config.steps)
    middle.legend(title="width", fontsize=8, title_fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
    change = np.abs(data.smallest - data.smallest.isel(step=0)).max("step").sel(kind="fcn")
    curves = {
        r"change of $\lambda_{\min}$, linear output": (change, "C0", "o"),
        r"$\|H_f\|$, linear output": (data.norm.sel(kind="fcn").max("end"), "C0", "s"),
        r"$\|H_f\|$, nonlinear output": (data.norm.sel(kind="output").max("end"), "C1", "s"),
    }
    for label, (values, color, mark) in curves.items():
        found = law(values)
        right.plot(
            data.width, np.exp(np.log(values).mean("network")), mark, color=color, ms=5, mfc="none",
            label=f"{label}: {found.exponent:.2f}",
        )  # fmt: skip
        right.plot(data.width, found(data.width), color=color, lw=1)
    mark_widths(right, data.width)
    right.set(title="Against the width")
    right.legend(fontsize=8, title="exponent", title_fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18))
