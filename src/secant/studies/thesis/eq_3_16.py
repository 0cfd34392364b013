"""Equations (3.15)-(3.16): the exact update of residual and kernel for any quadratic model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Probe, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import descent, model, tangent_kernel
from secant.theory.quadratic_model import (
    TwoLayer,
    kernel_update,
    residual_update,
    two_layer_init,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Network, data and step size."""

    width: int = scaled(smoke=512, laptop=1_024, paper=2_048, at_least=2, help="hidden neurons")
    samples: int = scaled(smoke=8, laptop=16, paper=128, at_least=2, help="training samples")
    dim: int = option(6, at_least=1, help="input dimension")
    mean: float = option(1.0, at_least=0, help="common mean of the inputs; 0 has no dominant direction")
    ratio: float = option(2.6, above=0, help="step size times the top eigenvalue of the kernel")
    steps: int = option(40, at_least=2, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/eq-3.16",
    section="3.3",
    title="The kernel update of every quadratic model",
    statement=r"""
    For a model quadratic in its parameters, with Jacobian $J$, residual $r$, Hessians $H_i$ and
    $G_i = H_i J^\top r$, one step of gradient descent on $\frac12\|r\|^2$ gives exactly
    $$r' = \big(I - \eta K + \tfrac{\eta^2}{2}\,GJ^\top\big)\,r,
    \qquad K' = K - \eta\,(GJ^\top + JG^\top) + \eta^2\,GG^\top .$$
    Along the top eigenvector $p_1$ of $K$ the remainders $p_1^\top R_f\,p_1$ and $p_1^\top R_K\,p_1$ scale
    with the loss and are positive while it is large: they drive loss and kernel down. (This needs data with
    one dominant direction, as images have.)""",
)
def run(config: Config) -> xr.Dataset:
    key_x, key_y, key = jax.random.split(jax.random.key(config.seed), 3)
    x = config.mean + jax.random.normal(key_x, (config.samples, config.dim))
    y = jnp.sign(jax.random.normal(key_y, (config.samples,)))
    params = two_layer_init(key, config.width, config.dim)
    outputs = model("quadratic", params, x)
    lr = config.ratio / jnp.linalg.eigvalsh(tangent_kernel("quadratic", params, x, params))[-1]
    path = simulate(
        descent("quadratic", params, x, y, lr),
        params,
        config.steps,
        probes={
            "u": Probe(lambda p: p.u, dims=("neuron", "dim")),
            "v": Probe(lambda p: p.v, dims=("neuron",)),
        },
    ).dataset

    def jacobian(p: TwoLayer) -> jax.Array:
        leaves = jax.tree.leaves(jax.jacobian(outputs)(p))
        return jnp.concatenate([leaf.reshape(config.samples, -1) for leaf in leaves], axis=1)

    @jax.jit
    @jax.vmap
    def examine(p: TwoLayer) -> dict[str, jax.Array]:
        r, J = outputs(p) - y, jacobian(p)
        gradient = jax.vjp(outputs, p)[1](r)[0]
        G = jax.jvp(jacobian, (p,), (gradient,))[1]  # G_i = H_i J^T r
        K = J @ J.T
        values, vectors = jnp.linalg.eigh(K)
        top = vectors[:, -1]
        cross, bend = top @ G @ J.T @ top, jnp.sum((G.T @ top) ** 2)
        return {
            "residual": r,
            "kernel": K,
            "residual_next": residual_update(r, J, G, lr),
            "kernel_next": kernel_update(J, G, lr),
            "top": values[-1],
            "vector": top,
            "along": r @ top,
            "label": y @ top,
            "remainder_f": lr**2 / 2 * cross,
            "remainder_k": 2 * lr * cross - lr**2 * bend,
            "printed": lr / 4 * (4 * cross - lr * bend),
        }

    found = examine(TwoLayer(jnp.asarray(path.u.values), jnp.asarray(path.v.values)))
    dims = {"residual": 1, "residual_next": 1, "vector": 1, "kernel": 2, "kernel_next": 2}
    axes = ("sample", "other")
    return xr.Dataset(
        {name: (("step", *axes[: dims.get(name, 0)]), np.asarray(value)) for name, value in found.items()},
        coords={"step": path.step.values},
    ).assign(lr=float(lr))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    r, K = data.residual.values, data.kernel.values
    rounding = Tolerance(1e-11, why="rounding, relative to the size of the quantity")
    error = np.abs(r[1:] - data.residual_next.values[:-1]).max() / np.abs(r).max()
    yield Finding("residual: (3.15) against gradient descent", 0.0, error, rounding)
    error = np.abs(K[1:] - data.kernel_next.values[:-1]).max() / np.abs(K).max()
    yield Finding("kernel: corrected (3.16) against gradient descent", 0.0, error, rounding)
    loss = (r**2).sum(1) / 2
    peak = int(np.argmax(loss))
    p = data.vector.values[peak]
    measured = float(p @ (K[peak] - K[peak + 1]) @ p)
    yield Erratum(
        "fall of the top eigenvalue at the peak of the loss",
        printed=r"R_K = \tfrac14\,\eta\,(4\,GJ^\top - \eta\,GG^\top)",
        corrected=r"R_K = \eta\,(GJ^\top + JG^\top) - \eta^2\,GG^\top",
        printed_value=float(data.printed[peak]),
        corrected_value=float(data.remainder_k[peak]),
        measured=measured,
        tolerance=Tolerance(relative=1e-9, why="rounding"),
        why="The Jacobian moves to J - eta G, and K' is its Gram matrix; G lives in as many dimensions as parameters.",
        where="equation (3.16)",
    )
    # one sample: R_lambda > 0 exactly where 4 (1 + y/r) > eta lambda, so certainly where |r| > 4 |y| / (4 - eta lambda)
    room = 4 - float(data.lr) * data.top.values
    large = (room > 0) & (np.abs(data.along.values) * room > 4 * np.abs(data.label.values))
    large &= np.abs(data.along.values) > 4 / (4 - config.ratio)
    yield Finding(
        "smallest remainder of the residual along p_1 while the loss is large",
        predicted=0.0,
        measured=float(data.remainder_f.values[large].min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="the claim; large means |r| > 4 |y| / (4 - eta lambda), enough for one sample"),
    )
    yield Finding(
        "smallest remainder of the kernel along p_1 while the loss is large",
        predicted=0.0,
        measured=float(data.remainder_k.values[large].min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="the claim; large means |r| > 4 |y| / (4 - eta lambda), enough for one sample"),
        note="inputs with a common mean, as images have; with --mean 0 it failed for 1 of 10 seeds at smoke scale",
    )
    yield Finding(
        "share of the peak loss along p_1",
        predicted=0.9,
        measured=float(data.along[peak] ** 2 / 2 / loss[peak]),
        relation="at least",
        tolerance=Tolerance(0.0, why="the text says it almost captures the spike"),
        note="inputs with a common mean, as images have; with --mean 0 several directions catapult at once, and it "
        "failed for 4 of 10 seeds at smoke scale",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = figure.subplots(1, 2)
    ink = plt.rcParams["text.color"]
    loss = (data.residual**2).sum("sample") / 2
    left.semilogy(data.step, loss, "o-", ms=3.5, color="C0", label="loss")
    left.semilogy(data.step, data.along**2 / 2, "s--", ms=3, lw=1, color="C1", label=r"along $p_1$")
    left.set(title="The spike is in the top eigendirection", xlabel="step", ylabel=r"$\mathcal{L}$")
    left.set_ylim(bottom=1e-4 * float(loss.max()))
    left.legend()
    scale = float(data.top[0])
    right.plot(data.step, data.remainder_f, "o-", ms=3.5, color="C2", label=r"$p_1^{\top} R_f\, p_1$")
    right.plot(
        data.step, data.remainder_k / scale, "s-", ms=3.5, color="C3", label=r"$p_1^{\top} R_K\, p_1/\lambda_1(0)$"
    )
    p, K = data.vector.values, data.kernel.values
    fall = np.einsum("ti,tij,tj->t", p[:-1], K[:-1] - K[1:], p[:-1]) / scale
    right.plot(data.step[:-1], fall, "--", lw=1, color=ink, label=r"$p_1^{\top}(K - K')\,p_1/\lambda_1(0)$, measured")
    right.axhline(0, color=ink, lw=0.8)
    right.set(title="What drives it down", xlabel="step", ylabel="remainder")
    right.legend()
