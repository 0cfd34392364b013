"""Appendix A.1: a one-hidden-layer linear network on one sample is the quartic loss."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit, to_device
from secant.dynamics import simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, option, options, sheet, study
from secant.optim import gradient_descent
from secant.theory.edge import two_eigenvalue
from secant.theory.regression import linear_network


class Config(Seeded):
    width: int = options.width(5, at_most=32)
    inputs: int = option(7, at_least=1, at_most=32, help="input features")
    target: float = option(0.7, at_least=-10, at_most=10, help="target of the one sample")
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (0.5, 1.5, 2.2, 2.8), above=None, at_least=0.01, at_most=5, longest=100, distinct=True
    )
    steps: int = options.steps(60, 60, at_most=100_000)


@study("quadreg/app-A.1", section="A.1", title="A linear network is a catapult")
def run(config: Config) -> xr.Dataset:
    r"""The network $f(x) = v^\top Ux$ with $M$ hidden units and $N$ inputs has a constant second derivative. On one
    sample its eigenvalues are $0$ ($M(N-1)$ times) and $\pm|x|$ ($M$ times each), the Jacobian has no weight on the
    zero modes, and $|x|^{-1}(J_+^2 - J_-^2) = 2f(x)$. Trained towards a target $t$ it is the quartic loss with
    eigenvalues $\pm|x|$ and $E = 2t$.
    """

    def drawn(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys, count = jax.random.split(key), config.width * (config.inputs + 1)
        return jax.random.normal(keys[0], (config.inputs,)), jax.random.normal(keys[1], (count,))

    x, theta = map(np.asarray, jit(drawn, quick=True)(jax.random.key(config.seed)))
    x, theta = to_device(x / np.sqrt(config.inputs)), theta / np.sqrt(config.width)
    omega = np.linalg.norm(x)
    output = lambda t: linear_network.output(t, x, config.width)  # noqa: E731
    loss = lambda t: (output(t) - config.target) ** 2 / 2  # noqa: E731
    gradient = jax.grad(output)
    parts = jax.jit(lambda t: (jax.hessian(output)(t), gradient(t), output(t)))(theta)
    Q, J, start = map(np.asarray, parts)
    curvature, z0 = J @ J, float(start) - config.target
    lrs = np.array(config.eta_lambdas) / curvature
    # A step size that is too large ends the runs, each when it is no longer finite.
    network = simulate(
        lambda lr: gradient_descent(loss, lr),
        theta,
        config.steps,
        over={"lr": lrs},
        probes={
            "z": lambda t, lr: lr * omega * (output(t) - config.target),
            "T": lambda t, lr: lr * jnp.sum(gradient(t) ** 2),
        },
    ).dataset
    reduced = simulate(
        lambda lr: two_eigenvalue.symmetric(lr * omega * linear_network.offset(config.target)),
        lambda lr: two_eigenvalue.Point(lr * omega * z0, lr * curvature),
        config.steps,
        over={"lr": lrs},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
    ).dataset
    both = xr.concat([network[["z", "T"]], reduced[["z", "T"]]], "form", join="inner").rename(lr="ratio")

    def formulas(theta: jax.Array, x: jax.Array) -> tuple[Any, list[jax.Array], jax.Array]:
        vectors = [linear_network.eigenvectors(x, config.width, s) for s in (1, -1)]
        return (linear_network.mode_weights(theta, x, config.width), vectors, linear_network.spectrum(x, config.width))

    (plus, minus), vectors, spectrum = jit(formulas, quick=True)(theta, x)
    V, difference = np.concatenate(vectors), float(plus) - float(minus)
    V = V / np.linalg.norm(V, axis=1, keepdims=True)
    return both.assign(
        eigenvalues=("mode", np.linalg.eigvalsh(Q)),
        predicted=("mode", np.asarray(spectrum)),
        zero_weight=1 - np.sum((V @ J) ** 2) / curvature,
        difference=difference / omega,
        output=start,
        norm=omega,
        unit=("ratio", lrs * omega, {"long_name": "of rescaled residuals"}),
    ).assign_coords(form=["network", "two numbers"], ratio=list(config.eta_lambdas))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = Tolerance(1e-12, why="an identity: rounding of float64")
    M, N = config.width, config.inputs
    for key, value, expected, which in (
        ("zeros", 0, M * (N - 1), "zero eigenvalues"),
        ("norms", data.norm, M, "eigenvalues $+|x|$"),
    ):
        yield claim(key, f"number of {which}").count(expected, (np.abs(data.eigenvalues - value) < 1e-9).sum())
    gap = np.abs(data.eigenvalues - data.predicted).max()
    yield claim("spectrum", "largest difference of the spectrum").zero(gap, rounding)
    yield claim("zero-modes", "weight of the Jacobian on the zero modes").zero(data.zero_weight, rounding)
    sentence = "$(J_+^2 - J_-^2)/|x|$ against twice the output"
    yield claim("difference", sentence).equal(2 * data.output, data.difference, rounding)
    # T' = T - 2zW + z^2 T with W = 2z + E, solved for E, at the largest step.
    one = data.isel(form=0, ratio=int(data.unit.argmax("ratio")))
    unit, z, T, after = (float(part) for part in (one.unit, one.z[0], *one["T"][:2]))
    offset = claim("offset", "offset of a network with a target, from its first step")
    if z and np.isfinite(after):
        yield offset.erratum(
            (r"E = 0", 0.0),
            (r"E = 2t", float(linear_network.offset(config.target))),
            ((T - after + z**2 * T) / (2 * z) - 2 * z) / unit,
            1e-14 * (T + after + z**2 * T) / abs(2 * z) / unit,
            "rounding of the curvatures, over twice the residual",
            note="the conserved quantity compares with the residual, not the output; it is zero for a zero target only",
            where="after equation (42)",
        )
    else:
        yield offset.undecided(2 * config.target, "nothing moves")
    # Until a run diverges, which amplifies rounding without bound.
    size = 1 + np.abs(data.z) + data["T"]
    alive = ((size < 100).all("form").cumprod("step") > 0) & np.isfinite(size).all("form")
    gap = (abs(data.isel(form=0) - data.isel(form=1)) / size.max("form")).where(alive)
    sentence = "network against the two-number map until a run diverges: largest difference, relative"
    yield claim("two-numbers", sentence).zero(
        max(gap.z.max(), gap["T"].max()), 1e-8, "rounding, amplified by the transient growth of a catapult"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    modes, norm, M = data.sizes["mode"], float(data.norm), config.width
    left.plot(data.eigenvalues, np.arange(modes) + 1, "o", ms=5, color="C0", label="measured")
    sheet.mark(left, x=(-norm, 0, norm))
    for place, height, name, count, side in (
        (-0.95, 0.3, "$-|x|$", M, "left"),
        (0.05, 0.02, "$0$", M * (config.inputs - 1), "left"),
        (0.95, 0.5, "$+|x|$", M, "right"),
    ):
        left.text(place * norm, height * modes + 1, f"{name}\n{count} times", fontsize=10, ha=side)
    left.set(title="Spectrum of the second derivative", xlabel="eigenvalue", ylabel="index")
    for axes, values in ((middle, np.abs(data.z) + 1e-16), (right, data["T"])):
        for i, ratio in enumerate(config.eta_lambdas):
            network, reduced = values.isel(ratio=i)
            axes.plot(data.step, network, color=f"C{i}", lw=2.6, alpha=0.8, label=rf"$\eta\lambda_0 = {ratio:g}$")
            sheet.guide(axes, data.step, reduced, "two numbers" if i == 0 else None, lw=0.9)
        axes.set(xlabel="step", xlim=(0, 40))
    sheet.label(middle, "Residual", y=r"$\eta|x||z|$", yscale="log", ylim=(1e-9, 10))
    sheet.mark(right, y=2, ls="-", lw=0.6)
    sheet.label(right, "Curvature", y=r"$\eta\lambda$", legend="upper right")
