"""Theorem 3.3.6: several samples in one dimension."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Erratum, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.theory import catapult as ct
from secant.theory import catapult_samples as sm
from secant.theory import catapult_scaling as cs
from secant.theory.catapult_limit import wide_limit
from secant.theory.quadratic_model import two_layer_init


@dataclass(frozen=True)
class Config:
    """Data, widths and step sizes."""

    widths: tuple[int, ...] = scaled(
        smoke=(1_000, 10_000, 100_000), laptop=(1_000, 10_000, 100_000, 1_000_000), at_least=100, at_most=10**8,
        ascending=True, help="hidden neurons",
    )
    positive: float = option(1.5, at_least=0.1, at_most=10, help="squared norm of the positive inputs")
    negative: float = option(1.0, at_least=0.1, at_most=10, help="squared norm of the negative inputs")
    samples: int = option(8, at_least=4, at_most=10**6, help="samples, half of either sign")
    ratios: tuple[float, ...] = scaled(
        smoke=tuple(np.linspace(1.6, 4.3, 28).round(3).tolist()),
        laptop=tuple(np.linspace(1.5, 4.3, 113).round(4).tolist()),
        paper=tuple(np.linspace(1.5, 4.3, 225).round(5).tolist()), at_least=0.1, at_most=10, ascending=True,
        help="step sizes times the larger eigenvalue",
    )
    steps: int = option(1_500, at_least=100, at_most=10**6, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        runs = len(self.widths) * len(self.ratios)
        fits_memory(64.0 * runs * self.steps + 64.0 * max(self.widths), "widths, ratios or steps")


@study(
    "thesis/thm-3.3.6", section="3.3.6", title="Two eigendirections catapult one after the other",
    statement=r"""
    Scalar inputs, half-sum loss, $\lambda_1(0) \ge \lambda_2(0)$ and $2/\lambda_2(0) < 4/\lambda_1(0)$. For
    $2/\lambda_1(0) < \eta < 2/\lambda_2(0)$ the loss catapults in the direction $p_1$ alone and only
    $\lambda_1$ falls; for $2/\lambda_2(0) < \eta < 4/\lambda_1(0)$ in both, each peak of order
    $m(\eta\lambda_i(0) - 2)^2$ up to a logarithm. Below $2/\lambda_1(0)$ the loss falls monotonically; above
    $4/\lambda_1(0)$ gradient descent diverges. If $2/\lambda_2(0) > 4/\lambda_1(0)$ the second direction
    never catapults. The two directions are exactly independent. The theorem keeps a distance
    $\varepsilon = \Theta(\log m/\sqrt m)$ from all borders; here it is $\log m/\sqrt m$ itself.""",
)
def run(config: Config) -> xr.Dataset:
    half = config.samples // 2
    key_x, key_y, *keys = jax.random.split(jax.random.key(config.seed), 2 + len(config.widths))
    x = jnp.abs(jax.random.normal(key_x, (2, half))) + 0.3
    scale = jnp.sqrt(jnp.array([config.positive, config.negative]))[:, None]
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True) * scale
    x = jnp.concatenate([x[0], -x[1]])
    y = 0.5 * jax.random.normal(key_y, (2 * half,))
    split = sm.directions(x)
    outputs, eigenvalues = [], []
    for key, m in zip(keys, config.widths, strict=True):
        params = two_layer_init(key, m, 1)
        slopes, kernel = sm.slopes_from_weights(params.u[:, 0], params.v, params.u[:, 0])
        outputs.append(slopes * jnp.sqrt(split.squares))
        eigenvalues.append(kernel * split.squares)
    start = {
        "width": jnp.asarray(config.widths, float), "output": jnp.stack(outputs), "eigenvalue": jnp.stack(eigenvalues),
    }
    targets = split.units @ y

    # each direction is one sample of its own, with |p_i|^2 for the size of the input
    def system(network: dict[str, jax.Array], ratio: jax.Array) -> ct.Map:
        return ct.catapult(ratio / jnp.max(network["eigenvalue"]), network["width"], targets, split.squares)

    data = simulate(
        system, lambda network: (network["output"], network["eigenvalue"]), config.steps,
        over={"network": start, "ratio": jnp.asarray(config.ratios)}, probes={"a": lambda s: s.a, "v": lambda s: s.v},
        stop=Stop(
            converged=lambda s: jnp.all(jnp.abs(s.a) < 1e-9), diverged=lambda s: jnp.any(jnp.abs(s.a) > 1e4), every=10,
        ),
    ).dataset
    dims = ("width", "ratio", "direction")
    u, v = np.minimum(np.abs(data.a.values), 1e100) ** 2, data.v.values
    eigen = np.asarray(start["eigenvalue"])
    lr = np.asarray(config.ratios)[None, :, None] / eigen.max(axis=1)[:, None, None]
    factor = np.sqrt(np.asarray(split.squares) / np.asarray(config.widths)[:, None])[:, None]
    scale_loss = np.asarray(config.widths)[:, None, None] / (2 * lr**2 * np.asarray(split.squares))
    return xr.Dataset(
        {
            "peak": (dims, u.max(axis=2) * scale_loss, {"long_name": "peak of the loss along the direction"}),
            "peak_square": (dims, u.max(axis=2)), "start_square": (dims, u[:, :, 0]),
            "start_pull": (dims, data.a.values[:, :, 0] * lr * np.asarray(targets) * factor),
            "bend": (dims, np.abs(lr * np.asarray(targets) * factor), {"long_name": "size of the rescaled label"}),
            "fall": (dims, v[:, :, -1] / v[:, :, 0], {"long_name": "final over initial eigenvalue"}),
            "v0": (dims, v[:, :, 0]), "final": (dims, v[:, :, -1]),
            "outcome": (("width", "ratio"), data.outcome.values), "eigenvalue": (("width", "direction"), eigen),
        },
        coords={"width": list(config.widths), "ratio": np.asarray(config.ratios), "direction": [1, 2]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    margin = np.log(data.width) / np.sqrt(data.width)
    rises = data.peak_square > data.start_square * (1 + 1e-9)
    top = data.v0.max("direction")
    inside = top <= 4 - margin
    past, below = inside & (data.v0 >= 2 + margin), inside & (data.v0 <= 2 - margin)
    statements = (
        ("share of the directions past their threshold that catapult", rises, past, 1.0),
        ("share of the directions below their threshold that catapult", rises, below, 0.0),
        ("share of the runs with eta lambda_1 below 4 that diverge", data.outcome == Outcome.DIVERGED, inside, 0.0),
        (
            "share of the runs with eta lambda_1 above 4 that diverge", data.outcome == Outcome.DIVERGED,
            top >= 4 + margin, 1.0,
        ),
    )
    for name, seen, among, predicted in statements:
        if not bool(among.any()):
            yield claims.undecided(name, predicted, "no step size lies there, log m / sqrt m from the borders")
            continue
        yield claims.equal(
            name, predicted, (seen & among).sum() / among.sum(), 0, "the claim, log m / sqrt m away from the borders",
            note=f"of {int(among.sum())}",
        )
    yield from _sizes(data.isel(width=-1), past.isel(width=-1), below.isel(width=-1))
    yield from _edge(data.isel(width=-1), rises.isel(width=-1), float(margin[-1]))
    name = "largest eta lambda_i after convergence"
    converged = data.outcome == Outcome.CONVERGED
    if not bool(converged.any()):
        yield claims.undecided(name, 2.0, f"no run converges within {config.steps} steps", "at most")
    else:
        yield claims.at_most(
            name, 2.0, data.final.where(converged).max(), "stability of the minimum",
            note="appendix B.11 prints the two inequalities after the catapult reversed: eta is below 2/lambda_i there",
        )


def _sizes(wide: xr.Dataset, past: xr.DataArray, below: xr.DataArray) -> Findings:
    """At the largest width: how high catapults rise, and how little the other eigenvalues move."""
    low = "peak over the lowest at infinite width, smallest, largest width"
    high = "peak over the highest at infinite width, largest, largest width"
    still = "change of the eigenvalues of directions that do not catapult, against their lazy drift, largest width"
    if not bool(past.any()):
        yield claims.undecided(low, 1.0, "no direction catapults", "at least")
        yield claims.undecided(high, 1.0, "no direction catapults", "at most")
    else:
        rows = past.transpose("ratio", "direction").values
        u, u0, v0, bend = (
            wide[name].transpose("ratio", "direction").values[rows]
            for name in ("peak_square", "start_square", "v0", "bend")
        )
        peak = np.asarray(wide_limit(jnp.asarray(v0 - 2), phases=64, steps=int(60 / (v0 - 2).min())).peak)
        lowest, highest = peak.min(axis=1), peak.max(axis=1)
        # To first order the start adds its own square to the peak, and w, which alternates, b sqrt(u) to the excess.
        blur = float((u0 / highest + bend * np.sqrt(highest) / (v0 - 2)).max())
        near = Tolerance(blur, why="what the start adds at finite width, u(0) and b sqrt(u)/delta")
        yield claims.at_least(low, 1.0, (u / lowest).min(), slack=near)
        yield claims.at_most(high, 1.0, (u / highest).max(), slack=near)
    kept = below & (wide.outcome == Outcome.CONVERGED)
    if not bool(kept.any()):
        yield claims.undecided(still, 0.0, "no direction stays below its threshold in a run that converges")
        return
    u0, v0, w0 = wide.start_square, wide.v0, wide.start_pull
    drift = xr.zeros_like(v0).copy(data=np.asarray(cs.lazy_drift(u0.values, v0.values, w0.values)))
    # The two terms of the drift may cancel each other: the next order is small beside their sizes.
    size = np.abs((4 - v0) * u0 / (v0 * (2 - v0))) + np.abs(4 * w0 / v0)
    m, delta = float(wide.width), np.minimum(v0, 2 - v0)
    ceiling, _ = cs.lazy_bounds(delta.values, m, (u0 * m).values, (wide.bend * np.sqrt(m)).values)
    next_order = (xr.zeros_like(v0).copy(data=np.asarray(ceiling)) / delta).where(kept)
    yield claims.zero(
        still, (np.abs(wide.final - v0 - drift) / size).where(kept).max(), next_order.max(),
        "relative; the next order is the drift's bound over delta",
    )


def _edge(wide: xr.Dataset, rises: xr.DataArray, margin: float) -> Findings:
    """Where the loss begins to rise."""
    name = "condition for monotone decrease, as the largest eta lambda_1"
    ratios, first = wide.ratio.values, rises.any("direction").values
    index = int(np.argmax(first))
    if not first.any() or index == 0 or not first[index:].all():
        yield claims.undecided(name, 2.0, "the step sizes do not bracket the edge")
        return
    half = float(ratios[index] - ratios[index - 1]) / 2
    yield Erratum(
        name, printed=r"\|I - \eta K\| < 2", corrected=r"\|I - \eta K\| < 1 \text{ on the range of } K",
        printed_value=3.0, corrected_value=2.0, measured=float(ratios[index] + ratios[index - 1]) / 2,
        tolerance=Tolerance(half + margin, why="half the spacing of the step sizes, and log m / sqrt m"),
        why="The residual shrinks where the factor is below one.", where="appendix B.11, monotonic convergence",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = figure.subplots(1, 2)
    ink = sheet.ink()
    wide = data.isel(width=-1)
    thresholds = 2 * float(wide.eigenvalue.max()) / wide.eigenvalue
    done = wide.outcome == 1
    m = float(data.width[-1])
    for i, direction in enumerate(data.direction.values):
        one = wide.sel(direction=direction)
        left.plot(
            data.ratio, (one.peak / m).where(done), "o-", ms=3, lw=0.8, color=f"C{i}", label=rf"along $p_{direction}$"
        )
        right.plot(data.ratio, one.fall.where(done), "o-", ms=3, lw=0.8, color=f"C{i}", label=rf"$\lambda_{direction}$")
    for axes in (left, right):
        for i in range(2):
            axes.axvline(float(thresholds[i]), color=f"C{i}", ls="--", lw=1)
        axes.axvline(4, color=ink, ls=":", lw=1)
        axes.set_xlabel(r"$\eta\lambda_1(0)$")
        axes.axvspan(4, 4.3, color=sheet.faint(), alpha=0.4, lw=0)
    delta = np.clip(np.asarray(data.ratio.values) - 2, 0, None)
    lr = data.ratio.values / float(wide.eigenvalue.max())
    size = config.positive
    left.plot(
        data.ratio, np.asarray(cs.small_excess_peak(delta)) / (2 * lr**2 * size), "--", color=ink, lw=1,
        label=r"$\delta^2/2 + \delta^3/3$",
    )
    left.set(
        title=rf"Peak over width, $m = 10^{{{np.log10(m):.0f}}}$", ylabel=r"$\max_t \Pi_i\mathcal{L}/m$", ylim=(0, None)
    )
    left.set_ylim(0, 1.3 * float((wide.peak / m).where(done).max()))
    left.legend(loc="upper left")
    right.set(title="Eigenvalue, final over initial", ylabel=r"$\lambda_i(\infty)/\lambda_i(0)$", ylim=(0, 1.1))
    right.legend(loc="lower left")
