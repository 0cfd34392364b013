"""Propositions B.11.1-B.11.3 and equations (B.7)-(B.12): the exact dynamics of several scalar samples."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Probe, Stop, simulate
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study
from secant.studies.shared.two_layer.models import descent, model, tangent_kernel
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import several_samples as sm
from secant.theory.regression.quadratic_model import two_layer_init


class Config(Seeded):
    width: int = options.width(64, 256, 1_024, at_least=32)
    samples: int = options.samples(7, at_least=3)
    eta_lambda: float = options.eta_lambda(2.8, at_least=0.1, at_most=3.5)
    steps: int = options.steps(50, at_least=2)

    def check(self) -> None:
        """Refuses what no memory holds."""
        kernels = self.samples**2 + self.width * self.samples
        fits_memory(32.0 * self.steps * kernels, "samples, width or steps")


@study("thesis/prop-B.11", section="B.11", title="Scalar inputs: rank two, fixed eigenvectors, a conserved rest")
def run(config: Config) -> xr.Dataset:
    r"""For scalar inputs the tangent kernel has rank at most two, with eigenvectors $p_1 = x \odot 1_{x \ge 0}$
    and $p_2 = x \odot 1_{x < 0}$ at all times. Residual and kernel obey (B.7)-(B.8) exactly,
    $$g' - y = \Big(I - \eta K + \tfrac{\eta^2}{m}\big(Q_+ p_1p_1^\top + Q_- p_2p_2^\top\big)\Big)(g - y), \qquad
    Q_\pm = \langle (g - y) \odot m_\pm, g \odot m_\pm\rangle,$$
    the loss orthogonal to both never changes, and with $r_i = \langle g - y, \hat p_i\rangle$,
    $y_i = \langle y, \hat p_i\rangle$ the variables $u_i = \frac{\eta^2}{m}\|p_i\|^2 r_i^2$,
    $w_i = \frac{\eta^2}{m}\|p_i\|^2 r_i y_i$, $v_i = \eta\lambda_i$ follow the map of one sample, each on its
    own.
    """

    def begin(key: jax.Array) -> tuple[Any, ...]:
        key_x, key_y, key = jax.random.split(key, 3)
        x = jax.random.normal(key_x, (config.samples,)).at[0].set(0.8).at[1].set(-1.2)
        y, params = jax.random.normal(key_y, (config.samples,)), two_layer_init(key, config.width, 1)
        kernel = tangent_kernel("quadratic", params, x[:, None], params)
        start = (model("quadratic", params, x[:, None])(params) - y, kernel)
        lr = config.eta_lambda / jnp.linalg.eigvalsh(kernel)[-1]
        return x, y, params, start, lr, sm.reduce_directions(*start, x, y, lr, config.width), sm.directions(x)

    x, y, params, start, lr, (pair, b), split = jit(begin, quick=True)(jax.random.key(config.seed))
    inputs = x[:, None]
    outputs = model("quadratic", params, inputs)
    # The second set of labels differs on the negative inputs only. The positive ones must not feel it.
    labels = np.stack([y, np.where(np.asarray(x) < 0, -2 * np.asarray(y), y)])
    weights = simulate(
        lambda labels: descent("quadratic", params, inputs, labels, lr),
        params,
        config.steps,
        over={"labels": labels},
        probes={
            "residual": Probe(lambda p: outputs(p) - y, dims=("sample",)),
            "kernel": Probe(lambda p: tangent_kernel("quadratic", params, inputs, p), dims=("sample", "other")),
        },
    ).dataset
    matrix = simulate(
        sm.samples_catapult(x, y, lr, config.width),
        start,
        config.steps,
        probes={
            "residual_map": Probe(lambda s: s.residual, dims=("sample",)),
            "kernel_map": Probe(lambda s: s.kernel, dims=("sample", "other")),
        },
    ).dataset
    reduced = simulate(
        ct.reduced_catapult(b),
        pair,
        config.steps,
        probes={name: Probe(operator.attrgetter(name), dims=("direction",)) for name in ("a", "v")},
        stop=Stop(),
    ).dataset
    first, other = (weights[["residual", "kernel"]].isel(labels=i, drop=True) for i in range(2))
    data = xr.merge([first, matrix, reduced], compat="override", join="inner").assign(
        residual_other=other.residual,
        x=("sample", np.asarray(x)),
        y=("sample", np.asarray(y)),
        b=("direction", np.asarray(b)),
        lr=float(lr),
    )
    units = xr.DataArray(np.asarray(split.units), dims=("direction", "sample"))
    along, images = data.residual @ units, data.kernel @ units.rename(sample="other")
    return data.assign(
        units=units,
        squares=("direction", np.asarray(split.squares)),
        along=along,
        images=images,
        eigenvalue=xr.dot(images, units, dim="sample"),
        rest=((data.residual**2).sum("sample") - (along**2).sum("direction")) / 2,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    r, kernel, lr, m = data.residual, data.kernel, float(data.lr), config.width
    scale, factor = np.abs(kernel).max(), lr * np.sqrt(data.squares / m)
    rounding = Tolerance(1e-10, why="rounding, amplified by the growth of the loss")
    defect = data.images - data.eigenvalue * data.units
    reduced = xr.concat([factor * data.along - data.a, lr * data.eigenvalue - data.v], "variable")
    residual, change, loss = r - data.residual_map, data.rest - data.rest[0], (r**2).sum("sample")
    for key, name, gap, over in (
        ("rank", "third eigenvalue of the kernel over the first", np.linalg.eigvalsh(kernel.values)[:, :-2], scale),
        ("eigenvectors", "$p_1$ and $p_2$ are eigenvectors at all times: largest defect", defect, scale),
        ("residuals", "residuals: (B.7) against gradient descent, over the largest", residual, np.abs(r).max()),
        ("kernel", "kernel: (B.8) against gradient descent", kernel - data.kernel_map, scale),
        ("rest", "loss orthogonal to $p_1$ and $p_2$: largest change over the largest loss", change, loss.max()),
        ("directions", "both directions follow the map of one sample: largest deviation", reduced, 1.0),
    ):
        yield claim(key, name).zero(np.abs(gap).max() / over, rounding)
    positive = data.x >= 0
    moved = np.abs(r - data.residual_other).where(positive).max()
    note = "the text calls the directions almost independent; they are exactly independent"
    yield claim("independence", "change of the positive outputs by other labels on the negative inputs").zero(
        moved, rounding, note=note
    )
    # The value of w for which (B.9) holds at the first step, from gradient descent alone.
    one = data.isel(direction=0)
    along, value, square, unit = one.along.values, float(one.eigenvalue[0]), float(one.squares), one.units.values
    bare = lr**2 / m * float((r[0] * data.y).where(positive).sum())
    yield claim("start-w", "reduced variable $w_1$ at the start").erratum(
        (r"w_1 = \tfrac{\eta^2}{m}\langle (g - y)\odot m_+, y\odot m_+\rangle", bare),
        (
            r"w_1 = \tfrac{\eta^2}{m}\|p_1\|^2\,\langle g - y, \hat p_1\rangle\langle y, \hat p_1\rangle",
            lr**2 / m * square * along[0] * (unit @ data.y.values),
        ),
        along[1] / along[0] - 1 + lr * value - lr**2 / m * square * along[0] ** 2,
        0,
        "rounding, of a difference of numbers of order one",
        relative=1e-6,
        note="The factor $|p_1|^2$ is missing, and the part of $y$ orthogonal to $p_1$ must not enter.",
        where="appendix B.12, before (B.9)",
    )
    # Sign and factor of the change of lambda_1 at a large output with y = 0.
    big, eta = 50.0, 5 / value
    state = sm.SamplesState(big * unit, kernel[0].values)
    after = jit(lambda x, state: sm.samples_catapult(x, 0 * x, eta, m).step(state), quick=True)(data.x.values, state)
    pull = big**2 * square / m * eta
    past = r"change of $\lambda_1$ past the maximal step ($y = 0$, $\eta\lambda_1 = 5$, $|g| = 50$)"
    yield claim("change-past-border", past).erratum(
        (r"\tfrac{\|g\|^2\|p_1\|^2}{m}\,\eta\,(\lambda_1 - 4\eta)", pull * (value - 4 * eta)),
        (r"\tfrac{\|g\|^2\|p_1\|^2}{m}\,\eta\,(\eta\lambda_1 - 4)", pull * (eta * value - 4)),
        unit @ np.asarray(after.kernel) @ unit - value,
        0,
        "rounding",
        relative=1e-10,
        note=r"The step size stands at the wrong term; with it at the right one the bracket is positive exactly when"
        r" $\eta > 4/\lambda_1$.",
        where="appendix B.11, divergence",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    mapped = data.a / (data.lr * np.sqrt(data.squares / config.width))
    for i in range(2):
        one, look = data.isel(direction=i), {"ms": 4, "color": f"C{i}"}
        left.semilogy(data.step, one.along**2 / 2 + 1e-14, "o", label=rf"along $p_{i + 1}$", **look)
        sheet.guide(left, data.step, mapped[:, i] ** 2 / 2 + 1e-14, lw=0.9)
        right.plot(data.step, data.lr * one.eigenvalue, "o", label=rf"$\eta\lambda_{i + 1}$", **look)
        sheet.guide(right, data.step, one.v, lw=0.9)
    left.semilogy(data.step, data.rest, "s", ms=3, color="C2", label="orthogonal")
    sheet.guide(left, [], [], "map of one sample", lw=0.9)
    sheet.mark(right, y=2, lw=0.8, ls=":")
    sheet.label(left, "The loss, direction by direction", "step", r"$\Pi_i\,\mathcal{L}$", "best")
    sheet.label(right, "The two eigenvalues", "step", r"$\eta\lambda_i$", "best", ylim=(0, None))
