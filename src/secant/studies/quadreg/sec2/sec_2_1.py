"""Section 2.1: the quartic model, its four forms and its invariant."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow, simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.theory import quartic


@dataclass(frozen=True)
class Config:
    parameters: int = option(6, at_least=2, at_most=12, help="number of parameters")
    lr: float = option(0.22, at_least=1e-3, at_most=10, help="step size")
    offset: float = option(0.8, at_least=-10, at_most=10, help="the offset E")
    steps: int = scaled(smoke=40, laptop=40, at_least=2, at_most=100_000, help="gradient-descent steps")
    residual: float = option(0.4, at_least=0.01, at_most=3, help="starting residual of the equal-weight flow")
    weight: float = option(0.3, at_least=0.01, at_most=3, help="common starting weight of the equal-weight flow")
    seed: int = option(0, at_least=0, at_most=2**31 - 1, help="random seed")


@study(
    "quadreg/sec-2.1", section="2.1", title="One model in four forms, and what it conserves",
    statement=r"""
    The residual $z = \tfrac12(\theta^\top Q\theta - E)$ has loss $z^2/2$, Jacobian $J = Q\theta$ and scalar tangent
    kernel $JJ^\top$. Rescaled by the step size, $\tilde z = \eta z$ and $\tilde J = \sqrt\eta J$, gradient descent
    closes on the eigenmodes,
    $$\tilde z_{t+1} - \tilde z_t = -\tilde z_t\sum_i\tilde J_i^2 + \tfrac12\tilde z_t^2\sum_i\omega_i\tilde
    J_i^2,\qquad \tilde J_{i,t+1} = (1 - \tilde z_t\omega_i)\tilde J_{i,t},$$
    and on the moments $T(k) = \sum_i\omega_i^k\tilde J_i^2$; $T(-1) - 2\tilde z = \eta E$ is conserved. Under
    gradient flow the residual keeps its sign, and eigenvalues $\{-\omega, \omega\}$ of equal weight sharpen at all
    times.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed))
    A = np.asarray(jax.random.normal(keys[0], (config.parameters**2,))).reshape(config.parameters, -1)
    Q = (A + A.T) / 2
    Q, spectrum, basis = map(jnp.asarray, (Q, *np.linalg.eigh(Q)))
    theta = jax.random.normal(keys[1], (config.parameters,)) / 2
    lr, E = config.lr, config.offset

    start = quartic.modes(basis.T @ theta, spectrum, lr, E)
    powers = spectrum[None] ** jnp.arange(config.parameters)[:, None]
    descent, by_modes, by_moments = (
        quartic.quartic(Q, lr, E), quartic.quartic_modes(spectrum), quartic.quartic_moments(spectrum),
    )

    def gap(t: jax.Array) -> jax.Array:
        """One step of the other forms from these parameters, against the step of the parameters."""
        here, after = (quartic.modes(basis.T @ p, spectrum, lr, E) for p in (t, descent.step(t)))
        modal = by_modes.step(here)
        moments = by_moments.step(quartic.Moments(here.z, powers @ here.J**2))
        # The largest term of a step, z^2 T(2), and the moments' powers of the eigenvalues set the size of rounding.
        scale = (1 + jnp.abs(here.z)) ** 2 * (1 + jnp.sum(here.J**2)) * (1 + np.abs(spectrum).max()) ** 2
        off = lambda z, T: jnp.maximum(jnp.abs(z - after.z), jnp.abs(T - jnp.sum(after.J**2))) / scale  # noqa: E731
        reach = max(1.0, np.abs(spectrum).max()) ** (config.parameters - 1)
        return jnp.stack([off(modal.z, jnp.sum(modal.J**2)), off(moments.z, moments.T[0]) / reach])

    full = simulate(
        descent, theta, config.steps,
        probes={
            "z": lambda t: lr * quartic.residual(t, Q, E), "T": lambda t: lr * jnp.sum((Q @ t) ** 2), "gap": gap,
        },
    ).dataset
    modal = simulate(
        by_modes, start, config.steps,
        probes={
            "z": lambda s: s.z, "T": lambda s: jnp.sum(s.J**2), "E": lambda s: quartic.invariant(s, spectrum),
            "size": lambda s: jnp.abs(s.z) + jnp.sum(s.J**2 / jnp.abs(spectrum)),
        },
    ).dataset
    moments = simulate(
        by_moments, quartic.Moments(start.z, powers @ start.J**2), config.steps,
        probes={"z": lambda s: s.z, "T": lambda s: s.T[0]},
    ).dataset
    # A step size that is too large ends the three runs, each when it is no longer finite.
    common = min(d.sizes["step"] for d in (full, modal, moments))
    full, modal, moments = (d.isel(step=slice(0, common)) for d in (full, modal, moments))

    two = jnp.array([-1.0, 1.0])
    sharpening = flow(
        quartic.quartic_modes_flow(two),
        quartic.Modes(jnp.asarray(config.residual), jnp.sqrt(config.weight) * jnp.ones(2)), until=25.0,
        probes={"flow_z": lambda s: s.z, "flow_J": lambda s: s.J**2}, rtol=1e-11, atol=1e-13,
    ).dataset

    # One instant of the flow, by automatic differentiation along minus the gradient.
    slope = jax.grad(lambda t: quartic.residual(t, Q, E))
    velocity = jax.jit(lambda t: -lr * jax.grad(quartic.loss)(t, Q, E))(theta)
    J, J_dot = (np.asarray(part) for part in jax.jit(lambda t, v: jax.jvp(slope, (t,), (v,)))(theta, velocity))
    mode_J, mode_J_dot = (np.sqrt(lr) * basis.T @ part for part in (J, J_dot))
    z = (theta @ Q @ theta - E) / 2
    large, largest = np.argmax(np.abs(J)), np.argmax(np.abs(mode_J))
    runs = (full, modal, moments)
    return xr.Dataset(
        {
            "z": (("form", "step"), np.stack([d.z for d in runs]), {"long_name": "rescaled residual"}),
            "T": (("form", "step"), np.stack([d["T"] for d in runs]), {"long_name": "rescaled curvature"}),
            "gap": (("step", "other"), full.gap.values), "invariant": ("step", modal.E.values),
            "size": ("step", modal["size"].values, {"long_name": "what the invariant is the difference of"}),
            "flow_z": sharpening.flow_z, "flow_J": (("time", "mode"), sharpening.flow_J.values),
            "theta_dot": velocity[large], "theta_dot_formula": -lr * z * J[large], "J_dot": J_dot[large],
            "J_dot_formula": -lr * z * (Q @ J)[large], "mode_dot": mode_J_dot[largest],
            "mode_dot_formula": -lr * z * spectrum[largest] * mode_J[largest],
            "mode_dot_printed": -2 * lr * z * spectrum[largest] * mode_J[largest] ** 2,
        },
        coords={
            "form": ["parameters", "modes", "moments"], "other": ["modes", "moments"], "step": full.step,
            "time": sharpening.time,
        },
    )


ROUNDING = Tolerance(1e-13, why="an identity: rounding of float64")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for form in ("modes", "moments"):
        yield claims.zero(
            f"a step of the {form} against a step of the parameters: largest difference, relative",
            data.gap.sel(other=form).where(np.isfinite).max(), ROUNDING,
        )
    drift = np.abs(data.invariant - config.lr * config.offset) / (config.lr * abs(config.offset) + data["size"])
    yield claims.zero(
        "drift of the invariant over all steps: largest, relative", drift.where(np.isfinite).max(),
        1e-14 * (10 + config.steps), "an identity: rounding of float64 over the run",
    )
    T = data.flow_J.sum("mode")
    formula = quartic.equal_weight_curvature(data.flow_z.values, -2 * config.residual, config.weight)
    yield claims.zero(
        "curvature under the equal-weight flow, against its closed form: largest difference", np.abs(T - formula).max(),
        1e-8 * (1 + float(T.max())), "relative tolerance 1e-11 of the integrator, over 25 units of time",
    )
    yield claims.at_least(
        "smallest increase of the curvature between records of the equal-weight flow", 0.0, T.diff("time").min(),
        "rounding, where the curvature has settled", slack=1e-10,
    )
    yield claims.at_least(
        "smallest residual along the flow: it keeps its sign", 0.0, data.flow_z.min(),
        "absolute tolerance of the integrator", slack=1e-10,
    )
    yield Erratum(
        "sign of the gradient flow", printed=r"\dot\theta = \eta z\,Q\theta",
        corrected=r"\dot\theta = -\eta z\,Q\theta", printed_value=-float(data.theta_dot_formula),
        corrected_value=float(data.theta_dot_formula), measured=float(data.theta_dot), tolerance=ROUNDING,
        why="the minus of the gradient is missing: with the printed sign the loss would grow", where="equation (2)",
        by="derivation",
    )
    yield Erratum(
        "velocity of the Jacobian", printed=r"\dot J = -2\eta z\,QJ", corrected=r"\dot J = -\eta z\,QJ",
        printed_value=2 * float(data.J_dot_formula), corrected_value=float(data.J_dot_formula),
        measured=float(data.J_dot), tolerance=ROUNDING, why="the factor two belongs to the square of the Jacobian",
        where="equation (3)", by="derivation",
    )
    yield Erratum(
        "velocity of a mode", printed=r"d\tilde J(\omega_i)/dt = -2\tilde z\omega_i\tilde J(\omega_i)^2",
        corrected=r"d\tilde J(\omega_i)^2/dt = -2\tilde z\omega_i\tilde J(\omega_i)^2",
        printed_value=float(data.mode_dot_printed), corrected_value=float(data.mode_dot_formula),
        measured=float(data.mode_dot), tolerance=ROUNDING, why="the left-hand side lost its square",
        where="equation (4)", by="derivation",
    )
    theta, curvature = 1.0, 1.8
    after = (theta - curvature * theta) * (1 - curvature)
    yield Erratum(
        "two steps on a parabola", printed=r"\theta_{t+2} - \theta_t = (1-\lambda)^2\theta_t",
        corrected=r"\theta_{t+2} - \theta_t = \left((1-\lambda)^2 - 1\right)\theta_t",
        printed_value=(1 - curvature) ** 2 * theta, corrected_value=float(quartic.linear_two_step(curvature, theta)),
        measured=after - theta, tolerance=ROUNDING,
        why="the printed right-hand side is the new coordinate, not its change (curvature 1.8)", where="equation (14)",
        by="derivation",
    )
    yield Erratum(
        "the offset in rescaled variables", printed=r"E = T(-1) - 2\tilde z", corrected=r"\eta E = T(-1) - 2\tilde z",
        printed_value=config.offset, corrected_value=config.lr * config.offset,
        measured=float(data.invariant[-1 if np.isfinite(data.invariant[-1]) else 0]),
        tolerance=Tolerance(
            1e-14 * (10 + config.steps) * float(data["size"].where(np.isfinite).max()), why="rounding over the run"
        ),
        why="rescaling the residual rescales the offset with it; the same letter stands for both",
        where="after equation (9), and E in equations (10)-(13)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = figure.subplots(1, 3)
    figure.set_size_inches(11, 3.8)
    T = data.flow_J.sum("mode")
    left.plot(data.time, data.flow_J.isel(mode=0), color="C1", label=r"$\tilde J_-^2$")
    left.plot(data.time, data.flow_J.isel(mode=1), color="C2", label=r"$\tilde J_+^2$")
    left.plot(data.time, T, color="C0", lw=3, label=r"$T(0)$")
    formula = quartic.equal_weight_curvature(data.flow_z.values, -2 * config.residual, config.weight)
    left.plot(data.time, formula, "--", color=ink, lw=1.2, label="closed form")
    left.plot(data.time, data.flow_z, color="C3", label=r"residual $\tilde z$")
    left.set(title="Equal weights sharpen", xlabel="time", xlim=(0, 8), ylim=(-0.02, 1.1))
    left.legend(ncols=2, loc="center right", bbox_to_anchor=(1.0, 0.62))
    for form, style in (("parameters", "-"), ("modes", "--"), ("moments", ":")):
        width = {"-": 4, "--": 2.2, ":": 1.6}[style]
        colour = {"-": "C0", "--": "C1", ":": ink}[style]
        middle.plot(data.step, data["T"].sel(form=form), style, color=colour, lw=width, alpha=0.9, label=form)
    middle.set(title="Three forms, one descent", xlabel="step", ylabel=r"curvature $T(0) = \eta JJ^\top$")
    middle.legend()
    floor = 1e-18
    for i, form in enumerate(("modes", "moments")):
        right.semilogy(data.step, data.gap.sel(other=form) + floor, color=f"C{i + 1}", label=f"{form} − parameters")
    drift = abs(data.invariant - config.lr * config.offset)
    right.semilogy(data.step, drift + floor, color="C0", label=r"drift of $T(-1) - 2\tilde z$")
    right.set(title="Equal to rounding", xlabel="step", ylabel="difference of one step", ylim=(1e-18, 1e-9))
    right.legend(loc="upper left")
