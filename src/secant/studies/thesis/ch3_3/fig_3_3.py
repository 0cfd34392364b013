"""Figure 3.3 (and B.1): scalar data, two eigenvalues, two critical step sizes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Probe, Stop, simulate
from secant.lab import Estimate, Figure, Findings, Seeded, Tolerance, claim, fits_memory, options, sheet, study
from secant.studies.shared.two_layer.models import Kind, descent, model
from secant.theory.catapult import scaling as cs
from secant.theory.catapult import several_samples as sm
from secant.theory.regression.quadratic_model import TwoLayer, two_layer_init

MODELS: tuple[Kind, ...] = ("quadratic", "network")
NAMES = ("sub-critical", "between", "past both", "near the border", "past the border")

PRINTED = (0.37, 0.39)
"""The thresholds in the figure."""


class Config(Seeded):
    width: int = options.width(500, 5_000, at_least=200)
    samples: int = options.samples(128, at_least=16)
    steps: int = options.steps(100, 400, 1_000, at_least=100)
    draws: int = options.draws(200, at_least=20, at_most=10**6)

    def check(self) -> None:
        """Refuses what no memory holds."""
        fits_memory(160.0 * self.samples * self.width + 800.0 * self.steps, "width, samples or steps")
        fits_memory(32.0 * self.samples * self.draws, "draws or samples")


@study("thesis/fig-3.3", section="3.3", title="Two thresholds, and whose loss they belong to")
def run(config: Config) -> xr.Dataset:
    r"""A quadratic model of width 5000 learns 128 scalar points, $x \sim \mathcal N(\pm 2, 1)$ with label $\pm 1$.
    Below the first threshold the kernel is nearly constant. Between the two thresholds the loss catapults in $p_1$ and
    only $\lambda_1$ falls. Past both thresholds both eigenvalues fall. The figure gives the thresholds as
    $2/\lambda_1(0) = 0.37$ and $2/\lambda_2(0) = 0.39$. These are the values of $n/\lambda_i(0)$, the thresholds of
    the mean loss $\frac1n\sum_i r_i^2$. For the network itself (figure B.1) the picture is almost the same.

    The data is the first draw whose thresholds are as far apart as in the figure, by a factor of $0.39/0.37$. The
    figure does not give its step sizes. Here they are:

    - one is $\varepsilon = \log m/\sqrt m$ below the first threshold in $\eta\lambda_1$, as in theorem B.3.1;
    - one is in the middle between the two thresholds, and one between the second threshold and the exact border;
    - two are 2 per cent below and above that border.
    """
    key_data, key_net, key_draws = jax.random.split(jax.random.key(config.seed), 3)
    params = two_layer_init(key_net, config.width, 1)
    x, y, split, eigenvalues, residual, kernel, critical, largest = _start(key_data, params, config.samples)
    inputs, n, margin = x[:, None], config.samples, np.log(config.width) / np.sqrt(config.width)
    (c1, c2), end = np.sort(critical), np.min(largest)
    lrs = np.array([(1 - margin / 2) * c1, (c1 + c2) / 2, (c2 + end) / 2, 0.98 * end, 1.02 * end])

    def follow(kind: Kind) -> xr.Dataset:
        outputs = model(kind, params, inputs)

        def loss(p: TwoLayer) -> jax.Array:
            return jnp.mean((outputs(p) - y) ** 2)

        def eigenvalues(p: TwoLayer) -> jax.Array:
            # For scalar inputs the network's kernel has the same form, with its current gates.
            return _eigenvalues(p, params.u if kind == "quadratic" else p.u, split.squares)

        along = Probe(lambda p: split.units @ (outputs(p) - y), dims=("direction",))
        runs = simulate(
            lambda lr: descent(kind, params, inputs, y, lr, scale=1 / n),
            params,
            config.steps,
            over={"lr": lrs},
            probes={"loss": loss, "along": along, "eigenvalue": Probe(eigenvalues, dims=("direction",))},
            stop=Stop(diverged=lambda p: loss(p) > 1e12),
        )
        return runs.dataset[["loss", "along", "eigenvalue", "outcome"]]

    # The exact map follows each direction by itself.
    reduced = jax.jit(jax.vmap(lambda lr: sm.reduce_directions(residual, kernel, x, y, lr, config.width)))
    pairs, b = reduced(sm.half_sum_lr(lrs, n, "mean"))
    exact = jax.jit(partial(cs.catapult_outcome, steps=config.steps))(*pairs, b).curvature
    # n / lambda_1 of random data sets and a wide network, where lambda_i = |p_i|^2.
    first = jax.jit(jax.vmap(lambda key: n / jnp.max(sm.directions(_points(key, n)[0]).squares)))
    by_run = {"exact": np.asarray(exact), "square": np.asarray(pairs.a**2), "bend": np.abs(b)}
    by_direction = {"threshold": critical, "half_sum": 2 / eigenvalues, "border": largest}
    data = xr.concat([follow(kind) for kind in MODELS], "model", join="outer")
    data = data.assign({name: (("lr", "direction"), value) for name, value in by_run.items()})
    data = data.assign({name: ("direction", np.asarray(value)) for name, value in by_direction.items()})
    data = data.assign(spread=("draw", np.asarray(first(jax.random.split(key_draws, config.draws)))))
    # The first direction has the larger eigenvalue.
    data = data.isel(direction=np.argsort(-np.asarray(eigenvalues)))
    return data.assign_coords(model=list(MODELS), name=("lr", list(NAMES)), direction=[1, 2])


def _start(key: jax.Array, params: TwoLayer, samples: int) -> tuple[Any, ...]:
    """The first draw whose thresholds lie as far apart as the printed ones, and both well below the border.

    Data, directions and eigenvalues, residual and kernel of the quadratic model, critical and maximal step sizes.
    """

    @jax.jit
    def draw(number: int, params: TwoLayer) -> tuple[Any, ...]:
        x, y = _points(jax.random.fold_in(key, number), samples)
        split, residual = sm.directions(x), model("quadratic", params, x[:, None])(params) - y
        eigenvalues = _eigenvalues(params, params.u, split.squares)
        kernel = sm.kernel_from_slopes(x, eigenvalues / split.squares)
        largest = sm.max_lr_samples(residual, kernel, x, y, len(params.v), "mean")
        return x, y, split, eigenvalues, residual, kernel, sm.critical_lrs(eigenvalues, samples, "mean"), largest

    for number in range(1_000):
        found = draw(number, params)
        if PRINTED[1] / PRINTED[0] <= np.max(found[3]) / np.min(found[3]) <= 1.5:
            return found
    raise ValueError(f"samples: no draw of {samples} points has two close thresholds. Use more samples.")


def _points(key: jax.Array, samples: int) -> tuple[jax.Array, jax.Array]:
    key_label, key_noise = jax.random.split(key)
    y = jax.random.rademacher(key_label, (samples,)).astype(float)
    return 2 * y + jax.random.normal(key_noise, (samples,)), y


def _eigenvalues(params: TwoLayer, gate: jax.Array, squares: jax.Array) -> jax.Array:
    return sm.slopes_from_weights(params.u[:, 0], params.v, gate[:, 0])[1] * squares


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    ratio = data.eigenvalue.isel(step=-1) / data.eigenvalue.isel(step=0)
    v = 2 * data.lr / data.threshold * ratio  # eta lambda at the end, for the half sum
    settled = data.outcome.sel(model="quadratic") != Outcome.DIVERGED
    gap = np.abs(v.sel(model="quadratic") - data.exact).isel(lr=[0, 1, 2])
    name = r"quadratic: largest difference of the final $\eta\lambda_i$ from the exact map of each direction"
    why = "rounding, which a catapult amplifies; near the border it is chaotic"
    yield claim("exact-map", name).zero(gap.max(), 1e-6, why)
    # The drift that theorem B.3.1 allows at its own distance from the edge, as a share of eta lambda.
    m, margin = config.width, np.log(config.width) / np.sqrt(config.width)
    start, pull = data.square * m, data.bend * np.sqrt(m)
    lazy = 8 * (start + pull * np.sqrt(start)) / (m * margin) * data.threshold / (2 * data.lr)
    drift, flips = (
        r"the drift that theorem B.3.1 allows $\log m/\sqrt m$ from the edge",
        "neurons that switch on or off",
    )
    for kind, why in zip(MODELS, (drift, f"{drift}, and {flips}"), strict=True):
        own, end = ratio.sel(model=kind), v.sel(model=kind)
        # A step moves the inner weights by a v. They are Gaussian: up to a / sqrt(2 pi) of them change their sign.
        size = np.abs(data.along.sel(model=kind))
        moves = np.sqrt(data.square) * size.max("step") / size.isel(step=0)
        moved = (kind == "network") * moves.max("direction") / np.sqrt(2 * np.pi)
        furthest = own[0, int(np.argmax(np.abs(own[0].values - 1)))]
        name = f"{kind}, sub-critical: final over initial eigenvalue, furthest from one"
        yield claim(f"{kind}-below", name).equal(1.0, furthest, lazy[0].max() + moved[0], why)
        name = f"{kind}, between the thresholds: second eigenvalue, final over initial"
        yield claim(f"{kind}-second", name).equal(1.0, own[1, 1], lazy[1, 1] + moved[1], why)
        for key, name, value in (
            ("first", r"between the thresholds: $\eta\lambda_1$ at the end", end[1, 0]),
            ("past", r"past both: larger $\eta\lambda_i$ at the end", end[2].max()),
        ):
            below = claim(f"{kind}-{key}", f"{kind}, {name}")
            yield below.at_most(2.0, value, "a catapult ends below the edge; it began above")
    ends = float(settled[3]) + float(~settled[4])
    name = "quadratic: runs 2 per cent below and past the exact border that end as they should"
    yield claim("border", name).equal(2.0, ends, 0, "the border is exact")
    mean = Estimate(float(data.spread.mean()), float(data.spread.std(ddof=1)), config.draws - 1)
    name = r"the printed first threshold is a draw of $n/\lambda_1$: the mean of all draws"
    yield claim("printed", name).equal(PRINTED[0], mean, 0, "the spread of single draws")
    # Where gradient descent on the mean loss begins to raise the loss along the first direction.
    along, (low, high) = np.abs(data.along.sel(model="quadratic", direction=1)), data.lr.values[:2]
    threshold = claim("threshold", "first threshold: step size on the mean loss at which it begins to rise")
    rises = along.max("step") > along.isel(step=0) * (1 + 1e-9)
    if rises[0] or not rises[1]:
        yield threshold.undecided(data.threshold[0], "the first two step sizes do not bracket it")
        return
    printed, right = (r"2/\lambda_1(0)", data.half_sum[0]), (r"n/\lambda_1(0)", data.threshold[0])
    note = r"The printed numbers belong to the loss $\frac1n\sum r^2$; the half sum of section 3.2 has 0.006."
    near = Tolerance((high - low) / 2, why="half the distance of a step where the loss falls from one where it rises")
    yield threshold.erratum(printed, right, (low + high) / 2, near, note=note, where="Figures 3.3 and B.1")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    rows = sheet.panels(figure, (11, 6.2), 3, 2, sharex=True, sharey="col")
    first = data.isel(step=slice(0, 61))
    loss = first.loss.where(first.loss < 1e6)
    ratio = (first.eigenvalue / first.eigenvalue.isel(step=0)).where(loss.notnull())
    for row, kind, title in zip(rows, MODELS, ("Quadratic model", "ReLU network"), strict=True):
        for i, lr in enumerate(data.lr.values):
            one = {"model": kind, "lr": lr}
            row[0].semilogy(loss.sel(one), color=f"C{i}", label=rf"$\eta = {lr:.3f}$, {NAMES[i]}")
            for panel, direction in zip(row[1:], (1, 2), strict=True):
                panel.plot(ratio.sel(one | {"direction": direction}), color=f"C{i}")
        sheet.label(row[0], f"{title}: loss", y=r"$\frac{1}{n}\sum_i r_i^2$", ylim=(0.05, 1e6))
        for i, name in ((1, "first"), (2, "second")):
            sheet.label(row[i], f"{name} eigenvalue", y=rf"$\lambda_{i}(t)/\lambda_{i}(0)$", ylim=(0, 1.3))
    for panel in rows[1]:
        panel.set_xlabel("step")
    rows[0][0].legend(fontsize=7, loc="upper right")
    text = rf"thresholds $n/\lambda_i(0)$: {float(data.threshold[0]):.3f}, {float(data.threshold[1]):.3f}"
    rows[1][0].text(0.98, 0.93, text, transform=rows[1][0].transAxes, ha="right", fontsize=8, color=sheet.ink())
