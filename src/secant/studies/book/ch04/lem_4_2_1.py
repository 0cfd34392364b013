"""Lemma 4.2.1: messages of backpropagation are derivatives, and there are as many of them as edges."""

import jax
import numpy as np
import xarray as xr
from matplotlib import colors

from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.nets import Graph, graphs
from secant.studies.shared.numerics.derivatives import STEP, derivative
from secant.studies.shared.numerics.differences import largest
from secant.studies.shared.numerics.exponents import rate
from secant.theory.descent import backprop


class Config(Seeded):
    in_degree: int = option(4, at_least=1, at_most=20, help="edges into each neuron")
    width: int = options.width(6, at_least=2, at_most=30)
    layers: int = options.layers(4, at_least=2, at_most=12)
    sizes: tuple[int, ...] = scaled(
        smoke=(100, 200, 400, 800),
        laptop=(250, 500, 1_000, 2_000),
        at_least=20,
        at_most=3_000,
        ascending=True,
        shortest=2,
        longest=8,
        help="neurons of the graphs whose work is counted",
    )

    def check(self) -> None:
        """Graphs with layers, each half as large again as the one before, so that there is an exponent."""
        if self.sizes[0] < 3 * self.width or any(b < 1.5 * a for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise ValueError(
                f"sizes: from three times the width, {3 * self.width}, on, each half as large again as that before, "
                f"got {self.sizes}."
            )


def random_graph(seed: int, config: Config, layers: int) -> Graph:
    return graphs.random(jax.random.key(seed), config.width, [config.width] * layers, in_degree=config.in_degree)


def clamped(graph: Graph, weights: np.ndarray, x: np.ndarray, node: int | None, step: complex) -> complex:
    """The output with the edges into one neuron cut, and its value moved."""
    values = [complex(v) for v in x]
    last = graph.neurons - 1
    for own in graph.incoming():
        total = own.factor * sum(weights[w] * values[u] for w, u in zip(own.weights, own.sources, strict=True))
        values.append(total if len(values) == last else np.tanh(total))
        if len(values) - 1 == node:
            values[-1] += step
    if node is not None and node < graph.inputs:
        return clamped(graph, weights, np.where(np.arange(len(x)) == node, x + step, x), None, 0)
    return values[-1]


@study("book/lem-4.2.1", section="4.2", title="Messages are derivatives")
def run(config: Config) -> xr.Dataset:
    r"""Every node of a graph adds the messages $S$ that arrive along its outgoing edges, 1 at the output. It then sends
    $S\,\partial u/\partial z$ along each incoming edge. At every node $S = \partial f/\partial z$: the rate at which
    the output changes with the node's value when the node's incoming edges are cut. A weight from $z$ to the sum $u$
    has $\partial f/\partial w = z\,\partial f/\partial u$. The work is $O(V + E)$. Computing
    $\partial u_i/\partial u_j$ forward for all pairs takes $O(VE)$.
    """
    rng = np.random.default_rng(config.seed)
    graph = random_graph(config.seed, config, config.layers)
    weights, x = rng.normal(size=graph.parameters), rng.normal(size=graph.inputs)
    found, slow = backprop.gradient(graph, weights, x), backprop.naive(graph, weights, x)
    cut = [clamped(graph, weights, x, v, STEP * 1j).imag / STEP for v in range(graph.neurons)]
    moved = derivative(lambda weights: clamped(graph, weights, x, None, 0), weights)
    work = []
    for size in config.sizes:
        large = random_graph(config.seed + size, config, max(1, round((size - 1) / config.width) - 1))
        w, at = rng.normal(size=large.parameters), rng.normal(size=large.inputs)
        one, other = backprop.gradient(large, w, at), backprop.naive(large, w, at)
        apart = np.abs(one.nodes - other.nodes).max() / np.abs(other.nodes).max()
        work.append((large.neurons, large.edges, one.operations, other.operations, apart))
    incoming = list(graph.incoming())
    pairs = [(int(u), graph.inputs + i) for i, own in enumerate(incoming) for u in own.sources]
    return xr.Dataset(
        {
            "nodes": ("node", found.nodes),
            "naive": ("node", slow.nodes),
            "cut": ("node", cut),
            "weights": ("weight", found.weights),
            "moved": ("weight", moved),
            "work": (("graph", "count"), np.array(work)),
            "pairs": (("edge", "end"), np.array(pairs)),
            "layer": ("node", graph.levels),
            "edges": graph.edges,
            "operations": found.operations,
        },
        coords={"count": ["neurons", "edges", "backward", "forward", "apart"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    size, over = largest(data.nodes), ", over the largest"
    yield claim("messages", f"messages less derivatives of the output in values, edges cut{over}").zero(
        largest(data.nodes, data.cut) / size, 1e-12, "rounding"
    )
    yield claim("naive", f"messages less derivatives by the naive way{over}").zero(
        largest(data.nodes, data.naive) / size, 1e-12, "rounding"
    )
    yield claim("weights", f"message times value at the other end less the derivative in the weight{over}").zero(
        largest(data.weights, data.moved) / largest(data.weights), 1e-12, "rounding", note="claim 4.1.1"
    )
    work = {name: data.work.sel(count=name).values for name in data["count"].values}
    neurons, edges = work["neurons"], work["edges"]
    yield claim("large-graphs", "large graphs: messages less derivatives by the naive way").zero(
        work["apart"].max(), 1e-10, "rounding"
    )
    yield claim("products", "backpropagation: products an edge, all graphs").count(
        3, (work["backward"] / edges).max(), "forward, back, and the derivative in the weight"
    )
    why = "inputs have no edges: twice their share of the smallest graph"
    for name, way, power in (("backpropagation", "backward", 1.0), ("naive way", "forward", 2.0)):
        yield claim(f"exponent-{way}", f"{name}: exponent of the neurons in its work").equal(
            power, rate(neurons, work[way]), 2 * config.width / neurons[0], why
        )
    yield claim("naive-products", "naive way: products over neurons times edges, all graphs").at_most(
        1.0, (work["forward"] / (neurons * edges)).max(), "$O(VE)$"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2, width_ratios=(1.2, 1))
    layer = data.layer.values
    place = np.array([np.sum(layer[:v] == layer[v]) - (np.sum(layer == layer[v]) - 1) / 2 for v in range(len(layer))])
    for u, v in data.pairs.values:
        left.plot(layer[[u, v]], place[[u, v]], color=sheet.faint(), lw=0.8, zorder=1)
    top = float(np.abs(data.nodes[:-1]).max())
    look = {"cmap": "RdBu_r", "norm": colors.Normalize(-top, top), "edgecolors": sheet.ink(), "linewidths": 0.6}
    shown = left.scatter(layer, place, c=data.nodes, s=90, zorder=2, **look)
    figure.colorbar(shown, ax=left, label=r"$\partial f/\partial z$")
    sheet.label(left, "Messages on a random graph", "layer", None)
    left.set_yticks([])
    left.grid(False)
    neurons = data.work.sel(count="neurons").values
    for i, (way, name, power) in enumerate((("backward", "backpropagation", 1), ("forward", "naive way", 2))):
        counts = data.work.sel(count=way).values
        right.loglog(neurons, counts, "o", color=f"C{i}", label=name)
        sheet.guide(right, neurons, counts[-1] * (neurons / neurons[-1]) ** power, f"slope {power}", ls=("--", ":")[i])
    sheet.label(right, "Products along edges", "neurons", None, "best")
