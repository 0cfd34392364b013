"""Theorem B.3.1: below the critical step size the model is lazy."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, sheet, study, unfold
from secant.studies.shared.numerics.exponents import exponent, rate
from secant.studies.shared.two_layer.starts import random_starts
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs

lazy_bounds = jit(cs.lazy_bounds, quick=True)


class Config(Seeded):
    widths: tuple[int, ...] = options.widths((100, 1_000, 10_000, 100_000), at_least=10, at_most=10**8, ascending=True)
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (0.3, 0.6, 1.0, 1.5, 1.8), at_least=0.1, at_most=1.9, ascending=True
    )
    target: float = option(0.5, at_least=-10, at_most=10, help="label of the sample")
    draws: int = options.draws(32, 64, 256, at_least=2, at_most=10**6)
    steps: int = options.steps(300, at_least=10, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * self.draws * len(self.eta_lambdas)
        fits_memory(64.0 * runs * self.steps + 16.0 * max(self.widths), "draws, steps or widths")


@study("thesis/thm-B.3.1", section="B.3", title="Below the edge the curvature stands still")
def run(config: Config) -> xr.Dataset:
    r"""For $\eta\lambda_0 \in [\varepsilon, 2 - \varepsilon]$, $\varepsilon = \Theta(\log m/\sqrt m)$, and
    $\delta = \min(\eta\lambda_0, 2 - \eta\lambda_0)$ the loss falls exponentially,
    $\mathcal L(t + 1) \le \big(1 - \delta + O(\frac{1}{m\delta})\big)^2\mathcal L(t)$, and
    $\sup_t|\lambda(t) - \lambda(0)| = O(\frac{1}{m\delta})$. To leading order the change of $v = \eta\lambda$
    is $-\frac{(4 - v_0)u_0}{v_0(2 - v_0)} - \frac{4w_0}{v_0}$.

    The bounds are judged for the networks that the proof covers, $m > 12\,C_\kappa/\delta^2$ with
    $C_\kappa = (8 + \delta)(C_u + C\sqrt{C_u})$ of their own start.
    """
    networks = random_starts(jax.random.key(config.seed), config.widths, config.draws)
    runs = simulate(
        lambda network, ratio: ct.catapult(ratio / network["curvature"], network["width"], config.target),
        lambda network: (network["output"], network["curvature"]),
        config.steps,
        over={"network": networks, "ratio": jnp.asarray(config.eta_lambdas)},
        probes={"a": lambda s: s.a, "v": lambda s: s.v},
        stop=Stop(converged=lambda s: jnp.abs(s.a) < 1e-12),
    ).dataset.assign(curvature=("network", networks["curvature"]))
    runs = unfold(runs, "network", width=config.widths, seed=range(config.draws))
    a, v, a0 = runs.a, runs.v, runs.a.isel(step=0, drop=True)
    lr, m = xr.broadcast(runs.ratio / runs.curvature, runs.width)
    b = lr.copy(data=np.asarray(jit(ct.rescaled_target, quick=True)(lr.values, m.values, config.target)))
    # The contraction of the loss per step, where both losses are above rounding.
    fine = np.abs(a) > 1e-9
    kappa = xr.where(fine, (a.shift(step=-1) / a.where(fine, 1)) ** 2, 0).isel(step=slice(-1)).max("step", skipna=False)
    drift = np.abs(v - v.isel(step=0)).max("step", skipna=False)
    return xr.Dataset(
        {
            "drift": drift.assign_attrs(long_name="largest change of eta lambda"),
            "change": (v.isel(step=-1) - v.isel(step=0)).assign_attrs(long_name="final change of eta lambda"),
            "kappa": kappa.assign_attrs(long_name="slowest contraction of the loss"),
            "a0": a0,
            "u0": a0**2,
            "w0": a0 * b,
            "example": a.isel(seed=0, drop=True) ** 2 / a0.isel(seed=0, drop=True) ** 2,
        }
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield from _bounds(data)
    yield from _laws(data, config)
    # The part of the drift that w makes: a label far away, a residual of either sign.
    v0, a0, b0 = 1.0, 1e-5, 1e-3
    ends = jit(lambda a: cs.catapult_outcome(a, v0, b0, steps=200).curvature, quick=True)(np.array([a0, -a0]))
    drift = float(ends[1] - ends[0]) / 2
    yield claim("drift-bound", r"drift due to $w$ over its bound, at $\eta\lambda = 1$").equal(
        0.5,
        drift / float(lazy_bounds(min(v0, 2 - v0), 1.0, a0**2, b0)[0]),
        0,
        "$u(0)$, which the bound adds to $w(0)$, is smaller by 1/100",
        relative=2 * a0 / b0,
        note=r"$4 w(0)/v$ of the leading term against $8 |w(0)|/\delta$: no constant below half of it would do",
    )
    yield claim("drift-factor", r"drift due to $w$ at $\eta\lambda = 1$, in units of $w(0)$").erratum(
        (r"\sum_t |w(t)| \le \frac{|w(0)|}{1 - \sqrt{\max\kappa}}", 1.0),
        (r"\sum_t 4|w(t)| \le \frac{4\,|w(0)|}{1 - \sqrt{\max\kappa}}", 4.0),
        drift / (a0 * b0),
        0.01,
        "terms of second order in the start, 1e-3",
        note="The factor 4 of $v' = v - u(4 - v) - 4w$ is lost between two lines.",
        where="appendix B.3",
    )
    # The range of step sizes for an input with |x|^2/d = 100: u and w depend on eta lambda_0 alone.
    size, m0 = 100.0, 10_000
    epsilon = np.log(m0) / np.sqrt(m0)
    steps = np.geomspace(epsilon / size, (2 - epsilon) / size, 41)
    a, v = map(np.asarray, jit(ct.rescale, quick=True)(0.0, size, steps, m0, 0.05, size))
    b = np.asarray(jit(ct.rescaled_target, quick=True)(steps, m0, 0.05, size))
    bound = np.asarray(lazy_bounds(np.minimum(v, 2 - v), m0, a**2 * m0, np.abs(b) * np.sqrt(m0))[1])
    holds = np.asarray(jit(cs.slowest_contraction, quick=True)(a, v, b)) <= bound + 1e-12
    covered = ((steps >= epsilon) & (steps <= (2 - epsilon) / size)).mean()
    sentence = "share of the lazy step sizes that the stated range covers, for an input with $|x|^2/d = 100$"
    yield claim("range", sentence).erratum(
        (r"\eta \in [\varepsilon, (2 - \varepsilon)/\lambda_0]", covered),
        (r"\eta \in [\varepsilon/\lambda_0, (2 - \varepsilon)/\lambda_0]", 1.0),
        holds.mean(),
        0.0,
        "a count over 41 step sizes",
        note=r"What matters is $\eta\lambda_0$; the printed range is empty when $\lambda_0$ exceeds $2/\varepsilon$.",
        where="Theorem B.3.1",
    )


def _bounds(data: xr.Dataset) -> Findings:
    """The theorem's promises to every network that it covers."""
    start, pull = data.u0 * data.width, np.abs(data.w0) / np.sqrt(data.u0) * np.sqrt(data.width)
    start, pull, m, delta = xr.broadcast(start, pull, data.width, np.minimum(data.ratio, 2 - data.ratio))
    covered = m > 12 * (8 + delta) * (start + pull * np.sqrt(start)) / delta**2
    bounds = lazy_bounds(delta.values, m.values, start.values, pull.values)
    drift, ceiling = (start.copy(data=np.asarray(bound)) for bound in bounds)
    note = f"the proof covers {int(covered.sum())} of {covered.size} networks and step sizes"
    none, why = "the proof asks for larger widths", "a proven bound, with the factor 4 restored; rounding"
    yield claim("rises", "runs whose loss ever rose", given=covered, otherwise=none).zero(
        (covered & (data.kappa > 1)).sum(), 0, "monotone decrease", note=note
    )
    for key, name, values in (
        ("drift", "drift of the curvature", data.drift / drift),
        ("contraction", "contraction of the loss", data.kappa / ceiling),
    ):
        yield claim(key, f"{name} over its bound, largest", given=covered, otherwise=none).at_most(
            1.0, values.where(covered).max(), why, slack=1e-12, note=note
        )


def _laws(data: xr.Dataset, config: Config) -> Findings:
    """How the drift falls with the width, and what its leading term leaves."""
    one = min(config.eta_lambdas, key=lambda ratio: abs(ratio - 1))
    drift = data.drift.sel(ratio=one)
    given = len(config.widths) > 1 and bool((np.isfinite(drift) & (drift > 0)).all())
    none = "one width has no exponent, nor have networks that leave the lazy regime"
    yield claim("drift-law", rf"exponent of the drift in the width, $\eta\lambda = {one:g}$", given, none).equal(
        -1.0,
        lambda: exponent(drift),
        1 / np.sqrt(min(config.widths)),
        r"the curvature, which sets the step size, varies by $\sqrt{2/m}$",
    )
    # The same starts, up to their scale, at widths so large that only the first two orders in 1/m are left.
    last, widths = data.isel(width=-1), np.geomspace(1e4, 1e6, 3)
    scale = float(np.sqrt((last.u0 + np.abs(last.w0)).max()))
    a, b = last.a0.values / scale, last.w0.values / last.a0.values / scale
    size = np.sqrt(widths)[:, None, None]
    v = np.broadcast_to(data.ratio.values, a.shape)
    ends = jit(lambda a, b: cs.catapult_outcome(a, v, b, steps=1_000).curvature)(a / size, b / size)
    leading = np.asarray(jit(cs.lazy_drift, quick=True)((a / size) ** 2, v, a * b / size**2))
    left = np.abs(np.asarray(ends) - v - leading).max(axis=(1, 2))
    sentence = "exponent in the width of what the leading term leaves of the change of the curvature"
    yield claim("leading-term", sentence).equal(
        -2.0,
        rate(widths, left),
        0.05,
        r"the next order is smaller by $1/(m\delta^2)$, at most 0.01, times a few units",
        note="were the leading term wrong, it would be -1",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    early, t = data.example.isel(width=-1, step=slice(0, 60)) + 1e-18, np.arange(60)
    for i, r in enumerate(data.ratio.values):
        label = rf"$\eta\lambda_0 = {r:g}$"
        left.semilogy(early.step, early.sel(ratio=r), "o", ms=3, color=f"C{i}", label=label)
        if r != 1:
            sheet.guide(left, t, np.maximum((1 - r) ** (2.0 * t), 1e-18), lw=0.9)
        right.loglog(data.width, data.drift.sel(ratio=r).mean("seed"), "o-", ms=4, color=f"C{i}")
    sheet.guide(left, [], [], r"$(1 - \eta\lambda_0)^{2t}$", lw=0.9)
    sheet.guide(right, data.width, 10.0 / data.width, "slope $-1$", lw=1)
    legend = {"fontsize": 8, "ncols": 2, "loc": "upper right"}
    sheet.label(left, rf"Loss, $m = {int(data.width[-1])}$", "step", r"$\mathcal{L}(t)/\mathcal{L}(0)$", legend)
    left.set_ylim(1e-16, 3)
    sheet.label(right, "Drift of the curvature", "width $m$", r"$\sup_t |v(t) - v(0)|$", "best")
