"""Theorem B.3: the limit of the lowest-order dynamics, and how much of the start it remembers."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Options, claim, option, scaled, sheet, study
from secant.studies.shared.numerics.exponents import slope
from secant.studies.shared.regression import starts
from secant.theory.edge import edge_limit, two_step


class Config(Options):
    epsilons: tuple[float, ...] = starts.epsilons(
        (0.0025, 0.005, 0.01), at_least=5e-4, at_most=0.02, longest=50, distinct=False, ascending=True
    )
    residuals: int = scaled(smoke=9, laptop=25, at_least=5, at_most=1_000, help="starting residuals")
    reach: float = option(6.0, at_least=5, at_most=8, help="largest 4 z^2 / epsilon of the starts")
    orbits: tuple[float, ...] = option(
        (0.05, 0.08, 0.12, 0.16), at_least=0.02, at_most=0.2, distinct=True, help="starting residuals of the orbits"
    )


@study("quadreg/thm-B.3", section="B.5", title="The lowest-order dynamics end at minus epsilon over two")
def run(config: Config) -> xr.Dataset:
    r"""For $\tilde z_{t+2} - \tilde z_t = 2y_t\tilde z_t$ and
    $y_{t+2} - y_t = -2(4-3\epsilon+4\epsilon^2)y_t\tilde z_t^2 - 4\epsilon\tilde z_t^2$ with small
    $\tilde z_0, y_0 > 0$, $y_0 < 2\tilde z_0^2$ and $\epsilon\log(1/\epsilon) \ll 4\tilde z_0^2$,
    $$\lim\tilde z_t = 0,\qquad \lim y_t = -\epsilon/2 + O(\epsilon^2).$$ The distance from the fixed point $y^* =
    -\epsilon/(2 - \tfrac32\epsilon + 2\epsilon^2)$ falls by $e^{-4\tilde z_0^2/\epsilon}$.
    """
    eps, exponent = np.array(config.epsilons), np.linspace(0.5, config.reach, config.residuals)  # 4 z0^2 / eps
    stop = Stop(converged=lambda s: jnp.abs(s.z) < 1e-9, every=100)
    steps, star = int(40 / eps.min()), np.asarray(edge_limit.fixed_point(eps))
    ends = simulate(
        lambda eps: two_step.lowest_order(eps),
        lambda eps, exponent: two_step.Local(jnp.sqrt(exponent * eps / 4), 0.0 * eps),
        steps,
        over={"eps": eps, "exponent": exponent},
        stop=stop,
    ).state
    orbits = simulate(
        two_step.lowest_order(eps[0]),
        lambda start: two_step.Local(start, start**2),
        steps,
        over={"start": np.array(config.orbits)},
        probes={"z": lambda s: s.z, "y": lambda s: s.y},
        stop=stop,
    )
    # The residual at which the proof's condition is met with equality, 4 z^2 = eps log(1/eps).
    at_condition = simulate(
        lambda case: two_step.lowest_order(case["eps"]),
        lambda case: two_step.Local(case["z"], 0.0 * case["z"]),
        steps,
        over={"case": {"eps": eps, "z": np.sqrt(eps * np.log(1 / eps) / 4)}},
        stop=stop,
    ).state
    delta, condition = np.asarray(ends.y) / star[:, None] - 1, np.asarray(at_condition.y) / star - 1
    return orbits.dataset[["z", "y"]].assign(
        delta=(("eps", "exponent"), delta, {"long_name": "final y over y*, minus one"}),
        eps=eps,
        exponent=exponent,
        condition=("eps", condition, {"long_name": "the same where 4 z^2 = eps log(1/eps)"}),
        last_z=("start", np.asarray(orbits.state.z)),
        last_y=("start", np.asarray(orbits.state.y)),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    first, widest = data.isel(eps=0), data.isel(start=int(np.argmax(config.orbits)))
    eps, largest = float(first.eps), max(config.orbits)
    yield claim("residual-end", "largest final residual").zero(np.abs(data.last_z).max(), 1e-8, "the runs stop at 1e-9")
    remembered = abs(float(edge_limit.memory(largest, largest**2, eps)))
    why = r"third-order term of the fixed point, $\tfrac7{32}\epsilon$, and twice the memory of the start"
    yield claim("second-order", rf"second-order coefficient of the limit, at $\epsilon = {eps:g}$").equal(
        -3 / 8, (widest.last_y + eps / 2) / eps**2, eps + 2 * remembered / eps**2, why
    )
    ratio = first.delta.values / flow_memory(data.exponent.values, eps)
    sentence = rf"largest ratio of the map's memory to the flow's in closed form, at $\epsilon = {eps:g}$"
    why = r"twice $\tfrac12\epsilon x(x + 1)$, the second order of a step in the exponent $x$ of the memory"
    yield claim("memory-map-flow", sentence).equal(
        1.0, ratio[np.argmax(np.abs(ratio - 1))], eps * config.reach * (config.reach + 1), why
    )
    far = first.where(data.exponent > config.reach / 3, drop=True)
    wrong = (r"\lim|\delta_t| \le e^{-16\tilde z_0^2/\epsilon}|\delta_{t_-}|", 16.0)
    right = (r"\lim|\delta_t| \approx e^{-4\tilde z_0^2/\epsilon}|\delta_{t_-}|", 4.0)
    note = r"$2z_0$, an upper bound on z, is taken for a lower one, and a decay per two steps for one per step"
    why = r"curvature of the closed form's logarithm, exp(-exponent) on the fitted range, and $O(\epsilon)$"
    where = "equations (127)-(130), condition of Theorem B.3"
    yield claim("forgets", r"how the limit forgets its start: $-\epsilon\ln|\delta|$ over $z_0^2$").erratum(
        wrong, right, -slope(far.exponent / 4, np.log(np.abs(far.delta))), 0.2, why, note=note, where=where
    )
    yield claim("memory-condition", r"memory where $4z_0^2 = \epsilon\ln(1/\epsilon)$").erratum(
        (r"\lim|\delta_t| \le \epsilon^2", eps**2),
        (r"\lim|\delta_t| \le \epsilon", eps),
        abs(first.condition),
        0.0,
        "an inequality",
        note=r"$e^{-\ln(1/\epsilon)}$ is $\epsilon$; y is then within $\epsilon^2$ of its fixed point, which is all "
        "that the theorem needs",
        relation="at most",
        where="equation (131)",
    )
    yield from _decay(widest.z.values, widest.y.values, eps)


def flow_memory(exponent: np.ndarray, eps: float) -> np.ndarray:
    r"""The flow's limit in closed form over $y^*$, minus one, from $y = 0$ and this $4z^2/\epsilon$."""
    limit = edge_limit.flow_limit(np.sqrt(exponent * eps / 4), 0.0, eps)
    return np.asarray(limit) / np.asarray(edge_limit.fixed_point(eps)) - 1


def _decay(z: np.ndarray, y: np.ndarray, eps: float) -> Findings:
    """Lower bounds on the residual after y has turned negative, and the time until y is small."""
    z, y = z[np.isfinite(z)], y[np.isfinite(z)]
    turn = int(np.argmax(y < 0))
    later = turn + int(1 / eps / 2)  # half a decay time; a step of the map is two of descent
    wrong = (r"\tilde z_t \ge 2e^{-\epsilon t}\tilde z_0", 2 * np.exp(-eps * 2 * turn))
    right = (r"\tilde z_t \ge e^{-\epsilon(t - t_-)/2}\tilde z_0", 1.0)
    note = r"$2z_0$ bounds z from above, not from below; the decay is $\epsilon$ in two steps"
    why = r"$1 - \epsilon$ against $e^{-\epsilon}$, over the turn"
    yield claim("bound-turn", "lower bound on the residual where y turns negative, over the start").erratum(
        wrong, right, z[turn] / z[0], eps, why, note=note, relation="at least", where="equation (127), at t = t_-"
    )
    sentence = "residual half a decay time after the turn, over the corrected lower bound"
    why = r"second order in $\epsilon$ of the decay, over half a decay time"
    yield claim("bound-later", sentence, later < len(z), "the orbit ends before").at_least(
        1.0, lambda: z[later] / z[0] / np.exp(-eps * (later - turn)), why, slack=2 * eps
    )
    # The printed logarithm is that of a negative number; its real part is that of epsilon / y_0.
    exact = 2 * np.log(y[0] / eps) / (8 * z[0] ** 2)
    steps = claim("steps-small-y", r"steps until $y$ falls below $\epsilon$")
    if y[0] <= eps:
        yield steps.undecided(exact, "y is below epsilon from the start", "at most")
        return
    wrong = (r"\log(-\epsilon/y_0)/8\tilde z_0^2", np.log(eps / y[0]) / (8 * z[0] ** 2))
    right = (r"2\log(y_0/\epsilon)/8\tilde z_0^2", exact)
    note = "the logarithm of a negative number, whose real part is negative too; a unit of this decay is two steps"
    where = "phase 1 of the proof, after equation (121)"
    yield steps.erratum(
        wrong, right, 2 * np.argmax(y < eps), 2.0, "one pair of steps", note=note, relation="at most", where=where
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    eps = config.epsilons[0]
    star = float(edge_limit.fixed_point(eps)) / eps
    z, y = np.meshgrid(np.linspace(0.0, 0.22, 60), np.linspace(-2 * eps, 12 * eps, 60))
    dz, dy = (np.asarray(d) for d in two_step.lowest_order_change(z, y, eps))
    left.streamplot(z, y / eps, dz, dy / eps, color=sheet.faint(), density=1.1, linewidth=0.8, arrowsize=0.8)
    for i in range(data.sizes["start"]):
        left.plot(data.z[i], data.y[i] / eps, "-", color=f"C{i}", lw=2)
        left.plot(data.z[i, 0], data.y[i, 0] / eps, "o", color=f"C{i}")
    sheet.mark(left, y=star)
    left.text(0.215, star - 0.15, r"$y^*$", va="top", ha="right", fontsize=12)
    sheet.mark(left, y=0, ls="-", lw=0.6)
    title = rf"Lowest-order dynamics, $\epsilon = {eps:g}$"
    sheet.label(left, title, r"$\tilde z$", r"$y/\epsilon$", xlim=(0, 0.22), ylim=(-2, 12))
    x = np.linspace(0, config.reach, 200)
    for i, e in enumerate(config.epsilons):
        delta = np.abs(data.delta.isel(eps=i))
        right.semilogy(data.exponent, delta, "o", color=f"C{i}", ms=5, label=rf"map, $\epsilon={e:g}$")
    sheet.guide(right, x, np.abs(flow_memory(x, eps)), "flow, closed form")
    sheet.guide(right, x, np.exp(-4 * x), ls=":", lw=1.5)
    right.text(1.6, 3.5e-3, r"printed $e^{-16\tilde z_0^2/\epsilon}$", ha="left", va="bottom")
    along, look = r"$4\tilde z_0^2/\epsilon$, from $y_0 = 0$", {"ylim": (1e-4, 1.2), "xlim": (0, config.reach)}
    sheet.label(right, "Memory of the start", along, r"$|y_\infty/y^* - 1|$", "upper right", **look)
