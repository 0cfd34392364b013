"""The limit of the lowest-order flow in closed form, with its memory of the start."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Stop, flow, simulate
from secant.lab import Figure, Findings, Options, claim, option, scaled, sheet, study
from secant.studies.shared.regression import starts
from secant.theory.edge import edge_limit, nullclines, skeleton, two_eigenvalue, two_step


class Config(Options):
    epsilons: tuple[float, ...] = starts.epsilons((0.01, 0.03, 0.1), at_least=2e-3, at_most=0.2)
    residuals: int = scaled(smoke=10, laptop=24, paper=40, at_least=3, at_most=1_000, help="residuals, 0.04 to 0.3")
    distance: float = option(0.01, above=0, at_most=0.1, help="starting distance to the nullcline")


@study("quadreg/lambert-limit", section="B.5", title="The limit of the flow in closed form", new=True)
def run(config: Config) -> xr.Dataset:
    r"""The flow $\dot{\tilde z} = 2y\tilde z$, $\dot y = -2Ay\tilde z^2 - 4\epsilon\tilde z^2$ with
    $A = 4 - 3\epsilon + 4\epsilon^2$ conserves
    $$\tfrac A2\tilde z^2 + (y - y^*) + y^*\ln|y - y^*|,\qquad y^* = -2\epsilon/A,$$
    so its limit is known in closed form by Lambert's function: with $s = (y_0 - y^*)/|y^*|$,
    $$y_\infty = y^*\left(1 + W_0\!\left(-s\,e^{-s - A\tilde z_0^2/2|y^*|}\right)\right),\qquad
      y_\infty - y^* \approx (y_0 - y^*)\,e^{-(4\tilde z_0^2 + 2(y_0 - y^*))/\epsilon}.$$
    The memory of the start is exponentially small in $4\tilde z_0^2/\epsilon$.
    """
    eps, z0 = np.array(config.epsilons), np.asarray(jnp.linspace(0.04, 0.3, config.residuals))
    probes = {"z": lambda s: s.z, "y": lambda s: s.y}
    # Time in units of 1/eps.
    ran = flow(
        lambda state, eps: jax.tree.map(lambda rate: rate / eps, two_step.lowest_order_flow(eps)(state)),
        lambda z0: two_step.Local(z0, config.distance + 0.0 * z0),
        until=60.0,
        over={"eps": eps, "z0": z0},
        probes=probes | {"integral": lambda s, eps: edge_limit.first_integral(s.z, s.y, eps)},
        samples=np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 80)]),
        rtol=1e-11,
        atol=1e-14,
    ).dataset
    curves = np.concatenate([nullclines.nullcline(z0, e) for e in config.epsilons])
    cases = {"eps": eps.repeat(len(z0)), "z": np.tile(z0, len(eps)), "T": curves + config.distance}
    exact = simulate(
        lambda case: two_eigenvalue.two_eigenvalue(-case["eps"]),
        lambda case: two_eigenvalue.Point(case["z"], case["T"]),
        int(60 / eps.min()),
        over={"case": cases},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=50),
    ).state
    closed = np.asarray(edge_limit.flow_limit(z0, config.distance, eps[:, None]))
    limit = np.asarray(skeleton.conserved(*map(np.asarray, exact))).reshape(closed.shape) - 2
    return ran[["z", "y", "integral"]].assign(
        closed=(("eps", "z0"), closed, {"long_name": "limit in closed form"}),
        exact=(("eps", "z0"), limit, {"long_name": "limit of gradient descent"}),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    gap = np.abs(data.y.isel(time=-1) - data.closed).max()
    why = r"relative tolerance 1e-11 of the integrator, through $e^{4z^2/\epsilon}$"
    yield claim("closed-form", "closed form against the integrated flow: largest difference").zero(gap, 1e-8, why)
    # Where y has come within rounding of y*, the logarithm has nothing left to measure.
    star = data.eps.copy(data=edge_limit.fixed_point(data.eps.values))
    drift = np.abs(data.integral - data.integral.isel(time=0)).where(np.abs(data.y - star) > 1e-5)
    yield claim("first-integral", "largest drift of the first integral along the flow").zero(
        drift.max(), 1e-7, "an error of 1e-11 in y, through the logarithm of a distance of 1e-5"
    )
    # The leading form needs small eps and a small argument of Lambert's function.
    eps, exponent = 1e-4, np.linspace(8, 20, 13)
    z, y = np.sqrt(exponent * eps / 4)[:, None], eps * np.array([0.0, 0.5])
    leading = np.asarray(jit(edge_limit.memory, quick=True)(z, y, eps))
    memory = np.asarray(edge_limit.flow_limit(z, y, eps)) - float(edge_limit.fixed_point(eps))
    ratio = (memory / leading).ravel()
    sentence = rf"memory of the start over its leading form at $\epsilon = {eps:g}$: farthest from one"
    reason = r"relative correction $\tfrac32\epsilon$ of an exponent of up to 22; next term of Lambert's function"
    yield claim("memory-leading", sentence).equal(
        1.0, ratio[np.argmax(np.abs(ratio - 1))], 2 * eps * (20 + 2) + 2 * np.exp(-8), reason
    )
    tiny = float(edge_limit.flow_limit(0.3, config.distance, 1e-8)) / float(edge_limit.fixed_point(1e-8))
    sentence = r"closed form at $\epsilon = 10^{-8}$ over its fixed point: nothing overflows"
    yield claim("no-overflow", sentence).equal(1.0, tiny, 1e-12, "rounding")
    why = "next orders of the map: a share of the residual of the memory's exponent; residuals at the end"
    for eps in config.epsilons:
        one = data.sel(eps=eps)
        limit, error = np.asarray(edge_limit.limit_from(data.z0.values, config.distance, eps))
        worst = np.argmax(np.abs(one.exact.values - limit) / error)
        note = f"in units of its tolerance, from z = {float(one.z0[worst]):.3g}"
        sentence = rf"limit of gradient descent at $\epsilon = {eps:g}$: farthest from memory and series"
        yield claim(f"descent-{eps:g}", sentence).equal(
            limit[worst], one.exact[worst], error[worst] + 1e-10, why, note=note
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, right = sheet.panels(figure, (11.5, 4.4), 2)
    eps = config.epsilons[-1]
    star = float(edge_limit.fixed_point(eps))
    z, y = np.meshgrid(np.linspace(0.0, 0.34, 300), np.linspace(star + 1e-4, 0.06, 300))
    level = np.asarray(edge_limit.first_integral(z, y, eps))
    levels = np.linspace(level.min(), np.percentile(level, 98), 22)
    left.contour(z, y, level, levels=levels, colors=sheet.faint(), linewidths=0.9)
    for i, k in enumerate(np.linspace(1, data.sizes["z0"] - 1, 5).astype(int)):
        one = data.isel(eps=-1, z0=k)
        left.plot(one.z, one.y, color=f"C{i}", lw=2)
        left.plot(one.z[0], one.y[0], "o", color=f"C{i}", ms=5)
        left.plot(0, one.closed, "D", color=f"C{i}", ms=6, mec=ink, clip_on=False, zorder=5)
    sheet.mark(left, y=star)
    left.text(0.335, star - 0.001, r"$y^*$", va="top", ha="right", fontsize=12)
    left.plot([], [], "D", color=ink, ms=5, label="limit, closed form")
    box = {"loc": "upper right", "frameon": True, "facecolor": figure.get_facecolor(), "edgecolor": "none"}
    title = rf"Orbits are level lines ($\epsilon = {eps:g}$)"
    sheet.label(left, title, r"$\tilde z$", r"$y$", box, xlim=(0, 0.34), ylim=(star - 0.008, 0.05))
    fine = np.linspace(0.03, 0.3, 300)
    for i, e in enumerate(config.epsilons):
        one = data.isel(eps=i)
        sheet.guide(right, fine, np.asarray(edge_limit.flow_limit(fine, config.distance, e)) / e)
        right.plot(data.z0, one.y.isel(time=-1) / e, "o", color=f"C{i}", label=rf"flow, $\epsilon = {e:g}$")
        right.plot(data.z0, one.exact / e, "x", color=f"C{i}", ms=6, alpha=0.8)
    right.plot([], [], "x", color=ink, label="gradient descent")
    sheet.guide(right, [], [], "closed form")
    sheet.mark(right, y=-0.5, ls="-", lw=0.6)
    title = "Where it ends, and what it remembers"
    sheet.label(right, title, r"starting residual $\tilde z_0$", r"$y_\infty/\epsilon$", "upper right")
