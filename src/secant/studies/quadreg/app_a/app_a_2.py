"""Appendix A.2: a single eigenvalue is a logistic equation."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import flow, simulate
from secant.lab import Figure, Findings, Options, Tolerance, claim, option, options, sheet, study
from secant.theory.edge import quartic, single_eigenvalue


class Config(Options):
    omega: float = option(1.0, at_least=0.1, at_most=10, help="the eigenvalue")
    offsets: tuple[float, ...] = option(
        (0.0, 0.5, 2.0), at_least=0, at_most=10, longest=50, distinct=True, help="offsets E"
    )
    residual: float = option(0.5, at_least=0.01, at_most=10, help="residual at the start")
    until: float = option(6.0, at_least=0.1, at_most=100, help="last time")
    lrs: tuple[float, ...] = options.lrs(
        (0.08, 0.04, 0.02),
        (0.16, 0.08, 0.04, 0.02, 0.01),
        at_least=1e-4,
        at_most=0.5,
        shortest=2,
        longest=20,
        distinct=True,
    )

    @property
    def rate(self) -> float:
        """The largest curvature, at the start with the largest offset."""
        return self.omega * (2 * self.residual + max(self.offsets))

    def check(self) -> None:
        """Step sizes with which descent follows the flow."""
        if max(self.lrs) * self.rate > 1:
            raise ValueError(
                f"lrs: must be at most {1 / self.rate:.3g}, one over the curvature at the start, got {max(self.lrs):g}."
            )


@study("quadreg/app-A.2", section="A.2", title="One eigenvalue: the logistic equation")
def run(config: Config) -> xr.Dataset:
    r"""With a single eigenvalue the invariant fixes the curvature, $J^2 = \omega(2z + E)$, and gradient flow is
    $\dot z = -\omega z(2z + E)$, so
    $$z(t) = \frac{E/2}{\left(1 + \frac{E}{2z_0}\right)e^{\omega Et} - 1}.$$
    The dynamical mean-field theory of a linear network on one sample maps to this model, with
    $\Delta = \tilde z$, $H_y = J_0^2$, $y = -E/2$.
    """
    E, Q = np.array(config.offsets), jnp.array([[config.omega]])
    residual = {"z": lambda t, E: quartic.residual(t, Q, E)}

    def start(E: jnp.ndarray) -> jnp.ndarray:
        return jnp.sqrt((2 * config.residual + E) / config.omega)[None]

    solution = jit(single_eigenvalue.single_eigenvalue_solution, quick=True)

    def formula(time: np.ndarray, E: np.ndarray) -> np.ndarray:
        return np.asarray(solution(time, config.residual, config.omega, E))

    ran = flow(
        lambda t, E: quartic.quartic_flow(Q, E)(t),
        start,
        until=config.until,
        over={"E": E},
        probes=residual | {"curvature": lambda t: jnp.sum((Q[0] * t) ** 2)},
        samples=121,
        rtol=1e-11,
        atol=1e-13,
    ).dataset
    # The same model by gradient descent, in one run: at time one the difference from the flow is of first order.
    lrs = np.array(sorted(config.lrs))
    steps = np.maximum(np.rint(1 / lrs), 1).astype(int)
    descent = simulate(
        lambda E, lr: quartic.quartic(Q, lr, E), start, int(steps.max()), over={"E": E, "lr": lrs}, probes=residual
    ).dataset.z.values
    ends = np.stack([descent[:, i, count] for i, count in enumerate(steps)])
    return ran[["z", "curvature"]].assign(
        formula=(("E", "time"), formula(ran.time.values, E[:, None])),
        descent_error=(("lr", "E"), np.abs(ends - formula((steps * lrs)[:, None], E))),
        lr=lrs,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    numeric = Tolerance(1e-8 * (1 + config.rate), why="relative tolerance 1e-11 of the integrator")
    gap = np.abs(data.z - data.formula).max()
    yield claim("closed-form", "closed form against the flow: largest difference").zero(gap, numeric)
    law = single_eigenvalue.single_eigenvalue_curvature(data.z.values, config.omega, data.E.values[:, None])
    gap = np.abs(data.curvature - np.asarray(law)).max()
    yield claim("curvature", r"curvature against $\omega (2z + E)$: largest difference").zero(gap, numeric)
    error, lr = data.descent_error.max("E").values, data.lr.values
    power = np.log(error[1] / error[0]) / np.log(lr[1] / lr[0])
    yield claim("power", "power of the step size in the difference between descent and flow").equal(
        1.0, power, config.rate * lr[1], "the next order: the step size times the curvature at the start"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 3.9), 3)
    z = np.linspace(0, config.residual, 20)
    for i, E in enumerate(config.offsets):
        one, look = data.isel(E=i), {"color": f"C{i}", "label": f"$E = {E:g}$"}
        left.semilogy(data.time, one.z, lw=3, alpha=0.75, **look)
        sheet.guide(left, data.time, one.formula, "closed form" if i == 0 else None)
        middle.plot(one.z, one.curvature, lw=3, alpha=0.75, **look)
        sheet.guide(middle, z, single_eigenvalue.single_eigenvalue_curvature(z, config.omega, E))
        right.loglog(data.lr, one.descent_error, "o-", **look)
    middle.set(title="Curvature follows the residual", xlabel=r"$z$", ylabel=r"$J^2 = \omega(2z + E)$")
    sheet.guide(right, data.lr, 0.12 * data.lr, r"$\propto\eta$")
    sheet.label(left, "Residual under gradient flow", "time", r"$z$", "best", ylim=(1e-5, 1))
    sheet.label(right, "Descent nears the flow", r"step size $\eta$", "difference at time 1", "best")
