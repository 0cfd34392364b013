"""Theorem 2.3.6: the Hessian of an output falls with the width, unless a whole layer of the network stays narrow."""

import functools
from collections.abc import Callable

import jax
import numpy as np
import xarray as xr

from secant.core.types import Params
from secant.lab import Figure, Findings, Tolerance, claim, options, sheet, study
from secant.linalg.norm import Norm
from secant.nets import Network
from secant.nets.graphs.network import graph_of
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.parts import edge_factors, part


class Config(wide.WidthConfig):
    dim: int = options.dim(2, 8, at_least=2, at_most=10_000)


@study("thesis/thm-2.3.6", section="2.3", title="Wide networks turn linear", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""For a feedforward network on any directed acyclic graph whose neurons from layer 2 on have in-degree at least
    $m$, with smooth activations and linear outputs, the Hessian of every output in the weights satisfies
    $\|H_f\| = \tilde O(1/\sqrt m)$ in a ball around the random start: the network transitions to linearity. This
    covers fully connected and dense networks and random graphs, and extends to skip connections (Theorem A.4.1)
    and shared weights (Theorem A.5.1). A few bottleneck neurons do not prevent the transition. A bottleneck layer
    does, until the neurons behind it also read a wide layer (section 2.3). A nonlinear activation of the output
    does too: then $\|H_f\| = \Theta(1)$.

    All networks here have two hidden layers of width $m$ and tanh activations, and are measured at the start. The
    logarithms in $\tilde O$ come from the largest of $m$ Gaussian weights. It multiplies blocks that are quadratic in
    the input. The input is so small that these blocks stay behind the others.
    """
    key_input, key_graph = jax.random.split(jax.random.key(config.seed))
    for kind in wide.KINDS.values():
        make = kind.by_width(config.dim, key_graph)
        copies = wide.COPIES + config.draws * (1 if kind.graph is None else 2)  # the networks and their edges
        wide.refuse_oversized("thesis/thm-2.3.6", make, config.dim, config.widths, copies=copies)
    x = wide.one_input(key_input, config.dim, config.size)
    keys = [jax.random.fold_in(key_graph, j) for j in range(len(config.widths))]
    found = [
        [_norms(kind, width, x, key, config) for width, key in zip(config.widths, keys, strict=True)]
        for kind in wide.KINDS.values()
    ]
    norms, errors = np.moveaxis(np.array(found, float), 2, 0)
    dims = "kind", "width", "network"
    data = {
        "norm": (dims, norms, {"long_name": "spectral norm of the output's Hessian"}),
        "residual": (dims, errors, {"long_name": "residual of its eigenvector"}),
    }
    return xr.Dataset(data, coords={"kind": list(wide.KINDS), "width": list(config.widths)})


@functools.lru_cache(maxsize=16)
def _measured(make: Callable[..., Network], width: int, dim: int) -> tuple[Network, Callable[..., Norm]]:
    """A network, and a compiled function: the norms of the Hessians of several such networks, or of their parts."""
    net = make(width, dim, jax.random.key(0))

    def measure(networks: Params, factors: Params | None, x: jax.Array, start: jax.Array) -> Norm:
        def one(network: tuple[Params, Params | None]) -> Norm:
            params, factor = network

            def outputs(params: Params, x: jax.Array) -> jax.Array:
                return net.apply(params if factor is None else part(params, factor), x)

            return wide.hessian_norm(outputs, params, x, start)

        return jax.lax.map(one, (networks, factors))

    return net, jax.jit(measure)


def _norms(kind: wide.Kind, width: int, x: jax.Array, key: jax.Array, config: Config) -> np.ndarray:
    """Spectral norm of the Hessian of every network of a kind at its start, with its residual, `(2, networks)`."""
    if kind.graph is None or kind.whole is None:
        net, measure = _measured(kind.make, width, config.dim)
        factors = None
    else:
        net, measure = _measured(kind.whole, width, config.dim)
        keys = jax.random.split(key, config.draws) if kind.random else [key]
        found = [edge_factors(kind.graph(width, config.dim, k), graph_of(net)) for k in keys]
        factors = wide.stacked(found if kind.random else found * config.draws)
    networks = wide.drawn(net, x, (config.seed, width), config.draws)
    return np.array(measure(wide.stacked(networks), factors, x, wide.direction(networks[0])))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    logs = wide.logarithm(config.widths)
    # A neuron of a random graph reads a share m/(m + d) of hidden neurons. Its inputs do not bend.
    first, last = config.widths[0], config.widths[-1]
    hidden = np.log((last / (last + config.dim)) / (first / (first + config.dim))) / np.log(last / first)
    mixed = Tolerance(logs.absolute + hidden, why=f"{logs.why}, and wider graphs read a smaller share of inputs")
    for kind, facts in wide.KINDS.items():
        name, found = f"{facts.name}: exponent of the Hessian's norm in the width", exponent(data.norm.sel(kind=kind))
        if facts.claim == "stays":
            why = r"half way from no decay to $1/\sqrt m$"
            yield claim(kind, f"{name}, nearer to 0 than to -1/2").at_least(-0.25, found, why)
        else:
            yield claim(kind, name).at_most(-0.5, found, slack=mixed if facts.random else logs)
    yield claim("attained", "the rate is attained: exponent of the fully connected network").at_least(
        -0.5, exponent(data.norm.sel(kind="fcn")), slack=wide.next_order(config.widths, 0.5)
    )
    yield wide.resolved(data)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.8), 3, width_ratios=(1, 1, 0.9))
    dots = {"fmt": "o", "ms": 5, "lw": 1, "capsize": 2}
    for i, (kind, facts) in enumerate(wide.KINDS.items()):
        axes, color, values = left if facts.claim == "falls" else middle, f"C{i}", data.norm.sel(kind=kind)
        mean, factor = np.exp(np.log(values).mean("network")), np.exp(np.log(values).std("network", ddof=1))
        spread, found = [mean - mean / factor, mean * factor - mean], wide.law(values)
        axes.errorbar(data.width, mean, spread, color=color, label=facts.name, **dots)
        axes.plot(data.width, found(data.width), color=color, lw=1.2)
        right.errorbar(found.exponent, -i, xerr=2 * found.error, fmt="o", color=color, ms=6, capsize=3, lw=1.5)
    rate = 0.6 * data.norm.sel(kind="cnn").isel(width=0).mean() * (data.width / data.width[0]) ** -0.5
    sheet.guide(left, data.width, rate)
    left.annotate(r"$1/\sqrt{m}$", (float(data.width[0]), 0.7 * float(rate[0])), color=sheet.ink(), va="top")
    for axes, title in ((left, "Wide everywhere"), (middle, "Narrow, or bent at the end")):
        wide.mark_widths(axes, data.width)
        sheet.label(axes, title, legend={"ncols": 2, **wide.BELOW})
    left.set_ylabel(r"$\|H_f\|$")
    sheet.mark(right, x=(-0.5, 0))
    right.axvspan(-0.5, -0.5 + wide.logarithm(config.widths).absolute, color=sheet.faint(), alpha=0.3, lw=0)
    right.set_yticks([-i for i in range(len(wide.KINDS))], [facts.name for facts in wide.KINDS.values()])
    right.yaxis.tick_right()
    right.tick_params(axis="y", length=0)
    sheet.label(right, "Exponents", r"$\alpha$ in $\|H_f\| \propto m^\alpha$", xlim=(-0.85, 0.35))
