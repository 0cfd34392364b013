"""Equations (2.13) and (2.14): the Hessian of a neuron, block by block and neuron by neuron."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.core.types import Params
from secant.curvature import neurons
from secant.lab import Figure, Findings, Seeded, claim, fits_memory, option, options, sheet, study
from secant.nets import Graph, graphs
from secant.theory.wide.gaussian_matrices import matrix_variance


class Config(Seeded):
    inputs: int = option(3, at_least=1, at_most=100, help="input neurons")
    widths: tuple[int, ...] = options.widths((4, 4, 3), (6, 5, 4), (12, 10, 8), at_least=2, at_most=100, longest=10)
    dropped: float = option(0.4, at_least=0, at_most=0.99, help="share of a dense graph's edges that is removed")
    radius: float = option(2.0, at_least=1e-3, at_most=1e3, help="distance that outer weights of two layers move")
    neurons: int = option(40, at_least=2, at_most=1_000, help="hidden neurons of that network")

    def check(self) -> None:
        """Refuses graphs whose Hessians do not fit the memory."""
        total, weights = self.inputs, 0
        for width in (*self.widths, 1):
            weights, total = weights + total * width, total + width
        fits_memory(6 * 8 * total * weights**2, "widths or inputs")
        fits_memory(3 * 8 * self.neurons * (self.neurons * self.inputs) ** 2, "neurons or inputs")


@study("thesis/eq-2.13", section="2.3", title="Where the curvature of a network comes from")
def run(config: Config) -> xr.Dataset:
    r"""The Hessian of a neuron's pre-activation obeys a recursion over the graph,
    $$D^2 \tilde f_v = \frac{1}{\sqrt{\mathrm{in}(v)}} \sum_{u \to v} \Big( w_{uv}\big[\sigma'_u\, D^2 \tilde f_u
    + \sigma''_u\, D\tilde f_u\, D\tilde f_u^\top\big] + e_{uv}\, D f_u^\top + D f_u\, e_{uv}^\top \Big),$$
    The proof of Theorem 2.3.6 follows this recursion layer by layer. The recursion starts from zero: pre-activations
    of the first layer are linear in the weights (Remark 2.3.9). The norm of the whole Hessian is at most the sum of
    the norms of its blocks $H^{(\ell_1, \ell_2)}$ (Lemma A.11.1). The block of the last layer with itself is zero. Its
    block with layer $\ell_1$ has the norm of $\partial f_{\mathcal S} / \partial w^{(\ell_1)}$ over $\sqrt m$.

    The proof bounds Gaussian sums of such blocks: moving the Gaussians by $R$ moves
    $\|\sum_k \gamma_k B_k\|$ by at most $R\sqrt\nu$ with the matrix variance $\nu$ (Lemma A.11.8).
    """
    keys = jax.random.split(jax.random.key(config.seed), 4)
    plain = graphs.drop_edges(graphs.densenet(config.inputs, config.widths), keys[0], config.dropped)
    kinds = {
        "random graph": plain,
        "skip connections": graphs.skip(plain, keys[1]),
        "shared weights": graphs.convolutional(config.inputs, [2, 2]),
    }
    key_weights, key_input = jax.random.split(keys[2])
    looks, compared = [], []
    for graph in kinds.values():
        x = jax.random.normal(key_input, (1, graph.inputs))
        params = nets.dag(graph, "tanh").init(key_weights, x.shape)
        looks.append(neurons.neurons(graph, params, x))
        compared.append(_compared(graph, params, x[0], looks[-1]))
    one, layers, whole = looks[0], list(range(1, len(plain.blocks) + 1)), neurons.layer_ends(plain)
    reading = *neurons.first_block_norms(plain, one), np.linalg.norm(one.bends[-1, : whole[0], : whole[0]], 2)
    found = {
        "hessian": (("weight", "weight_2"), one.bends[-1]),
        "boundary": ("layer", whole),
        "block": (("layer", "layer_2"), neurons.block_norms(one.bends[-1], plain)),
        "reading": ("derivative", list(reading)),
        "slope": ("layer", neurons.read_slopes(plain, one)),
        "series": ("part", _series(keys[3], config)),
    }
    names: dict[str, Any] = {
        "derivative": ["total", "direct", "measured"],
        "part": ["moved", "variance"],
        "graph": list(kinds),
    }
    return xr.concat(compared, "graph").assign(found).assign_coords(layer=layers, layer_2=layers, **names)


def _compared(graph: Graph, params: Params, x: jax.Array, found: neurons.Neurons) -> xr.Dataset:
    """Recursion against autodiff for every layer's last neuron, the first layer's bend, norm over the sum of blocks."""
    gaps = []
    for last in (graph.starts[1:] - 1).tolist():
        recursion = nets.pre_activation_hessian(graph, params, x, last, "tanh")
        gaps.append(np.abs(recursion - found.bends[last - graph.inputs]).max())
    level_one = graph.levels[graph.inputs :] == 1
    ratios = [np.linalg.norm(bend, 2) / neurons.block_norms(bend, graph).sum() for bend in found.bends[~level_one]]
    gap, first_layer = max(gaps) / np.abs(found.bends).max(), np.abs(found.bends[level_one]).max()
    return xr.Dataset({"gap": gap, "first_layer": first_layer, "block_ratio": max(ratios)})


def _series(key: jax.Array, config: Config) -> list[Any]:
    """How far the first layer's block moves with the outer weights of a two-layer network, and its matrix variance."""
    sizes = (config.inputs, config.neurons * config.inputs, config.neurons)

    def normals(key: jax.Array) -> list[jax.Array]:
        return [jax.random.normal(k, (size,)) for k, size in zip(jax.random.split(key, 3), sizes, strict=True)]

    x, u, v = map(np.asarray, jit(normals, quick=True)(key))

    def output(u: jax.Array, v: jax.Array) -> jax.Array:
        z = u.reshape(config.neurons, config.inputs) @ x / np.sqrt(config.inputs)
        return v @ jnp.tanh(z) / np.sqrt(config.neurons)

    blocks = jit(jax.vmap(jax.hessian(output), (None, 0)), quick=True)
    matrices = np.asarray(blocks(u, np.eye(config.neurons)))  # the block is linear in v: these are its coefficients
    outer = np.tile(v, (config.neurons, 1))
    outer[1, np.argmax(np.abs(matrices).max(axis=(1, 2)))] += config.radius
    still, moved = np.asarray(blocks(u, outer))[:2]
    return [np.linalg.norm(moved - still, 2), matrix_variance(matrices)]


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for graph in data.graph.values:
        name = f"{graph}: largest relative difference of recursion and autodiff, a neuron of every layer"
        recursion = claim(f"recursion-{graph}", name)
        yield recursion.zero(data.gap.sel(graph=graph), 1e-13, "rounding: sums of tens of terms")
    first = claim("first-layer", "first layer: largest entry of the Hessian of a pre-activation")
    yield first.zero(data.first_layer.max(), 0, "linear in the weights, so zero to the last bit")
    triangle = claim("triangle", "largest ratio of a neuron's norm to the sum of the norms of its blocks")
    yield triangle.at_most(1.0, data.block_ratio.max(), "the triangle inequality; rounding", slack=1e-13)
    why = "the output is linear in the weights it reads with"
    yield claim("last-block", "norm of the last layer's block with itself").zero(data.block[-1, -1], 0, why)
    gap = np.abs(data.block[:-1, -1] - data.slope[:-1]).max()
    name = "blocks with the last layer against slopes of what the output reads: largest difference"
    yield claim("read-slopes", name).zero(gap, 1e-13, "rounding")
    total, direct, measured = data.reading.values
    note = (
        "The derivative in (2.13) is the direct one, by a weight. The first line of (2.14) suggests the one along all "
        f"paths. A path would then count once for every neuron on it, and the norm would be {total:.3g}."
    )
    name = "norm of the first layer's block of the output's Hessian, by (2.13) over the neurons that the output reads"
    yield claim("direct-derivative", name).equal(direct, measured, 0, "rounding", relative=1e-12, note=note)
    moved, variance = data.series.values
    name = rf"change of a Gaussian sum of blocks, Gaussians moved by $R = {config.radius:g}$, over $R\sqrt\nu$"
    why = "moving the neuron of largest curvature attains the bound; rounding"
    yield claim("gaussian-sum", name).equal(1.0, moved / (config.radius * np.sqrt(variance)), 1e-10, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    left, right = sheet.panels(figure, (10, 4.6), 2)
    size, block, ends = np.abs(data.hessian.values), data.block.values, data.boundary.values
    image = left.imshow(np.where(size > 0, np.log10(np.maximum(size, 1e-12)), np.nan), vmin=-6, vmax=0)
    sheet.mark(left, x=ends[:-1] - 0.5, y=ends[:-1] - 0.5, ls="-", lw=0.8)
    figure.colorbar(image, ax=left, label=r"$\log_{10} |H_{ij}|$", shrink=0.85)
    tint = LinearSegmentedColormap.from_list("tint", [figure.get_facecolor(), "C0"])
    right.imshow(block, cmap=tint, vmin=0, vmax=1.8 * block.max())
    for (i, j), value in np.ndenumerate(block):
        right.text(j, i, f"{value:.2f}" if value else "0", ha="center", va="center", color=sheet.ink())
    names = [rf"$w^{{({layer})}}$" for layer in data.layer.values]
    middles = (np.concatenate([[0], ends[:-1]]) + ends - 1) / 2
    for axes, places in ((left, middles), (right, range(len(names)))):
        axes.set_xticks(places, names)
        axes.set_yticks(places, names)
        axes.grid(False)
    whole = np.linalg.norm(data.hessian.values, 2)
    bound = rf"$\|H\| = {whole:.2f} \;\leq\; \sum \|H^{{(\ell_1, \ell_2)}}\| = {block.sum():.2f}$"
    sheet.label(left, "Hessian of the output")
    sheet.label(right, "Norms of its blocks", bound)
