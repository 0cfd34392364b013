"""Theorem 3.3.6: several samples in one dimension."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import lab
from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Figure, Finding, Findings, Seeded, claim, fits_memory, option, options, sheet, study
from secant.studies.shared.numerics.tables import on_tables
from secant.studies.shared.two_layer.heights import heights, peaks_at_infinite_width
from secant.studies.shared.width import stacked
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs
from secant.theory.catapult import several_samples as sm
from secant.theory.regression.quadratic_model import two_layer_init


def _spaced(first: float, count: int) -> tuple[float, ...]:
    return tuple(np.linspace(first, 4.3, count).round(5).tolist())


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000), at_least=100, at_most=10**8, ascending=True
    )
    positive: float = option(1.5, at_least=0.1, at_most=10, help="squared norm of the positive inputs")
    negative: float = option(1.0, at_least=0.1, at_most=10, help="squared norm of the negative inputs")
    samples: int = options.samples(8, at_least=4, at_most=10**6)
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        _spaced(1.6, 28), _spaced(1.5, 113), _spaced(1.5, 225), at_least=0.1, at_most=10, ascending=True
    )
    steps: int = options.steps(1_500, at_least=100, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * len(self.eta_lambdas)
        fits_memory(64.0 * runs * self.steps + 64.0 * max(self.widths), "widths, eta_lambdas or steps")


@study("thesis/thm-3.3.6", section="3.3.6", title="Two eigendirections catapult one after the other")
def run(config: Config) -> xr.Dataset:
    r"""Inputs are scalar, the loss is the half sum, $\lambda_1(0) \ge \lambda_2(0)$ and
    $2/\lambda_2(0) < 4/\lambda_1(0)$. For $2/\lambda_1(0) < \eta < 2/\lambda_2(0)$ the loss catapults in the direction
    $p_1$ alone and only $\lambda_1$ falls. For $2/\lambda_2(0) < \eta < 4/\lambda_1(0)$ it catapults in both
    directions. Each peak is of order $m(\eta\lambda_i(0) - 2)^2$ up to a logarithm.

    Below $2/\lambda_1(0)$ the loss falls monotonically; above $4/\lambda_1(0)$ gradient descent diverges. If
    $2/\lambda_2(0) > 4/\lambda_1(0)$ the second direction never catapults. The two directions are exactly independent.
    The theorem keeps a distance $\varepsilon = \Theta(\log m/\sqrt m)$ from all borders; here
    $\varepsilon = \log m/\sqrt m$.
    """
    key_x, key_y, *keys = jax.random.split(jax.random.key(config.seed), 2 + len(config.widths))

    @jax.jit
    def inputs(key_x: jax.Array, key_y: jax.Array) -> tuple[sm.Directions, jax.Array]:
        x = jnp.abs(jax.random.normal(key_x, (2, config.samples // 2))) + 0.3
        scale = jnp.sqrt(jnp.array([config.positive, config.negative]))[:, None]
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True) * scale
        split = sm.directions(jnp.concatenate([x[0], -x[1]]))
        return split, split.units @ (0.5 * jax.random.normal(key_y, split.units.shape[1:]))

    @partial(jax.jit, static_argnums=1)
    def start(key: jax.Array, m: int) -> dict[str, jax.Array]:
        params = two_layer_init(key, m, 1)
        slopes, kernel = sm.slopes_from_weights(params.u[:, 0], params.v, params.u[:, 0])
        return {"output": slopes * jnp.sqrt(split.squares), "eigenvalue": kernel * split.squares}

    split, targets = inputs(key_x, key_y)
    networks = [{"width": float(m), **start(key, m)} for key, m in zip(keys, config.widths, strict=True)]

    # Each direction is one sample of its own, with |p_i|^2 for the size of the input.
    def system(network: dict[str, jax.Array], ratio: jax.Array) -> ct.Map:
        return ct.catapult(ratio / jnp.max(network["eigenvalue"]), network["width"], targets, split.squares)

    runs = simulate(
        system,
        lambda network: (network["output"], network["eigenvalue"]),
        config.steps,
        over={"network": stacked(networks), "ratio": np.asarray(config.eta_lambdas)},
        probes={"a": Probe(lambda s: s.a, dims=("direction",)), "v": Probe(lambda s: s.v, dims=("direction",))},
        stop=Stop(
            converged=lambda s: jnp.max(jnp.abs(s.a)) < 1e-9, diverged=lambda s: jnp.max(jnp.abs(s.a)) > 1e4, every=10
        ),
    ).dataset
    runs = runs.rename(network="width").assign_coords(width=list(config.widths), direction=[1, 2])
    eigen = xr.DataArray(stacked(networks)["eigenvalue"], dims=("width", "direction"))
    squares, label = (xr.DataArray(np.asarray(part), dims="direction") for part in (split.squares, targets))
    lr, factor = runs.ratio / eigen.max("direction"), np.sqrt(squares / runs.width)
    u = np.minimum(np.abs(runs.a), 1e100) ** 2
    peak, first, last = u.max("step", skipna=False), runs.isel(step=0, drop=True), runs.isel(step=-1, drop=True)
    found = {
        "peak": peak * (runs.width / (2 * lr**2 * squares)),
        "peak_square": peak,
        "start_square": u.isel(step=0, drop=True),
        "start_pull": first.a * lr * label * factor,
        "bend": np.abs(lr * label * factor),
        "fall": last.v / first.v,
        "v0": first.v,
        "final": last.v,
        "outcome": runs.outcome,
        "eigenvalue": eigen,
    }
    return xr.Dataset(found).transpose("width", "ratio", "direction")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    margin = np.log(data.width) / np.sqrt(data.width)
    rises, top = data.peak_square > data.start_square * (1 + 1e-9), data.v0.max("direction")
    inside, diverged = top <= 4 - margin, data.outcome == Outcome.DIVERGED
    past, below = inside & (data.v0 >= 2 + margin), inside & (data.v0 <= 2 - margin)
    far = r"$\log m/\sqrt m$ from the borders"
    for key, name, predicted, seen, among in (
        ("past", "share of the directions past their threshold that catapult", 1.0, rises, past),
        ("below", "share of the directions below their threshold that catapult", 0.0, rises, below),
        ("inside", r"share of the runs with $\eta\lambda_1 < 4$ that diverge", 0.0, diverged, inside),
        ("outside", r"share of the runs with $\eta\lambda_1 > 4$ that diverge", 1.0, diverged, top >= 4 + margin),
    ):
        yield claim(key, name, otherwise=f"no step size lies there, {far}").share(
            predicted, seen, among, f"the claim, {far}"
        )
    # At the largest width: how high catapults rise, and how little the other eigenvalues move.
    wide = data.isel(width=-1)
    past, below, last = (table.isel(width=-1) for table in (past, below, rises))
    name = "peak over the {} at infinite width, {}, largest width"
    names = name.format("lowest", "smallest"), name.format("highest", "largest")
    excess = (wide.v0 - 2).where(past)
    limits = peaks_at_infinite_width(excess, phases=64)
    yield from heights(names, wide, excess, limits, past, "no direction catapults", skipna=False)
    kept = below & (wide.outcome == Outcome.CONVERGED)
    u0, v0, w0, m = wide.start_square, wide.v0, wide.start_pull, float(wide.width)
    drift, delta = on_tables(cs.lazy_drift, u0, v0, w0), np.minimum(v0, 2 - v0)
    # The two terms of the drift may cancel each other: the next order is small compared with their sizes.
    size = np.abs((4 - v0) * u0 / (v0 * (2 - v0))) + np.abs(4 * w0 / v0)
    ceiling, _ = on_tables(cs.lazy_bounds, delta, m, u0 * m, wide.bend * np.sqrt(m))
    gap, near = np.abs(wide.final - v0 - drift) / size, (ceiling / delta).where(kept).max()
    name = "change of the eigenvalues of directions that do not catapult, against their lazy drift, largest width"
    none = "no direction stays below its threshold in a run that converges"
    why = r"relative; the next order is the bound on the drift over $\delta$"
    yield claim("lazy-drift", name, given=kept, otherwise=none).zero(gap.where(kept).max(), near, why)
    yield _edge(data.ratio.values, last.any("direction").values, float(margin[-1]))
    done, none = data.outcome == Outcome.CONVERGED, f"no run converges within {config.steps} steps"
    note = r"appendix B.11 prints both inequalities after the catapult reversed: there $\eta < 2/\lambda_i$"
    yield claim("converged", r"largest $\eta\lambda_i$ after convergence", given=done, otherwise=none).at_most(
        2.0, data.final.where(done).max(), "stability of the minimum", note=note
    )


def _edge(ratios: np.ndarray, rises: np.ndarray, margin: float) -> Finding | lab.Erratum:
    """The step size at which the loss begins to rise."""
    edge = claim("edge", r"condition for monotone decrease, as the largest $\eta\lambda_1$")
    index = int(np.argmax(rises))
    if not rises.any() or index == 0 or not rises[index:].all():
        return edge.undecided(2.0, "the step sizes do not bracket the edge")
    low, high = ratios[index - 1 : index + 1]
    printed, right = (r"\|I - \eta K\| < 2", 3.0), (r"\|I - \eta K\| < 1 \text{ on the range of } K", 2.0)
    why = r"half the spacing of the step sizes, and $\log m/\sqrt m$"
    near = lab.Tolerance((high - low) / 2 + margin, why=why)
    note, where = "The residual shrinks where the factor is below one.", "appendix B.11, monotonic convergence"
    return edge.erratum(printed, right, (high + low) / 2, near, note=note, where=where)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    wide, m = data.isel(width=-1), float(data.width[-1])
    top, done = float(wide.eigenvalue.max()), wide.outcome == Outcome.CONVERGED
    for i, direction in enumerate(data.direction.values):
        one, look = wide.sel(direction=direction), {"ms": 3, "lw": 0.8, "color": f"C{i}"}
        left.plot(data.ratio, (one.peak / m).where(done), "o-", label=rf"along $p_{direction}$", **look)
        right.plot(data.ratio, one.fall.where(done), "o-", label=rf"$\lambda_{direction}$", **look)
        for axes in (left, right):
            sheet.mark(axes, x=2 * top / one.eigenvalue, color=f"C{i}", lw=1)
    for axes in (left, right):
        sheet.mark(axes, x=4, ls=":", lw=1)
        axes.axvspan(4, 4.3, color=sheet.faint(), alpha=0.4, lw=0)
    limit = np.asarray(cs.small_excess_peak(np.clip(data.ratio.values - 2, 0, None)))
    scale = 2 * (data.ratio / top) ** 2 * config.positive
    sheet.guide(left, data.ratio, limit / scale, r"$\delta^2/2 + \delta^3/3$", lw=1)
    title, highest = rf"Peak over width, $m = 10^{{{np.log10(m):.0f}}}$", float((wide.peak / m).where(done).max())
    x, y = r"$\eta\lambda_1(0)$", r"$\max_t \Pi_i\mathcal{L}/m$"
    sheet.label(left, title, x, y, "upper left", ylim=(0, 1.3 * highest))
    title, y = "Eigenvalue, final over initial", r"$\lambda_i(\infty)/\lambda_i(0)$"
    sheet.label(right, title, x, y, "lower left", ylim=(0, 1.1))
