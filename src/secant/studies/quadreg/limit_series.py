"""The limit of gradient descent below the edge, to fourth order in the second eigenvalue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import edge_limit, two_eigenvalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    smallest: float = scaled(smoke=4e-3, laptop=1e-3, paper=5e-4, above=0, below=0.02, help="smallest epsilon")
    largest: float = option(0.032, above=0, at_most=0.05, help="largest epsilon")
    epsilons: int = scaled(smoke=7, laptop=13, paper=25, at_least=5, help="how many values of epsilon")
    residual: float = option(0.4, above=0.2, below=0.6, help="residual at the start")
    shown: float = option(0.01, above=0, at_most=0.05, help="epsilon of the drawn orbit")


@study(
    "quadreg/limit-series",
    section="B.5",
    title="The limit below the edge, to fourth order",
    new=True,
    statement=r"""
    The exact map with eigenvalues $\{1, -\epsilon\}$ has a slow manifold $T = g(\tilde z; \epsilon)$, a formal
    series graded by $\tilde z^2 \sim \epsilon$,
    $$g = \frac2{1-\tilde z} + \epsilon\left(-\tfrac12 - 2\tilde z - \tfrac{19}8\tilde z^2 - \dots\right)
        + \epsilon^2\left(-\tfrac{27}{32} + \tfrac{149}{128}\tilde z^2 + \dots\right) + \dots,$$
    along which every orbit that forgets its start descends. At $\tilde z = 0$ it gives the final curvature
    $$\lim\eta\lambda = 2 - \tfrac12\epsilon - \tfrac{27}{32}\epsilon^2 - \tfrac{153}{128}\epsilon^3 -
    \tfrac{17385}{8192}\epsilon^4 + O(\epsilon^5).$$
    The fixed point $y^*$ of the lowest-order dynamics is right at first order only: its second coefficient is
    $\tfrac38$.""",
)
def run(config: Config) -> xr.Dataset:
    eps = jnp.geomspace(config.smallest, config.largest, config.epsilons)
    start = two_eigenvalue.Point(jnp.asarray(config.residual), jnp.asarray(2 / (1 - config.residual) + 0.02))
    stop = Stop(converged=lambda p: jnp.abs(p.z) < 1e-13, every=20)
    ends = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps), start, int(70 / config.smallest), over={"eps": eps}, stop=stop
    )
    orbit = simulate(
        two_eigenvalue.two_eigenvalue(-config.shown),
        start,
        int(20 / config.shown),
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
        stop=stop,
    ).dataset
    manifold = edge_limit.slow_manifold(orbit.z.values, config.shown)
    return xr.Dataset(
        {
            "limit": ("eps", np.asarray(ends.state.T) - 2, {"long_name": "final T - 2"}),
            "last": ("eps", np.asarray(ends.state.z)),
            "z": orbit.z,
            "T": orbit["T"],
            "manifold": ("step", np.asarray(manifold)),
        },
        coords={"eps": np.asarray(eps)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    eps = data.eps.values
    # Coefficients by fitting the series itself, two orders beyond the last one asked for.
    scale = eps.max()
    unknown = np.polynomial.polynomial.polyfit(eps / scale, data.limit.values / eps, min(5, len(eps) - 2))
    fitted = unknown / scale ** np.arange(len(unknown))
    names = ("-1/2", "-27/32", "-153/128")
    for k, name in enumerate(names):
        yield Finding(
            f"coefficient of epsilon^{k + 1}, fitted",
            predicted=edge_limit.LIMIT_COEFFICIENTS[k],
            measured=float(fitted[k]),
            tolerance=Tolerance(
                (1e-6, 2e-3, 0.3)[k],
                why="orders left out of the fit: 20 eps^6 at the largest epsilon, divided by eps^k",
            ),
            note=f"exactly {name}",
        )
    for e in (eps[0], eps[len(eps) // 2], eps[-1]):
        yield Finding(
            f"limit at epsilon = {e:.4g} against the series",
            predicted=float(edge_limit.limit_series(e)),
            measured=float(data.limit.sel(eps=e)),
            tolerance=Tolerance(
                10 * e**5 + 1e-12,
                why="next term, with coefficients that grow by about two an order; rounding over the run",
            ),
        )
    fits = eps >= 0.008
    for order in (1, 2, 3):
        left_over = np.abs(data.limit.values - np.asarray(edge_limit.limit_series(eps, order)))[fits]
        slope = np.polyfit(np.log(eps[fits]), np.log(left_over), 1)[0]
        yield Finding(
            f"power of epsilon left over after {order} term{'s' if order > 1 else ''}",
            predicted=order + 1,
            measured=float(slope),
            tolerance=Tolerance(0.08, why="the next term changes the local power by about 1.8 eps, at most 0.06"),
        )
    slow = np.abs(data.z) < 0.1
    yield Finding(
        f"orbit at epsilon = {config.shown:g} against the slow manifold, for |z| < 0.1: largest difference",
        predicted=0.0,
        measured=float(np.abs(data["T"] - data.manifold).where(slow).max()),
        tolerance=Tolerance(
            20 * config.shown * 0.1**5 + 10 * config.shown**2 * 0.1**4,
            why="first terms left out, eps z^5 and eps^2 z^4",
        ),
    )
    e = eps[0]
    yield Finding(
        f"distance of y* from the limit over eps^2, at epsilon = {e:.4g}",
        predicted=27 / 32 - 3 / 8,
        measured=float((float(edge_limit.fixed_point(e)) - data.limit[0]) / e**2),
        tolerance=Tolerance(2 * e, why="third-order terms"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(12, 4.3)
    left, middle, right = figure.subplots(1, 3)
    z = np.linspace(-0.3, 0.3, 200)
    left.plot(data.z, data["T"], "o", ms=5, color="C0", alpha=0.5, label="gradient descent")
    left.plot(
        z,
        edge_limit.slow_manifold(z, config.shown),
        "--",
        color=ink,
        lw=1.2,
        label=r"slow manifold $g(\tilde z;\epsilon)$",
    )
    left.plot(0, 2 + float(edge_limit.limit_series(config.shown)), "o", color="C1", ms=6, zorder=5)
    left.set(title=rf"Orbits descend a slow manifold, $\epsilon={config.shown:g}$", xlabel=r"$\tilde z$", ylabel=r"$T$")
    left.set(xlim=(-0.3, 0.3), ylim=(1.5, 2.95))
    left.legend(loc="upper left")
    eps = data.eps.values
    fine = np.geomspace(eps[0], eps[-1], 100)
    for order in (1, 2, 3, 4):
        gap = np.abs(data.limit.values - np.asarray(edge_limit.limit_series(eps, order)))
        middle.loglog(
            eps,
            np.maximum(gap, 1e-16),
            "o",
            color=f"C{order - 1}",
            ms=4.5,
            label=f"{order} term{'s' if order > 1 else ''}",
        )
        if order < 4:
            coefficient = abs(edge_limit.LIMIT_COEFFICIENTS[order])
            middle.loglog(fine, coefficient * fine ** (order + 1), "--", color=ink, lw=1.0)
    middle.set(
        title="What the series leaves over", xlabel=r"$\epsilon$", ylabel="error of the limit", ylim=(1e-14, 1e-2)
    )
    middle.legend(loc="upper left", ncols=2)
    right.semilogx(eps, -(data.limit + eps / 2) / eps**2, "o", color="C0", label="gradient descent")
    right.semilogx(
        fine, -(np.asarray(edge_limit.limit_series(fine)) + fine / 2) / fine**2, "--", color=ink, lw=1.2, label="series"
    )
    right.semilogx(
        fine,
        -(np.asarray(edge_limit.fixed_point(fine)) + fine / 2) / fine**2,
        ":",
        color=ink,
        lw=1.5,
        label=r"fixed point $y^*$",
    )
    right.axhline(27 / 32, color="C2", lw=0.9)
    right.text(eps[0], 27 / 32 - 0.012, r"$27/32$", color="C2", va="top")
    right.set(
        title="Second-order coefficient",
        xlabel=r"$\epsilon$",
        ylabel=r"$(2 - \epsilon/2 - \eta\lambda_\infty)/\epsilon^2$",
    )
    right.set_ylim(0.3, 0.95)
    right.legend(loc="center left")
