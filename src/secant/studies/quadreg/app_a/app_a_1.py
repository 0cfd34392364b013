"""Appendix A.1: a one-hidden-layer linear network on one sample is the quartic loss."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.optim import gradient_descent
from secant.theory import linear_network, two_eigenvalue


@dataclass(frozen=True)
class Config:
    width: int = option(5, at_least=1, at_most=32, help="hidden units")
    inputs: int = option(7, at_least=1, at_most=32, help="input features")
    target: float = option(0.7, at_least=-10, at_most=10, help="target of the one sample")
    relative_lrs: tuple[float, ...] = option(
        (0.5, 1.5, 2.2, 2.8), at_least=0.01, at_most=5, longest=100, distinct=True,
        help="step sizes times the starting curvature",
    )
    steps: int = scaled(smoke=60, laptop=60, at_least=1, at_most=100_000, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31 - 1, help="random seed")


@study(
    "quadreg/app-A.1", section="A.1", title="A linear network is a catapult",
    statement=r"""
    The network $f(x) = v^\top Ux$ with $M$ hidden units and $N$ inputs has a constant second derivative. On one
    sample its eigenvalues are $0$ ($M(N-1)$ times) and $\pm|x|$ ($M$ times each), the Jacobian has no weight on the
    zero modes, and $|x|^{-1}(J_+^2 - J_-^2) = 2f(x)$. Trained towards a target $t$ it is the quartic loss with
    eigenvalues $\pm|x|$ and $E = 2t$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed))
    x = jax.random.normal(keys[0], (config.inputs,)) / np.sqrt(config.inputs)
    theta = np.asarray(jax.random.normal(keys[1], (config.width * (config.inputs + 1),))) / np.sqrt(config.width)
    omega = np.linalg.norm(x)
    output = lambda t: linear_network.output(t, x, config.width)  # noqa: E731
    loss = lambda t: (output(t) - config.target) ** 2 / 2  # noqa: E731
    gradient = jax.grad(output)
    Q, J, start = jax.jit(lambda t: (jax.hessian(output)(t), gradient(t), output(t)))(theta)
    J, start = np.asarray(J), float(start)
    curvature = J @ J
    lrs = jnp.array(config.relative_lrs) / curvature

    network = simulate(
        lambda lr: gradient_descent(loss, lr), theta, config.steps, over={"lr": lrs},
        probes={
            "z": lambda t, lr: lr * omega * (output(t) - config.target),
            "T": lambda t, lr: lr * jnp.sum(gradient(t) ** 2),
        },
    ).dataset
    z0 = start - config.target
    reduced = simulate(
        lambda lr: two_eigenvalue.symmetric(lr * omega * linear_network.offset(config.target)),
        lambda lr: two_eigenvalue.Point(lr * omega * z0, lr * curvature), config.steps, over={"lr": lrs},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
    ).dataset

    plus, minus = (float(weight) for weight in linear_network.mode_weights(jnp.asarray(theta), x, config.width))
    V = np.concatenate([linear_network.eigenvectors(x, config.width, s) for s in (1, -1)])
    V = V / np.linalg.norm(V, axis=1, keepdims=True)
    # A step size that is too large ends the runs, each when it is no longer finite.
    common = min(network.sizes["step"], reduced.sizes["step"])
    forms = [d.isel(step=slice(0, common)) for d in (network, reduced)]
    return xr.Dataset(
        {
            "eigenvalues": ("mode", np.linalg.eigvalsh(np.asarray(Q))),
            "predicted": ("mode", np.asarray(linear_network.spectrum(x, config.width))),
            "zero_weight": 1 - np.sum((V @ J) ** 2) / curvature, "difference": (plus - minus) / omega, "output": start,
            "norm": omega, "unit": ("ratio", np.asarray(lrs) * omega, {"long_name": "of rescaled residuals"}),
            "z": (("form", "ratio", "step"), np.stack([d.z for d in forms])),
            "T": (("form", "ratio", "step"), np.stack([d["T"] for d in forms])),
        },
        coords={"form": ["network", "two numbers"], "ratio": list(config.relative_lrs), "step": forms[0].step},
    )


def _observed_offset(data: xr.Dataset) -> tuple[float, float]:
    r"""The offset that the first step of training shows, and its rounding error.

    $T' = T - 2\tilde z W + \tilde z^2 T$ with $W = 2\tilde z + \tilde E$, solved for $\tilde E$, at the largest step.
    """
    one = data.isel(form=0, ratio=int(np.argmax(data.unit.values)))
    z, T, after = float(one.z[0]), float(one["T"][0]), float(one["T"][1])
    unit = float(one.unit)
    error = 1e-14 * (T + after + z**2 * T) / abs(2 * z) if z else float("inf")
    return ((T - after + z**2 * T) / (2 * z) - 2 * z) / unit if z else float("nan"), error / unit


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = Tolerance(1e-12, why="an identity: rounding of float64")
    M, N = config.width, config.inputs
    zero = int((np.abs(data.eigenvalues) < 1e-9).sum())
    yield claims.count("number of zero eigenvalues", M * (N - 1), zero)
    yield claims.count("number of eigenvalues +|x|", M, int((np.abs(data.eigenvalues - data.norm) < 1e-9).sum()))
    yield claims.zero("largest difference of the spectrum", np.abs(data.eigenvalues - data.predicted).max(), rounding)
    yield claims.zero("weight of the Jacobian on the zero modes", data.zero_weight, rounding)
    yield claims.equal(
        "(J_+^2 - J_-^2)/|x| against twice the output", 2 * float(data.output), data.difference, rounding
    )
    offset, error = _observed_offset(data)
    if np.isfinite(error):
        yield Erratum(
            "offset of a network with a target, from its first step", printed=r"E = 0", corrected=r"E = 2t",
            printed_value=0.0, corrected_value=float(linear_network.offset(config.target)), measured=offset,
            tolerance=Tolerance(error, why="rounding of the curvatures, over twice the residual"),
            why="the conserved quantity compares with the residual, not the output; it vanishes for a zero target only",
            where="after equation (42)",
        )
    else:
        yield claims.undecided(
            "offset of a network with a target, from its first step", 2 * config.target, "nothing moves"
        )
    # Until a run diverges, which amplifies rounding without bound.
    size = 1 + np.abs(data.z) + data["T"]
    alive = ((size < 100).all("form").cumprod("step") > 0) & np.isfinite(size).all("form")
    gap = (abs(data.isel(form=0) - data.isel(form=1)) / size.max("form")).where(alive)
    yield claims.zero(
        "network against the two-number map until a run diverges: largest difference, relative",
        max(gap.z.max(), gap["T"].max()), 1e-8, "rounding, amplified by the transient growth of a catapult",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    left.plot(data.eigenvalues, np.arange(data.sizes["mode"]) + 1, "o", ms=5, color="C0", label="measured")
    for value, count in ((-1, config.width), (0, config.width * (config.inputs - 1)), (1, config.width)):
        left.axvline(value * float(data.norm), ls="--", color=ink, lw=1.0)
        name = {-1: r"$-|x|$", 0: "$0$", 1: r"$+|x|$"}[value]
        height = {-1: 0.30, 0: 0.02, 1: 0.50}[value]
        side = {-1: "left", 0: "left", 1: "right"}[value]
        pad = 0.05 * float(data.norm) * (1 if side == "left" else -1)
        left.text(
            value * float(data.norm) + pad, height * data.sizes["mode"] + 1, f"{name}\n{count} times", fontsize=10,
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
