"""The limit of gradient descent below the edge, to fourth order in the second eigenvalue."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Options, claim, option, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.theory.edge import edge_limit, two_eigenvalue

NEAR = 0.1
"""Residuals up to which orbits are compared with the slow manifold."""

DISTANCE = 0.2
"""How far above the skeleton's curve a run starts: there the residual first grows, and the start is forgotten."""

WEIGHT = 14
"""The manifold's series is fitted up to this weight: one for z, two for epsilon."""


class Config(Options):
    smallest: float = scaled(smoke=4e-3, laptop=1e-3, paper=5e-4, at_least=5e-4, below=0.01, help="smallest epsilon")
    largest: float = option(0.032, at_least=2e-3, at_most=0.05, help="largest epsilon")
    epsilons: int = scaled(smoke=8, laptop=13, paper=25, at_least=8, at_most=100, help="how many values of epsilon")
    residual: float = option(0.4, at_least=0.2, at_most=0.5, help="residual at the start")
    shown: float = option(0.01, at_least=5e-4, at_most=0.05, help="epsilon of the drawn orbit")

    def check(self) -> None:
        """A range over which powers of epsilon can be told apart."""
        low, high = self.smallest, self.largest
        if high < 4 * low:
            raise ValueError(f"largest: must be at least four times the smallest, {low:g}, got {high:g}.")


@study("quadreg/limit-series", section="B.5", title="The limit below the edge, to fourth order", new=True)
def run(config: Config) -> xr.Dataset:
    r"""The exact map with eigenvalues $\{1, -\epsilon\}$ has a slow manifold $T = g(\tilde z; \epsilon)$, a formal
    series graded by $\tilde z^2 \sim \epsilon$,
    $$g = \frac2{1-\tilde z} + \epsilon\left(-\tfrac12 - 2\tilde z - \tfrac{19}8\tilde z^2 - \dots\right)
        + \epsilon^2\left(-\tfrac{27}{32} + \tfrac{149}{128}\tilde z^2 + \dots\right) + \dots,$$
    along which every orbit that forgets its start descends. At $\tilde z = 0$ it gives the final curvature
    $$\lim\eta\lambda = 2 - \tfrac12\epsilon - \tfrac{27}{32}\epsilon^2 - \tfrac{153}{128}\epsilon^3 -
    \tfrac{17385}{8192}\epsilon^4 + O(\epsilon^5).$$
    The fixed point $y^*$ of the lowest-order dynamics is right at first order only: its second coefficient is
    $\tfrac38$.
    """
    eps = np.geomspace(config.smallest, config.largest, config.epsilons)
    start = two_eigenvalue.Point(jnp.asarray(config.residual), jnp.asarray(2 / (1 - config.residual) + DISTANCE))
    stop = Stop(converged=lambda p: jnp.abs(p.z) < 1e-13, every=20)
    probes = {"z": lambda p: p.z, "T": lambda p: p.T}
    ran = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        start,
        int(70 / config.smallest),
        over={"eps": jnp.array(eps)},
        probes=probes,
        stop=stop,
    )
    points = np.array([_near_the_end(*orbit) for orbit in zip(ran["z"].values, ran["T"].values, strict=True)])
    orbit = simulate(
        two_eigenvalue.two_eigenvalue(-config.shown), start, int(20 / config.shown), probes=probes, stop=stop
    ).dataset
    return orbit[["z", "T"]].assign(
        limit=("eps", np.asarray(ran.state.T) - 2, {"long_name": "final T - 2"}),
        eps=eps,
        near_z=(("eps", "point"), points[:, 0], {"long_name": "residual near the end"}),
        near_T=(("eps", "point"), points[:, 1]),
        manifold=("step", np.asarray(edge_limit.slow_manifold(orbit.z.values, config.shown))),
    )


def _slow(z: np.ndarray) -> np.ndarray:
    """The steps of an orbit after its residual was last large, while it is larger than a fiftieth of that."""
    large = np.flatnonzero(np.abs(z) >= NEAR)
    after = np.arange(len(z)) > (large[-1] if len(large) else -1)
    return np.flatnonzero(after & (np.abs(z) > NEAR / 50))


def _near_the_end(z: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sixty pairs of successive steps, one of each sign of the residual."""
    slow = _slow(z)
    first = np.linspace(0, len(slow) - 2, 60).astype(int)
    chosen = slow[np.concatenate([first, first + 1])]
    return z[chosen], T[chosen]


def fitted(data: xr.Dataset, weight: int) -> dict[tuple[int, int], float]:
    r"""The coefficients of $\epsilon^k\tilde z^j$ in the slow manifold, by least squares on points of all orbits."""
    eps, z = (part.values.ravel() for part in xr.broadcast(data.eps, data.near_z))
    powers = [(k, j) for k in range(1, weight // 2 + 1) for j in range(weight - 2 * k + 1)]
    scale = data.eps.values.max()
    columns = np.stack([(eps / scale) ** k * (z / NEAR) ** j for k, j in powers], axis=1)
    rest = data.near_T.transpose(*xr.broadcast(data.eps, data.near_z)[0].dims).values.ravel() - 2 / (1 - z)
    found = np.linalg.lstsq(columns, rest, rcond=1e-15)[0]
    return {(k, j): c / (scale**k * NEAR**j) for (k, j), c in zip(powers, found, strict=True)}


def left_over(data: xr.Dataset, order: int) -> np.ndarray:
    """The difference of the limit from this many terms of the series."""
    return np.abs(data.limit.values - np.asarray(edge_limit.limit_series(data.eps.values, order)))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps = data.eps.values
    found, before, first = (fitted(data, weight) for weight in (WEIGHT, WEIGHT - 2, WEIGHT - 4))
    for k, row in enumerate(edge_limit.MANIFOLD_COEFFICIENTS, start=1):
        for j, coefficient in enumerate(row):
            power = rf"\epsilon^{{{k}}}" + (f" z^{{{j}}}" if j else "")
            yield claim(f"coefficient-{k}-{j}", f"coefficient of ${power}$, fitted").equal(
                coefficient,
                found[k, j],
                max(abs(found[k, j] - before[k, j]), abs(before[k, j] - first[k, j]) / 10),
                "what the last two weights of the fit changed, and a tenth of what the two before them did",
                note=f"exactly {Fraction(coefficient)}",
            )
    why = "next term, with coefficients that grow by about two an order; rounding over the run"
    for place, e in (("smallest", eps[0]), ("middle", eps[len(eps) // 2]), ("largest", eps[-1])):
        yield claim(f"limit-{place}", rf"limit at $\epsilon = {e:.4g}$ against the series").equal(
            edge_limit.limit_series(e), data.limit.sel(eps=e), 10 * e**5 + 1e-12, why
        )
    upper = eps >= np.sqrt(eps[0] * eps[-1])
    why = r"the next term raises the local power by up to $2.3\epsilon$; rounding over what is left"
    for order, terms in ((1, "1 term"), (2, "2 terms"), (3, "3 terms")):
        left = left_over(data, order)[upper]
        yield claim(f"power-{order}", rf"power of $\epsilon$ left over after {terms}").equal(
            order + 1, rate(eps[upper], left), 2.5 * eps[-1] + 1e-12 / left.min(), why
        )
    e = config.shown
    sentence = rf"orbit at $\epsilon = {e:g}$ against the slow manifold, for $|z| < {NEAR:g}$: largest difference"
    yield claim("manifold", sentence).zero(
        np.abs(data["T"] - data.manifold)[_slow(data.z.values)].max(),
        15 * e * NEAR**5 + 15 * e**2 * NEAR**4 + 10 * e**5,
        r"first terms left out, $\tfrac{131}{16}\epsilon z^5$, $\tfrac{1799}{256}\epsilon^2 z^4$, $4.9\epsilon^5$",
    )
    e = eps[0]
    gap = (float(edge_limit.fixed_point(e)) - data.limit[0]) / e**2
    sentence = rf"distance of $y^*$ from the limit over $\epsilon^2$, at $\epsilon = {e:.4g}$"
    yield claim("fixed-point", sentence).equal(27 / 32 - 3 / 8, gap, 2 * e, "third-order terms")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.3), 3)
    z = np.linspace(-0.3, 0.3, 200)
    left.plot(data.z, data["T"], "o", ms=5, color="C0", alpha=0.5, label="gradient descent")
    sheet.guide(left, z, edge_limit.slow_manifold(z, config.shown), r"slow manifold $g(\tilde z;\epsilon)$")
    left.plot(0, 2 + edge_limit.limit_series(config.shown), "o", color="C1", ms=6, zorder=5)
    title = rf"Orbits descend a slow manifold, $\epsilon={config.shown:g}$"
    sheet.label(left, title, r"$\tilde z$", r"$T$", "upper left", xlim=(-0.3, 0.3), ylim=(1.5, 2.95))
    eps = data.eps.values
    fine = np.geomspace(eps[0], eps[-1], 100)
    for order in (1, 2, 3, 4):
        look = {"color": f"C{order - 1}", "ms": 4.5, "label": f"{order} term{'s' if order > 1 else ''}"}
        middle.loglog(eps, np.maximum(left_over(data, order), 1e-16), "o", **look)
        if order < 4:
            sheet.guide(middle, fine, abs(edge_limit.LIMIT_COEFFICIENTS[order]) * fine ** (order + 1))
    place = {"loc": "upper left", "ncols": 2}
    sheet.label(middle, "What the series leaves over", r"$\epsilon$", "error of the limit", place, ylim=(1e-14, 1e-2))
    right.semilogx(eps, -(data.limit + eps / 2) / eps**2, "o", color="C0", label="gradient descent")
    sheet.guide(right, fine, -(edge_limit.limit_series(fine) + fine / 2) / fine**2, "series")
    sheet.guide(right, fine, -(edge_limit.fixed_point(fine) + fine / 2) / fine**2, r"fixed point $y^*$", ls=":", lw=1.5)
    sheet.mark(right, y=27 / 32, ls="-", color="C2", lw=0.9)
    right.text(eps[0], 27 / 32 - 0.012, r"$27/32$", color="C2", va="top")
    up = r"$(2 - \epsilon/2 - \eta\lambda_\infty)/\epsilon^2$"
    sheet.label(right, "Second-order coefficient", r"$\epsilon$", up, "center left", ylim=(0.3, 0.95))
