"""Appendix A.1: a one-hidden-layer linear network on one sample is the quartic loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import gradient_descent, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.theory import linear_network, two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    width: int = option(5, at_least=1, at_most=64, help="hidden units")
    inputs: int = option(7, at_least=1, at_most=64, help="input features")
    target: float = option(0.7, help="target of the one sample")
    relative_lrs: tuple[float, ...] = option(
        (0.5, 1.5, 2.2, 2.8), above=0, help="step sizes times the starting curvature"
    )
    steps: int = scaled(smoke=60, laptop=60, paper=60, at_least=1, help="gradient-descent steps")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "quadreg/app-A.1",
    section="A.1",
    title="A linear network is a catapult",
    statement=r"""
    The network $f(x) = v^\top Ux$ with $M$ hidden units and $N$ inputs has a constant second derivative. On one
    sample its eigenvalues are $0$ ($M(N-1)$ times) and $\pm|x|$ ($M$ times each), the Jacobian has no weight on the
    zero modes, and $|x|^{-1}(J_+^2 - J_-^2) = 2f(x)$. Trained towards a target $t$ it is the quartic loss with
    eigenvalues $\pm|x|$ and $E = 2t$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed))
    x = jax.random.normal(keys[0], (config.inputs,)) / jnp.sqrt(config.inputs)
    theta = jax.random.normal(keys[1], (config.width * (config.inputs + 1),)) / jnp.sqrt(config.width)
    omega = jnp.linalg.norm(x)
    Q = jax.jit(jax.hessian(lambda t: linear_network.output(t, x, config.width)))(theta)
    loss = lambda t: (linear_network.output(t, x, config.width) - config.target) ** 2 / 2  # noqa: E731
    gradient = jax.jit(jax.grad(lambda t: linear_network.output(t, x, config.width)))
    curvature = jnp.sum(gradient(theta) ** 2)
    lrs = jnp.array(config.relative_lrs) / curvature

    network = simulate(
        lambda lr: gradient_descent(loss, lr),
        theta,
        config.steps,
        over={"lr": lrs},
        probes={
            "z": lambda t, lr: lr * omega * (linear_network.output(t, x, config.width) - config.target),
            "T": lambda t, lr: lr * jnp.sum(gradient(t) ** 2),
        },
    ).dataset
    z0 = linear_network.output(theta, x, config.width) - config.target
    reduced = simulate(
        lambda lr: two_eigenvalue.symmetric(lr * omega * linear_network.offset(config.target)),
        lambda lr: two_eigenvalue.Point(lr * omega * z0, lr * curvature),
        config.steps,
        over={"lr": lrs},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
    ).dataset

    plus, minus = linear_network.mode_weights(theta, x, config.width)
    J = gradient(theta)
    V = jnp.concatenate([linear_network.eigenvectors(x, config.width, s) for s in (1, -1)])
    V = V / jnp.linalg.norm(V, axis=1, keepdims=True)
    return xr.Dataset(
        {
            "eigenvalues": ("mode", np.linalg.eigvalsh(np.asarray(Q))),
            "predicted": ("mode", np.asarray(linear_network.spectrum(x, config.width))),
            "zero_weight": float(jnp.sum(J**2) - jnp.sum((V @ J) ** 2)),
            "difference": float((plus - minus) / omega),
            "output": float(linear_network.output(theta, x, config.width)),
            "offset": float((plus - minus) / omega - 2 * z0),
            "norm": float(omega),
            "z": (("form", "ratio", "step"), np.stack([network.z, reduced.z])),
            "T": (("form", "ratio", "step"), np.stack([network["T"], reduced["T"]])),
        },
        coords={"form": ["network", "two numbers"], "ratio": list(config.relative_lrs), "step": network.step},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    rounding = Tolerance(1e-12, why="an identity: rounding of float64")
    M, N = config.width, config.inputs
    zero = int((np.abs(data.eigenvalues) < 1e-9).sum())
    yield Finding("number of zero eigenvalues", M * (N - 1), zero, Tolerance(0.0, why="a count"))
    yield Finding(
        "number of eigenvalues +|x|",
        M,
        int((np.abs(data.eigenvalues - data.norm) < 1e-9).sum()),
        Tolerance(0.0, why="a count"),
    )
    yield Finding(
        "largest difference of the spectrum", 0.0, float(np.abs(data.eigenvalues - data.predicted).max()), rounding
    )
    yield Finding("weight of the Jacobian on the zero modes", 0.0, float(data.zero_weight), rounding)
    yield Finding(
        "(J_+^2 - J_-^2)/|x| against twice the output", 2 * float(data.output), float(data.difference), rounding
    )
    yield Erratum(
        "offset of a network with a target",
        printed=r"E = 0",
        corrected=r"E = 2t",
        printed_value=0.0,
        corrected_value=2 * config.target,
        measured=float(data.offset),
        tolerance=rounding,
        why="the conserved quantity compares with the residual, not the output; it vanishes for a zero target only",
        where="after equation (42)",
    )
    gap = abs(data.isel(form=0) - data.isel(form=1))
    yield Finding(
        "network against the two-number map over all steps: largest difference",
        predicted=0.0,
        measured=float(max(gap.z.max(), gap["T"].max())),
        tolerance=Tolerance(1e-8, why="rounding, amplified by the transient growth of a catapult"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(11, 4)
    left, middle, right = figure.subplots(1, 3)
    left.plot(data.eigenvalues, np.arange(data.sizes["mode"]) + 1, "o", ms=5, color="C0", label="measured")
    for value, count in ((-1, config.width), (0, config.width * (config.inputs - 1)), (1, config.width)):
        left.axvline(value * float(data.norm), ls="--", color=ink, lw=1.0)
        name = {-1: r"$-|x|$", 0: "$0$", 1: r"$+|x|$"}[value]
        height = {-1: 0.30, 0: 0.02, 1: 0.50}[value]
        side = {-1: "left", 0: "left", 1: "right"}[value]
        pad = 0.05 * float(data.norm) * (1 if side == "left" else -1)
        left.text(
            value * float(data.norm) + pad,
            height * data.sizes["mode"] + 1,
            f"{name}\n{count} times",
            fontsize=10,
            ha=side,
        )
    left.set(title="Spectrum of the second derivative", xlabel="eigenvalue", ylabel="index")
    for i, ratio in enumerate(config.relative_lrs):
        one = data.isel(ratio=i)
        label = rf"$\eta\lambda_0 = {ratio:g}$"
        middle.semilogy(data.step, np.abs(one.z[0]) + 1e-16, color=f"C{i}", lw=2.6, alpha=0.8, label=label)
        middle.semilogy(data.step, np.abs(one.z[1]) + 1e-16, "--", color=ink, lw=0.9)
        right.plot(data.step, one["T"][0], color=f"C{i}", lw=2.6, alpha=0.8, label=label)
        right.plot(data.step, one["T"][1], "--", color=ink, lw=0.9, label="two numbers" if i == 0 else None)
    middle.set(title="Residual", xlabel="step", ylabel=r"$\eta|x||z|$", xlim=(0, 40), ylim=(1e-9, 10))
    right.axhline(2, color=ink, lw=0.6)
    right.set(title="Curvature", xlabel="step", ylabel=r"$\eta\lambda$", xlim=(0, 40))
    right.legend(loc="upper right")
