"""Figure 3.3 (and B.1): scalar data, two eigenvalues, two critical step sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Probe, Stop, simulate
from secant.lab import Erratum, Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import Kind, descent, model
from secant.theory import catapult_samples as sm
from secant.theory import catapult_scaling as cs
from secant.theory.quadratic_model import TwoLayer, two_layer_init

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS: tuple[Kind, ...] = ("quadratic", "network")
NAMES = ("sub-critical", "between", "past both", "further past", "near the border", "past the border")


@dataclass(frozen=True)
class Config:
    """Data and network."""

    width: int = scaled(smoke=1_000, laptop=5_000, paper=5_000, at_least=10, help="hidden neurons")
    samples: int = option(128, at_least=4, help="training points")
    steps: int = scaled(smoke=150, laptop=400, paper=1_000, at_least=10, help="gradient-descent steps")
    draws: int = option(200, at_least=2, help="random data sets and networks for the spread of the thresholds")
    seed: int = option(2, help="random seed")


@study(
    "thesis/fig-3.3",
    section="3.3",
    title="Two thresholds, and whose loss they belong to",
    statement=r"""
    A quadratic model of width 5000 on 128 scalar points, $x \sim \mathcal N(\pm 2, 1)$ with label $\pm 1$.
    Below the first threshold the kernel is nearly constant; between the two thresholds the loss catapults in
    $p_1$ and only $\lambda_1$ falls; past both, both fall. The thresholds are given as
    $2/\lambda_1(0) = 0.37$ and $2/\lambda_2(0) = 0.39$; those are the values of $n/\lambda_i(0)$, the
    thresholds of the mean loss $\frac1n\sum_i r_i^2$. For the network itself the picture is almost the
    same.""",
)
def run(config: Config) -> xr.Dataset:
    key_data, key_net, key_draws = jax.random.split(jax.random.key(config.seed), 3)
    x, y = _points(key_data, config.samples)
    params = two_layer_init(key_net, config.width, 1)
    split = sm.directions(x)
    eigenvalues = _eigenvalues(params, params.u, split.squares)
    thresholds = jnp.sort(sm.critical_lrs(eigenvalues, config.samples, "mean"))
    c1, c2 = thresholds
    lrs = jnp.stack([0.95 * c1, (c1 + c2) / 2, 1.1 * c2, (1.1 * c2 + 1.9 * c1) / 2, 1.9 * c1, 2.05 * c1])
    inputs = x[:, None]
    found: dict[str, list[np.ndarray]] = {}
    for kind in MODELS:
        outputs = model(kind, params, inputs)
        data = simulate(
            lambda lr, kind=kind: descent(kind, params, inputs, y, lr, scale=1 / config.samples),
            params,
            config.steps,
            over={"lr": lrs},
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
    order = np.argsort(-np.asarray(eigenvalues))  # the first direction is the one with the larger eigenvalue
    dims = ("model", "lr", "step", "direction")
    # where the mean loss starts to rise, by bisection on the exact map of the first direction
    residual = model("quadratic", params, inputs)(params) - y
    kernel = sm.kernel_from_slopes(x, eigenvalues / split.squares)
    border = sm.max_lr_samples(residual, kernel, x, y, config.width, "mean")
    rise = _bisect_rise(residual, kernel, x, y, config, int(order[0]), float(c1))
    keys = jax.random.split(key_draws, config.draws)
    spread = jax.jit(jax.vmap(lambda k: _first_threshold(k, config.samples)))(keys)
    return xr.Dataset(
        {
            "loss": (dims[:3], np.stack(found["loss"])),
            "along": (dims, np.stack(found["along"])[..., order]),
            "eigenvalue": (dims, np.stack(found["eigenvalue"])[..., order]),
            "outcome": (dims[:2], np.stack(found["outcome"])),
            "threshold": ("direction", np.asarray(thresholds)),
            "half_sum": ("direction", np.asarray(2 / eigenvalues)[order]),
            "border": ("direction", np.asarray(border)[order]),
            "rise": rise,
            "spread": ("draw", np.asarray(spread)),
        },
        coords={"model": list(MODELS), "lr": np.asarray(lrs), "name": ("lr", list(NAMES)), "direction": [1, 2]},
    )


def _points(key: jax.Array, samples: int) -> tuple[jax.Array, jax.Array]:
    key_label, key_noise = jax.random.split(key)
    y = jax.random.rademacher(key_label, (samples,)).astype(float)
    return 2 * y + jax.random.normal(key_noise, (samples,)), y


def _eigenvalues(params: TwoLayer, gate: jax.Array, squares: jax.Array) -> jax.Array:
    return sm.slopes_from_weights(params.u[:, 0], params.v, gate[:, 0])[1] * squares


def _first_threshold(key: jax.Array, samples: int) -> jax.Array:
    """n / lambda_1 of a random data set and a wide network: lambda_i = |p_i|^2."""
    return samples / jnp.max(sm.directions(_points(key, samples)[0]).squares)


def _bisect_rise(
    residual: jax.Array, kernel: jax.Array, x: jax.Array, y: jax.Array, config: Config, i: int, near: float
) -> float:
    """Smallest step size on the mean loss after which the first direction's loss has grown, by bisection."""

    @jax.jit
    def rises(lr: jax.Array) -> jax.Array:
        pair, b = sm.reduce_directions(residual, kernel, x, y, sm.half_sum_lr(lr, config.samples, "mean"), config.width)
        outcome = cs.catapult_outcome(pair.a[i], pair.v[i], b[i], steps=400)
        return outcome.peak > 4 * pair.a[i] ** 2

    low, high = 0.01 * near, 1.5 * near
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if bool(rises(middle)) else (middle, high)
    return high


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding | Erratum]:
    start = data.eigenvalue.isel(step=0)
    quad = (data.eigenvalue.isel(step=-1) / start).sel(model="quadratic")
    net = (data.eigenvalue.isel(step=-1) / start).sel(model="network")
    blur = 2 * np.log(config.width) / np.sqrt(config.width)
    yield Finding(
        "sub-critical: both eigenvalues, final over initial",
        predicted=1.0,
        measured=float(quad[0].min()),
        tolerance=Tolerance(0.02, why="lazy drift of order 1/(m (2 - v)) with v = 1.9"),
    )
    yield Finding(
        "between the thresholds: second eigenvalue, final over initial",
        predicted=1.0,
        measured=float(quad[1, 1]),
        tolerance=Tolerance(0.02, why="lazy drift of order 1/(m (2 - v)) with v close to 2"),
    )
    excess = 2 * (float(data.lr[1] / data.threshold[0]) - 1)
    yield Finding(
        "between the thresholds: first eigenvalue, final over initial",
        predicted=float(cs.small_excess_curvature(excess)) / (2 + excess),
        measured=float(quad[1, 0]),
        tolerance=Tolerance(0.25 * blur, why="small-excess series at infinite width; the start adds log m / sqrt m"),
    )
    yield Finding(
        "past both: larger of the two ratios, final over initial",
        predicted=0.95,
        measured=float(quad[2].max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="both eigenvalues fall by more than twice their excess of 0.1"),
    )
    yield Finding(
        "past the border: the quadratic model diverges (outcome 2)",
        predicted=2.0,
        measured=float(data.outcome.sel(model="quadratic")[5]),
        tolerance=Tolerance(0.0, why="2.05 thresholds is past the exact border"),
    )
    yield Finding(
        "exact border over twice the first threshold",
        predicted=1.0,
        measured=float(data.border.min() / (2 * data.threshold[0])),
        tolerance=Tolerance(blur, why="the border is 4/lambda up to order 1/m times |y|^2"),
    )
    yield Finding(
        "network: second eigenvalue between the thresholds, final over initial",
        predicted=1.0,
        measured=float(net[1, 1]),
        tolerance=Tolerance(0.05, why="as for the quadratic model, plus gates that change"),
    )
    yield Finding(
        "network: larger of the two ratios past both thresholds",
        predicted=0.95,
        measured=float(net[2].max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="both eigenvalues fall"),
    )
    yield Finding(
        "the printed first threshold, 0.37, is a draw of n / lambda_1",
        predicted=0.37,
        measured=float(data.spread.mean()),
        tolerance=Tolerance(3 * float(data.spread.std()), why="three standard deviations over random data sets"),
    )
    yield Erratum(
        "first threshold: smallest step size on the mean loss at which it rises",
        printed=r"2/\lambda_1(0)",
        corrected=r"n/\lambda_1(0)",
        printed_value=float(data.half_sum[0]),
        corrected_value=float(data.threshold[0]),
        measured=float(data.rise),
        tolerance=Tolerance(relative=blur / 2, why="log m / sqrt m blurs the threshold at finite width"),
        why="The figure's numbers belong to the loss (1/n) sum r^2; for the half sum of section 3.2 they are 0.006.",
        where="Figures 3.3 and B.1",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(11, 6.2)
    ink = plt.rcParams["text.color"]
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
