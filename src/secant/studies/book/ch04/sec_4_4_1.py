"""Section 4.4.1: Hessian products for the work of a few gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant.core.device import jit, to_device
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.nets import graphs, pre_activation_hessian, with_edge_weights
from secant.studies.shared.numerics.differences import largest, relative
from secant.theory.descent import backprop


class Config(Seeded):
    width: int = options.width(6, at_least=2, at_most=12)
    layers: int = options.layers(2, at_most=5)
    in_degree: int = option(4, at_least=1, at_most=12, help="edges into each neuron of the random graph")
    depths: tuple[int, ...] = scaled(
        smoke=(2, 4, 8),
        laptop=(2, 4, 8, 16, 32, 64),
        at_least=1,
        at_most=64,
        ascending=True,
        shortest=2,
        longest=8,
        help="layers of the networks whose work is counted",
    )
    wide: int = option(32, at_least=16, at_most=512, help="neurons of a layer of these networks")


def loss(matrices: list, x: jax.Array) -> jax.Array:
    r"""$\frac12|W_L\tanh(\cdots\tanh(W_1X))|^2$."""
    for matrix in matrices[:-1]:
        x = jnp.tanh(x @ matrix)
    return jnp.sum((x @ matrices[-1]) ** 2) / 2


def forward_over_reverse(matrices: list, v: list, x: jax.Array) -> list:
    """The derivative of the gradient along a direction."""
    return jax.jvp(lambda m: jax.grad(loss)(m, x), (matrices,), (v,))[1]


def reverse_over_reverse(matrices: list, v: list, x: jax.Array) -> list:
    r"""The gradient of $g(z) = \langle\nabla f(z), v\rangle$, as in the book."""
    return jax.grad(lambda m: sum(jnp.vdot(g, d) for g, d in zip(jax.grad(loss)(m, x), v, strict=True)))(matrices)


@functools.partial(jit, quick=True)
def both_ways(matrices: list, v: list, x: jax.Array) -> tuple:
    """The dense Hessian, and the two products."""
    flat, restore = ravel_pytree(matrices)
    ravel = lambda tree: ravel_pytree(tree)[0]  # noqa: E731
    dense = jax.hessian(lambda w: loss(restore(w), x))(flat)
    return dense, ravel(v), ravel(forward_over_reverse(matrices, v, x)), ravel(reverse_over_reverse(matrices, v, x))


def counted(depth: int, config: Config) -> list[float]:
    """Operations of a gradient and of two products, as the compiler counts them before it begins."""
    shapes = [(8, config.wide), *[(config.wide, config.wide)] * (depth - 1), (config.wide, 1)]
    matrices = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
    x = jax.ShapeDtypeStruct((16, 8), np.float64)
    programs = (lambda m, v, x: jax.grad(loss)(m, x)), forward_over_reverse, reverse_over_reverse
    analyses: list = [jax.jit(program).lower(matrices, matrices, x).cost_analysis() for program in programs]
    return [analysis["flops"] for analysis in analyses]


@study("book/sec-4.4.1", section="4.4.1", title="Hessian products for the work of a few gradients")
def run(config: Config) -> xr.Dataset:
    r"""A network of size $O(V + E)$ computes the gradient of $f$, and so it computes $g(z) = \langle\nabla f(z),
    v\rangle$. Backpropagation on $g$ gives $\nabla g(z) = \nabla^2f(z)\,v$ in $O(V + E)$. A product with the Hessian
    therefore takes a constant number of gradients, whatever the network. The Hessian itself takes one gradient for
    every parameter.
    """
    rng = np.random.default_rng(config.seed)
    graph = graphs.random(
        jax.random.key(config.seed), config.width, [config.width] * config.layers, in_degree=config.in_degree
    )
    w, v, u = rng.normal(size=(3, graph.parameters))
    x = rng.normal(size=graph.inputs)
    product = backprop.hessian_product(graph, w, x, v)
    params = with_edge_weights(graph, to_device(w))
    dense = pre_activation_hessian(graph, params, to_device(x), graph.neurons - 1)
    swapped = u @ product.product - v @ backprop.hessian_product(graph, w, x, u).product
    shapes = [(3, config.width), *[(config.width, config.width)] * (config.layers - 1), (config.width, 1)]
    matrices, along = ([rng.normal(size=shape) / shape[0] ** 0.5 for shape in shapes] for _ in range(2))
    full, flat, forward, reverse = map(np.asarray, both_ways(matrices, along, rng.normal(size=(5, 3))))
    ratios = []
    for depth in config.depths:
        deep = graphs.fully_connected(4, [4] * (depth - 1))
        own, direction = rng.normal(size=(2, deep.parameters))
        at = rng.normal(size=4)
        here = backprop.gradient(deep, own, at).operations
        there = backprop.hessian_product(deep, own, at, direction).operations
        plain, one, other = counted(depth, config)
        ratios.append((there / here, one / plain, other / plain, here / (deep.neurons + deep.edges)))
    return xr.Dataset(
        {
            "graph": ("weight", product.product),
            "graph_dense": ("weight", dense @ v),
            "swapped": swapped,
            "full": (("row", "column"), full),
            "expected": ("row", full @ flat),
            "forward": ("row", forward),
            "reverse": ("row", reverse),
            "ratio": (("depth", "way"), ratios),
        },
        coords={"depth": list(config.depths), "way": ["graph", "forward", "reverse", "size"]},
    )


WAYS = {"forward": "derivative of the gradient along $v$", "reverse": r"gradient of $\nabla f\cdot v$"}


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    less = "less the dense Hessian times $v$, over the largest"
    yield claim("graph", f"graph: product by messages {less}").zero(
        relative(data.graph, data.graph_dense), 1e-12, "rounding"
    )
    yield claim("symmetry", r"graph: $u\cdot Hv$ less $v\cdot Hu$, over the largest entry of $Hv$").zero(
        abs(data.swapped) / largest(data.graph), 1e-12, "the Hessian is symmetric: rounding"
    )
    for way, words in WAYS.items():
        yield claim(f"network-{way}", f"network: {words}, {less}").zero(
            relative(data[way], data.expected), 1e-12, "rounding"
        )
    ratio = data.ratio.sel(way="graph")
    yield claim("graph-work", "graph: gradients that a product takes, at the depth where it takes most").equal(
        8 / 3, ratio.max(), 1e-12, "8 products an edge against 3: a count"
    )
    yield claim("graph-constant", "graph: work at the depth where it takes most less that where it takes least").zero(
        np.ptp(ratio.values), 1e-12, "constant"
    )
    yield claim("graph-size", "graph: products along edges of a gradient, over $V + E$").at_most(
        3.0, data.ratio.sel(way="size").max(), "$O(V + E)$"
    )
    before, last = config.depths[-2:]
    for way, words in WAYS.items():
        own = data.ratio.sel(way=way)
        yield claim(f"work-{way}", f"network: gradients that the {words} takes, over all depths").at_most(
            8 / 3,
            own.max(),
            "8 matrix products a layer against 3, and some work at each neuron: two over the width",
            relative=2 / config.wide,
        )
        yield claim(f"constant-{way}", f"network: work of the {words} at {last} layers over {before} layers").at_most(
            1.0, own[-1] / own[-2], "constant, but for the first and last layer, which send less", slack=1 / before
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    top = float(np.abs(data.full).max())
    shown = left.imshow(data.full, cmap="RdBu_r", vmin=-top, vmax=top)
    figure.colorbar(shown, ax=left)
    left.grid(False)
    sheet.label(left, "The Hessian that is never written out", "weight", "weight")
    for i, (way, words) in enumerate((("graph", "messages on a graph"), *WAYS.items())):
        right.plot(data.depth, data.ratio.sel(way=way), "o-", color=f"C{i}", label=words)
    sheet.mark(right, y=8 / 3, label="8/3")
    sheet.label(right, "Work of a product", "layers", "gradients", "lower right", xscale="log", ylim=(0, 3.5))
    right.set_xticks(data.depth.values, [str(depth) for depth in data.depth.values])
    right.set_xticks([], minor=True)
