"""Propositions B.11.1-B.11.3 and equations (B.7)-(B.12): the exact dynamics of several scalar samples."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Probe, Stop, simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.setups.two_layer.models import descent, model, tangent_kernel
from secant.theory import catapult as ct
from secant.theory import catapult_samples as sm
from secant.theory.quadratic_model import TwoLayer, two_layer_init


@dataclass(frozen=True)
class Config:
    """Network, data and step size."""

    width: int = scaled(smoke=64, laptop=256, paper=1_024, at_least=32, help="hidden neurons")
    samples: int = option(7, at_least=3, help="scalar inputs")
    ratio: float = option(2.8, at_least=0.1, at_most=3.5, help="step size times the larger eigenvalue")
    steps: int = option(50, at_least=2, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        kernels = self.samples**2 + self.width * self.samples
        fits_memory(32.0 * self.steps * kernels, "samples, width or steps")


@study(
    "thesis/prop-B.11", section="B.11", title="Scalar inputs: rank two, fixed eigenvectors, a conserved rest",
    statement=r"""
    For scalar inputs the tangent kernel has rank at most two, with eigenvectors $p_1 = x \odot 1_{x \ge 0}$
    and $p_2 = x \odot 1_{x < 0}$ at all times. Residual and kernel obey (B.7)-(B.8) exactly,
    $$g' - y = \Big(I - \eta K + \tfrac{\eta^2}{m}\big(Q_+ p_1p_1^\top + Q_- p_2p_2^\top\big)\Big)(g - y), \qquad
    Q_\pm = \langle (g - y) \odot m_\pm, g \odot m_\pm\rangle,$$
    the loss orthogonal to both never changes, and with $r_i = \langle g - y, \hat p_i\rangle$,
    $y_i = \langle y, \hat p_i\rangle$ the variables $u_i = \frac{\eta^2}{m}\|p_i\|^2 r_i^2$,
    $w_i = \frac{\eta^2}{m}\|p_i\|^2 r_i y_i$, $v_i = \eta\lambda_i$ follow the map of one sample, each on its
    own.""",
)
def run(config: Config) -> xr.Dataset:
    key_x, key_y, key = jax.random.split(jax.random.key(config.seed), 3)
    x = jax.random.normal(key_x, (config.samples,)).at[0].set(0.8).at[1].set(-1.2)
    y = jax.random.normal(key_y, (config.samples,))
    params = two_layer_init(key, config.width, 1)
    inputs = x[:, None]
    outputs = model("quadratic", params, inputs)
    kernel0 = tangent_kernel("quadratic", params, inputs, params)
    lr = config.ratio / jnp.linalg.eigvalsh(kernel0)[-1]
    # the second set of labels differs on the negative inputs only, and must not be felt by the positive ones
    labels = jnp.stack([y, jnp.where(x < 0, -2 * y, y)])
    weights = simulate(
        lambda labels: descent("quadratic", params, inputs, labels, lr), params, config.steps, over={"labels": labels},
        probes={
            "u": Probe(lambda p: p.u, dims=("neuron", "dim")), "v": Probe(lambda p: p.v, dims=("neuron",)),
        },
    ).dataset
    path = TwoLayer(jnp.asarray(weights.u.values), jnp.asarray(weights.v.values))
    residual = np.asarray(jax.vmap(jax.vmap(outputs))(path) - y)
    kernel = jax.jit(jax.vmap(lambda p: tangent_kernel("quadratic", params, inputs, p)))(
        jax.tree.map(lambda leaf: leaf[0], path)
    )
    start = (outputs(params) - y, kernel0)
    matrix = simulate(
        sm.samples_catapult(x, y, lr, config.width), start, config.steps,
        probes={
            "residual_map": Probe(lambda s: s.residual, dims=("sample",)),
            "kernel_map": Probe(lambda s: s.kernel, dims=("sample", "other")),
        },
    ).dataset
    pair, b = sm.reduce_directions(*start, x, y, lr, config.width)
    reduced = simulate(
        ct.reduced_catapult(b), pair, config.steps,
        probes={
            "a": Probe(lambda s: s.a, dims=("direction",)), "v": Probe(lambda s: s.v, dims=("direction",)),
        },
        stop=Stop(),
    ).dataset
    data = xr.merge([matrix, reduced], compat="override", join="inner")
    return data.assign(
        residual=(("step", "sample"), residual[0]), residual_other=(("step", "sample"), residual[1]),
        kernel=(("step", "sample", "other"), np.asarray(kernel)), x=("sample", np.asarray(x)),
        y=("sample", np.asarray(y)), b=("direction", np.asarray(b)), lr=float(lr),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    x, y, lr, m = jnp.asarray(data.x.values), data.y.values, float(data.lr), config.width
    split = sm.directions(x)
    units, squares = np.asarray(split.units), np.asarray(split.squares)
    r, K = data.residual.values, data.kernel.values
    scale = np.abs(K).max()
    spectrum = np.linalg.eigvalsh(K)
    rounding = Tolerance(1e-10, why="rounding, amplified by the growth of the loss")
    yield claims.zero("third eigenvalue of the kernel over the first", np.abs(spectrum[:, :-2]).max() / scale, rounding)
    images = np.einsum("tij,kj->tki", K, units)
    values = np.einsum("tki,ki->tk", images, units)
    yield claims.zero(
        "p_1 and p_2 are eigenvectors at all times: largest defect",
        np.abs(images - values[..., None] * units).max() / scale, rounding,
    )
    yield claims.zero(
        "residuals: (B.7) against gradient descent, over the largest",
        np.abs(r - data.residual_map.values).max() / np.abs(r).max(), rounding,
    )
    yield claims.zero(
        "kernel: (B.8) against gradient descent", np.abs(K - data.kernel_map.values).max() / scale, rounding
    )
    along = r @ units.T
    rest = (r**2).sum(1) / 2 - (along**2).sum(1) / 2
    yield claims.zero(
        "loss orthogonal to p_1 and p_2 is constant: largest change over the largest loss",
        np.abs(rest - rest[0]).max() / (r**2).sum(1).max(), rounding,
    )
    factor = lr * np.sqrt(squares / m)
    yield claims.zero(
        "both directions follow the map of one sample: largest deviation",
        max(np.abs(factor * along - data.a.values).max(), np.abs(lr * values - data.v.values).max()), rounding,
    )
    positive = data.x.values >= 0
    yield claims.zero(
        "other labels on the negative inputs change the positive outputs by",
        np.abs(r - data.residual_other.values)[:, positive].max(), rounding,
        note="the text says the directions are almost independent; they are exactly so",
    )
    # what w must be for (B.9) to hold at the first step, from gradient descent alone
    mu = along[1, 0] / along[0, 0]
    u1 = lr**2 / m * squares[0] * along[0, 0] ** 2
    needed = mu - 1 + lr * values[0, 0] - u1
    printed = lr**2 / m * float((r[0] * y)[positive].sum())
    yield Erratum(
        "reduced variable w_1 at the start",
        printed=r"w_1 = \tfrac{\eta^2}{m}\langle (g - y)\odot m_+, y\odot m_+\rangle",
        corrected=r"w_1 = \tfrac{\eta^2}{m}\|p_1\|^2\,\langle g - y, \hat p_1\rangle\langle y, \hat p_1\rangle",
        printed_value=printed, corrected_value=float(lr**2 / m * squares[0] * along[0, 0] * (units @ y)[0]),
        measured=float(needed),
        tolerance=Tolerance(relative=1e-6, why="rounding, of a difference of numbers of order one"),
        why="The factor |p_1|^2 is missing and the part of y orthogonal to p_1 must not enter.",
        where="appendix B.12, before (B.9)",
    )
    # sign and factor of the change of lambda_1 at a large output with y = 0
    unit, size, big = units[0], squares[0], 50.0
    state = sm.SamplesState(jnp.asarray(big * unit), jnp.asarray(K[0]))
    eta = 5 / values[0, 0]
    after = sm.samples_catapult(x, jnp.zeros_like(x), eta, m).step(state)
    yield Erratum(
        "change of lambda_1 past the maximal step (y = 0, eta lambda_1 = 5, |g| = 50)",
        printed=r"\tfrac{\|g\|^2\|p_1\|^2}{m}\,\eta\,(\lambda_1 - 4\eta)",
        corrected=r"\tfrac{\|g\|^2\|p_1\|^2}{m}\,\eta\,(\eta\lambda_1 - 4)",
        printed_value=big**2 * size / m * eta * (values[0, 0] - 4 * eta),
        corrected_value=big**2 * size / m * eta * (eta * values[0, 0] - 4),
        measured=float(unit @ after.kernel @ unit - values[0, 0]), tolerance=Tolerance(relative=1e-10, why="rounding"),
        why="The step size stands at the wrong term; with it the bracket is positive exactly when eta > 4/lambda_1.",
        where="appendix B.11, divergence",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    ink = sheet.ink()
    units = np.asarray(sm.directions(jnp.asarray(data.x.values)).units)
    along = data.residual.values @ units.T
    rest = (data.residual.values**2).sum(1) / 2 - (along**2).sum(1) / 2
    factor = float(data.lr) * np.sqrt(np.asarray(sm.directions(jnp.asarray(data.x.values)).squares) / config.width)
    for i in range(2):
        left.semilogy(data.step, along[:, i] ** 2 / 2 + 1e-14, "o", ms=4, color=f"C{i}", label=rf"along $p_{i + 1}$")
        left.semilogy(data.step, (data.a.values[:, i] / factor[i]) ** 2 / 2 + 1e-14, "--", color=ink, lw=0.9)
    left.semilogy(data.step, rest, "s", ms=3, color="C2", label="orthogonal")
    left.plot([], [], "--", color=ink, lw=0.9, label="map of one sample")
    left.set(title="The loss, direction by direction", xlabel="step", ylabel=r"$\Pi_i\,\mathcal{L}$")
    left.legend()
    values = np.einsum("tij,ki,kj->tk", data.kernel.values, units, units)
    for i in range(2):
        right.plot(data.step, float(data.lr) * values[:, i], "o", ms=4, color=f"C{i}", label=rf"$\eta\lambda_{i + 1}$")
        right.plot(data.step, data.v.values[:, i], "--", color=ink, lw=0.9)
    right.axhline(2, color=ink, lw=0.8, ls=":")
    right.set(title="The two eigenvalues", xlabel="step", ylabel=r"$\eta\lambda_i$", ylim=(0, None))
    right.legend()
