"""Appendix A.3: constant second derivative and constant third kernel are different truncations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow
from secant.lab import Figure, Findings, claims, fits_memory, option, scaled, sheet, study
from secant.theory import quadratic_regression, tangent_hierarchy

SHORT = 0.01 * np.array([1.0, 2.0, 4.0])
"""Times at which the two truncations are told apart, in units of the fastest time of the start."""


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=4, laptop=10, paper=20, at_least=1, at_most=100, help="number of residuals")
    parameters: int = scaled(smoke=12, laptop=30, paper=60, at_least=2, at_most=400, help="number of parameters")
    draws: int = option(8, at_least=1, at_most=100, help="random models")
    residual: float = option(1.0, at_least=0.1, at_most=3, help="scale of the residuals, times the number of outputs")
    jacobian: float = option(0.6, at_least=0.1, at_most=3, help="scale of the Jacobian")
    until: float = option(4.0, at_least=0.5, at_most=20, help="last time")
    seed: int = option(0, at_least=0, at_most=2**31 - 1, help="random seed")

    def check(self) -> None:
        """Second derivatives that a machine holds."""
        fits_memory(40 * self.draws * self.outputs * self.parameters**2, "outputs, parameters or draws")


@study(
    "quadreg/app-A.3", section="A.3", title="Two truncations of the moving kernel",
    statement=r"""
    Under gradient flow on the squared loss the tangent kernel moves as
    $\frac{d}{dt}(JJ^\top)_{\alpha\beta} = -\eta(K_3)_{\alpha\beta\gamma}z_\gamma$ with
    $(K_3)_{\alpha\beta\gamma} = Q_{\alpha ij}J_{\gamma i}J_{\beta j} + Q_{\beta ij}J_{\gamma i}J_{\alpha j}$.
    Quadratic regression keeps $Q$ constant, the neural tangent hierarchy truncated at third order keeps $K_3$
    constant: they agree to first order in time and differ at second.""",
)
def run(config: Config) -> xr.Dataset:
    drawn = _drawn(config)
    K = np.asarray(drawn.J @ jnp.swapaxes(drawn.J, 1, 2))
    start = quadratic_regression.Regression(drawn.z, drawn.J)
    K3, velocity, bend = jax.jit(jax.vmap(_at_the_start))(drawn.Q, start)
    norm = lambda x: np.sqrt((np.asarray(x) ** 2).sum(axis=(-2, -1)))  # noqa: E731
    fastest = np.linalg.eigvalsh(K)[:, -1] + norm(velocity) / norm(K)
    short = SHORT / fastest.max()
    times = np.union1d(short, np.linspace(0.0, config.until, 121))

    regression = flow(
        lambda state, case: quadratic_regression.flow_field(case.Q)(state),
        lambda case: quadratic_regression.Regression(case.z, case.J), probes={"z": lambda s: s.z, "J": lambda s: s.J},
        until=config.until, over={"case": drawn}, samples=times, rtol=1e-10, atol=1e-12,
    ).dataset
    hierarchy = flow(
        lambda state, case: tangent_hierarchy.hierarchy_flow(case["K3"])(state),
        lambda case: tangent_hierarchy.Hierarchy(case["z"], case["K"]), probes={"z": lambda s: s.z, "K": lambda s: s.K},
        until=config.until, over={"case": {"K3": K3, "z": drawn.z, "K": jnp.asarray(K)}}, samples=times, rtol=1e-10,
        atol=1e-12,
        max_steps=3_000,  # it may blow up in finite time, which is a result, not something to chase
    ).dataset
    # The frozen kernel, the hierarchy one order lower: z(t) = exp(-K t) z(0).
    values, vectors = np.linalg.eigh(K)
    along = np.einsum("nai,na->ni", vectors, np.asarray(drawn.z))
    frozen = 0.5 * ((np.exp(-values[:, None] * times[:, None]) * along[:, None]) ** 2).sum(-1)
    half_square = lambda z: (z**2).sum(-1) / 2  # noqa: E731
    jacobians = regression.J.values
    moving = jacobians @ np.swapaxes(jacobians, -1, -2)
    # The truncated hierarchy may blow up before the end: its records are then not finite.
    finite = np.isfinite(hierarchy.K.values).all(axis=(-2, -1))
    truncated = np.linalg.eigvalsh(np.where(finite[..., None, None], hierarchy.K.values, 0.0))
    truncated = np.where(finite[..., None], truncated, np.nan)
    still = np.broadcast_to(values[:, -1:], finite.shape)
    dims = ("model", "draw", "time")
    return xr.Dataset(
        {
            "top": (dims, np.stack([np.linalg.eigvalsh(moving)[..., -1], truncated[..., -1], still])),
            "loss": (dims, np.stack([half_square(regression.z.values), half_square(hierarchy.z.values), frozen])),
            "gap": (dims, np.stack([0 * still, norm(moving - hierarchy.K.values), norm(moving - K[:, None])])),
            "rate": (("model", "draw"), np.stack([0 * fastest, norm(bend) / 2, norm(velocity)])),
            "K3_change": (("draw", "time"), _change_of_third_kernel(np.asarray(drawn.Q), jacobians)),
            "bottom": (("draw", "time"), truncated[..., 0], {"long_name": "smallest eigenvalue, truncated kernel"}),
            "identity": (("draw",), np.abs(_moved(drawn, start) - velocity).max((1, 2)) / np.abs(velocity).max((1, 2))),
        },
        coords={"model": ["quadratic regression", "constant K3", "constant K"], "time": times, "short": short},
    )


class _Draws(NamedTuple):
    """Random models: second derivatives, residuals and Jacobians, one a row."""

    Q: jax.Array
    z: jax.Array
    J: jax.Array


def _drawn(config: Config) -> _Draws:
    n, D, P = config.draws, config.outputs, config.parameters
    sizes = ((n, D, P, P), (n, D), (n, D, P))
    keys = jax.random.split(jax.random.key(config.seed), 3)
    # Drawn in one row and shaped afterwards, which compiles in a tenth of the time.
    A, z, J = (jax.random.normal(k, (math.prod(size),)).reshape(size) for k, size in zip(keys, sizes, strict=True))
    return _Draws((A + jnp.swapaxes(A, 2, 3)) / 2, config.residual / D * z, config.jacobian / (D * P) ** 0.25 * J)


def _at_the_start(Q: jax.Array, start: quadratic_regression.Regression) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""The third kernel, the kernel's velocity $-K_3 z$, and the part $-\dot K_3 z$ of its acceleration."""
    field = quadratic_regression.flow_field(Q)(start)
    K3, K3_dot = jax.jvp(lambda J: tangent_hierarchy.third_kernel(Q, J), (start.J,), (field.J,))
    return K3, -K3 @ start.z, -K3_dot @ start.z


def _moved(drawn: _Draws, start: quadratic_regression.Regression) -> np.ndarray:
    """The velocity of the tangent kernel, from that of the Jacobian."""
    field = jax.jit(jax.vmap(lambda Q, s: quadratic_regression.flow_field(Q)(s)))(drawn.Q, start)
    half = np.asarray(field.J @ jnp.swapaxes(drawn.J, 1, 2))
    return half + np.swapaxes(half, 1, 2)


def _change_of_third_kernel(Q: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
    """How far the third kernel has moved from its start, relative to its size there; one row a draw."""
    rows = []
    for tensor, path in zip(Q, jacobians, strict=True):
        half = np.einsum("aij,tci,tbj->tabc", tensor, path, path, optimize=True)
        third = half + np.swapaxes(half, 1, 2)
        size = np.sqrt(((third - third[:1]) ** 2).sum(axis=(1, 2, 3)))
        rows.append(size / np.sqrt((third[0] ** 2).sum()))
    return np.stack(rows)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claims.zero(
        "velocity of the tangent kernel against -K3 z: largest relative difference", data.identity.max(), 1e-11,
        "an identity: rounding of float64",
    )
    time = data.short.values
    for model, power in (("constant K3", 2), ("constant K", 1)):
        # gap / t^power is a power series in t: extrapolate it to zero, by a parabola and by a line.
        seen = data.gap.sel(model=model, time=time).values / time**power / data.rate.sel(model=model).values[:, None]
        by_parabola, by_line = seen @ [8 / 3, -2, 1 / 3], seen @ [2, -1, 0]
        worst = int(np.argmax(np.abs(by_parabola - 1)))
        yield claims.equal(
            f"distance of the kernel from quadratic regression over t^{power} at short times, {model}, over its "
            "prediction: farthest from one",
            1.0, by_parabola[worst], float(np.abs(by_parabola - by_line).max()) + 1e-5,
            "what the extrapolation gains by its last order, and relative tolerance 1e-10 of the integrator",
        )
    yield claims.at_least(
        "relative change of the third kernel under quadratic regression at the end: smallest", 0.1,
        data.K3_change.isel(time=-1).min(), "an inequality: it is not constant",
    )
    yield claims.at_least(
        "random models in which constant K3 makes a kernel with a negative eigenvalue", 1.0,
        (data.bottom.min("time") < -1e-9).sum(), "a count: it can happen",
        note="such a kernel is none: from there on this truncation drives its loss up",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = sheet.panels(figure, (11, 3.9), 3)
    names = {
        "quadratic regression": "quadratic regression", "constant K3": r"hierarchy, constant $K_3$",
        "constant K": r"constant $K$",
    }
    data = data.isel(draw=0)
    for i, model in enumerate(data.model.values):
        one = data.sel(model=model)
        left.plot(data.time, one.top, color=f"C{i}", label=names[model])
        middle.semilogy(data.time, one.loss, color=f"C{i}", label=names[model])
        if i:
            right.loglog(data.time[1:], one.gap[1:], color=f"C{i}", label=names[model])
    left.set(
        title="Largest kernel eigenvalue", xlabel="time", ylabel=r"$\lambda_{\max}$",
        ylim=(0, 1.6 * float(data.top[0].max())),
    )
    middle.set(
        title="Loss", xlabel="time", ylabel=r"$\frac{1}{2}|z|^2$",
        ylim=(float(data.loss[0].min()) / 2, 20 * float(data.loss[0, 0])),
    )
    middle.legend()
    t = data.time.values[1:30]
    for model, power in (("constant K3", 2), ("constant K", 1)):
        gap = float(data.gap.sel(model=model).isel(time=10))
        right.loglog(t, gap * (t / float(data.time[10])) ** power, "--", color=ink, lw=1.0)
        right.text(
            t[12] * 1.2, gap * (t[12] * 1.2 / float(data.time[10])) ** power / 2,
            rf"$\propto t{'^2' if power == 2 else ''}$", va="top",
        )
    right.set(title="Distance of the kernels", xlabel="time", ylabel=r"$\|K - K_{\mathrm{quad}}\|$")
    right.legend(loc="upper left")
