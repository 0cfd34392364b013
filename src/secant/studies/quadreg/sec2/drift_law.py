"""Any spectrum at the edge: the drift is minus the variance of the eigenvalues."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Estimate, Figure, Findings, Seeded, claim, estimate, option, scaled, sheet, study, unfold
from secant.theory.edge import edge_limit, quartic, two_eigenvalue


class Config(Seeded):
    modes: int = option(5, at_least=2, at_most=50, help="eigenvalues of the random spectra")
    spectra: int = scaled(smoke=12, laptop=40, paper=200, at_least=3, at_most=10_000, help="random spectra a span")
    spans: tuple[float, ...] = option(
        (0.15, 0.3, 0.45), at_least=0.1, at_most=0.6, longest=20, distinct=True, help="eigenvalues lie in [1 - span, 1]"
    )
    residual: float = option(0.25, at_least=0.1, at_most=0.4, help="residual at the start of the long runs")
    small: float = option(1e-4, at_least=1e-6, at_most=0.01, help="residual of the drift measurements")
    epsilon: float = option(0.005, at_least=1e-3, at_most=0.05, help="for eigenvalues {1, -epsilon}")
    offsets: tuple[float, ...] = option(
        (-1.0, -0.5, 0.0, 0.5, 1.0), above=-1.5, below=1.5, longest=50, distinct=True, help="rescaled offsets"
    )


@study(
    "quadreg/drift-law",
    section="2.2",
    title="At the edge, sharpness falls at the rate of the spectral variance",
    new=True,
)
def run(config: Config) -> xr.Dataset:
    r"""For the quartic loss with any spectrum, the residual's two-step nullcline through the edge is
    $T(0) = 2 + T(1)\tilde z + O(\tilde z^3)$, and on it $\hat y = T(0) - 2 - T(1)\tilde z$ changes in two steps by
    $$-\bigl(T(0)T(2) - T(1)^2\bigr)\tilde z^2 = -T(0)^2\,\mathrm{Var}_J(\omega)\,\tilde z^2 \le 0,$$
    with the variance of the eigenvalues under the weights $\tilde J_i^2$. Sharpness at the edge always falls. For
    small variance it ends at
    $$\eta\lambda_\infty - 2 \approx -\tfrac12\,\frac{\mathrm{Var}_J(\omega)}{\langle\omega^2\rangle_J},$$
    which for eigenvalues $\{1, -\epsilon\}$ and offset $\tilde E$ is $-\tfrac\epsilon2(1 - \tfrac12\tilde E)$.
    """
    z, modes, cases = config.small, config.modes, len(config.spans) * config.spectra
    kinds = ((200, -1.0, 1.0), (200, 0.1, 1.0), (cases, 0.0, 1.0), (cases, 0.2, 1.0))

    def one(key: jax.Array, rows: int, low: float, high: float) -> jax.Array:
        return jax.random.uniform(key, (rows, modes), minval=low, maxval=high)

    draws = jit(lambda keys: [one(key, *kind) for key, kind in zip(keys, kinds, strict=True)], quick=True)
    wild, wild_weights, places, weights = draws(jax.random.split(jax.random.key(config.seed), len(kinds)))

    # (a) one pair of steps from the nullcline, spectra of both signs
    @jax.jit
    @jax.vmap
    def pair(spectrum: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        scale = 2 / (weight.sum() - z * (spectrum @ weight))
        state = quartic.Modes(jnp.asarray(z), jnp.sqrt(scale * weight))
        step = quartic.quartic_modes(spectrum).step
        height = lambda s: jnp.sum(s.J**2) - 2 - jnp.sum(spectrum * s.J**2) * s.z  # noqa: E731
        law = quartic.edge_drift(1.0, *(quartic.moment(k, spectrum, state.J) for k in range(3)))
        return (height(step(step(state))) - height(state)) / z**2, law

    drift, law = pair(wild, wild_weights)

    # (b) all the way down, spectra of small variance
    spans = np.repeat(config.spans, config.spectra)[:, None]
    spectra, weights = 1 - spans * np.asarray(places), np.asarray(weights)
    weights = weights / weights.sum(-1, keepdims=True)
    mean = np.sum(weights * spectra, -1, keepdims=True)
    J = np.sqrt(weights * (2 + 2 * mean * config.residual + config.residual**2 / 2))
    ran = simulate(
        lambda case: quartic.quartic_modes(case["spectrum"]),
        lambda case: quartic.Modes(jnp.asarray(config.residual), case["J"]),
        60_000,
        over={"case": {"spectrum": spectra, "J": J}},
        stop=Stop(converged=lambda s: jnp.abs(s.z) < 1e-9, every=100),
    )
    moments_of = jit(lambda spectra, J: [quartic.moment(k, spectra, J) for k in range(3)], quick=True)
    T0, T1, T2 = map(np.asarray, moments_of(spectra, ran.state.J))
    down = ran.dataset.assign(
        limit=("case", T0 - 2, {"long_name": "final eta lambda - 2"}),
        done=ran.dataset.outcome == Outcome.CONVERGED,
        predicted=("case", np.asarray(quartic.edge_limit(T0, T1, T2))),
    )

    # (c) the two-eigenvalue model with an offset
    offsets, z0 = np.array(config.offsets), 0.3
    ends = simulate(
        lambda E: two_eigenvalue.two_eigenvalue(-config.epsilon, E),
        two_eigenvalue.Point(z0, 2 / (1 - z0) + 0.02),
        int(120 / config.epsilon),
        over={"E": offsets},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-10, every=100),
    )
    z_end, T_end = map(np.asarray, ends.state)
    moments = map(np.asarray, two_eigenvalue.higher_moments(z_end, T_end, -config.epsilon, offsets))
    return unfold(down, "case", span=config.spans, spectrum=range(config.spectra)).assign(
        drift=("sample", np.asarray(drift), {"long_name": "two-step change of y over z^2"}),
        law=("sample", np.asarray(law)),
        offset_limit=("E", T_end - 2),
        offset_done=ends.dataset.outcome == Outcome.CONVERGED,
        offset_predicted=("E", np.asarray(quartic.edge_limit(T_end, *moments))),
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    next_order = 4 * config.small + 1e-15 / config.small**2
    why = "next order in the residual, with moments of at most two; and rounding over its square"
    gap = np.abs(data.drift - data.law).max()
    sentence = "two-step drift on the nullcline against the variance law: largest difference"
    yield claim("variance-law", sentence).zero(gap, next_order, why)
    yield claim("largest-drift", "largest drift over random spectra: sharpness always falls").at_most(
        0.0, data.drift.max(), "the same", slack=next_order
    )
    share, runs = float(data.done.mean()), data.done.size
    reason = "an inequality; the rest lose their variance first and go on oscillating"
    yield claim("converged", "share of the long runs that converged: most of them").at_least(
        0.5, Estimate(share, np.sqrt(max(share * (1 - share), 1 / runs) / runs)), reason
    )
    why, few = "the next term that does not average out, the relative variance", "fewer than two of these converge"
    for span in data.span.values:
        one = data.sel(span=span)
        limit, predicted = one.limit.where(one.done), one.predicted.where(one.done)
        # Twice the distance is the relative variance of the spectrum at the end. One spectrum is off by its skewness,
        # of the order of its relative width; over spectra that averages out, and the variance is left.
        variance = 2 * np.abs(predicted).max()
        sentence = f"mean final distance over half the relative variance, eigenvalues within {span:g}"
        yield claim(f"distance-{span:g}", sentence, limit.count() > 1, few).equal(
            1.0, estimate(limit / predicted), 2 * variance, why
        )
    seen = (data.offset_limit / data.offset_predicted)[data.offset_done.values]
    why, half = r"the next term is $O(\epsilon)$ of the first", config.epsilon / 2
    sentence = "final distance over half the relative variance with an offset: farthest from one"
    yield claim("distance-offsets", sentence, seen.size, "no run with an offset converges").equal(
        1.0, lambda: seen[np.abs(seen - 1).argmax("E")], 4 * config.epsilon, why
    )
    for E in config.offsets:
        one, limit = data.sel(E=E), float(edge_limit.limit_with_offset(config.epsilon, E))
        sentence = rf"final distance for offset {E:g} over $\epsilon/2$"
        yield claim(f"offset-{E:g}", sentence, one.offset_done, "this run does not converge").equal(
            limit / half, one.offset_limit / half, 0, why, relative=4 * config.epsilon
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.2), 3)
    left.plot(-data.law, -data.drift, "o", ms=3.5, color="C0", alpha=0.7)
    steep = [0, -1.05 * data.law.min()]
    sheet.guide(left, steep, steep)
    for i, span in enumerate(data.span.values):
        one = data.sel(span=span, spectrum=data.done.sel(span=span))
        label = rf"$\omega\in[{1 - span:g}, 1]$"
        middle.loglog(-one.predicted, -one.limit, "o", ms=4.5, color=f"C{i}", alpha=0.75, label=label)
    predicted = -data.predicted.where(data.done)
    ends = [0.7 * predicted.min(), 1.4 * predicted.max()]
    sheet.guide(middle, ends, ends)
    E = np.linspace(min(config.offsets), max(config.offsets), 20)
    formula = -np.asarray(edge_limit.limit_with_offset(config.epsilon, E)) / config.epsilon
    sheet.guide(right, E, formula, r"$\frac{1}{2}(1 - \frac{1}{2}\tilde E)$")
    right.plot(data.E, -data.offset_limit / config.epsilon, "o", ms=7, color="C3", label="gradient descent")
    relative = r"$\frac{1}{2}\mathrm{Var}_J(\omega)/\langle\omega^2\rangle_J$"
    variance, drift = r"$T(0)^2\,\mathrm{Var}_J(\omega)$", r"$-(\hat y_{t+2} - \hat y_t)/\tilde z^2$"
    sheet.label(left, "Drift at the edge", variance, drift)
    sheet.label(middle, "Where sharpness ends", relative, r"$2 - \eta\lambda_\infty$", "upper left")
    title, up = rf"An offset moves it, $\epsilon = {config.epsilon:g}$", r"$(2 - \eta\lambda_\infty)/\epsilon$"
    sheet.label(right, title, r"offset $\tilde E$", up, "best", xticks=sorted(config.offsets))
