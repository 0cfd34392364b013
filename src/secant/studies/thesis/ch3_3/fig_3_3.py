"""Figure 3.3 (and B.1): scalar data, two eigenvalues, two critical step sizes."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Erratum, Estimate, Figure, Findings, Tolerance, claims, fits_memory, option, scaled, sheet, study
from secant.setups.two_layer.models import Kind, descent, model
from secant.theory import catapult_samples as sm
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import TwoLayer, two_layer_init

MODELS: tuple[Kind, ...] = ("quadratic", "network")
NAMES = ("sub-critical", "between", "past both", "near the border", "past the border")

PRINTED = (0.37, 0.39)
"""The thresholds in the figure."""


@dataclass(frozen=True)
class Config:
    """Data and network."""

    width: int = scaled(smoke=500, laptop=5_000, at_least=200, help="hidden neurons")
    samples: int = option(128, at_least=16, help="training points")
    steps: int = scaled(smoke=100, laptop=400, paper=1_000, at_least=100, help="gradient-descent steps")
    draws: int = option(
        200, at_least=20, at_most=10**6, help="random data sets and networks for the spread of the thresholds"
    )
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(160.0 * self.samples * self.width + 800.0 * self.steps, "width, samples or steps")
        fits_memory(32.0 * self.samples * self.draws, "draws or samples")


@study(
    "thesis/fig-3.3", section="3.3", title="Two thresholds, and whose loss they belong to",
    statement=r"""
    A quadratic model of width 5000 on 128 scalar points, $x \sim \mathcal N(\pm 2, 1)$ with label $\pm 1$.
    Below the first threshold the kernel is nearly constant; between the two thresholds the loss catapults in
    $p_1$ and only $\lambda_1$ falls; past both, both fall. The thresholds are given as
    $2/\lambda_1(0) = 0.37$ and $2/\lambda_2(0) = 0.39$; those are the values of $n/\lambda_i(0)$, the
    thresholds of the mean loss $\frac1n\sum_i r_i^2$. For the network itself (figure B.1) the picture is almost the
    same.

    The data is the first draw whose thresholds are as far apart as in the figure, by a factor of $0.39/0.37$. Of the
    step sizes, which the figure does not say, one is $\varepsilon = \log m/\sqrt m$ below the first threshold in
    $\eta\lambda_1$, as in theorem B.3.1, one in the middle between the two, one in the middle between the second and
    the exact border, and two at 2 per cent from that border.""",
)
def run(config: Config) -> xr.Dataset:
    key_data, key_net, key_draws = jax.random.split(jax.random.key(config.seed), 3)
    params = two_layer_init(key_net, config.width, 1)
    x, y, eigenvalues = _data(key_data, params, config)
    inputs, n = x[:, None], config.samples
    order = np.argsort(-np.asarray(eigenvalues))  # the first direction is the one with the larger eigenvalue
    split, residual, kernel, critical, largest = jax.jit(partial(_at_start, config.width))(params, x, y, eigenvalues)
    thresholds, border = np.asarray(critical)[order], np.asarray(largest)[order]
    (c1, c2), end, margin = thresholds, border.min(), np.log(config.width) / np.sqrt(config.width)
    lrs = np.array([(1 - margin / 2) * c1, (c1 + c2) / 2, (c2 + end) / 2, 0.98 * end, 1.02 * end])
    found: dict[str, list[np.ndarray]] = {}
    for kind in MODELS:
        outputs = model(kind, params, inputs)
        data = simulate(
            lambda lr, kind=kind: descent(kind, params, inputs, y, lr, scale=1 / n), params, config.steps,
            over={"lr": jnp.asarray(lrs)},
            probes={
                "loss": lambda p, outputs=outputs: jnp.mean((outputs(p) - y) ** 2),
                "along": Probe(lambda p, outputs=outputs: split.units @ (outputs(p) - y), dims=("direction",)),
                # for scalar inputs the network's kernel has the same form, with its current gates
                "eigenvalue": Probe(
                    lambda p, kind=kind: _eigenvalues(p, params.u if kind == "quadratic" else p.u, split.squares),
                    dims=("direction",),
                ),
            },
            stop=Stop(diverged=lambda p, outputs=outputs: jnp.mean((outputs(p) - y) ** 2) > 1e12),
        ).dataset
        for name in ("loss", "along", "eigenvalue", "outcome"):
            found.setdefault(name, []).append(data[name].values)
    # each direction by itself, by the exact map
    half_sum = jnp.asarray(sm.half_sum_lr(jnp.asarray(lrs), n, "mean"))
    reduced = jax.jit(jax.vmap(lambda lr: sm.reduce_directions(residual, kernel, x, y, lr, config.width)))
    pairs, b = reduced(half_sum)
    exact = jax.jit(lambda a, v, b: cs.catapult_outcome(a, v, b, steps=config.steps).curvature)(pairs.a, pairs.v, b)
    spread = jax.jit(jax.vmap(lambda k: _first_threshold(k, n)))(jax.random.split(key_draws, config.draws))
    dims = ("model", "lr", "step", "direction")
    return xr.Dataset(
        {
            "loss": (dims[:3], np.stack(found["loss"])), "along": (dims, np.stack(found["along"])[..., order]),
            "eigenvalue": (dims, np.stack(found["eigenvalue"])[..., order]),
            "outcome": (dims[:2], np.stack(found["outcome"])),
            "exact": (("lr", "direction"), np.asarray(exact)[:, order], {"long_name": "final eta lambda by the map"}),
            "square": (("lr", "direction"), np.asarray(pairs.a**2)[:, order], {"long_name": "u at the start"}),
            "bend": (("lr", "direction"), np.abs(np.asarray(b))[:, order], {"long_name": "size of the rescaled label"}),
            "threshold": ("direction", thresholds), "half_sum": ("direction", np.asarray(2 / eigenvalues)[order]),
            "border": ("direction", border), "spread": ("draw", np.asarray(spread)),
        },
        coords={"model": list(MODELS), "lr": lrs, "name": ("lr", list(NAMES)), "direction": [1, 2]},
    )


def _at_start(width: int, params: TwoLayer, x: jax.Array, y: jax.Array, eigenvalues: jax.Array) -> tuple[Any, ...]:
    """Directions, residual and kernel of the quadratic model, and critical and maximal step sizes by direction."""
    split, n = sm.directions(x), len(x)
    residual = model("quadratic", params, x[:, None])(params) - y
    kernel = sm.kernel_from_slopes(x, eigenvalues / split.squares)
    largest = sm.max_lr_samples(residual, kernel, x, y, width, "mean")
    return split, residual, kernel, sm.critical_lrs(eigenvalues, n, "mean"), largest


def _data(key: jax.Array, params: TwoLayer, config: Config) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The first draw whose thresholds lie as far apart as the printed ones, and both well below the border."""
    for number in range(1_000):
        x, y, eigenvalues = _draw(jax.random.fold_in(key, number), params, config.samples)
        apart = float(jnp.max(eigenvalues) / jnp.min(eigenvalues))
        if PRINTED[1] / PRINTED[0] <= apart <= 1.5:
            return x, y, eigenvalues
    raise ValueError(f"samples: no draw of {config.samples} points has two thresholds that are close. Give more.")


@partial(jax.jit, static_argnums=2)
def _draw(key: jax.Array, params: TwoLayer, samples: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    x, y = _points(key, samples)
    return x, y, _eigenvalues(params, params.u, sm.directions(x).squares)


def _points(key: jax.Array, samples: int) -> tuple[jax.Array, jax.Array]:
    key_label, key_noise = jax.random.split(key)
    y = jax.random.rademacher(key_label, (samples,)).astype(float)
    return 2 * y + jax.random.normal(key_noise, (samples,)), y


def _eigenvalues(params: TwoLayer, gate: jax.Array, squares: jax.Array) -> jax.Array:
    return sm.slopes_from_weights(params.u[:, 0], params.v, gate[:, 0])[1] * squares


def _first_threshold(key: jax.Array, samples: int) -> jax.Array:
    """n / lambda_1 of a random data set and a wide network: lambda_i = |p_i|^2."""
    return samples / jnp.max(sm.directions(_points(key, samples)[0]).squares)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ratio = data.eigenvalue.isel(step=-1) / data.eigenvalue.isel(step=0)
    v = 2 * data.lr / data.threshold * ratio  # eta lambda at the end, for the half sum
    settled = data.outcome.sel(model="quadratic") != Outcome.DIVERGED
    gap = np.abs(v.sel(model="quadratic") - data.exact).isel(lr=[0, 1, 2])
    yield claims.zero(
        "quadratic: final eigenvalues times the step size against the exact map of each direction, largest difference",
        gap.max(), 1e-6, "rounding, which a catapult amplifies; near the border it is chaotic",
    )
    # The drift that theorem B.3.1 allows at its own distance from the edge, as a share of eta lambda.
    m, margin = config.width, float(np.log(config.width) / np.sqrt(config.width))
    start, pull = data.square * m, data.bend * np.sqrt(m)
    lazy = 8 * (start + pull * np.sqrt(start)) / (m * margin) * data.threshold / (2 * data.lr)
    for kind in MODELS:
        own = ratio.sel(model=kind)
        # A step moves the inner weights by a v: of those, Gaussian, a share of up to a / sqrt(2 pi) changes its sign.
        size = np.abs(data.along.sel(model=kind))
        moves = np.sqrt(data.square) * size.max("step") / size.isel(step=0)
        moved = (kind == "network") * moves.max("direction") / np.sqrt(2 * np.pi)
        yield claims.equal(
            f"{kind}, sub-critical: final over initial eigenvalue, furthest from one", 1.0,
            own[0, int(np.argmax(np.abs(own[0].values - 1)))], lazy[0].max() + moved[0], NEARLY[kind],
        )
        yield claims.equal(
            f"{kind}, between the thresholds: second eigenvalue, final over initial", 1.0, own[1, 1],
            lazy[1, 1] + moved[1], NEARLY[kind],
        )
        end = v.sel(model=kind)
        for name, value in (
            (f"{kind}, between the thresholds: first eigenvalue at the end, times the step size", end[1, 0]),
            (f"{kind}, past both: larger eigenvalue at the end, times the step size", end[2].max()),
        ):
            yield claims.at_most(name, 2.0, value, "a catapult ends below the edge; it began above")
    yield claims.equal(
        "quadratic: runs 2 per cent below and past the exact border that end as they should", 2.0,
        float(settled[3]) + float(~settled[4]), 0, "the border is exact",
    )
    yield claims.equal(
        "the printed first threshold is a draw of n / lambda_1: the mean of all draws", PRINTED[0],
        Estimate(float(data.spread.mean()), float(data.spread.std(ddof=1)), config.draws - 1), 0,
        "the spread of single draws",
    )
    yield from _first(data)


NEARLY = {
    "quadratic": "the drift that theorem B.3.1 allows log m / sqrt m from the edge",
    "network": "that drift, and neurons that are carried over zero by the largest move of their inputs",
}
"""What 'nearly constant' means."""


def _first(data: xr.Dataset) -> Findings:
    """Where gradient descent on the mean loss begins to raise the loss along the first direction."""
    name = "first threshold: step size on the mean loss at which it begins to rise"
    along = np.abs(data.along.sel(model="quadratic", direction=1))
    rises = (along.max("step") > along.isel(step=0) * (1 + 1e-9)).values
    if rises[0] or not rises[1]:
        yield claims.undecided(name, float(data.threshold[0]), "the first two step sizes do not bracket it")
        return
    low, high = (float(lr) for lr in data.lr[:2])
    yield Erratum(
        name, printed=r"2/\lambda_1(0)", corrected=r"n/\lambda_1(0)", printed_value=float(data.half_sum[0]),
        corrected_value=float(data.threshold[0]), measured=(low + high) / 2,
        tolerance=Tolerance((high - low) / 2, why="half the distance of a step where it falls from one where it rises"),
        why="The figure's numbers belong to the loss (1/n) sum r^2; for the half sum of section 3.2 they are 0.006.",
        where="Figures 3.3 and B.1",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(11, 6.2)
    ink = sheet.ink()
    rows = figure.subplots(2, 3, sharex=True, sharey="col")
    titles = {"quadratic": "Quadratic model", "network": "ReLU network"}
    last = min(60, data.sizes["step"] - 1)
    for panels, kind in zip(rows, MODELS, strict=True):
        one = data.sel(model=kind).isel(step=slice(0, last + 1))
        for i, lr in enumerate(data.lr.values):
            label = rf"$\eta = {lr:.3f}$, {NAMES[i]}"
            loss = one.loss[i].where(one.loss[i] < 1e6)
            panels[0].semilogy(loss, color=f"C{i}", label=label)
            for j in (0, 1):
                ratio = (one.eigenvalue[i, :, j] / one.eigenvalue[i, 0, j]).where(loss.notnull())
                panels[1 + j].plot(ratio, color=f"C{i}")
        panels[0].set(title=f"{titles[kind]}: loss", ylabel=r"$\frac{1}{n}\sum_i r_i^2$", ylim=(0.05, 1e6))
        panels[1].set(title="first eigenvalue", ylabel=r"$\lambda_1(t)/\lambda_1(0)$", ylim=(0, 1.3))
        panels[2].set(title="second eigenvalue", ylabel=r"$\lambda_2(t)/\lambda_2(0)$", ylim=(0, 1.3))
    for panel in rows[1]:
        panel.set_xlabel("step")
    rows[0][0].legend(fontsize=7, loc="upper right")
    text = rf"thresholds $n/\lambda_i(0)$: {float(data.threshold[0]):.3f}, {float(data.threshold[1]):.3f}"
    rows[1][0].text(0.98, 0.93, text, transform=rows[1][0].transAxes, ha="right", fontsize=8, color=ink)
