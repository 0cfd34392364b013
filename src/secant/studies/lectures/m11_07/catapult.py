"""Lecture of 11/7: the catapult phase in quadratic models."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, option, options, scaled, sheet, study
from secant.optim import gradient_descent
from secant.studies.shared.numerics.exponents import slope
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs
from secant.theory.regression.quadratic_model import gated_bilinear, gated_curvature, gates, two_layer_init

WIDE = 1_000
"""From this width on the phases are as at infinite width, up to a blur of 2 log m / sqrt m."""

TRAINED = 60
"""Steps of the trained model."""


class Config(Seeded):
    width: int = options.width(300, 3_000, 10_000, at_least=20)
    dim: int = options.dim(3)
    target: float = option(-0.4, at_least=-2, at_most=2, help="label of the sample")
    eta_lambda: float = options.eta_lambda(3.0, at_least=2.1, at_most=3.9)
    rows: int = scaled(smoke=25, laptop=60, paper=120, at_least=5, help="widths in the phase diagram")
    step_sizes: int = scaled(smoke=45, laptop=120, paper=240, at_least=5, help="step sizes in the phase diagram")
    steps: int = options.steps(300, at_least=100, at_most=100_000)

    def check(self) -> None:
        """Refuses a model and a diagram that do not fit the memory."""
        fits_memory(100 * self.width * (self.dim + 1), "width or dim")
        fits_memory(40 * self.rows * self.step_sizes * self.steps, "rows, step_sizes or steps")


@study("lectures/11-07-catapult", section="11-07", title="Residual and tangent kernel fight each other")
def run(config: Config) -> xr.Dataset:
    r"""For the quadratic approximation of a one-layer ReLU network of width $m$ and one sample, residual
    $r = z - y$ and tangent kernel $\lambda$ obey the closed recursion
    $$r' = r\Big[1 - \eta\lambda + \tfrac{\|x\|^2}{md}\,\eta^2 z\,r\Big], \qquad
    \lambda' = \lambda + \eta\,\tfrac{\|x\|^2}{md}\,r^2\Big[\eta\lambda - \tfrac{4z}{r}\Big].$$
    For $m \gg 1$ there are three phases:

    - $\eta < 2/\lambda_0$: training looks linear.
    - $2/\lambda_0 < \eta < 4/\lambda_0$: the loss grows exponentially for $T_1 = O(\log m)$ steps and reaches
      $\Theta(m)$, the kernel falls, and training converges with $\lambda_\infty < 2/\eta$.
    - $\eta > 4/\lambda_0$: training diverges.
    """

    def begin(key: jax.Array) -> tuple[Any, ...]:
        key_x, key = jax.random.split(key)
        x = jax.random.normal(key_x, (config.dim,))
        params = two_layer_init(key, config.width, config.dim)
        on = gates(params.u, x)
        output, curvature = gated_bilinear(params, on, x), gated_curvature(params, on, x)
        return x, params, on, (output, curvature), x @ x / config.dim, config.eta_lambda / curvature

    x, params, on, start, size, lr = jit(begin, quick=True)(jax.random.key(config.seed))
    trained = simulate(
        gradient_descent(lambda p: (gated_bilinear(p, on, x) - config.target) ** 2 / 2, lr),
        params,
        TRAINED,
        probes={"z": lambda p: gated_bilinear(p, on, x), "kernel": lambda p: gated_curvature(p, on, x)},
    ).dataset
    unscaled = lambda s: ct.unscale(s, lr, config.width, config.target, size)  # noqa: E731
    recursion = simulate(
        ct.catapult(lr, config.width, config.target, size),
        start,
        TRAINED,
        probes={"z_map": lambda s: unscaled(s)[0], "kernel_map": lambda s: unscaled(s)[1]},
    ).dataset
    # The phase diagram: unit input and curvature, output and label of order one.
    phases = simulate(
        lambda width, ratio: ct.catapult(ratio, width, config.target),
        (0.5, 1.0),
        config.steps,
        over={"width": np.geomspace(20, 1e8, config.rows), "ratio": np.linspace(0.1, 4.5, config.step_sizes)},
        probes={"square": lambda s: s.a**2},
        stop=Stop(converged=lambda s: (jnp.abs(s.a) < 1e-9) & (s.v < 2), diverged=lambda s: jnp.abs(s.a) > 1e6),
    )
    square, outcome = phases.dataset.square, phases.dataset.outcome
    peak, first = square.max("step"), np.abs(0.5 - config.target) * square.ratio / np.sqrt(square.width)
    phase = xr.where(outcome == Outcome.DIVERGED, 2, xr.where(peak > 1.0001 * first**2, 1, 0))
    data = xr.merge([trained[["z", "kernel"]], recursion[["z_map", "kernel_map"]]], join="inner")
    return data.assign(
        peak=peak,
        time=square.argmax("step"),
        final=(("width", "ratio"), np.asarray(phases.state.v)),
        outcome=outcome,
        phase=phase.assign_attrs(long_name="monotone, catapult or divergence"),
        lr=float(lr),
        size=float(size),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = Tolerance(1e-10, why="rounding, amplified by the growth of the loss")
    scale = np.abs(data.z).max()
    for name, gap in (("output", (data.z - data.z_map) / scale), ("kernel", data.kernel - data.kernel_map)):
        recursion = claim(f"recursion-{name}", f"{name}: recursion against gradient descent")
        yield recursion.zero(np.abs(gap).max(), rounding)
    # The phase diagram.
    wide = data.sel(width=data.width >= WIDE)
    expected = xr.where(wide.ratio < 2, 0, xr.where(wide.ratio < 4, 1, 2))
    blur = 2 * np.log(wide.width) / np.sqrt(wide.width)
    clear = (np.abs(wide.ratio - 2) > blur) & (np.abs(wide.ratio - 4) > blur)
    name = f"points of the phase diagram in another phase than predicted, width {WIDE} and more"
    wrong, why = ((wide.phase != expected) & clear).sum(), r"at least $2 \log m / \sqrt{m}$ away from the borders"
    yield claim("phases", name).zero(wrong, 0, why)
    ended = (data.outcome == Outcome.CONVERGED) & (data.ratio > 2)
    yield claim("final-curvature", r"largest final $\eta\lambda$ after a catapult").at_most(
        2.0, data.final.where(ended).max(), "stability of the minimum"
    )
    # Where in a step the peak falls moves its height by a factor of at most (1 + delta)^2, and its time by a step.
    at3 = wide.sel(ratio=3.0, method="nearest")
    ratio, logs = float(at3.ratio), np.log(at3.width.values)
    near, growth, span = 2.5 < ratio < 3.5 and len(logs) >= 3, np.log(ratio - 1), np.ptp(logs)
    per_log = 1 / (2 * growth) if near else np.nan
    fraction = r"the height moves by $\log(1 + \delta)$ with the fraction of a step"
    whole, otherwise = r"whole steps over the range of $\log m$", "no step sizes near 3, or too few wide networks"
    for key, name, predicted, values, within, why in (
        ("peak-loss", "exponent of the peak loss in the width", 1.0, np.log(at3.peak * at3.width), growth, fraction),
        ("peak-time", r"steps to the peak per unit of $\log m$", per_log, at3.time, 1.0, whole),
    ):
        yield claim(key, name, given=near, otherwise=otherwise).equal(
            predicted, slope(logs, values), within / span, why, note=rf"$\eta\lambda_0 = {ratio:.3g}$"
        )
    yield from peak_erratum(data, config)


def peak_erratum(data: xr.Dataset, config: Config) -> Findings:
    """One step of the trained model where its residual is largest, against the notes."""
    r = data.z.values - config.target
    t = int(np.argmax(np.abs(r[:-1])))
    z, lam, lr = float(data.z[t]), float(data.kernel[t]), float(data.lr)
    scale = lr * (float(data.size) / config.width) * r[t] ** 2
    yield claim("peak-kernel", "change of the kernel at the peak").erratum(
        (r"\eta\tfrac{\|x\|^2}{md}\,r^2\big[\eta\lambda - \tfrac{4}{z - y}\big]", scale * (lr * lam - 4 / r[t])),
        (r"\eta\tfrac{\|x\|^2}{md}\,r^2\big[\eta\lambda - \tfrac{4z}{z - y}\big]", scale * (lr * lam - 4 * z / r[t])),
        data.kernel[t + 1] - lam,
        0,
        "rounding",
        relative=1e-9,
        note=r"The numerator $z(t)$ is lost in the notes. To leading order in the width the bracket is "
        r"$\eta\lambda - 4$, which fixes the border of the third phase. Step (3) of the proof uses this bracket, but "
        "is not legible in the transcript.",
        where="equation (2) of the proposition",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.colors import ListedColormap

    left, middle, right = sheet.panels(figure, (11, 3.9), 3, width_ratios=(3, 4, 3))
    one, twin = data.isel(step=slice(0, 30)), left.twinx()
    left.semilogy(one.step, (one.z - config.target) ** 2 / 2, "o", ms=4, color="C0")
    sheet.guide(left, one.step, (one.z_map - config.target) ** 2 / 2, lw=0.9)
    twin.plot(one.step, one.lr * one.kernel, "s", ms=4, color="C1")
    sheet.guide(twin, one.step, one.lr * one.kernel_map, lw=0.9)
    twin.set(ylim=(0, 4))
    twin.grid(False)
    twin.spines["right"].set_visible(False)
    sheet.label(left, rf"The fight, $\eta\lambda_0 = {config.eta_lambda:g}$", "step", "loss")
    left.set_ylim(1e-8, None)
    handles = [left.lines[0], *twin.lines]
    left.legend(handles, ["loss", r"$\eta\lambda$ (right)", "recursion"], fontsize=8, loc="upper right")
    look = {"cmap": ListedColormap(["C2", "C1", "C5"]), "alpha": 0.45, "vmin": 0, "vmax": 2, "rasterized": True}
    middle.pcolormesh(data.ratio, data.width, data.phase, lw=0, **look)
    sheet.mark(middle, x=(2, 4), lw=1)
    for x, name in ((1.0, "monotone"), (3.0, "catapult"), (4.25, "diverges")):
        middle.text(x, 1e5, name, ha="center", va="center", color=sheet.ink(), rotation=0 if x < 4 else 90)
    sheet.label(middle, "Phases", r"$\eta\lambda_0$", "width $m$", yscale="log")
    middle.grid(False)
    for i, value in enumerate((2.3, 3.0, 3.6)):
        part = data.sel(ratio=value, method="nearest")
        label = rf"$\eta\lambda_0 = {float(part.ratio):.1f}$"
        right.semilogx(data.width, part.time, "o", ms=3.5, color=f"C{i}", label=label)
        line = np.asarray(cs.time_to_peak(float(part.ratio) - 2, data.width.values))
        sheet.guide(right, data.width, line + float((part.time - line).mean()), lw=1)
    sheet.guide(right, [], [], r"slope $1/(2\log(1 + \delta))$", lw=1)
    sheet.label(right, "Time to the peak", "width $m$", r"$T_1$", {"fontsize": 8, "loc": "upper left"})
