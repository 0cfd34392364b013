"""Theorem 2.3.6: the Hessian of an output falls with the width, unless something in the network stays narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.curvature import output_hessian
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.linalg.norm import Norm, spectral_norm
from secant.nets import Graph, Network, graphs
from secant.nets.network import Params
from secant.theory.power_law import PowerLaw, fit_power_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LANCZOS = 32
"""Products with the Hessian that a norm may cost."""


class Kind(NamedTuple):
    """An architecture: what it is called, how it is made, and whether it turns linear."""

    name: str
    make: Callable[[int, int, jax.Array], Network]
    claim: str


def _graph(make: Callable[[int, int, jax.Array], Graph]) -> Callable[[int, int, jax.Array], Network]:
    return lambda m, d, key: nets.dag(make(m, d, key), "tanh")


def _fully_connected(m: int, d: int, key: jax.Array) -> Graph:
    return graphs.fully_connected(d, [m, m])


KINDS = {
    "fcn": Kind("fully connected", _graph(_fully_connected), "falls"),
    "densenet": Kind("DenseNet", _graph(lambda m, d, key: graphs.densenet(d, [m, m], concat_input=False)), "falls"),
    "resnet": Kind("skip connections", _graph(lambda m, d, key: graphs.skip(_fully_connected(m, d, key))), "falls"),
    "cnn": Kind("1-D convolutions", _graph(lambda m, d, key: graphs.convolutional(d, [m, m])), "falls"),
    "random": Kind("random graph", _graph(lambda m, d, key: graphs.random(key, d, [m, m], in_degree=m)), "falls"),
    "two": Kind(
        "two bottleneck neurons",
        _graph(lambda m, d, key: graphs.bottleneck_neurons(_fully_connected(m, d, key), layer=2, count=2)),
        "falls still",
    ),
    "layer": Kind("bottleneck layer", _graph(lambda m, d, key: graphs.fully_connected(d, [m, 2, m])), "stays"),
    "output": Kind(
        "nonlinear output",
        lambda m, d, key: nets.mlp([m, m], activation="tanh", output_activation="swish"),
        "stays",
    ),
}


@dataclass(frozen=True)
class Config:
    """Widths, networks and the input."""

    widths: tuple[int, ...] = scaled(
        smoke=(64, 256), laptop=(64, 128, 256, 512, 1_024), paper=(64, 128, 256, 512, 1_024, 2_048, 4_096), at_least=8,
        help="neurons a layer, increasing",
    )  # fmt: skip
    seeds: int = scaled(smoke=4, laptop=4, paper=10, at_least=2, help="random networks of each kind and width")
    dim: int = option(8, at_least=2, help="input dimension")
    size: float = option(
        0.5, above=0, help="root mean square of the input; the blocks with a logarithm are quadratic in it"
    )
    seed: int = option(0, help="random seed")


@study(
    "thesis/thm-2.3.6",
    section="2.3",
    title="Wide networks turn linear",
    statement=r"""
    For a feedforward network on any directed acyclic graph whose neurons from layer 2 on have in-degree at least
    $m$, with smooth activations and linear outputs, the Hessian of every output in the weights satisfies
    $\|H_f\| = \tilde O(1/\sqrt m)$ in a ball around the random start: the network transitions to linearity. This
    covers fully connected and dense networks and random graphs, and extends to skip connections (Theorem A.4.1)
    and shared weights (Theorem A.5.1). A few bottleneck neurons do not break it. A bottleneck layer does, and so
    does a nonlinear activation of the output: then $\|H_f\| = \Theta(1)$.

    All networks here have two hidden layers of width $m$ and tanh activations, and are measured at the start. The
    logarithms in $\tilde O$ come from the largest of $m$ Gaussian weights, which multiplies blocks quadratic in the
    input; the input is small enough to keep these behind the others.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    key_input, key_graph, key_weights = jax.random.split(jax.random.key(config.seed), 3)
    x = jax.random.normal(key_input, (1, config.dim))
    x = config.size * np.sqrt(config.dim) * x / jnp.linalg.norm(x)
    norms, errors = np.empty((2, len(KINDS), len(config.widths), config.seeds))
    degrees = np.empty((len(KINDS), len(config.widths)))
    for i, kind in enumerate(KINDS.values()):
        for j, width in enumerate(config.widths):
            net = kind.make(width, config.dim, jax.random.fold_in(key_graph, width))
            keys = jax.random.split(jax.random.fold_in(key_weights, j), config.seeds)
            norms[i, j], errors[i, j] = _norms(net, x, keys)
            degrees[i, j] = net.facts.get("width", width)
    return xr.Dataset(
        {
            "norm": (("kind", "width", "network"), norms, {"long_name": "spectral norm of the output's Hessian"}),
            "residual": (("kind", "width", "network"), errors, {"long_name": "residual of its eigenvector"}),
            "degree": (("kind", "width"), degrees, {"long_name": "smallest in-degree from layer 2 on"}),
        },
        coords={"kind": list(KINDS), "width": list(config.widths)},
    )


def _norms(net: Network, x: jax.Array, keys: jax.Array) -> np.ndarray:
    """Spectral norm of the output's Hessian at each of some random starts, with its residual, `(2, starts)`."""

    # `output_hessian(...).top(1, which="magnitude")` would do as well; this compiles in a fifth of the time.
    @jax.jit
    def norm(params: Params, start: jax.Array) -> Norm:
        return spectral_norm(output_hessian(net.apply, params, x).flat_product(), start, LANCZOS)

    found = []
    for key in keys:
        params = net.init(key, x.shape)
        start = np.random.default_rng(0).normal(size=nets.count_parameters(params))
        found.append(norm(params, start.astype(np.float32)))
    return np.array(found).T


def _law(data: xr.Dataset, kind: str) -> PowerLaw:
    return fit_power_law(data.width, data.norm.sel(kind=kind).transpose("width", "network"))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    logs = "a maximum of m Gaussian weights, sqrt(2 log m), adds 1/(2 log m) = 0.1 to the exponent; half of that again"
    laws = {kind: _law(data, kind) for kind in KINDS}
    for kind, law in laws.items():
        if KINDS[kind].claim == "falls":
            yield Finding(
                f"{KINDS[kind].name}: exponent of the Hessian's norm in the width",
                predicted=-0.5,
                measured=law.exponent,
                relation="at most",
                tolerance=Tolerance(0.15, why=logs),
                uncertainty=law.error,
            )
    steepest = min((kind for kind in KINDS if KINDS[kind].claim == "falls"), key=lambda kind: laws[kind].exponent)
    yield Finding(
        f"the rate is sharp: steepest exponent of these, {KINDS[steepest].name}",
        predicted=-0.5,
        measured=laws[steepest].exponent,
        relation="at least",
        tolerance=Tolerance(0.3, why="a rate of 1/m would be -1; the middle between both, and sampling error"),
        uncertainty=laws[steepest].error,
    )
    yield Finding(
        "two bottleneck neurons: exponent",
        predicted=-0.5,
        measured=laws["two"].exponent,
        relation="at most",
        tolerance=Tolerance(0.25, why="two of m neurons fluctuate by order one; half way to no decay"),
        uncertainty=laws["two"].error,
    )
    for kind in ("layer", "output"):
        yield Finding(
            f"{KINDS[kind].name}: exponent",
            predicted=0.0,
            measured=laws[kind].exponent,
            tolerance=Tolerance(
                0.2, why="the part that still falls as 1/sqrt(m) is a fraction of the norm at width 64"
            ),
            uncertainty=laws[kind].error,
        )

    yield Finding(
        "residual of the leading eigenvector over the norm: largest",
        predicted=0.0,
        measured=float((data.residual / data.norm).max()),
        tolerance=Tolerance(0.05, why="an eigenvalue lies within the residual; it moves no exponent by more than 0.04"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(11, 4.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.9))
    ink, faint = plt.rcParams["text.color"], plt.rcParams["grid.color"]
    panels = {"falls": left, "falls still": middle, "stays": middle}
    for i, (kind, facts) in enumerate(KINDS.items()):
        axes, color = panels[facts.claim], f"C{i}"
        logs = np.log(data.norm.sel(kind=kind))
        mean, error = logs.mean("network"), logs.std("network", ddof=1)
        axes.errorbar(
            data.width, np.exp(mean), [np.exp(mean) - np.exp(mean - error), np.exp(mean + error) - np.exp(mean)],
            fmt="o", ms=5, lw=1, capsize=2, color=color, label=facts.name,
        )  # fmt: skip
        law = _law(data, kind)
        axes.plot(data.width, law(data.width), color=color, lw=1.2)
        right.errorbar(law.exponent, -i, xerr=2 * law.error, fmt="o", color=color, ms=6, capsize=3, lw=1.5)
    guide = 0.6 * float(data.norm.sel(kind="cnn").isel(width=0).mean()) * (data.width / data.width[0]) ** -0.5
    left.plot(data.width, guide, "--", color=ink, lw=1.2)
    left.annotate(r"$1/\sqrt{m}$", (float(data.width[0]), 0.7 * float(guide[0])), color=ink, va="top")
    for axes, title in ((left, "Wide everywhere"), (middle, "Narrow, or bent at the end")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(data.width.values, [str(w) for w in data.width.values])
        axes.minorticks_off()
        low, high = axes.get_ylim()
        ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0) if low <= t <= high]
        axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axes.set(title=title, xlabel="width $m$")
    left.set_ylabel(r"$\|H_f\|$")
    left.legend(fontsize=8, loc="upper right")
    middle.legend(fontsize=8, loc="lower left")
    right.axvline(-0.5, ls="--", color=ink, lw=1.2)
    right.axvline(0, ls="--", color=ink, lw=1.2)
    right.axvspan(-0.8, -0.35, color=faint, alpha=0.3, lw=0)
    right.set_yticks([-i for i in range(len(KINDS))], [facts.name for facts in KINDS.values()])
    right.yaxis.tick_right()
    right.tick_params(axis="y", length=0)
    right.set(title="Exponents", xlabel=r"$\alpha$ in $\|H_f\| \propto m^\alpha$", xlim=(-0.85, 0.35))
