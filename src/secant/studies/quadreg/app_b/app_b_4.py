"""Appendix B.4: the two phases of the proof, with its constants measured."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, option, scaled, sheet, study, unfold
from secant.studies.shared.regression import starts
from secant.theory.edge import edge_limit, nullclines, two_eigenvalue, two_step

RISING = two_step.Local(0.02, 0.5 * 0.02**2)
"""From here the residual rises through phase one."""

LARGE, SMALL = two_step.Local(0.5, 0.2), 1e-4
"""A residual too large for the bound on the first negative y, and an epsilon."""


class Config(Seeded):
    epsilons: tuple[float, ...] = starts.epsilons((0.002, 0.01, 0.03), at_least=1e-3, at_most=0.05)
    starts: int = scaled(smoke=20, laptop=60, at_least=3, at_most=1_000, help="random starts for each epsilon")
    B: float = option(0.5, at_least=0.3, below=1, help="the constant B of the proof")

    @property
    def middle(self) -> float:
        """The epsilon at which single formulas are tried."""
        return sorted(self.epsilons)[len(self.epsilons) // 2]

    @property
    def bound(self) -> float:
        """The bound on y in phase two, over its fixed point."""
        return 1 + 3 * self.B / (8 - self.B)


@study("quadreg/app-B.4", section="B.4", title="The two phases of the proof, measured")
def run(config: Config) -> xr.Dataset:
    r"""From $\tilde z_0, y_0 > 0$ small with $y_0 \le \tilde z_0^2$ and $4(8+B)\tilde z_0^2 < 1$, even iterates pass
    through two phases. First $\tilde z$ grows, to no more than $2\tilde z_0$, and $y$ falls until it turns negative.
    Then $y$ stays in $\bigl(1 + \tfrac{3B}{8-B}\bigr)y^* < y < 0$ and $\tilde z$ decays to zero: the curvature ends
    $O(\epsilon)$ below the edge.
    """
    keys = jax.random.split(jax.random.key(config.seed))
    largest = 1 / np.sqrt(4 * (8 + config.B))  # phase one ends O(eps) below zero for smaller residuals only
    z0 = np.asarray(jax.random.uniform(keys[0], (config.starts,), minval=0.05, maxval=largest))
    ratio = np.asarray(jax.random.uniform(keys[1], (config.starts,), minval=0.2, maxval=1.0))
    T0 = np.concatenate([nullclines.nullcline(z0, e) + ratio * z0**2 for e in config.epsilons])
    cases = {"eps": np.repeat(config.epsilons, config.starts), "z": np.tile(z0, len(config.epsilons)), "T": T0}
    # The proof ends where z is small; 14 times the decay time of z takes it there.
    steps = int(2 * 14 / min(config.epsilons))
    ran = simulate(
        lambda case: two_step.two_step(case["eps"]),
        lambda case: two_eigenvalue.Point(case["z"], case["T"]),
        steps // 2,
        over={"case": cases},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-9, every=10 * max(1, steps // 4000)),
    )
    found = ran.dataset.assign(last=("case", np.asarray(ran.state.z)))
    found = unfold(found, "case", eps=config.epsilons, start=range(config.starts)).rename(step="even")
    planes = [(found.z.sel(eps=e).values, found["T"].sel(eps=e).values, e) for e in config.epsilons]
    distance = [nullclines.edge_distance(*plane) for plane in planes]

    # The coefficient of z^3 in the two-step change of y at y = 0, from its odd part.
    def change(z: float) -> float:
        start = nullclines.nullcline(z, config.middle)
        dz, dT = (float(d) for d in two_step.two_step_change(z, float(start), config.middle))
        return dT - float(nullclines.nullcline(z + dz, config.middle) - start)

    near, far = ((change(z) - change(-z)) / (2 * z**3) for z in (1e-2, 2e-2))
    cubic = (4 * near - far) / 3  # Richardson: removes the z^5 term

    # Decay rate of a small y at epsilon = 0, per single step and per z^2; its share of order z is extrapolated away.
    count, tiny = 200, 1e-7

    @jax.jit
    @jax.vmap
    def decay(z: jax.Array) -> jax.Array:
        start = two_eigenvalue.Point(z, tiny + nullclines.skeleton_nullcline(z))
        end = jax.lax.fori_loop(0, count // 2, lambda _, p: two_step.two_step(0.0).step(p), start)
        return jnp.log(tiny / (end.T - nullclines.skeleton_nullcline(end.z))) / (z**2 * count)

    far, near = np.asarray(decay(jnp.array([0.02, 0.01])))

    # Phase one of the lowest-order map: the rise of z, and the first negative y from a large residual.
    rising = RISING
    for _ in range(12_000):
        z, y = rising
        rising = two_step.Local(z + 2 * y * z, y + (-2 * (4 - 3 * tiny) * y * z**2 - 4 * tiny * z**2))
        if rising.y < 0:
            break
    return found[["z", "last"]].assign(
        y=(found.z.dims, distance),
        z0=("start", z0),
        cubic=cubic,
        decay=2 * near - far,
        rise=rising.z - RISING.z,
        first_negative=float(two_step.lowest_order(SMALL).step(LARGE).y),
        even=2 * found.even,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    growth = (data.z / data.z0).max()
    # A start counts once y has turned negative, and until z is too small for y to be told from rounding.
    y = data.y.where(((data.y < 0).cumsum("even") > 0) & (np.abs(data.z) > 1e-7))
    lowest = (y / data.eps.copy(data=edge_limit.fixed_point(data.eps.values))).max()
    highest = r"largest $y$ over $\epsilon$, once $y$ has turned negative"
    yield claim("growth", "largest growth of the residual over all starts").at_most(2.0, growth, "bound of phase one")
    yield claim("y-above", highest).at_most(0.0, (y / data.eps).max(), "y stays negative")
    yield claim("y-below", r"smallest $y$ over the fixed point $y^*$").at_most(
        config.bound, lowest, "the bound of phase two with this B"
    )
    yield claim("residual-end", "largest residual at the end").zero(
        np.abs(data["last"]).max(), 1e-5, "the run spans 14 decay times of the residual"
    )
    yield from _terms(data, config)
    yield from _bounds(data, config)


def _terms(data: xr.Dataset, config: Config) -> Findings:
    """Terms of the proof that are misprinted, measured."""
    e = config.middle
    wrong, right = (r"\tilde z_t^3\,g_2", -4 * (1 - e)), (r"\epsilon\,\tilde z_t^3\,g_2", -4 * e * (1 - e))
    note = "the factor epsilon of Lemma B.1 is lost; without it the term would not be small at y = 0"
    why = "differences of the exact map at z = 0.01, their fifth order removed"
    yield claim("cubic-term", r"the term in $z^3$ of the two-step change of $y$").erratum(
        wrong, right, data.cubic, 0.02 * 4 * e, why, note=note, where="equations (95) and (106)"
    )
    wrong, right = (r"y_t \le y_0e^{-(8-B)\tilde z_0^2t}", 8.0), (r"y_t \le y_0e^{-(8-B)\tilde z_0^2t/2}", 4.0)
    note = "t counts single steps and the bound is applied once in two; sums over t run over even t"
    why = r"terms of order $z^2$ = 4e-4 of the first, several times over"
    yield claim("decay", r"decay of $y$ in phase one, per step and per squared residual").erratum(
        wrong, right, data.decay, 0.02, why, note=note, where="equation (100); also (101), (102), (122), (126)-(129)"
    )


def _bounds(data: xr.Dataset, config: Config) -> Findings:
    """Bounds of the proof that are misprinted."""
    B, e = config.B, config.middle
    z0, y0 = RISING
    wrong = (r"\tilde z - \tilde z_0 \le \frac{(1+A)y_0}{2}\frac{y_0}{\tilde z_0}", y0**2 / (2 * z0))
    right = (r"\tilde z - \tilde z_0 \le \frac{1+A}{2}\,\frac{8}{8-B}\,\frac{y_0}{\tilde z_0}", y0 / (2 * z0))
    note = r"$y_0$ is printed twice, and the sum of the bound on $y$ carries $8/(8-B)$"
    why = "a bound, with A = B = 0: the lowest-order map"
    yield claim("rise", "rise of the residual in phase one").erratum(
        wrong, right, data.rise, 0.0, why, note=note, relation="at most", where="equation (102)"
    )
    z0, y0 = LARGE
    formula = r"y_{t_-} \ge \left(1 - 4(8+B)\tilde z_0^2\right)y_{t_--2} - 4(4+B)\epsilon\tilde z_0^2"
    wrong = (r"y_{t_-} \ge -4(4+B)\epsilon\tilde z_0^2", -16 * SMALL * z0**2)
    right = (formula, (1 - 32 * z0**2) * y0 - 16 * SMALL * z0**2)
    note = r"dropping the first term needs $4(8+B) z_0^2 < 1$, a residual below 0.18"
    why = "a bound, with B = 0: the lowest-order map"
    where = "from equation (103) to (104)"
    yield claim("first-negative", r"first negative $y$, from a residual of 0.5").erratum(
        wrong, right, data.first_negative, 0.0, why, note=note, relation="at least", where=where
    )
    A, fixed, z, y = float(edge_limit.contraction(e)), float(edge_limit.fixed_point(e)), 0.1, -0.3 * e
    rest = z**2 * (2 * A * fixed + B * e)
    factor = r"\left(1 - 2(4-3\epsilon+4\epsilon^2)\tilde z_t^2 - B{}\right)y_t + \dots"
    yield claim("right-hand-side", r"right-hand side of the bound on $y$, at $z = 0.1$, $y = -0.3\epsilon$").erratum(
        (factor.replace("{}", ""), (1 - 2 * A * z**2 - B) * y + rest),
        (factor.replace("{}", r"\tilde z_t^2"), (1 - 2 * A * z**2 - B * z**2) * y + rest),
        y - 2 * A * z**2 * (y - fixed) + B * (-y + e) * z**2,
        1e-15,
        "an identity: the bound (109) it is rewritten from",
        note="B lost its squared residual",
        where="equation (110)",
        by="derivation",
    )
    threshold = scipy.optimize.brentq(lambda s: 3 * B / (8 - B) - 3 * B * s, 0.0, 1.0, xtol=1e-14)
    wrong, right = (r"\tilde z_0^2 < 3/7", 3 / 7), (r"\tilde z_0^2 < 1/(8-B)", 1 / (8 - B))
    note = r"$3B/(8-B) > 3B z_0^2$ needs $z_0^2 < 1/(8-B)$; 1/8 serves every B"
    where = "summary of phase two, before equation (117)"
    yield claim("overlap", "largest squared residual for which the two regions of phase two overlap").erratum(
        wrong, right, threshold, 1e-10, "a root found numerically", note=note, where=where, by="derivation"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, eps in enumerate(config.epsilons):
        one = data.isel(eps=i, start=slice(12)).transpose("even", "start")
        time, look = (data.even + 2) * eps / 2, {"color": f"C{i}", "lw": 0.9, "alpha": 0.7}
        left.plot(time, one.z / one.z0, **look)
        left.plot([], [], **look, label=rf"$\epsilon = {eps:g}$")
        right.plot(time, -one.y.where(np.abs(one.z) > 1e-7) / float(edge_limit.fixed_point(eps)), **look)
    sheet.mark(left, y=2)
    sheet.mark(right, y=(-config.bound, 0))
    left.text(7.8, 1.97, r"bound $2\tilde z_0$", va="top", ha="right")
    right.text(7.8, -config.bound - 0.06, r"bound $(1+\frac{3B}{8-B})\,y^*$", va="top", ha="right")
    right.set(title=r"Distance: negative, and near $y^*$", ylabel=r"$y_t/|y^*|$", ylim=(-1.7, 3))
    for axes in (left, right):
        axes.set(xlabel=r"time $\epsilon t/2$", xlim=(0, 8))
    sheet.label(left, "Residual: a small rise, then decay", y=r"$\tilde z_t/\tilde z_0$", legend="best", ylim=(0, 2.1))
