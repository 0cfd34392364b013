"""Figure 4.5: with one sample a step, the loss spikes where the step is too large for that sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import erf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.data import sphere
from secant.dynamics import Batches, Map, Probe, gradient_descent, simulate
from secant.dynamics.batches import BatchState, on_batches
from secant.lab import Finding, Tolerance, option, scaled, study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 0.2
"""A residual of the longer sample so small has nothing to catapult: its first rise drowns in those of other steps."""


@dataclass(frozen=True)
class Config:
    """Network, data and step size."""

    width: int = scaled(smoke=1_000, laptop=10_000, paper=10_000, at_least=8, help="hidden neurons")
    samples: int = scaled(smoke=40, laptop=100, paper=100, at_least=3, help="training samples")
    dim: int = scaled(smoke=40, laptop=100, paper=100, at_least=2, help="features")
    length: float = option(2.0, above=1, help="by how much one sample is longer, in input and target")
    lr: float = option(0.9, above=0, help="step size, between the critical ones of that sample and of the others")
    epochs: int = scaled(smoke=3, laptop=6, paper=6, at_least=1, help="passes over the data")
    draws: int = scaled(smoke=4, laptop=8, paper=100, at_least=2, help="draws of data, weights and order")
    seed: int = option(0, at_least=0, help="of the first draw")


class Draw(NamedTuple):
    """One draw; the longer sample is the first."""

    seed: Any
    u: Any
    v: Any
    x: Any
    y: Any


@study(
    "thesis/fig-4.5",
    section="4.3.2",
    title="The loss spikes at one sample",
    statement=r"""
    A wide two-layer ReLU network $f(x) = m^{-1/2}\sum_i v_i\,\mathrm{relu}(u_i^\top x)$ with fixed signs $v$ learns
    $y = 1$ on 100 points of the unit sphere, one of which, $(x^*, y^*)$, is doubled. Stochastic gradient descent sees
    one sample a step, whose critical step size is
    $$\eta_{\mathrm{crit}}(x) = \frac1{K(x, x)} \approx \frac2{\|x\|^2}:$$
    $\frac12$ for $x^*$ and 2 for all others. With a constant step between the two, the training loss has a spike
    exactly where the gradient is taken on $x^*$ (figure 4.5).

    Exactly so for the loss of the sample itself, which rises at a step if and only if the step is above its critical
    size. The loss of all samples also rises a little at many other steps, because fitting one sample moves the
    outputs on all others; the claim about it is one about its largest rises.

    Each visit multiplies the residual of $x^*$ by $1 - 2\eta/\eta_{\mathrm{crit}}(x^*) \approx -2.6$ until it is of
    order $\sqrt m$; then gates turn, $K(x^*, x^*)$ falls below $1/\eta$ and the catapult is over. What is claimed is
    judged up to there.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    samples, root = config.samples, np.sqrt(config.width)

    def draw(seed: int) -> Draw:
        # Weights are drawn on the host: nothing is compiled for them.
        random = np.random.default_rng(seed)
        x, y = sphere(jax.random.key(seed), samples=samples, dim=config.dim, scale=config.length)
        u = random.normal(size=(config.dim, config.width)).astype(np.float32)
        return Draw(np.uint32(seed), u, random.choice([-1, 1], config.width).astype(np.float32), x, y)

    def loss(u: Any, v: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ u) @ v / root - y) ** 2)

    def system(draw: Draw) -> Map:
        def of_batch(u: Any, x: Any, y: Any) -> Any:
            return loss(u, draw.v, x, y)

        batches = Batches(1, seed=draw.seed)
        return on_batches(of_batch, draw.x, draw.y, batches, lambda of: gradient_descent(of, config.lr))

    def look(state: BatchState, draw: Draw) -> dict[str, Any]:
        inner = draw.x @ state.inner
        share = (inner > 0).mean(axis=1)
        return {
            "value": jax.nn.relu(inner) @ draw.v / root - draw.y,
            "kernel": (draw.x**2).sum(axis=1) * share,
            "visited": Batches(1, seed=draw.seed).indices(samples, state.step)[0],
        }

    draws = [draw(seed) for seed in range(config.seed, config.seed + config.draws)]
    found = simulate(
        system,
        lambda draw: draw.u,
        config.epochs * samples,
        probes={"residual": Probe(look, dims=("sample",), whole=True)},
        over={"draw": jax.tree.map(lambda *leaves: np.stack(leaves), *draws)},
        label="one sample a step",
    ).dataset
    kernel, visited = found.residual_kernel.values, found.residual_visited.values
    residual = found.residual.values
    steps = np.arange(config.epochs * samples + 1)
    own = np.take_along_axis(residual, visited[..., None], axis=2)[..., 0]
    # After the last step there is no next one; the sample of each step, before it and after it.
    after = np.take_along_axis(residual[:, 1:], visited[:, :-1, None], axis=2)[..., 0]
    dims, made = ("draw", "step"), ("draw", "made")
    return xr.Dataset(
        {
            "loss": (dims, (residual**2).mean(axis=2)),
            "visited": (made, visited[:, :-1]),
            "critical": (made, 1 / np.take_along_axis(kernel, visited[..., None], axis=2)[:, :-1, 0]),
            "before": (made, own[:, :-1] ** 2),
            "after": (made, after**2),
            "start": (("draw", "sample"), 1 / kernel[:, 0]),
            "first": ("draw", residual[:, 0, 0]),
        },
        coords={"step": steps, "made": steps[:-1]},
    )


def until_gates_turn(data: xr.Dataset, config: Config) -> np.ndarray:
    r"""Steps before the first visit that finds a residual of $\sqrt m/(2\eta\|x^*\|)$ or more, `(draw, made)`.

    From there on a visit moves the longer sample's pre-activations, Gaussian of standard deviation $\|x^*\|$, by
    $2\eta|r|\|x^*\|^2/\sqrt m$, as much as that or more: gates turn within the step, and the catapult ends.
    """
    limit = np.sqrt(config.width) / (2 * config.lr * config.length)
    late = (data.visited == 0) & (data.before >= limit**2)
    return np.cumsum(late.transpose("draw", "made").values, axis=1) == 0


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    lengths = np.array([config.length] + [1.0] * (config.samples - 1))
    # The largest of so many Gaussian deviations of the share of active neurons, relative to one half.
    most_of_all = np.sqrt(2 * np.log(config.samples * config.draws) + 6) / np.sqrt(config.width)
    yield Finding(
        "critical steps of single samples over 2/|x|^2: largest difference from 1",
        predicted=0.0,
        measured=float(np.abs(data.start * lengths**2 / 2 - 1).max()),
        tolerance=Tolerance(
            most_of_all, why="the share of active neurons is a mean of m coin flips; the most of all draws"
        ),
    )
    data = data.transpose("draw", ...)
    early = until_gates_turn(data, config)
    visits, over = data.visited.values == 0, data.critical.values < config.lr
    yield Finding(
        "steps above the critical one of their sample that are not visits to the longer one, and the reverse",
        predicted=0.0,
        measured=float((early & (over != visits)).sum()),
        tolerance=Tolerance(0.0, why="the step size lies between the two critical ones, four times apart"),
    )
    own = (data.after > data.before).values
    for name, given, then in (
        ("steps above it at which the sample's own loss rises", over, own),
        ("rises of a sample's own loss that are at such steps", own, over),
    ):
        yield Finding(
            f"share of {name}",
            predicted=1.0,
            measured=float((early & given & then).sum() / (early & given).sum()),
            tolerance=Tolerance(0.0, why="|1 - 2 eta / eta_crit| exceeds 1 on one side of it only"),
        )
    rise = np.diff(data.loss.values, axis=1)
    least = np.where(early & visits, rise, np.inf).min(axis=1)
    most = np.where(early & ~visits, rise, -np.inf).max(axis=1)
    up, counted = int((early & (rise > 0)).sum()), int((early & visits).sum())
    spread = config.length / sqrt(2)
    unlucky = (erf((SMALL - config.length) / spread / sqrt(2)) - erf((-SMALL - config.length) / spread / sqrt(2))) / 2
    slack = unlucky + 3 * sqrt(unlucky * (1 - unlucky) / config.draws)
    yield Finding(
        "share of draws in which the largest rises of the loss are the visits",
        predicted=1.0,
        measured=float((least > most).mean()),
        relation="at least",
        tolerance=Tolerance(
            slack, why=f"a start may fit the longer sample already, to {SMALL}: f(x*) is Gaussian of variance |x*|^2/2"
        ),
        note=f"{counted} visits and {up:,} rises of any size in {int(early.sum()):,} steps: {counted / up:.0%} of the"
        f" rises. The largest at another step is {float(np.median(most / least)):.2g} of the smallest at a visit, the"
        " median over draws",
    )
    yield Finding(
        "share of visits at which the loss rises",
        predicted=1.0,
        measured=float((rise > 0)[early & visits].mean()),
        relation="at least",
        tolerance=Tolerance(slack, why="the same starts"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    figure.set_size_inches(10.5, 4)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    one = data.isel(draw=0)
    visits = one.made.values[one.visited.values == 0]
    left.semilogy(one.step, one.loss, color="C0", lw=1.3, label="all samples")
    left.semilogy(visits + 1, one.loss.values[visits + 1], "o", color="C1", ms=6, label=r"after a step on $x^*$")
    left.set_xlabel("step")
    left.set_ylabel(r"loss $\mathcal{L}$")
    left.set_title("One draw", loc="left")
    left.margins(y=0.12)
    left.legend(loc="lower right")
    rise = np.diff(data.loss.transpose("draw", "step").values, axis=1)
    at = data.visited.transpose("draw", "made").values == 0
    bins = np.geomspace(1e-7, max(float(rise.max()) * 1.5, 1e-6), 40)
    right.hist(rise[~at & (rise > 0)], bins, color="C0", alpha=0.85, label="at another sample")
    right.hist(rise[at], bins, color="C1", alpha=0.9, label=r"at $x^*$")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel(r"rise of the loss, $\mathcal{L}_{t+1} - \mathcal{L}_t > 0$")
    right.set_ylabel("steps")
    right.set_title(f"All {config.draws} draws", loc="left")
    right.set_ylim(0.7, 20 * right.get_ylim()[1])  # room for the legend
    right.legend(loc="upper right")
