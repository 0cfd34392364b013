"""Appendix B.2 and B.3: two steps at once, their nullclines, and the distance to them."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, scaled, sheet, study
from secant.studies.shared.regression import starts
from secant.theory.edge import nullclines, two_eigenvalue, two_step


class Config(Seeded):
    epsilons: tuple[float, ...] = starts.epsilons((0.005, 0.05, 0.2), at_least=1e-4, at_most=0.5)
    points: int = scaled(smoke=121, laptop=401, at_least=11, at_most=100_000, help="points on each nullcline")
    tried: int = scaled(smoke=200, laptop=2_000, at_least=10, at_most=1_000_000, help="points for the polynomials")


NEAR = 0.1
"""The series serve up to this residual."""

SERIES = {"residual": (nullclines.residual_series, 6), "curvature": (nullclines.curvature_series, 4)}
"""The series of each nullcline, and the first power of the residual that the series leaves out."""


@study("quadreg/app-B.2", section="B.2", title="Two steps at once and their nullclines")
def run(config: Config) -> xr.Dataset:
    r"""Two steps of gradient descent with eigenvalues $\{1, -\epsilon\}$ are cubics in $T$ with coefficients of degree
    9 in $\tilde z$ and at most 6 in $\epsilon$. Through $(\tilde z, T) = (0, 2)$ pass a nullcline of the residual and
    one of the curvature, $$f_z = 2 + 2(1-\epsilon)\tilde z + 2(1-\epsilon+\epsilon^2)\tilde z^2 + \dots,\qquad f_T = 2
    + \frac{2-3\epsilon+2\epsilon^2}{1-\epsilon}\tilde z + \tfrac12(4-\epsilon+4\epsilon^2)\tilde z^2 + \dots,$$ whose
    distance is linear in $\epsilon$; at $\epsilon = 0$ both are $2/(1-\tilde z)$.
    """
    keys = jax.random.split(jax.random.key(config.seed), 3)
    z = jax.random.uniform(keys[0], (config.tried,), minval=-1.0, maxval=1.0)
    T = jax.random.uniform(keys[1], (config.tried,), maxval=4.0)
    e = jax.random.uniform(keys[2], (config.tried,))

    @jax.jit
    def gap(z: jax.Array, T: jax.Array, e: jax.Array) -> jax.Array:
        twice = two_step.two_step(e).step(two_eigenvalue.Point(z, T))
        dz, dT = two_step.two_step_change(z, T, e)
        scale = 1 + jnp.abs(twice.z) + jnp.abs(twice.T)
        return jnp.maximum(jnp.abs(twice.z - z - dz), jnp.abs(twice.T - T - dT)) / scale

    # Slope in y, at y = 0 and epsilon = 0, of the two-step change of y: -8 z^2 - 8 z^3 - 10 z^4 - ...
    def after(y: jax.Array, z: jax.Array) -> jax.Array:
        end = two_step.two_step(0.0).step(two_eigenvalue.Point(z, y + nullclines.skeleton_nullcline(z)))
        return end.T - nullclines.skeleton_nullcline(end.z) - y

    h = np.array([1e-3, -1e-3])
    slopes = np.asarray(jax.jit(jax.vmap(lambda z: jax.grad(after)(0.0, z) / z**2))(h))
    f_T = nullclines.nullcline(h, config.epsilons[0], "curvature")
    one = two_eigenvalue.two_eigenvalue(0.0).step(two_eigenvalue.Point(0.1, 1.7))
    points = 0.5 + np.asarray(jax.random.uniform(jax.random.key(config.seed), (15,))).reshape(5, 3) / 2
    grid, epsilons = np.linspace(-0.9, 0.9, config.points), (0.0, *config.epsilons)
    curves = [[nullclines.nullcline(grid, eps, of) for eps in epsilons] for of in SERIES]
    series = [[form(grid, eps) for eps in epsilons] for form, _ in SERIES.values()]
    return xr.Dataset(
        {
            "error": ("sample", np.asarray(gap(z, T, e))),
            "nullcline": (("of", "eps", "z"), np.array(curves)),
            "series": (("of", "eps", "z"), np.array(series)),
            "degree": (("of", "variable"), two_step.two_step_degrees(points)),
            "cubic_slope": np.diff(slopes)[0] / np.diff(h)[0],
            "slope_T": np.diff(f_T)[0] / np.diff(h)[0],
            "ratio": float((one.T - 1.7) / (one.z - 0.1)),
        },
        coords={"of": list(SERIES), "variable": [*SERIES, "epsilon"], "eps": list(epsilons), "z": grid},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    sentence = "two-step polynomials against two iterations: largest relative difference"
    yield claim("polynomials", sentence).zero(data.error.max(), 1e-12, "an identity: rounding of float64")
    for of in SERIES:
        for variable, degree in (("residual", 9), ("curvature", 3)):
            sentence = f"degree in the {variable} of the {of}'s two-step change"
            yield claim(f"degree-{variable}-{of}", sentence).count(degree, data.degree.sel(of=of, variable=variable))
    found = data.degree.sel(variable="epsilon").max()
    yield claim("degree-epsilon", r"degree in $\epsilon$ of the two-step changes: the larger").count(6, found)
    zero = data.nullcline.sel(eps=0.0) / np.asarray(nullclines.skeleton_nullcline(data.z.values))
    sentence = r"nullclines at $\epsilon = 0$ against $2/(1 - z)$: largest relative difference"
    yield claim("nullclines-0", sentence).zero(
        np.abs(zero - 1).max(), 1e-6, "rounding near the double root, where the two nullclines meet"
    )
    z = NEAR * np.array([[1, -1], [0.5, -0.5]])
    why = f"first power left out; at z = {NEAR:g} the next one is a few times z of it"
    for of, (series, order) in SERIES.items():
        errors = [np.abs(nullclines.nullcline(z, eps, of) - series(z, eps)) for eps in data.eps.values]
        powers = [np.log2(far / near) for far, near in errors]
        sentence = f"smallest power of the residual in the error of the series of the {of}'s nullcline"
        yield claim(f"power-{of}", sentence).at_least(order, np.min(powers), why, slack=0.3)
    yield from _errata(data, config.epsilons[0])


def _errata(data: xr.Dataset, eps: float) -> Findings:
    r"""Misprints, at the first $\epsilon$."""
    slope = (2 - 3 * eps + 2 * eps**2) / (1 - eps)
    at = NEAR / 2
    apart = -eps / (1 - eps) * at - 1.5 * eps * at**2
    wrong = (r"f_z = 2 + \sum_{j\ge1}\sum_{k\ge1}a_{jk}\epsilon^j\tilde z^k", 2.0)
    right = (r"f_z = 2 + \sum_{j\ge0}\sum_{k\ge1}a_{jk}\epsilon^j\tilde z^k", 2 / (1 - 0.2))
    note = r"the terms without $\epsilon$ are there: at $\epsilon = 0$ the series sums to $2/(1 - z)$"
    why = r"the closed form at $\epsilon = 0$, at $z = 0.2$"
    yield claim("series-powers", r"powers of $\epsilon$ in the series of the nullclines").erratum(
        wrong, right, nullclines.nullcline(0.2, 0.0), 1e-6, why, note=note, where="equations (66) and (67)"
    )
    wrong = (r"f_T = 2 - \frac{2-3\epsilon+2\epsilon^2}{1-\epsilon}\tilde z + \dots", -slope)
    right = (r"f_T = 2 + \frac{2-3\epsilon+2\epsilon^2}{1-\epsilon}\tilde z + \dots", slope)
    note = "a sign; the printed difference of the nullclines needs the plus as well"
    why = "third-order term of the central difference, 2e-6"
    yield claim("slope", "slope of the curvature's nullcline at the edge").erratum(
        wrong, right, data.slope_T, 1e-5, why, note=note, where="equation (69)"
    )
    yield claim("f-delta", r"the function called $f_\Delta$").erratum(
        (r"f_z - f_T = \epsilon f_\Delta", eps * apart),
        (r"f_z - f_T = f_\Delta", apart),
        nullclines.nullcline(at, eps) - nullclines.nullcline(at, eps, "curvature"),
        4 * eps * at**3,
        rf"next term of the series, $\tfrac{{11}}4\epsilon z^3$, at $z = {at:g}$",
        note="the name first stands for the difference and then for the difference over epsilon",
        where="equation (70) against (73)",
    )
    wrong, right = (r"\Delta\tilde z = 2\Delta T", 0.5), (r"\Delta T = 2\Delta\tilde z", 2.0)
    note = r"the two changes are exchanged; $T - 2z$ is conserved"
    yield claim("one-step", r"one-step changes at $\epsilon = 0$").erratum(
        wrong, right, data.ratio, 1e-12, "an identity: rounding of float64", note=note, where="after equation (72)"
    )
    yield claim("cubic-term", r"the term $y z^3$ in the two-step change of $y$").erratum(
        (r"\dots + y^2\tilde z^2g_1 + \epsilon\tilde z^3g_2", 0.0),
        (r"\dots - 2(1-\epsilon)(4-\epsilon+4\epsilon^2)y\tilde z^3 + y^2\tilde z^2g_1+\epsilon\tilde z^3g_2", -8.0),
        data.cubic_slope,
        1e-3,
        r"terms of relative order $z^2$ = 1e-6, and rounding over $z^3$",
        note=r"at $\epsilon = 0$ it is $-8 y z^3$, neither quadratic in $y$ nor proportional to $\epsilon$; the proof "
        "survives it",
        where="equations (82), (85) and (88)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.2), 3)
    z = data.z.values
    sheet.guide(left, z, nullclines.skeleton_nullcline(z), r"$2/(1-\tilde z)$")
    for i, eps in enumerate(config.epsilons):
        f_z, f_T = data.nullcline.sel(eps=eps)
        left.plot(z, f_z, color=f"C{i}", label=rf"$f_z$, $\epsilon={eps:g}$")
        left.plot(z, f_T, ":", color=f"C{i}", lw=2)
        middle.plot(z, (f_z - f_T) / eps, color=f"C{i}", label=rf"$\epsilon = {eps:g}$")
        error = np.abs(f_z - data.series.sel(eps=eps, of="residual"))
        right.semilogy(z, np.maximum(error, 1e-17), color=f"C{i}", label=rf"$f_z$, $\epsilon = {eps:g}$")
    sheet.guide(left, [], [], r"$f_T$", ls=":", lw=2)
    left.plot(0, 2, "o", color=sheet.ink())
    sheet.guide(middle, z, -z - 1.5 * z**2, r"$-\tilde z - \frac{3}{2}\tilde z^2$")
    linear, distance = r"Their distance is linear in $\epsilon$", r"$(f_z - f_T)/\epsilon$"
    for axes, title, label, place, x, y in (
        (left, r"Two nullclines through $(0, 2)$", r"$T$", "upper left", (-0.9, 0.8), (0.8, 8)),
        (middle, linear, distance, "lower left", (-0.6, 0.6), (-4, 1)),
        (
            right,
            "The series serve near the edge only",
            "error of the fifth order",
            "lower right",
            (-0.9, 0.9),
            (1e-14, 1e2),
        ),
    ):
        sheet.label(axes, title, r"$\tilde z$", label, place, xlim=x, ylim=y)
