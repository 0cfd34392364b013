"""Theorem 2.3.8: every neuron of a wide network turns linear in the weights, and where its curvature sits."""

from functools import partial
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant.core.types import Params
from secant.curvature import second_derivative
from secant.lab import Figure, Findings, Seeded, claims, option, scaled, sheet, study
from secant.linalg.norm import spectral_norm
from secant.linalg.spaces import unravel_like
from secant.nets import Network, dag, graphs
from secant.setups import width as wide
from secant.setups.exponents import exponent

DEPTH = 3  # layers of weights
BLOCKS = list(combinations_with_replacement(range(1, DEPTH + 1), 2))  # pairs of layers, each once


class Config(Seeded):
    widths: tuple[int, ...] = scaled(
        smoke=(16, 64), laptop=(64, 128, 256, 512), paper=(64, 128, 256, 512, 1_024, 2_048), at_least=8, shortest=2,
        ascending=True, help="neurons a layer, increasing",
    )
    seeds: int = scaled(smoke=24, laptop=12, at_least=2, at_most=10_000, help="random networks of each width")
    neurons: int = option(3, at_least=1, at_most=1_000, help="neurons of every layer whose Hessians are measured")
    dim: int = scaled(smoke=4, laptop=8, at_least=2, at_most=10_000, help="input dimension")
    size: float = option(0.5, at_least=1e-3, at_most=100, help="root mean square of the input")


@study(
    "thesis/thm-2.3.8", section="2.3", title="Every neuron turns linear",
    statement=r"""
    The pre-activation $\tilde f^{(\ell)}_k$ of every neuron, not of the outputs alone, has a Hessian of norm
    $O((\log m + R)^{\ell^2}/\sqrt m)$ in a ball around the start (2.12). In the first layer it is exactly zero
    (Remark 2.3.9).

    The Hessian of the output consists of blocks $H^{(\ell_1, \ell_2)}$ between the weights of two layers. The last
    layer's own block is zero, since the output is linear in the weights that it reads with. Its block with layer
    $\ell$ has exactly the norm of $\partial f_{\mathcal S}/\partial w^{(\ell)}$ over $\sqrt{m}$, where
    $f_{\mathcal S}$ is what the output reads: here the factor $1/\sqrt m$ of the theorem stands in the open. The norm
    of the whole is at most the sum of those of its blocks (Lemma A.11.1).

    Fully connected, two hidden layers of $m$ tanh neurons.""",
)
def run(config: Config) -> xr.Dataset:
    def make(m: int) -> Network:
        return dag(graphs.fully_connected(config.dim, [m] * (DEPTH - 1)), "tanh")

    copies = 2 * wide.COPIES + config.seeds
    wide.refuse_oversized("thesis/thm-2.3.8", make, config.dim, config.widths, copies=copies, itemsize=8)
    x = wide.one_input(jax.random.key(config.seed), config.dim, config.size)
    dims, found = {"norm": ("layer", "neuron"), "block": ("pair",), "slope": ("lower",), "gap": ("lower",)}, []
    for j, width in enumerate(config.widths):
        net = make(width)
        networks = wide.drawn(net, x, (config.seed, j), config.seeds)
        looks = jax.jit(partial(_looks, net, config))(wide.stacked(networks), x, wide.direction(networks[0]))
        found.append(xr.Dataset({name: (("network", *dims[name]), np.asarray(looks[name])) for name in dims}))
    return xr.concat(found, "width").assign_coords(
        width=list(config.widths), layer=list(range(1, DEPTH + 1)), pair=[f"{a},{b}" for a, b in BLOCKS],
        lower=list(range(1, DEPTH)),
    )


def _looks(net: Network, config: Config, networks: Params, x: jax.Array, start: jax.Array) -> dict[str, jax.Array]:
    """All that is looked at in several networks, one after the other; `start` is for Lanczos."""

    def look(params: Params) -> dict[str, jax.Array]:
        return {"norm": _layer_norms(net, params, x, start, config.neurons), **_block_norms(net, params, x, start)}

    return jax.lax.map(look, networks)


def _layer_norms(net: Network, params: Params, x: jax.Array, start: jax.Array, neurons: int) -> jax.Array:
    """Norms of the Hessians of some pre-activations in every layer, `(layers, neurons)`; 0 where there are fewer."""

    def sums(params: Params, x: jax.Array) -> jax.Array:
        """Pre-activations, layer by layer, filled up with zeros to one table."""
        heard = [z.reshape(-1)[:neurons] for z in net.pre_activations(params, x)]
        return jnp.stack([jnp.pad(z, (0, neurons - z.size)) for z in heard])[None]

    def norm(weight: jax.Array) -> jax.Array:
        return spectral_norm(second_derivative(sums, params, x, weight).flat_product(), start, wide.LANCZOS).value

    basis = np.eye(DEPTH * neurons).reshape(-1, 1, DEPTH, neurons)
    return jax.lax.map(norm, basis).reshape(DEPTH, neurons)


def _block_norms(net: Network, params: Params, x: jax.Array, start: jax.Array) -> dict[str, jax.Array]:
    r"""Norms of the blocks of an output's Hessian, those of $m^{-1/2}\,\partial f_{\mathcal S} / \partial w^{(\ell)}$.

    And how far the products of these two with a vector are apart.
    """
    product = jax.linearize(jax.grad(lambda p: net.apply(p, x)[0]), params)[1]
    values, push = jax.linearize(lambda p: jnp.tanh(net.pre_activations(p, x)[-2].reshape(-1)), params)
    pull, unravel = jax.linear_transpose(push, params), unravel_like(params)

    def ones(like: Params, layer: jax.Array) -> Params:
        """1 on the weights of one layer, 0 on all others."""
        return tuple(jax.tree.map(lambda a, k=k: jnp.where(layer == k, a, 0), own) for k, own in enumerate(like, 1))

    def block(pair: jax.Array) -> jax.Array:
        """The root of the norm of B^T B for the block B between two layers."""

        def square(v: jax.Array) -> jax.Array:
            there = ones(product(ones(unravel(v), pair[1])), pair[0])
            return ravel_pytree(ones(product(there), pair[1]))[0]

        own = ravel_pytree(ones(unravel(start), pair[1]))[0]
        return jnp.sqrt(spectral_norm(square, own, wide.LANCZOS).value)

    def slope(layer: jax.Array) -> jax.Array:
        """The norm of the Jacobian of what the output reads in one layer's weights, over the root of its number."""
        # From the same vector as the block with the last layer, whose weights come last.
        found = spectral_norm(lambda v: push(ones(pull(v)[0], layer)), start[-values.size :], wide.LANCZOS)
        return jnp.sqrt(found.value / values.size)

    curved = product(ones(unravel(start), jnp.asarray(DEPTH)))
    (sloped,) = pull(start[-values.size :] / jnp.sqrt(values.size))
    pairs = [(ravel_pytree(a)[0], ravel_pytree(b)[0]) for a, b in zip(curved, sloped, strict=True)]
    return {
        "block": jax.lax.map(block, jnp.array(BLOCKS)), "slope": jax.lax.map(slope, jnp.arange(1, DEPTH)),
        "gap": jnp.stack([jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in pairs[:-1]]),
    }


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    largest = data.norm.max("neuron")
    name = "first layer: norm of the Hessian of a pre-activation: largest"
    yield claims.zero(name, largest.sel(layer=1).max(), 0, "linear in the weights, so zero to the last bit")
    for layer in range(2, DEPTH + 1):
        name = f"layer {layer}: exponent of the norm in the width, largest of some neurons"
        found = exponent(largest.sel(layer=layer))
        yield claims.at_most(name, -0.5, found, slack=wide.logarithm(config.widths))
    yield claims.zero(
        "block of the last layer with itself: largest norm", data.block.sel(pair=f"{DEPTH},{DEPTH}").max(), 0,
        "the output is linear in the weights it reads with",
    )
    for layer in range(1, DEPTH):
        ratio = data.block.sel(pair=f"{layer},{DEPTH}") / data.slope.sel(lower=layer)
        yield claims.zero(
            f"block of layer {layer} with the last over the slope of what the output reads: largest distance from 1",
            np.abs(ratio - 1).max(), 0.02,
            "an identity; both norms come from Lanczos of 32 steps, which leaves a residual of this order",
        )
    name = "product of these blocks with a vector against that of the slopes: largest relative difference"
    yield claims.zero(name, data.gap.max(), 1e-12, "the blocks are the transposed slopes over the root of m; rounding")
    name = "norm over the sum of the norms of its blocks: largest"
    yield claims.at_most(name, 1.0, (largest.sel(layer=DEPTH) / _sum_of_blocks(data)).max(), "the triangle inequality")


def _sum_of_blocks(data: xr.Dataset) -> xr.DataArray:
    """Over all pairs of layers in both orders."""
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
