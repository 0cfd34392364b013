"""Figure 9: the phase planes of one negative, and of one small positive, second eigenvalue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    a: tuple[float, ...] = option((5.0, -2.0), help="a = -1/lambda for the two planes: above 1, and below -1")
    offsets: tuple[float, ...] = option((0.0, 0.5), help="rescaled offsets")
    points: int = scaled(smoke=401, laptop=801, paper=801, at_least=11, help="points on each curve")
    samples: int = scaled(smoke=2_000, laptop=20_000, paper=20_000, at_least=10, help="random parameters in the cones")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "quadreg/fig-9",
    section="B.1",
    title="Where the two-parameter model can live",
    statement=r"""
    For eigenvalues $\{1, \lambda\}$ and $a = -1/\lambda$ the squares of the two Jacobian components are nonnegative
    in a cone with vertex $\tilde z = -\tilde E/2$: upward for $\lambda < 0$, $T > W$ and $T > -W/a$; sideways for
    $0 < \lambda < 1$, $-W/a < T < W$, with $W = 2\tilde z + \tilde E$. The one-step nullclines are
    $$f_z = \frac{\tilde zW}{2a - (a-1)\tilde z},\qquad f_T = -\frac{(a-1)\tilde z - 2a}{(a^2-a+1)\tilde z -
    2a(a-1)}W,$$
    and $\tilde z = 0$. For $\lambda > 0$ and no offset the cone meets $\tilde z = 0$ at $T = 0$ only.""",
)
def run(config: Config) -> xr.Dataset:
    a, E = jnp.array(config.a), jnp.array(config.offsets)
    second = -1 / a
    z = jnp.linspace(-1.5, 1.5, config.points)
    A, offset, Z = jnp.meshgrid(second, E, z, indexing="ij")
    f_z, f_T = two_eigenvalue.one_step_nullclines(Z, A, offset)

    step = jax.vmap(
        jax.vmap(jax.vmap(lambda s, e, z, T: two_eigenvalue.two_eigenvalue(s, e).step(two_eigenvalue.Point(z, T))))
    )
    change_z = step(A, offset, Z, f_z).z - Z
    change_T = step(A, offset, Z, f_T).T - f_T
    theta = 1.5 * jax.random.normal(jax.random.key(config.seed), (config.samples, 2))
    sample_z, sample_T = jax.vmap(lambda s: jax.vmap(lambda e: tuple(two_eigenvalue.phase_point(theta, s, e)))(E))(
        second
    )
    inside = two_eigenvalue.admissible(sample_z, sample_T, second[:, None, None], E[:, None])
    plane, curve = ("a", "E"), ("a", "E", "z")
    return xr.Dataset(
        {
            "f_z": (curve, np.asarray(f_z)),
            "f_T": (curve, np.asarray(f_T)),
            "change_z": (curve, np.asarray(change_z / (1 + jnp.abs(f_z)))),
            "change_T": (curve, np.asarray(change_T / (1 + jnp.abs(f_T)))),
            "inside": (plane, np.asarray(inside.mean(-1))),
            "sample_z": ((*plane, "sample"), np.asarray(sample_z)),
            "sample_T": ((*plane, "sample"), np.asarray(sample_T)),
        },
        coords={"a": np.asarray(a), "E": np.asarray(E), "z": np.asarray(z)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    near = Tolerance(1e-10, why="an identity: rounding of float64, relative to the height of the curve")
    for name, of in (("change_z", "residual"), ("change_T", "curvature")):
        change = data[name].where(np.isfinite(data[name]) & (np.abs(data.f_z) + np.abs(data.f_T) < 1e3))
        yield Finding(
            f"largest one-step change of the {of} on its nullcline",
            predicted=0.0,
            measured=float(np.abs(change).max()),
            tolerance=near,
        )
    yield Finding(
        "share of random parameters inside the cone",
        predicted=1.0,
        measured=float(data.inside.min()),
        tolerance=Tolerance(5 / config.samples, why="rounding on the cone's faces, a handful of parameters at most"),
    )
    sideways = -1 / min(config.a)
    T = np.linspace(0, 2, 20_001)
    for E in config.offsets:
        width = T[np.asarray(two_eigenvalue.admissible(0.0, T, sideways, E))]
        yield Finding(
            f"largest curvature on the line of zero residual for a = {min(config.a):g}, offset {E:g}",
            predicted=E,
            measured=float(width.max()),
            tolerance=Tolerance(1e-4, why="spacing of the scan"),
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink, faint = plt.rcParams["text.color"], plt.rcParams["grid.color"]
    figure.set_size_inches(4.2 * data.sizes["a"] + 1.2, 3.5 * data.sizes["E"])
    axes = figure.subplots(data.sizes["E"], data.sizes["a"], squeeze=False, sharex=True)
    zz, TT = np.meshgrid(np.linspace(-1.35, 1.35, 13), np.linspace(0.2, 3.8, 11), indexing="ij")
    wide = np.linspace(-1.5, 1.5, 400)
    tall = np.linspace(0, 4, 300)
    for i, E in enumerate(config.offsets):
        for j, a in enumerate(config.a):
            axis, second = axes[i, j], -1 / a
            one = data.isel(a=j, E=i)
            allowed = np.asarray(two_eigenvalue.admissible(wide[None], tall[:, None], second, E))
            axis.contourf(wide, tall, ~allowed, levels=[0.5, 1.5], colors=[faint], alpha=0.8)
            inside = np.asarray(two_eigenvalue.admissible(zz, TT, second, E))
            after = two_eigenvalue.two_eigenvalue(second, E).step(two_eigenvalue.Point(zz, TT))
            dz, dT = np.sign(np.asarray(after.z) - zz), np.sign(np.asarray(after.T) - TT)
            axis.quiver(
                zz[inside], TT[inside], dz[inside] * 0.5, dT[inside] * 0.66,
                color=ink, alpha=0.4, width=0.004, angles="xy", scale_units="xy", scale=5,
            )  # fmt: skip
            for name, colour, label in (("f_z", "C0", r"$\Delta\tilde z=0$"), ("f_T", "C1", r"$\Delta T=0$")):
                curve = one[name].where(np.abs(one[name]) < 6)
                axis.plot(data.z, curve, color=colour, lw=2, label=label)
            axis.axvline(0, color="C0", lw=1.2)
            axis.plot(-E / 2, 0, "o", ms=5, color=ink, clip_on=False, zorder=5)
            axis.set(xlim=(-1.5, 1.5), ylim=(0, 4))
            axis.grid(False)
            axis.set_title(rf"$\lambda = {second:g}$, $\tilde E = {E:g}$")
            if j == 0:
                axis.set_ylabel(r"$T$")
            if i == data.sizes["E"] - 1:
                axis.set_xlabel(r"$\tilde z$")
    axes[0, 0].legend(loc="upper left")
    axes[0, -1].text(-0.75, 2.0, "forbidden", ha="center", va="center")
