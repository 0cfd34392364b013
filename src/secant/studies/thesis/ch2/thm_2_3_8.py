"""Theorem 2.3.8: every neuron of a wide network turns linear in the weights, and where its curvature sits."""

from functools import partial

import jax
import numpy as np
import xarray as xr

from secant.core.types import Params
from secant.curvature.norms import layer_blocks, layer_pairs, neuron_norms
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.nets import Network, dag, graphs
from secant.studies.shared import width as wide
from secant.studies.shared.numerics.exponents import exponent

DEPTH = 3  # layers of weights
BLOCKS = layer_pairs(DEPTH)


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (16, 64), (64, 128, 256, 512), (64, 128, 256, 512, 1_024, 2_048), **wide.SWEPT
    )
    draws: int = options.draws(24, 12, at_least=2, at_most=10_000)
    neurons: int = option(3, at_least=1, at_most=1_000, help="neurons of every layer whose Hessians are measured")
    dim: int = options.dim(4, 8, at_least=2, at_most=10_000)
    size: float = option(0.5, at_least=1e-3, at_most=100, help="root mean square of the input")


@study("thesis/thm-2.3.8", section="2.3", title="Every neuron turns linear")
def run(config: Config) -> xr.Dataset:
    r"""The pre-activation $\tilde f^{(\ell)}_k$ of every neuron, not only of an output, has a Hessian of norm
    $O((\log m + R)^{\ell^2}/\sqrt m)$ in a ball around the start (2.12). In the first layer it is exactly zero
    (Remark 2.3.9).

    The Hessian of the output consists of blocks $H^{(\ell_1, \ell_2)}$ between the weights of two layers. The last
    layer's own block is zero, because the output is linear in the weights that it reads with. Its block with layer
    $\ell$ has exactly the norm of $\partial f_{\mathcal S}/\partial w^{(\ell)}$ over $\sqrt{m}$, where
    $f_{\mathcal S}$ is what the output reads. This is where the factor $1/\sqrt m$ of the theorem comes from. The norm
    of the whole Hessian is at most the sum of the norms of its blocks (Lemma A.11.1).

    The networks are fully connected, with two hidden layers of $m$ tanh neurons.
    """

    def make(m: int) -> Network:
        return dag(graphs.fully_connected(config.dim, [m] * (DEPTH - 1)), "tanh")

    copies = 2 * wide.COPIES + config.draws
    wide.refuse_oversized("thesis/thm-2.3.8", make, config.dim, config.widths, copies=copies, itemsize=8)
    x = wide.one_input(jax.random.key(config.seed), config.dim, config.size)
    dims, found = {"norm": ("layer", "neuron"), "block": ("pair",), "slope": ("lower",), "gap": ("lower",)}, []
    for j, width in enumerate(config.widths):
        net = make(width)
        networks = wide.drawn(net, x, (config.seed, j), config.draws)
        looks = jax.jit(partial(_looks, net, config.neurons))(wide.stacked(networks), x, wide.direction(networks[0]))
        found.append(xr.Dataset({name: (("network", *dims[name]), np.asarray(looks[name])) for name in dims}))
    layers, pairs = list(range(1, DEPTH + 1)), [f"{a},{b}" for a, b in BLOCKS]
    data = xr.concat(found, "width")
    return data.assign_coords(width=list(config.widths), layer=layers, pair=pairs, lower=layers[:-1])


def _looks(net: Network, neurons: int, networks: Params, x: jax.Array, start: jax.Array) -> dict[str, jax.Array]:
    """Norms, blocks and slopes of several networks, one after the other. Lanczos begins from `start`."""

    def look(params: Params) -> dict[str, jax.Array]:
        norm = neuron_norms(net, params, x, start, neurons, wide.LANCZOS)
        return {"norm": norm, **layer_blocks(net, params, x, start, wide.LANCZOS)._asdict()}

    return jax.lax.map(look, networks)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    largest, logs = data.norm.max("neuron"), wide.logarithm(config.widths)
    first = claim("layer-1", "first layer: largest norm of the Hessian of a pre-activation")
    yield first.zero(largest.sel(layer=1).max(), 0, "linear in the weights, so zero to the last bit")
    for layer in range(2, DEPTH + 1):
        found = exponent(largest.sel(layer=layer))
        name = f"layer {layer}: exponent of the norm in the width, largest of some neurons"
        yield claim(f"layer-{layer}", name).at_most(-0.5, found, slack=logs)
    yield claim("last-block", "largest norm of the last layer's block with itself").zero(
        data.block.sel(pair=f"{DEPTH},{DEPTH}").max(), 0, "the output is linear in the weights it reads with"
    )
    why = "an identity; both norms come from 32 steps of Lanczos, which leave a residual of this order"
    for layer in range(1, DEPTH):
        ratio = data.block.sel(pair=f"{layer},{DEPTH}") / data.slope.sel(lower=layer)
        name = f"block of layer {layer} with the last over the slope of what the output reads: largest distance from 1"
        yield claim(f"block-{layer}", name).zero(np.abs(ratio - 1).max(), 0.02, why)
    why = r"the blocks are the transposed slopes over $\sqrt m$; rounding"
    name = "largest relative difference between products of these blocks and of the slopes with a vector"
    yield claim("products", name).zero(data.gap.max(), 1e-12, why)
    ratio = (largest.sel(layer=DEPTH) / _sum_of_blocks(data)).max()
    yield claim("triangle", "largest ratio of the norm to the sum of the norms of its blocks").at_most(
        1.0, ratio, "the triangle inequality"
    )


def _sum_of_blocks(data: xr.Dataset) -> xr.DataArray:
    """The sum of the norms over all pairs of layers, in both orders."""
    return (xr.DataArray([1.0 if a == b else 2.0 for a, b in BLOCKS], dims="pair") * data.block).sum("pair")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    largest = data.norm.max("neuron")
    for layer, mark in zip(range(2, DEPTH + 1), "os^D", strict=False):
        wide.plot_law(left, largest.sel(layer=layer), mark, f"layer {layer}" if layer < DEPTH else "output")
    left.plot([], [], " ", label="layer 1: exactly zero")
    for i, (a, b) in enumerate(BLOCKS[:-1]):
        norms = data.block.sel(pair=f"{a},{b}").mean("network")
        right.plot(data.width, norms, "os^Dv"[i], ms=6, mfc="none", mew=1.4, label=rf"$H^{{({a},{b})}}$", color=f"C{i}")
        if b == DEPTH:
            right.plot(data.width, data.slope.sel(lower=a).mean("network"), color=f"C{i}", lw=1.2)
    sheet.guide(right, [], [], r"$\|\partial f_{\mathcal{S}}/\partial w^{(\ell)}\|/\sqrt{m}$", ls="-")
    sheet.guide(right, data.width, _sum_of_blocks(data).mean("network"), "sum of all blocks")
    sheet.guide(right, data.width, largest.sel(layer=DEPTH).mean("network"), "whole", ls=":", lw=1.6)
    for axes, title in ((left, "Hessians of pre-activations"), (right, "Blocks of the output's Hessian")):
        wide.mark_widths(axes, data.width)
        axes.set(title=title, ylabel="spectral norm")
    left.legend(title="exponent in the width", fontsize=9)
    right.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
