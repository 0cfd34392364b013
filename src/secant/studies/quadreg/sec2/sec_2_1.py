"""Section 2.1: the quartic model, its four forms and its invariant."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Map, Probe, flow, simulate
from secant.lab import Erratum, Figure, Findings, Seeded, Tolerance, claim, option, options, sheet, study
from secant.theory.edge import quartic

Forms: TypeAlias = tuple[jax.Array, quartic.Modes, quartic.Moments]
"""The same point as parameters, as modes and as moments."""


class Config(Seeded):
    parameters: int = option(6, at_least=2, at_most=12, help="number of parameters")
    lr: float = options.lr(0.22, at_least=1e-3, at_most=10)
    offset: float = option(0.8, at_least=-10, at_most=10, help="the offset E")
    steps: int = options.steps(40, 40, at_least=2, at_most=100_000)
    residual: float = option(0.4, at_least=0.01, at_most=3, help="starting residual of the equal-weight flow")
    weight: float = option(0.3, at_least=0.01, at_most=3, help="common starting weight of the equal-weight flow")


@study("quadreg/sec-2.1", section="2.1", title="One model in four forms, and what it conserves")
def run(config: Config) -> xr.Dataset:
    r"""The residual $z = \tfrac12(\theta^\top Q\theta - E)$ has loss $z^2/2$, Jacobian $J = Q\theta$ and scalar tangent
    kernel $JJ^\top$. Rescaled by the step size, $\tilde z = \eta z$ and $\tilde J = \sqrt\eta J$, gradient descent
    closes on the eigenmodes,
    $$\tilde z_{t+1} - \tilde z_t = -\tilde z_t\sum_i\tilde J_i^2 + \tfrac12\tilde z_t^2\sum_i\omega_i\tilde
    J_i^2,\qquad \tilde J_{i,t+1} = (1 - \tilde z_t\omega_i)\tilde J_{i,t},$$
    and on the moments $T(k) = \sum_i\omega_i^k\tilde J_i^2$; $T(-1) - 2\tilde z = \eta E$ is conserved. Under
    gradient flow the residual keeps its sign, and eigenvalues $\{-\omega, \omega\}$ of equal weight sharpen at all
    times.
    """
    n, lr, E = config.parameters, config.lr, config.offset
    keys = jax.random.split(jax.random.key(config.seed))
    drawn = jit(lambda keys: (jax.random.normal(keys[0], (n, n)), jax.random.normal(keys[1], (n,)) / 2), quick=True)
    A, theta = np.asarray(drawn(keys)[0]), drawn(keys)[1]
    Q, spectrum, basis = map(jnp.asarray, ((A + A.T) / 2, *np.linalg.eigh((A + A.T) / 2)))

    def forms(theta: jax.Array) -> Forms:
        modes = quartic.modes(basis.T @ theta, spectrum, lr, E)
        return theta, modes, quartic.Moments(modes.z, spectrum ** np.arange(n)[:, None] @ modes.J**2)

    def step(state: Forms) -> Forms:
        theta, modes, moments = state
        by_modes, by_moments = quartic.quartic_modes(spectrum), quartic.quartic_moments(spectrum)
        return quartic.quartic(Q, lr, E).step(theta), by_modes.step(modes), by_moments.step(moments)

    def residuals(state: Forms) -> jax.Array:
        return jnp.stack([lr * quartic.residual(state[0], Q, E), state[1].z, state[2].z])

    def curvatures(state: Forms) -> jax.Array:
        return jnp.stack([lr * jnp.sum((Q @ state[0]) ** 2), jnp.sum(state[1].J ** 2), state[2].T[0]])

    def gap(state: Forms) -> jax.Array:
        """One step of the other forms from these parameters, against the step of the parameters."""
        here = forms(state[0])
        after = step(here)
        exact, size = forms(after[0])[1], np.abs(spectrum).max()
        off = jnp.maximum(jnp.abs(residuals(after) - exact.z), jnp.abs(curvatures(after) - jnp.sum(exact.J**2)))
        # The largest term of a step, z^2 T(2), and the moments' powers of the eigenvalues set the size of rounding.
        scale = (1 + jnp.abs(here[1].z)) ** 2 * (1 + jnp.sum(here[1].J ** 2)) * (1 + size) ** 2
        return off[1:] / scale / np.array([1.0, max(1.0, size) ** (n - 1)])

    # A step size that is too large ends the run when one of the forms is no longer finite.
    full = simulate(
        Map(init=forms, step=step),
        theta,
        config.steps,
        probes={
            "z": Probe(residuals, dims=("form",), label="rescaled residual"),
            "T": Probe(curvatures, dims=("form",), label="rescaled curvature"),
            "gap": Probe(gap, dims=("other",)),
            "invariant": lambda s: quartic.invariant(s[1], spectrum),
            # what the invariant is the difference of
            "size": lambda s: jnp.abs(s[1].z) + jnp.sum(s[1].J ** 2 / np.abs(spectrum)),
        },
    ).dataset
    sharpening = flow(
        quartic.quartic_modes_flow(jnp.array([-1.0, 1.0])),
        quartic.Modes(jnp.asarray(config.residual), jnp.sqrt(config.weight) * jnp.ones(2)),
        until=25.0,
        probes={"flow_z": lambda s: s.z, "flow_J": Probe(lambda s: s.J**2, dims=("mode",))},
        rtol=1e-11,
        atol=1e-13,
    ).dataset

    def instant(theta: jax.Array) -> tuple[jax.Array, ...]:
        """One instant of the flow, by automatic differentiation along minus the gradient."""
        velocity = -lr * jax.grad(quartic.loss)(theta, Q, E)
        J, J_dot = jax.jvp(jax.grad(lambda t: quartic.residual(t, Q, E)), (theta,), (velocity,))
        return quartic.residual(theta, Q, E), velocity, J, J_dot, Q @ J

    z, velocity, J, J_dot, QJ = map(np.asarray, jit(instant, quick=True)(theta))
    mode_J, mode_J_dot = (np.sqrt(lr) * np.asarray(basis).T @ part for part in (J, J_dot))
    k, i, bend = np.argmax(np.abs(J)), np.argmax(np.abs(mode_J)), 1.8
    laws = (  # as measured, by the corrected formula, and by the printed one
        (velocity[k], -lr * z * J[k], lr * z * J[k]),
        (J_dot[k], -lr * z * QJ[k], -2 * lr * z * QJ[k]),
        (mode_J_dot[i], -lr * z * spectrum[i] * mode_J[i], -2 * lr * z * spectrum[i] * mode_J[i] ** 2),
        ((1 - bend) * (1 - bend) - 1, float(quartic.linear_two_step(bend, 1.0)), (1 - bend) ** 2),
    )
    names = {"form": ["parameters", "modes", "moments"], "other": ["modes", "moments"]}
    both = full.merge(sharpening[["flow_z", "flow_J"]]).assign_coords(names)
    return both.assign(laws=(("law", "by"), np.array(laws)))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    exact = Tolerance(1e-13, why="an identity: rounding of float64")
    for form in ("modes", "moments"):
        gap = data.gap.sel(other=form).where(np.isfinite).max()
        sentence = f"a step of the {form} against a step of the parameters: largest difference, relative"
        yield claim(f"step-{form}", sentence).zero(gap, exact)
    drift = np.abs(data.invariant - config.lr * config.offset) / (config.lr * abs(config.offset) + data["size"])
    rounding = 1e-14 * (10 + config.steps)
    yield claim("invariant", "drift of the invariant over all steps: largest, relative").zero(
        drift.where(np.isfinite).max(), rounding, "an identity: rounding of float64 over the run"
    )
    T = data.flow_J.sum("mode")
    gap = np.abs(T - quartic.equal_weight_curvature(data.flow_z.values, -2 * config.residual, config.weight)).max()
    why = "relative tolerance 1e-11 of the integrator, over 25 units of time"
    sentence = "curvature under the equal-weight flow, against its closed form: largest difference"
    yield claim("equal-weights", sentence).zero(gap, 1e-8 * (1 + T.max()), why)
    sentence = "smallest increase of the curvature between records of the equal-weight flow"
    yield claim("sharpens", sentence).at_least(
        0.0, T.diff("time").min(), "rounding, where the curvature has settled", slack=1e-10
    )
    yield claim("keeps-sign", "smallest residual along the flow: it keeps its sign").at_least(
        0.0, data.flow_z.min(), "absolute tolerance of the integrator", slack=1e-10
    )
    laws = dict(zip(("flow", "jacobian", "mode", "parabola"), data.laws.values, strict=True))

    def law(key: str, name: str, printed: str, corrected: str, note: str, where: str) -> Erratum:
        found, right, wrong = laws[key]
        return claim(key, name).erratum(
            (printed, wrong), (corrected, right), found, exact, note=note, where=where, by="derivation"
        )

    note = "the minus of the gradient is missing: with the printed sign the loss would grow"
    wrong, right = r"\dot\theta = \eta z\,Q\theta", r"\dot\theta = -\eta z\,Q\theta"
    yield law("flow", "sign of the gradient flow", wrong, right, note, "equation (2)")
    note = "the factor two belongs to the square of the Jacobian"
    wrong, right = r"\dot J = -2\eta z\,QJ", r"\dot J = -\eta z\,QJ"
    yield law("jacobian", "velocity of the Jacobian", wrong, right, note, "equation (3)")
    note, power = "the left-hand side lost its square", r"dt = -2\tilde z\omega_i\tilde J(\omega_i)^2"
    wrong, right = rf"d\tilde J(\omega_i)/{power}", rf"d\tilde J(\omega_i)^2/{power}"
    yield law("mode", "velocity of a mode", wrong, right, note, "equation (4)")
    note = "the printed right-hand side is the new coordinate, not its change (curvature 1.8)"
    change = r"\theta_{t+2} - \theta_t = "
    wrong, right = change + r"(1-\lambda)^2\theta_t", change + r"\left((1-\lambda)^2 - 1\right)\theta_t"
    yield law("parabola", "two steps on a parabola", wrong, right, note, "equation (14)")
    yield claim("offset", "the offset in rescaled variables").erratum(
        (r"E = T(-1) - 2\tilde z", config.offset),
        (r"\eta E = T(-1) - 2\tilde z", config.lr * config.offset),
        data.invariant[-1 if np.isfinite(data.invariant[-1]) else 0],
        rounding * float(data["size"].where(np.isfinite).max()),
        "rounding over the run",
        note="rescaling the residual rescales the offset with it; the same letter stands for both",
        where="after equation (9), and E in equations (10)-(13)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (11, 3.8), 3)
    left.plot(data.time, data.flow_J.isel(mode=0), color="C1", label=r"$\tilde J_-^2$")
    left.plot(data.time, data.flow_J.isel(mode=1), color="C2", label=r"$\tilde J_+^2$")
    left.plot(data.time, data.flow_J.sum("mode"), color="C0", lw=3, label=r"$T(0)$")
    formula = quartic.equal_weight_curvature(data.flow_z.values, -2 * config.residual, config.weight)
    sheet.guide(left, data.time, formula, "closed form")
    left.plot(data.time, data.flow_z, color="C3", label=r"residual $\tilde z$")
    legend = {"ncols": 2, "loc": "center right", "bbox_to_anchor": (1.0, 0.62)}
    sheet.label(left, "Equal weights sharpen", "time", legend=legend, xlim=(0, 8), ylim=(-0.02, 1.1))
    looks = (("-", "C0", 4), ("--", "C1", 2.2), (":", sheet.ink(), 1.6))
    for form, (style, colour, width) in zip(data.form.values, looks, strict=True):
        middle.plot(data.step, data["T"].sel(form=form), style, color=colour, lw=width, alpha=0.9, label=form)
    sheet.label(middle, "Three forms, one descent", "step", r"curvature $T(0) = \eta JJ^\top$", "best")
    floor = 1e-18
    for i, form in enumerate(("modes", "moments"), 1):
        right.semilogy(data.step, data.gap.sel(other=form) + floor, color=f"C{i}", label=f"{form} − parameters")
    drift = abs(data.invariant - config.lr * config.offset)
    right.semilogy(data.step, drift + floor, color="C0", label=r"drift of $T(-1) - 2\tilde z$")
    sheet.label(right, "Equal to rounding", "step", "difference of one step", "upper left", ylim=(1e-18, 1e-9))
