"""Lecture of 11/7: the catapult phase in quadratic models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, gradient_descent, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import gated_bilinear, gated_curvature, gates, two_layer_init

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Network for the recursion, widths and step sizes for the phases."""

    width: int = scaled(smoke=300, laptop=3_000, paper=10_000, at_least=10, help="neurons of the trained model")
    dim: int = option(3, at_least=1, help="input dimension")
    target: float = option(-0.4, help="label of the sample")
    ratio: float = option(3.0, above=2, below=4, help="step size times curvature in the trained model")
    widths: int = scaled(smoke=25, laptop=60, paper=120, at_least=3, help="widths in the phase diagram")
    ratios: int = scaled(smoke=45, laptop=120, paper=240, at_least=5, help="step sizes in the phase diagram")
    steps: int = option(300, at_least=10, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "lectures/11-07-catapult",
    section="11-07",
    title="Residual and tangent kernel fight each other",
    statement=r"""
    For the quadratic approximation of a one-layer ReLU network of width $m$ and one sample, residual
    $r = z - y$ and tangent kernel $\lambda$ obey the closed recursion
    $$r' = r\Big[1 - \eta\lambda + \tfrac{\|x\|^2}{md}\,\eta^2 z\,r\Big], \qquad
    \lambda' = \lambda + \eta\,\tfrac{\|x\|^2}{md}\,r^2\Big[\eta\lambda - \tfrac{4z}{r}\Big].$$
    For $m \gg 1$: $\eta < 2/\lambda_0$ looks linear; for $2/\lambda_0 < \eta < 4/\lambda_0$ the loss grows
    exponentially for $T_1 = O(\log m)$ steps, reaches $\Theta(m)$, the kernel falls, and training converges
    with $\lambda_\infty < 2/\eta$; for $\eta > 4/\lambda_0$ it diverges.""",
)
def run(config: Config) -> xr.Dataset:
    key_x, key = jax.random.split(jax.random.key(config.seed))
    x = jax.random.normal(key_x, (config.dim,))
    size = x @ x / config.dim
    params = two_layer_init(key, config.width, config.dim)
    on = gates(params.u, x)
    output, curvature = gated_bilinear(params, on, x), gated_curvature(params, on, x)
    lr = config.ratio / curvature
    trained = simulate(
        gradient_descent(lambda p: (gated_bilinear(p, on, x) - config.target) ** 2 / 2, lr),
        params,
        60,
        probes={"z": lambda p: gated_bilinear(p, on, x), "kernel": lambda p: gated_curvature(p, on, x)},
    ).dataset
    recursion = simulate(
        ct.catapult(lr, config.width, config.target, size),
        (output, curvature),
        60,
        probes={
            "z_map": lambda s: ct.unscale(s, lr, config.width, config.target, size)[0],
            "kernel_map": lambda s: ct.unscale(s, lr, config.width, config.target, size)[1],
        },
    ).dataset
    # the phase diagram: unit input and curvature, output and label of order one
    widths, ratios = np.geomspace(20, 1e8, config.widths), np.linspace(0.1, 4.5, config.ratios)
    phases = simulate(
        lambda width, ratio: ct.catapult(ratio, width, config.target),
        (0.5, 1.0),
        config.steps,
        over={"width": jnp.asarray(widths), "ratio": jnp.asarray(ratios)},
        probes={"square": lambda s: s.a**2},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-9) & (s.v < 2), diverged=lambda s: jnp.abs(s.a) > 1e6),
    )
    square = phases.dataset.square
    data = xr.merge([trained[["z", "kernel"]], recursion[["z_map", "kernel_map"]]], join="inner")
    a0 = np.abs(0.5 - config.target) * ratios[None] / np.sqrt(widths)[:, None]
    return data.assign(
        {
            "peak": (("width", "ratio"), square.max("step").values),
            "time": (("width", "ratio"), square.argmax("step").values),
            "final": (("width", "ratio"), np.asarray(phases.state.v)),
            "outcome": (("width", "ratio"), phases.dataset.outcome.values),
            "risen": (("width", "ratio"), square.max("step").values > 1.0001 * a0**2),
            "lr": float(lr),
            "size": float(size),
        }
    ).assign_coords(width=widths, ratio=ratios)


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    rounding = Tolerance(1e-10, why="rounding, amplified by the growth of the loss")
    scale = float(np.abs(data.z).max())
    yield Finding(
        "output: recursion against gradient descent", 0.0, float(np.abs(data.z - data.z_map).max()) / scale, rounding
    )
    yield Finding(
        "kernel: recursion against gradient descent", 0.0, float(np.abs(data.kernel - data.kernel_map).max()), rounding
    )
    wide = data.sel(width=data.width >= 1000)
    expected = xr.where(wide.ratio < 2, 0, xr.where(wide.ratio < 4, 1, 2))
    seen = xr.where(wide.outcome == 2, 2, xr.where(wide.risen, 1, 0))
    blur = 2 * np.log(wide.width) / np.sqrt(wide.width)
    clear = (np.abs(wide.ratio - 2) > blur) & (np.abs(wide.ratio - 4) > blur)
    yield Finding(
        "points of the phase diagram in another phase than predicted, width 1000 and more",
        predicted=0.0,
        measured=float(((seen != expected) & clear).sum()),
        tolerance=Tolerance(0.0, why="at least 2 log m / sqrt m away from the borders"),
    )
    at3 = wide.sel(ratio=3.0, method="nearest")
    delta = float(at3.ratio) - 2
    slope = np.polyfit(np.log(at3.width), np.log(at3.peak * at3.width), 1)[0]
    yield Finding(
        "exponent of the peak loss in the width, eta lambda_0 near 3",
        predicted=1.0,
        measured=slope,
        tolerance=Tolerance(0.04, why="the peak moves within a band of 25 per cent with the fraction of a step"),
    )
    rate = np.polyfit(np.log(at3.width), at3.time, 1)[0]
    yield Finding(
        "steps to the peak per unit of log m, eta lambda_0 near 3",
        predicted=1 / (2 * np.log(1 + delta)),
        measured=rate,
        tolerance=Tolerance(0.06, why="whole steps over a range of eleven units of log m"),
    )
    ended = (data.outcome == 1) & (data.ratio > 2)
    yield Finding(
        "largest final eta lambda after a catapult",
        predicted=2.0,
        measured=float(data.final.where(ended).max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="stability of the minimum"),
    )
    # one step at the peak of the trained model
    r = data.z.values - config.target
    t = int(np.argmax(np.abs(r)))
    z, lam, lr = float(data.z[t]), float(data.kernel[t]), float(data.lr)
    c = float(data.size) / config.width
    change = float(data.kernel[t + 1] - data.kernel[t])
    yield Erratum(
        "change of the kernel at the peak",
        printed=r"\eta\tfrac{\|x\|^2}{md}\,r^2\big[\eta\lambda - \tfrac{4}{z - y}\big]",
        corrected=r"\eta\tfrac{\|x\|^2}{md}\,r^2\big[\eta\lambda - \tfrac{4z}{z - y}\big]",
        printed_value=lr * c * r[t] ** 2 * (lr * lam - 4 / r[t]),
        corrected_value=lr * c * r[t] ** 2 * (lr * lam - 4 * z / r[t]),
        measured=change,
        tolerance=Tolerance(relative=1e-9, why="rounding"),
        why="The numerator z(t) is lost in the notes.",
        where="equation (2) of the proposition",
    )
    yield Erratum(
        "change of the kernel around the peak, to leading order",
        printed=r"\eta\tfrac{\|x\|^2}{d}\,[\eta\lambda(0) - 4]",
        corrected=r"\eta\tfrac{\|x\|^2}{md}\,r^2\,[\eta\lambda - 4]",
        printed_value=lr * float(data.size) * (lr * float(data.kernel[0]) - 4),
        corrected_value=lr * c * r[t] ** 2 * (lr * lam - 4),
        measured=change,
        tolerance=Tolerance(
            relative=8 * abs(config.target / r[t]), why="z / r is taken as 1; it differs by y / r, twice over"
        ),
        why="The factor r^2/m is of order one but not one. The transcript reads z(t+1) = z(t) + ... [3 z(0) - y]: "
        "lambda, eta and 4 look like z, 3 and y in the handwriting.",
        where="step (3) of the proof",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap

    figure.set_size_inches(11, 3.9)
    left, middle, right = figure.subplots(1, 3, width_ratios=(3, 4, 3))
    ink = plt.rcParams["text.color"]
    n = 30
    loss = (data.z - config.target) ** 2 / 2
    left.semilogy(data.step[:n], loss[:n], "o", ms=4, color="C0", label="loss")
    left.semilogy(data.step[:n], (data.z_map[:n] - config.target) ** 2 / 2, "--", lw=0.9, color=ink)
    twin = left.twinx()
    twin.plot(data.step[:n], data.lr * data.kernel[:n], "s", ms=4, color="C1", label=r"$\eta\lambda$")
    twin.plot(data.step[:n], data.lr * data.kernel_map[:n], "--", lw=0.9, color=ink, label="recursion")
    twin.set(ylim=(0, 4))
    twin.grid(False)
    twin.spines["right"].set_visible(False)
    left.set(title=rf"The fight, $\eta\lambda_0 = {config.ratio:g}$", xlabel="step", ylabel="loss", ylim=(1e-8, None))
    handles = [*left.get_legend_handles_labels()[0], *twin.get_legend_handles_labels()[0]]
    left.legend(handles, ["loss", r"$\eta\lambda$ (right)", "recursion"], fontsize=8, loc="upper right")
    phase = xr.where(data.outcome == 2, 2, xr.where(data.risen, 1, 0))
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    colours = ListedColormap([cycle[2], cycle[1], cycle[5]])
    middle.pcolormesh(data.ratio, data.width, phase, cmap=colours, alpha=0.45, vmin=0, vmax=2, rasterized=True, lw=0)
    for value in (2.0, 4.0):
        middle.axvline(value, color=ink, ls="--", lw=1)
    for x, name in ((1.0, "monotone"), (3.0, "catapult"), (4.25, "diverges")):
        middle.text(x, 1e5, name, ha="center", va="center", color=ink, rotation=0 if x < 4 else 90)
    middle.set(title="Phases", xlabel=r"$\eta\lambda_0$", ylabel="width $m$", yscale="log")
    middle.grid(False)
    for i, value in enumerate((2.3, 3.0, 3.6)):
        part = data.sel(ratio=value, method="nearest")
        label = rf"$\eta\lambda_0 = {float(part.ratio):.1f}$"
        right.semilogx(data.width, part.time, "o", ms=3.5, color=f"C{i}", label=label)
        line = np.asarray(cs.time_to_peak(float(part.ratio) - 2, data.width.values))
        right.semilogx(data.width, line + float((part.time - line).mean()), "--", lw=1, color=ink)
    right.plot([], [], "--", lw=1, color=ink, label=r"slope $1/(2\log(1 + \delta))$")
    right.set(title="Time to the peak", xlabel="width $m$", ylabel=r"$T_1$")
    right.legend(fontsize=8, loc="upper left")
