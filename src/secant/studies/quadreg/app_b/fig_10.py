"""Figure 10: how far below the edge training ends, against the second eigenvalue."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, flow, simulate
from secant.lab import Figure, Findings, Seeded, claim, option, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.theory.edge import edge_limit, skeleton, two_eigenvalue, two_step

SMALL = 0.01
"""Up to here the next term of the series is a small correction, and every start is forgotten."""


class Config(Seeded):
    smallest: float = option(1e-3, at_least=5e-4, at_most=0.05, help="smallest epsilon")
    largest: float = option(1e-1, at_least=1e-3, at_most=0.2, help="largest epsilon")
    epsilons: int = scaled(smoke=5, laptop=13, paper=25, at_least=3, at_most=200, help="how many values of epsilon")
    starts: int = scaled(smoke=60, laptop=300, at_least=5, at_most=10_000, help="random starts for each")
    residual: float = option(0.3, at_least=0.2, at_most=0.6, help="starting residual of the flow")
    distance: float = option(0.02, above=0, at_most=0.1, help="starting distance to the nullcline of the flow")

    def check(self) -> None:
        """A range of epsilons."""
        if self.largest < 2 * self.smallest:
            raise ValueError(f"largest: must be at least twice the smallest, {self.smallest:g}, got {self.largest:g}.")


@study("quadreg/fig-10", section="B.5", title="The final distance to the edge is half of epsilon")
def run(config: Config) -> xr.Dataset:
    r"""Over random starts near the nullcline, the median final curvature among those that end in $[1.9, 2]$ is
    $2 - \epsilon/2$ up to $O(\epsilon^2)$, for the exact map and for the lowest-order flow alike. The flow's
    second-order coefficient is $\tfrac38$; the map's is $\tfrac{27}{32}$.
    """
    eps = jnp.geomspace(config.smallest, config.largest, config.epsilons)
    keys = jax.random.split(jax.random.key(config.seed))
    z = jax.random.uniform(keys[0], (config.starts,), minval=0.05, maxval=0.6)
    T = 2 / (1 - z) + jax.random.uniform(keys[1], (config.starts,), maxval=0.3) * z**2
    steps = int(2.6 / config.smallest * np.log(1e9))  # |z| falls by a factor e in about 2/eps steps
    far = lambda p: (jnp.abs(p.z) > 1e3) | (jnp.abs(p.T) > 1e3)  # noqa: E731
    ends = simulate(
        lambda eps: two_eigenvalue.two_eigenvalue(-eps),
        lambda start: start,
        steps,
        over={"eps": eps, "start": two_eigenvalue.Point(z, T)},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-9, diverged=far, every=200),
    )
    # T - 2z is the curvature in the limit up to epsilon times the residual that is left.
    final = ends.dataset.outcome.copy(data=np.asarray(skeleton.conserved(ends.state.z, ends.state.T)) - 2)
    final = final.where((final > -0.1) & (final < 0) & (ends.dataset.outcome == Outcome.CONVERGED))
    # Time in units of 1/eps.
    ode = flow(
        lambda state, eps: jax.tree.map(lambda rate: rate / eps, two_step.lowest_order_flow(eps)(state)),
        two_step.Local(jnp.asarray(config.residual), jnp.asarray(config.distance)),
        until=30.0,
        over={"eps": eps},
        probes={"y": lambda s: s.y},
        samples=2,
        rtol=1e-10,
        atol=1e-13,
    ).dataset
    return xr.Dataset(
        {
            "median": final.median("start").assign_attrs(long_name="median of the final T - 2"),
            "near": final.notnull().mean("start").assign_attrs(long_name="share of starts that end in [1.9, 2]"),
            "final": final.drop_attrs(),
            "flow": ode.y.isel(time=-1, drop=True).assign_attrs(long_name="final y of the flow"),
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    small = data.isel(eps=0)
    eps = float(small.eps)
    at = rf"at $\epsilon = {eps:g}$"
    yield claim("median-final-distance", rf"median final distance over $\epsilon/2$, {at}").equal(
        1.0, -small["median"] / (eps / 2), 2 * eps, r"the next term is $\tfrac{27}{16}\epsilon$ of the first"
    )
    # Residuals of 1e-9 move T - 2z by 2 epsilon of them.
    why = r"next term $\tfrac{153}{128}\epsilon$; residuals of 1e-9 over $\epsilon^2$"
    yield claim("second-order-map", f"second-order coefficient of the map, {at}").equal(
        -edge_limit.LIMIT_COEFFICIENTS[1], -(small["median"] + eps / 2) / eps**2, 1.5 * eps + 4e-9 / eps, why
    )
    memory = abs(float(edge_limit.memory(config.residual, config.distance, eps)))
    why = r"next term of the fixed point, $\tfrac7{32}\epsilon$, and the memory of the start"
    yield claim("second-order-flow", f"second-order coefficient of the flow, {at}").equal(
        3 / 8, -(small.flow + eps / 2) / eps**2, eps + 2 * memory / eps**2, why
    )
    low = data.where(data.eps <= SMALL * (1 + 1e-9), drop=True)
    few = f"fewer than two values of epsilon are at most {SMALL:g}"
    sentence = r"power of $\epsilon$ in the deviation from $\epsilon/2$"
    why = r"the next term raises the local power by $1.42\epsilon$"
    yield claim("power", sentence, low.sizes["eps"] > 1, few).equal(
        2.0, lambda: rate(low.eps, -(low["median"] + low.eps / 2)), 1.5 * SMALL, why
    )
    formula = edge_limit.flow_limit(config.residual, config.distance, data.eps.values)
    why = r"relative tolerance 1e-10 of the integrator, through $e^{4z^2/\epsilon}$"
    yield claim("closed-form", "limit of the flow against its closed form: largest difference").zero(
        np.abs(data.flow - formula).max(), 1e-7, why
    )
    far = f"not every start reaches the edge if epsilon is above {SMALL:g}"
    sentence = r"share of starts that end in [1.9, 2], at the smallest $\epsilon$"
    yield claim("share-near", sentence, eps <= SMALL, far).equal(
        1.0, small.near, 0, r"the levels $T - 2z$ of all starts lie between 2 and 4"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    fine = np.geomspace(config.smallest, config.largest, 200)
    for axes, base in ((left, 0), (right, data.eps / 2)):
        each = (-data.final - base).stack(run=("eps", "start"))
        axes.plot(each.eps, each, ".", ms=3, color="C0", alpha=0.15, label="exact map, each start")
        axes.plot(data.eps, -data["median"] - base, "o", color="C0", label="exact map, median")
        axes.plot(data.eps, -data.flow - base, "s", mfc="none", color="C1", label="lowest-order flow")
        axes.set(xlabel=r"$\epsilon$", xscale="log", yscale="log")
    sheet.guide(left, fine, fine / 2, r"$\epsilon/2$")
    sheet.guide(right, fine, -np.asarray(edge_limit.limit_series(fine)) - fine / 2)
    sheet.guide(right, fine, 3 / 8 * fine**2, ls=":", lw=1.4)
    above = {"ha": "right", "va": "bottom", "size": 13}
    right.annotate(r"$\frac{27}{32}\epsilon^2 + \cdots$", (2e-3, 1.1 * 27 / 32 * 4e-6), **above)
    right.annotate(r"$\frac{3}{8}\epsilon^2$", (4e-3, 3 / 8 * 1.6e-5 / 1.3), ha="left", va="top", size=13)
    low, high = config.smallest, config.largest
    up = r"$2 - \epsilon/2 - \eta\lambda_\infty$"
    sheet.label(right, r"Deviation from $\epsilon/2$", y=up, ylim=(low**2 / 8, 3 * high**2))
    sheet.label(left, "Distance below the edge", y=r"$2 - \eta\lambda_\infty$", legend="best", ylim=(low / 4, high))
