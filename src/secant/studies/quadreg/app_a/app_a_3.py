"""Appendix A.3: constant second derivative and constant third kernel are different truncations."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, scaled, sheet, study
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import tangent_hierarchy as hierarchy

SHORT = 0.01 * np.array([1.0, 2.0, 4.0])
"""Times at which the two truncations are told apart, in units of the fastest time of the start."""
NAMES = {
    "quadratic regression": "quadratic regression",
    "constant K3": r"hierarchy, constant $K_3$",
    "constant K": "constant $K$",
}
POWERS = {"constant K3": 2, "constant K": 1}
"""The power of time with which a truncation departs from quadratic regression."""


class Config(Seeded):
    outputs: int = scaled(smoke=4, laptop=10, paper=20, at_least=1, at_most=100, help="number of residuals")
    parameters: int = scaled(smoke=12, laptop=30, paper=60, at_least=2, at_most=400, help="number of parameters")
    draws: int = options.draws(4, 8, at_most=100)
    residual: float = option(1.0, at_least=0.1, at_most=3, help="scale of the residuals, times the number of outputs")
    jacobian: float = option(0.6, at_least=0.1, at_most=3, help="scale of the Jacobian")
    until: float = option(4.0, at_least=0.5, at_most=20, help="last time")

    def check(self) -> None:
        """Second derivatives that a machine holds."""
        fits_memory(40 * self.draws * self.outputs * self.parameters**2, "outputs, parameters or draws")


@study("quadreg/app-A.3", section="A.3", title="Two truncations of the moving kernel")
def run(config: Config) -> xr.Dataset:
    r"""Under gradient flow on the squared loss the tangent kernel moves as
    $\frac{d}{dt}(JJ^\top)_{\alpha\beta} = -\eta(K_3)_{\alpha\beta\gamma}z_\gamma$ with
    $(K_3)_{\alpha\beta\gamma} = Q_{\alpha ij}J_{\gamma i}J_{\beta j} + Q_{\beta ij}J_{\gamma i}J_{\alpha j}$.
    Quadratic regression keeps $Q$ constant. The neural tangent hierarchy, truncated at third order, keeps $K_3$
    constant. The two agree to first order in time and differ at second order.
    """
    Q, start = _drawn(config)
    K = np.asarray(start.J @ jnp.swapaxes(start.J, 1, 2))
    K3, velocity, bend = jax.jit(jax.vmap(_at_the_start))(Q, start)
    norm = lambda x: np.sqrt((np.asarray(x) ** 2).sum(axis=(-2, -1)))  # noqa: E731
    fastest = np.linalg.eigvalsh(K)[:, -1] + norm(velocity) / norm(K)
    short = SHORT / fastest.max()
    times = np.union1d(short, np.linspace(0.0, config.until, 121))
    settings: dict[str, Any] = {"until": config.until, "samples": times, "rtol": 1e-10, "atol": 1e-12}
    regression = flow(
        lambda state, draw: qr.flow_field(draw[0])(state),
        lambda draw: draw[1],
        over={"draw": (Q, start)},
        probes={"z": lambda s: s.z, "J": lambda s: s.J},
        **settings,
    ).dataset
    truncated = flow(
        lambda state, draw: hierarchy.hierarchy_flow(draw[0])(state),
        lambda draw: draw[1],
        over={"draw": (K3, hierarchy.Hierarchy(start.z, jnp.asarray(K)))},
        probes={"z": lambda s: s.z, "K": lambda s: s.K},
        **settings,
        max_steps=3_000,  # it may blow up in finite time, which is a result, not something to chase
    ).dataset
    # The frozen kernel, the hierarchy one order lower: z(t) = exp(-K t) z(0).
    values, vectors = np.linalg.eigh(K)
    along = np.einsum("nai,na->ni", vectors, np.asarray(start.z))
    residuals = regression.z.values, truncated.z.values, np.exp(-values[:, None] * times[:, None]) * along[:, None]
    jacobians = regression.J.values
    moving = jacobians @ np.swapaxes(jacobians, -1, -2)
    kernels = moving, truncated.K.values, K[:, None]
    spectra = [_spectra(one) for one in kernels]
    tops = np.broadcast_arrays(*(one[..., -1] for one in spectra))
    changes = [_change_of_third_kernel(*one) for one in zip(np.asarray(Q), jacobians, strict=True)]
    miss = np.abs(_moved(Q, start) - velocity).max((1, 2)) / np.abs(velocity).max((1, 2))
    dims = ("model", "draw", "time")
    return xr.Dataset(
        {
            "top": (dims, np.stack(tops)),
            "loss": (dims, np.stack([(z**2).sum(-1) / 2 for z in residuals])),
            "gap": (dims, np.stack([norm(moving - one) for one in kernels])),
            "K3_change": (dims[1:], np.stack(changes)),
            "rate": (dims[:2], np.stack([0 * fastest, norm(bend) / 2, norm(velocity)])),
            "identity": ("draw", miss),
            "bottom": (dims[1:], spectra[1][..., 0], {"long_name": "smallest eigenvalue, truncated kernel"}),
        },
        coords={"model": list(NAMES), "time": times, "short": short},
    )


def _drawn(config: Config) -> tuple[jax.Array, qr.Regression]:
    """Random models: second derivatives, residuals and Jacobians, one a row."""
    n, D, P = config.draws, config.outputs, config.parameters
    sizes = ((n, D, P, P), (n, D), (n, D, P))
    keys = jax.random.split(jax.random.key(config.seed), 3)
    # Drawn in one row and shaped afterwards, which compiles in a tenth of the time.
    A, z, J = (jax.random.normal(k, (math.prod(size),)).reshape(size) for k, size in zip(keys, sizes, strict=True))
    start = qr.Regression(config.residual / D * z, config.jacobian / (D * P) ** 0.25 * J)
    return (A + jnp.swapaxes(A, 2, 3)) / 2, start


def _at_the_start(Q: jax.Array, start: qr.Regression) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""The third kernel, the kernel's velocity $-K_3 z$, and the part $-\dot K_3 z$ of its acceleration."""
    field = qr.flow_field(Q)(start)
    K3, K3_dot = jax.jvp(lambda J: hierarchy.third_kernel(Q, J), (start.J,), (field.J,))
    return K3, -K3 @ start.z, -K3_dot @ start.z


def _moved(Q: jax.Array, start: qr.Regression) -> np.ndarray:
    """The velocity of the tangent kernel, from that of the Jacobian."""
    field = jax.jit(jax.vmap(lambda Q, s: qr.flow_field(Q)(s)))(Q, start)
    half = np.asarray(field.J @ jnp.swapaxes(start.J, 1, 2))
    return half + np.swapaxes(half, 1, 2)


def _spectra(kernels: np.ndarray) -> np.ndarray:
    """Eigenvalues; not a number where a kernel is not finite, as after the truncated hierarchy has blown up."""
    finite = np.isfinite(kernels).all(axis=(-2, -1), keepdims=True)
    return np.where(finite[..., 0], np.linalg.eigvalsh(np.where(finite, kernels, 0.0)), np.nan)


def _change_of_third_kernel(Q: np.ndarray, path: np.ndarray) -> np.ndarray:
    """How far the third kernel of a draw has moved from its start, relative to its size there."""
    half = np.einsum("aij,tci,tbj->tabc", Q, path, path, optimize=True)
    third = half + np.swapaxes(half, 1, 2)
    return np.sqrt(((third - third[0]) ** 2).sum(axis=(1, 2, 3))) / np.sqrt((third[0] ** 2).sum())


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    sentence = "velocity of the tangent kernel against $-K_3 z$: largest relative difference"
    yield claim("velocity", sentence).zero(data.identity.max(), 1e-11, "an identity: rounding of float64")
    why = "what the extrapolation gains by its last order, and relative tolerance 1e-10 of the integrator"
    for model, power in POWERS.items():
        # gap / t^power is a power series in t: extrapolate it to zero, by a parabola and by a line.
        one = data.sel(model=model, time=data.short)
        seen = (one.gap / one.time**power / one.rate).transpose("draw", ...).values
        by_parabola, by_line = seen @ [8 / 3, -2, 1 / 3], seen @ [2, -1, 0]
        farthest = by_parabola[np.argmax(np.abs(by_parabola - 1))]
        sentence = f"distance of the kernel from quadratic regression over $t^{power}$ at short times, {model}"
        yield claim(f"parts-{model}", f"{sentence}, over its prediction: farthest from one").equal(
            1.0, farthest, np.abs(by_parabola - by_line).max() + 1e-5, why
        )
    change = data.K3_change.isel(time=-1).min()
    sentence = "smallest relative change of the third kernel under quadratic regression at the end"
    yield claim("third-kernel", sentence).at_least(0.1, change, "an inequality: it is not constant")
    negative = (data.bottom.min("time") < -1e-9).sum()
    note = "such a kernel is none: from there on this truncation drives its loss up"
    sentence = "random models in which constant $K_3$ makes a kernel with a negative eigenvalue"
    yield claim("negative", sentence).at_least(1.0, negative, "a count: it can happen", note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 3.9), 3)
    data = data.isel(draw=0)
    time = data.time.values[1:]
    for i, (model, label) in enumerate(NAMES.items()):
        one, look = data.sel(model=model), {"color": f"C{i}", "label": label}
        left.plot(data.time, one["top"], **look)
        middle.plot(data.time, one.loss, **look)
        if power := POWERS.get(model):
            right.plot(time, one.gap[1:], **look)
            line = float(one.gap[10]) * (time[:29] / time[9]) ** power
            sheet.guide(right, time[:29], line)
            right.text(1.3 * time[2], line[2], rf"$\propto t{'^2' if power == 2 else ''}$", va="top")
    highest, logs = 1.6 * data["top"][0].max(), {"xscale": "log", "yscale": "log"}
    sheet.label(left, "Largest kernel eigenvalue", "time", r"$\lambda_{\max}$", ylim=(0, highest))
    ends = data.loss[0].min() / 2, 20 * data.loss[0, 0]
    sheet.label(middle, "Loss", "time", r"$\frac{1}{2}|z|^2$", "best", yscale="log", ylim=ends)
    sheet.label(right, "Distance of the kernels", "time", r"$\|K - K_{\mathrm{quad}}\|$", "upper left", **logs)
