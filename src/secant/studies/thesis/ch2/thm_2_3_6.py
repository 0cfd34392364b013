"""Theorem 2.3.6: the Hessian of an output falls with the width, unless a whole layer of the network stays narrow."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.types import Params
from secant.lab import Figure, Findings, Tolerance, claims, scaled, sheet, study
from secant.linalg.norm import Norm
from secant.nets.graphs.network import graph_of
from secant.setups.width import (
    COPIES,
    KINDS,
    Kind,
    WidthConfig,
    direction,
    drawn,
    edge_factors,
    exponent,
    hessian_norm,
    law,
    logarithm,
    mark_widths,
    next_order,
    one_input,
    refuse_oversized,
    resolved,
    stacked,
)


@dataclass(frozen=True)
class Config(WidthConfig):
    """Widths, networks and the input."""

    dim: int = scaled(
        smoke=2, laptop=8, at_least=2, at_most=10_000,
        help="input dimension; neurons of a random graph also read inputs, which do not bend",
    )


@study(
    "thesis/thm-2.3.6", section="2.3", title="Wide networks turn linear",
    statement=r"""
    For a feedforward network on any directed acyclic graph whose neurons from layer 2 on have in-degree at least
    $m$, with smooth activations and linear outputs, the Hessian of every output in the weights satisfies
    $\|H_f\| = \tilde O(1/\sqrt m)$ in a ball around the random start: the network transitions to linearity. This
    covers fully connected and dense networks and random graphs, and extends to skip connections (Theorem A.4.1)
    and shared weights (Theorem A.5.1). A few bottleneck neurons do not break it. A bottleneck layer does, until the
    neurons behind it also read a wide layer (section 2.3); a nonlinear activation of the output does too: then
    $\|H_f\| = \Theta(1)$.

    All networks here have two hidden layers of width $m$ and tanh activations, and are measured at the start. The
    logarithms in $\tilde O$ come from the largest of $m$ Gaussian weights, which multiplies blocks quadratic in the
    input; the input is small enough to keep these behind the others.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    key_input, key_graph = jax.random.split(jax.random.key(config.seed))
    for kind in KINDS.values():
        refuse_oversized(
            "thesis/thm-2.3.6", kind.by_width(config.dim, key_graph), config.dim, config.widths,
            copies=COPIES + config.seeds * (1 if kind.graph is None else 2),  # all networks, and their edges
        )
    x = one_input(key_input, config.dim, config.size)
    norms, errors = np.empty((2, len(KINDS), len(config.widths), config.seeds))
    for i, kind in enumerate(KINDS.values()):
        for j, width in enumerate(config.widths):
            norms[i, j], errors[i, j] = _norms(kind, width, x, jax.random.fold_in(key_graph, j), config)
    return xr.Dataset(
        {
            "norm": (("kind", "width", "network"), norms, {"long_name": "spectral norm of the output's Hessian"}),
            "residual": (("kind", "width", "network"), errors, {"long_name": "residual of its eigenvector"}),
        },
        coords={"kind": list(KINDS), "width": list(config.widths)},
    )


def _norms(kind: Kind, width: int, x: jax.Array, key: jax.Array, config: Config) -> np.ndarray:
    """Spectral norm of the Hessian of every network of a kind at its start, with its residual, `(2, networks)`."""
    net = kind.make(width, config.dim, key)
    networks = drawn(net, x, (config.seed, width), config.seeds)
    factors = None
    if kind.graph is not None:
        others = (kind.graph(width, config.dim, k) for k in jax.random.split(key, config.seeds))
        factors = stacked([edge_factors(graph, graph_of(net)) for graph in others])

    @jax.jit
    def measure(networks: Params, factors: Params | None, x: jax.Array, start: jax.Array) -> Norm:
        def one(network: tuple[Params, Params | None]) -> Norm:
            params, factor = network

            def outputs(params: Params, x: jax.Array) -> jax.Array:
                return net.apply(params if factor is None else jax.tree.map(jnp.multiply, params, factor), x)

            return hessian_norm(outputs, params, x, start)

        return jax.lax.map(one, (networks, factors))

    return np.array(measure(stacked(networks), factors, x, direction(networks[0])))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for kind, facts in KINDS.items():
        found = exponent(data.norm.sel(kind=kind))
        if facts.claim == "stays":
            yield claims.at_least(
                f"{facts.name}: exponent of the Hessian's norm in the width, nearer to 0 than to -1/2", -0.25, found,
                "half way from no decay to 1/sqrt(m)",
            )
        else:
            yield claims.at_most(
                f"{facts.name}: exponent of the Hessian's norm in the width", -0.5, found,
                slack=logarithm(config.widths) if facts.graph is None else _random_graph(config),
            )
    yield claims.at_least(
        "the rate is attained: exponent of the fully connected network", -0.5, exponent(data.norm.sel(kind="fcn")),
        slack=next_order(config.widths, 0.5),
    )
    yield resolved(data)


def _random_graph(config: Config) -> Tolerance:
    """Of what a neuron of a random graph reads, the share m/(m + d) is hidden neurons, and the rest does not bend."""
    first, last = config.widths[0], config.widths[-1]
    hidden = np.log((last / (last + config.dim)) / (first / (first + config.dim))) / np.log(last / first)
    logs = logarithm(config.widths)
    return Tolerance(logs.absolute + hidden, why=f"{logs.why}, and fewer inputs among what neurons read by the rest")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.8), 3, width_ratios=(1, 1, 0.9))
    ink, faint = sheet.ink(), sheet.faint()
    panels = {"falls": left, "falls still": middle, "stays": middle}
    for i, (kind, facts) in enumerate(KINDS.items()):
        axes, color = panels[facts.claim], f"C{i}"
        logs = np.log(data.norm.sel(kind=kind))
        mean, error = logs.mean("network"), logs.std("network", ddof=1)
        axes.errorbar(
            data.width, np.exp(mean), [np.exp(mean) - np.exp(mean - error), np.exp(mean + error) - np.exp(mean)],
            fmt="o", ms=5, lw=1, capsize=2, color=color, label=facts.name,
        )  # fmt: skip
        found = law(data.norm.sel(kind=kind))
        axes.plot(data.width, found(data.width), color=color, lw=1.2)
        right.errorbar(found.exponent, -i, xerr=2 * found.error, fmt="o", color=color, ms=6, capsize=3, lw=1.5)
    guide = 0.6 * float(data.norm.sel(kind="cnn").isel(width=0).mean()) * (data.width / data.width[0]) ** -0.5
    left.plot(data.width, guide, "--", color=ink, lw=1.2)
    left.annotate(r"$1/\sqrt{m}$", (float(data.width[0]), 0.7 * float(guide[0])), color=ink, va="top")
    for axes, title in ((left, "Wide everywhere"), (middle, "Narrow, or bent at the end")):
        mark_widths(axes, data.width)
        axes.set_title(title)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    left.set_ylabel(r"$\|H_f\|$")
    right.axvline(-0.5, ls="--", color=ink, lw=1.2)
    right.axvline(0, ls="--", color=ink, lw=1.2)
    right.axvspan(-0.5, -0.5 + logarithm(config.widths).absolute, color=faint, alpha=0.3, lw=0)
    right.set_yticks([-i for i in range(len(KINDS))], [facts.name for facts in KINDS.values()])
    right.yaxis.tick_right()
    right.tick_params(axis="y", length=0)
    right.set(title="Exponents", xlabel=r"$\alpha$ in $\|H_f\| \propto m^\alpha$", xlim=(-0.85, 0.35))
