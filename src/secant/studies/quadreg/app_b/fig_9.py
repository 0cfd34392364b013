"""Figure 9: the phase planes of one negative, and of one small positive, second eigenvalue."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, fits_memory, option, scaled, sheet, study
from secant.studies.shared.regression.plane import draw_plane
from secant.theory.edge import two_eigenvalue


class Config(Seeded):
    a: tuple[float, ...] = option(
        (5.0, -2.0), at_least=-100, at_most=100, longest=10, distinct=True, help="a = -1/lambda: from 1 on, or below -1"
    )
    offsets: tuple[float, ...] = option(
        (0.0, 0.5), at_least=-10, at_most=10, longest=10, distinct=True, help="rescaled offsets"
    )
    points: int = scaled(smoke=401, laptop=801, at_least=11, help="points on each curve")
    tried: int = scaled(smoke=2_000, laptop=20_000, at_least=10, help="random parameters in the cones")

    def check(self) -> None:
        """Eigenvalues between -1 and 1, and curves that a machine holds."""
        for a in self.a:
            if -1 <= a < 1:
                raise ValueError(f"a: must be at least 1 or below -1, as lambda lies between -1 and 1, got {a!r}.")
        fits_memory(200 * len(self.a) * len(self.offsets) * (self.points + self.tried), "points or tried")


@study("quadreg/fig-9", section="B.1", title="Where the two-parameter model can live")
def run(config: Config) -> xr.Dataset:
    r"""For eigenvalues $\{1, \lambda\}$ and $a = -1/\lambda$ the squares of the two Jacobian components are nonnegative
    in a cone with vertex $\tilde z = -\tilde E/2$: upward for $\lambda < 0$, $T > W$ and $T > -W/a$; sideways for
    $0 < \lambda < 1$, $-W/a < T < W$, with $W = 2\tilde z + \tilde E$. The one-step nullclines are
    $$f_z = \frac{\tilde zW}{2a - (a-1)\tilde z},\qquad f_T = -\frac{(a-1)\tilde z - 2a}{(a^2-a+1)\tilde z -
    2a(a-1)}W,$$
    and $\tilde z = 0$. For $\lambda > 0$ and no offset the cone meets $\tilde z = 0$ at $T = 0$ only.
    """
    a, E = np.array(config.a), np.array(config.offsets)
    second, offset = -1 / a[:, None, None], E[:, None]
    z = np.linspace(-1.5, 1.5, config.points)
    # A box about the vertex, and back and forth between its points and their parameters.
    z_box, T_box = np.broadcast_to(-offset / 2 + np.linspace(-2, 2, 81), (len(a), len(E), 81)), np.linspace(0, 4, 81)

    @jax.jit
    def planes(theta: jax.Array, z: jax.Array, z_box: jax.Array, T: jax.Array) -> dict[str, jax.Array]:
        shape = (len(a), len(E), config.points)
        f_z, f_T = (jnp.broadcast_to(f, shape) for f in two_eigenvalue.one_step_nullclines(z, second, offset))
        step = two_eigenvalue.two_eigenvalue(second, offset).step
        sample_z, sample_T = jnp.broadcast_arrays(*two_eigenvalue.phase_point(theta, second, offset))
        found = two_eigenvalue.parameters(z_box, T, second, offset)
        back = two_eigenvalue.phase_point(found, second, offset)
        return {
            "f_z": f_z,
            "f_T": f_T,
            "change_z": (step(two_eigenvalue.Point(z, f_z)).z - z) / (1 + jnp.abs(f_z)),
            "change_T": (step(two_eigenvalue.Point(z, f_T)).T - f_T) / (1 + jnp.abs(f_T)),
            "sample_z": sample_z,
            "sample_T": sample_T,
            "there": jnp.isfinite(found).all(-1),
            "back": jnp.maximum(jnp.abs(back.z - z_box), jnp.abs(back.T - T)),
        }

    theta = 1.5 * jax.random.normal(jax.random.key(config.seed), (2 * config.tried,)).reshape(-1, 2)
    values = planes(theta, z, z_box, T_box[:, None, None, None])
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(("sample_z", "sample_T"), ("a", "E", "sample"))
    dims |= dict.fromkeys(("there", "back"), ("height", "a", "E", "across"))
    found = {name: (dims.get(name, ("a", "E", "z")), np.asarray(value)) for name, value in values.items()}
    boxes = {"box_z": (("a", "E", "across"), z_box), "box_T": ("height", T_box)}
    return xr.Dataset(found | boxes, coords={"a": a, "E": E, "z": z})


def _printed_cone(z: xr.DataArray, T: xr.DataArray, slack: float) -> xr.DataArray:
    """Equations (55) and (56), with some slack on the faces: outside of it is outside for certain."""
    W = 2 * z + z.E
    return (-W / z.a - slack <= T) & xr.where(z.a > 0, W - slack <= T, W + slack >= T)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    near = Tolerance(1e-10, why="an identity: rounding of float64, relative to the height of the curve")
    for change, of in ((data.change_z, "residual"), (data.change_T, "curvature")):
        change = change.where(np.isfinite(change) & (np.abs(data.f_z) + np.abs(data.f_T) < 1e3))
        sentence = f"largest one-step change of the {of} on its nullcline"
        yield claim(f"one-step-{of}", sentence).zero(np.abs(change).max(), near)
    outside = ~_printed_cone(data.sample_z, data.sample_T, 1e-12 * (1 + np.abs(data.sample_T).max()))
    yield claim("outside", "random parameters outside of the cone").count(0.0, outside.sum())
    within, beyond = _printed_cone(data.box_z, data.box_T, -1e-12), ~_printed_cone(data.box_z, data.box_T, 1e-12)
    wrong = (within & ~data.there).sum() + (beyond & data.there).sum()
    sentence = "points of the cone that belong to no parameters, and points outside that do"
    yield claim("cone", sentence).count(0.0, wrong)
    yield claim("and-back", "from points of the cone to parameters and back: largest difference").zero(
        data["back"].where(within).max(), 1e-11, "an identity: rounding of float64, at curvatures of up to four"
    )
    sideways = [a for a in config.a if a < -1]
    none = "the cone does not reach that line" if sideways else "no a is below -1"
    for E in config.offsets:
        T = np.linspace(0, 2 * max(E, 1), 20_001)
        tops = [T[np.asarray(two_eigenvalue.admissible(0.0, T, -1 / a, E))].max(initial=0.0) for a in sideways]
        top = max(tops, key=lambda top: abs(top - E), default=np.nan)
        sentence = rf"largest curvature on the line of zero residual for $\lambda$ between 0 and 1, offset {E:g}"
        yield claim(f"zero-residual-{E:g}", sentence, sideways and E >= 0, none).equal(
            E, top, 1e-4 * max(E, 1), "spacing of the scan"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    columns, rows = len(config.a), len(config.offsets)
    axes = sheet.panels(figure, (4.2 * columns + 1.2, 3.5 * rows), columns, rows, squeeze=False, sharex=True)
    for i, E in enumerate(config.offsets):
        for j, a in enumerate(config.a):
            one = data.isel(a=j, E=i)
            draw_plane(axes[i, j], -1 / a, E, one.f_z, one.f_T, 4.0)
            axes[i, j].plot(-E / 2, 0, "o", ms=5, color=sheet.ink(), clip_on=False, zorder=5)
            axes[i, j].set(title=rf"$\lambda = {-1 / a:g}$, $\tilde E = {E:g}$")
        axes[i, 0].set(ylabel=r"$T$")
    for lowest in axes[-1]:
        lowest.set(xlabel=r"$\tilde z$")
    axes[0, 0].legend(loc="upper left", frameon=True, facecolor=figure.get_facecolor(), framealpha=0.95)
    axes[0, -1].text(-0.75, 2.0, "forbidden", ha="center", va="center")
