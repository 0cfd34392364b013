"""Figure 9: the phase planes of one negative, and of one small positive, second eigenvalue."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.theory import two_eigenvalue


@dataclass(frozen=True)
class Config:
    a: tuple[float, ...] = option(
        (5.0, -2.0), at_least=-100, at_most=100, longest=10, distinct=True, help="a = -1/lambda: from 1 on, or below -1"
    )
    offsets: tuple[float, ...] = option(
        (0.0, 0.5), at_least=-10, at_most=10, longest=10, distinct=True, help="rescaled offsets"
    )
    points: int = scaled(smoke=401, laptop=801, at_least=11, help="points on each curve")
    samples: int = scaled(smoke=2_000, laptop=20_000, at_least=10, help="random parameters in the cones")
    seed: int = option(0, at_least=0, at_most=2**31 - 1, help="random seed")

    def check(self) -> None:
        """Eigenvalues between -1 and 1, and curves that a machine holds."""
        for a in self.a:
            if -1 <= a < 1:
                raise ValueError(f"a: must be at least 1 or below -1, as lambda lies between -1 and 1, got {a!r}.")
        planes = len(self.a) * len(self.offsets)
        fits_memory(200 * planes * (self.points + self.samples), "points or samples")


@study(
    "quadreg/fig-9", section="B.1", title="Where the two-parameter model can live",
    statement=r"""
    For eigenvalues $\{1, \lambda\}$ and $a = -1/\lambda$ the squares of the two Jacobian components are nonnegative
    in a cone with vertex $\tilde z = -\tilde E/2$: upward for $\lambda < 0$, $T > W$ and $T > -W/a$; sideways for
    $0 < \lambda < 1$, $-W/a < T < W$, with $W = 2\tilde z + \tilde E$. The one-step nullclines are
    $$f_z = \frac{\tilde zW}{2a - (a-1)\tilde z},\qquad f_T = -\frac{(a-1)\tilde z - 2a}{(a^2-a+1)\tilde z -
    2a(a-1)}W,$$
    and $\tilde z = 0$. For $\lambda > 0$ and no offset the cone meets $\tilde z = 0$ at $T = 0$ only.""",
)
def run(config: Config) -> xr.Dataset:
    a, E = np.array(config.a), np.array(config.offsets)
    second, offset = -1 / a[:, None, None], E[:, None]
    z = np.linspace(-1.5, 1.5, config.points)
    # A box about the vertex, and back and forth between its points and their parameters.
    z_box = np.broadcast_to(-offset / 2 + np.linspace(-2, 2, 81), (len(a), len(E), 81))
    T_box = np.linspace(0, 4, 81)
    curve, sample, box = ("a", "E", "z"), ("a", "E", "sample"), ("height", "a", "E", "across")

    @jax.jit
    def planes(theta: jax.Array, z: jax.Array, z_box: jax.Array, T: jax.Array) -> dict[str, jax.Array]:
        shape = (len(a), len(E), config.points)
        f_z, f_T = (jnp.broadcast_to(f, shape) for f in two_eigenvalue.one_step_nullclines(z, second, offset))
        step = two_eigenvalue.two_eigenvalue(second, offset).step
        sample_z, sample_T = jnp.broadcast_arrays(*two_eigenvalue.phase_point(theta, second, offset))
        found = two_eigenvalue.parameters(z_box, T, second, offset)
        back = two_eigenvalue.phase_point(found, second, offset)
        return {
            "f_z": f_z, "f_T": f_T, "change_z": (step(two_eigenvalue.Point(z, f_z)).z - z) / (1 + jnp.abs(f_z)),
            "change_T": (step(two_eigenvalue.Point(z, f_T)).T - f_T) / (1 + jnp.abs(f_T)), "sample_z": sample_z,
            "sample_T": sample_T, "there": jnp.isfinite(found).all(-1),
            "back": jnp.maximum(jnp.abs(back.z - z_box), jnp.abs(back.T - T)),
        }

    theta = 1.5 * jax.random.normal(jax.random.key(config.seed), (2 * config.samples,)).reshape(-1, 2)
    dims = dict.fromkeys(("f_z", "f_T", "change_z", "change_T"), curve) | dict.fromkeys(
        ("sample_z", "sample_T"), sample
    )
    values = planes(theta, z, z_box, T_box[:, None, None, None])
    found = {name: (dims.get(name, box), np.asarray(value)) for name, value in values.items()}
    return xr.Dataset(
        found | {"box_z": (("a", "E", "across"), z_box), "box_T": ("height", T_box)}, coords={"a": a, "E": E, "z": z},
    )


def _printed_cone(z: xr.DataArray, T: xr.DataArray, slack: float) -> xr.DataArray:
    """Equations (55) and (56), with some slack on the faces: outside of it is outside for certain."""
    W = 2 * z + z.E
    upward = (W - slack <= T) & (-W / z.a - slack <= T)
    sideways = (-W / z.a - slack <= T) & (W + slack >= T)
    return xr.where(z.a > 0, upward, sideways)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    near = Tolerance(1e-10, why="an identity: rounding of float64, relative to the height of the curve")
    for name, of in (("change_z", "residual"), ("change_T", "curvature")):
        change = data[name].where(np.isfinite(data[name]) & (np.abs(data.f_z) + np.abs(data.f_T) < 1e3))
        yield claims.zero(f"largest one-step change of the {of} on its nullcline", np.abs(change).max(), near)
    rounding = 1e-12 * (1 + float(np.abs(data.sample_T).max()))
    outside = ~_printed_cone(data.sample_z, data.sample_T, rounding)
    yield claims.count("random parameters outside of the cone", 0.0, outside.sum())
    z, T = data["box_z"], data["box_T"]
    within = _printed_cone(z, T, -1e-12).transpose(*data.there.dims)
    beyond = ~_printed_cone(z, T, 1e-12).transpose(*data.there.dims)
    yield claims.count(
        "points of the cone that belong to no parameters, and points outside that do", 0.0,
        (within & ~data.there).sum() + (beyond & data.there).sum(),
    )
    yield claims.zero(
        "from points of the cone to parameters and back: largest difference", data["back"].where(within).max(), 1e-11,
        "an identity: rounding of float64, at curvatures of up to four",
    )
    sideways = [a for a in config.a if a < -1]
    for E in config.offsets:
        name = f"largest curvature on the line of zero residual for lambda between 0 and 1, offset {E:g}"
        if not sideways or E < 0:
            yield claims.undecided(name, E, "no a is below -1" if not sideways else "the cone does not reach that line")
            continue
        T_line = np.linspace(0, 2 * max(E, 1), 20_001)
        allowed = [np.asarray(two_eigenvalue.admissible(0.0, T_line, -1 / a, E)) for a in sideways]
        tops = [T_line[where].max(initial=0.0) for where in allowed]
        yield claims.equal(
            name, E, tops[np.argmax(np.abs(np.array(tops) - E))], 1e-4 * max(E, 1), "spacing of the scan"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink, faint = sheet.ink(), sheet.faint()
    axes = sheet.panels(
        figure, (4.2 * data.sizes["a"] + 1.2, 3.5 * data.sizes["E"]), data.sizes["a"], data.sizes["E"], squeeze=False,
        sharex=True,
    )
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
