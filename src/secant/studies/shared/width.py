"""Shared parts of the studies of wide networks: architectures by width, norms of Hessians, exponents, memory limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import available_bytes, to_device
from secant.core.types import Params
from secant.curvature import kernel_matrix, output_hessian
from secant.dynamics import Map, Probe, simulate
from secant.lab import Finding, Seeded, Tolerance, claim, option, options
from secant.linalg.norm import Norm, spectral_norm
from secant.losses import half_sum
from secant.nets import Graph, Network, graphs
from secant.nets.graphs.network import Dag
from secant.optim import gradient_descent
from secant.theory.power_law import PowerLaw, fit_power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LANCZOS = 32
"""The most Hessian products of a norm."""

TOGETHER = 2**22
"""The most parameters, over all networks that are trained at once."""

COPIES = 10
"""How many copies of the parameters the norm of a Hessian may need, including the network's own."""

BELOW = {"fontsize": 8, "title_fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
"""A legend below its panel."""


SWEPT: dict[str, Any] = {"at_least": 8, "shortest": 2, "ascending": True}
"""Limits of widths through which an exponent is fitted."""


class WidthConfig(Seeded):
    """Widths, networks and the input."""

    widths: tuple[int, ...] = options.widths(
        (16, 64), (64, 128, 256, 512, 1_024), (64, 128, 256, 512, 1_024, 2_048, 4_096), **SWEPT
    )
    draws: int = options.draws(48, 12, at_least=2, at_most=10_000)
    dim: int = options.dim(4, 8, at_least=2, at_most=10_000)
    size: float = option(
        0.5,
        at_least=1e-3,
        at_most=100,
        help="root mean square of the input; the blocks with a logarithm are quadratic in it",
    )


def logarithm(widths: Sequence[int]) -> Tolerance:
    r"""How much the largest of $m$ Gaussian weights, $\sqrt{2\log m}$, raises an exponent between these widths."""
    first, last = min(widths), max(widths)
    return Tolerance(
        float(np.log(np.log(last) / np.log(first)) / (2 * np.log(last / first))),
        why=r"the largest of $m$ Gaussian weights, $\sqrt{2\log m}$, raises the exponent by this between the widths",
    )


def next_order(widths: Sequence[int], power: float, times: float = 1.0) -> Tolerance:
    r"""How much a next term, smaller by $c\,m^{-p}$, changes an exponent between these widths; `times` is $c$."""
    first, last = min(widths), max(widths)
    factor = "" if times == 1 else rf"{times:g}\,"
    return Tolerance(
        float(times * (first**-power - last**-power) / np.log(last / first)),
        why=rf"a next term, smaller by ${factor}m^{{-{power:g}}}$, changes the exponent by this between the widths",
    )


def resolved(data: xr.Dataset) -> Finding:
    r"""The finding that the eigenvectors behind `norm` are accurate enough, judged by their `residual`.

    An eigenvalue lies within the residual $r$. A logarithm therefore changes by at most $r/\|H\|$, and the slope of a
    line through means at $x_j = \log m_j$ by
    $\sum_j |x_j - \bar x|\,\overline{r/\|H\|}_j\big/\sum_j (x_j - \bar x)^2$.
    """
    x = np.log(data.width) - np.log(data.width).mean()
    shares = (data.residual / data.norm).mean("network")
    change = ((np.abs(x) * shares).sum("width") / (x**2).sum()).max()
    return claim("lanczos", "largest change of an exponent that unresolved Lanczos vectors allow").zero(
        change, 0.01, "a fiftieth of the exponent 1/2 that the study measures"
    )


Make = Callable[[int, int, jax.Array], Graph]
"""Width, inputs, random key -> graph."""


class Kind(NamedTuple):
    """An architecture: its name, its constructor, and whether it becomes linear with width.

    Attributes:
        name: the name of the architecture.
        make: width, inputs, random key -> network.
        claim: whether the Hessian falls with the width, falls still, or stays.
        graph: width, inputs, random key -> its graph, if it is not made of shared weights or of layers.
        whole: width, inputs, random key -> the network of a larger graph; this graph and others are its parts.
        random: whether the graph is drawn anew for every network.
    """

    name: str
    make: Callable[[int, int, jax.Array], Network]
    claim: str
    graph: Make | None = None
    whole: Callable[[int, int, jax.Array], Network] | None = None
    random: bool = False

    def by_width(self, dim: int, key: jax.Array) -> Callable[[int], Network]:
        """Width -> network, for inputs of this dimension."""
        return lambda m: self.make(m, dim, key)


def _graph(make: Make) -> Callable[[int, int, jax.Array], Network]:
    return lambda m, d, key: nets.dag(make(m, d, key), "tanh")


def _fully_connected(m: int, d: int, key: jax.Array) -> Graph:
    return graphs.fully_connected(d, [m, m])


def _skips(m: int, d: int, key: jax.Array) -> Graph:
    return graphs.skip(_fully_connected(m, d, key))


def _repaired(m: int, d: int, key: jax.Array) -> Graph:
    return graphs.connect(graphs.fully_connected(d, [m, 2, m]), source=1, target=3)


_DENSE = _graph(lambda m, d, key: graphs.densenet(d, [m, m]))
_SKIPPING = _graph(_skips)
_REPAIRED = _graph(_repaired)


def _part(name: str, graph: Make, claim: str, whole: Callable[..., Network], random: bool = False) -> Kind:
    return Kind(name, _graph(graph), claim, graph, whole, random)


KINDS = {
    "fcn": _part("fully connected", _fully_connected, "falls", _DENSE),
    "densenet": _part("DenseNet", lambda m, d, key: graphs.densenet(d, [m, m], concat_input=False), "falls", _DENSE),
    "resnet": _part("skip connections", _skips, "falls", _SKIPPING),
    "cnn": Kind("1-D convolutions", _graph(lambda m, d, key: graphs.convolutional(d, [m, m])), "falls"),
    "random": _part(
        "random graph", lambda m, d, key: graphs.random(key, d, [m, m], in_degree=m), "falls", _DENSE, random=True
    ),
    "two": _part(
        "two bottleneck neurons",
        lambda m, d, key: graphs.bottleneck_neurons(_fully_connected(m, d, key), layer=2, count=2),
        "falls still",
        _DENSE,
    ),
    "repaired": _part("bottleneck layer, repaired", _repaired, "falls still", _REPAIRED),
    "layer": _part("bottleneck layer", lambda m, d, key: graphs.fully_connected(d, [m, 2, m]), "stays", _REPAIRED),
    "output": Kind(
        "nonlinear output", lambda m, d, key: nets.mlp([m, m], activation="tanh", output_activation="swish"), "stays"
    ),
}


def one_input(key: jax.Array, dim: int, size: float) -> jax.Array:
    """A random input with this root mean square, shape `(1, dim)`."""
    x = jax.random.normal(key, (1, dim))
    return size * np.sqrt(dim) * x / jnp.linalg.norm(x)


def orthogonal_inputs(keys: jax.Array, dim: int, size: float) -> jax.Array:
    """For every key a random input with this root mean square, orthogonal to the inputs before, `(keys, dim)`.

    The tangent kernel of wide networks then has a condition number of a few units, whatever the draw.
    """
    drawn = jnp.concatenate([one_input(key, dim, size) for key in keys])
    return size * np.sqrt(dim) * jnp.linalg.qr(drawn.T)[0].T


def refuse_dependent(samples: int, dim: int) -> None:
    """Raises an error for more orthogonal points than dimensions."""
    if samples > dim:
        raise ValueError(f"samples: must be at most the input dimension, {dim}, got {samples}.")


def global_minimum(key: str, name: str, ends: xr.DataArray, promised: xr.DataArray, reached: float) -> Finding:
    """The finding that gradient descent has come to a global minimum, if its rate predicts this.

    Args:
        key: key of the finding.
        name: sentence of the finding.
        ends: last loss of every run over its first loss.
        promised: this ratio by the rate of section 2.4.
        reached: the share of the first loss that counts as zero.
    """
    note, digits = f"the rate of section 2.4 promises {float(promised.max()):.1g}", -np.log10(reached) / 2
    certain = promised.max() <= reached
    return claim(key, name, given=certain, otherwise=f"{note} and no less in so few steps").zero(
        ends.max(), reached, f"a global minimum: {digits:g} digits of every residual", note=note
    )


def direction(params: Params) -> jax.Array:
    """A fixed random vector as long as the parameters, for Lanczos to start from."""
    leaves = jax.tree.leaves(params)
    drawn = np.random.default_rng(0).normal(size=nets.count_parameters(params))
    return to_device(drawn.astype(leaves[0].dtype))


def hessian_norm(
    f: Callable[[Params, jax.Array], jax.Array], params: Params, x: jax.Array, start: jax.Array, sample: int = 0
) -> Norm:
    """Spectral norm of the Hessian of one output, with the residual of its eigenvector; traceable.

    `output_hessian(...).top(1, which="magnitude")` gives the same, but takes five times as long to compile.
    """
    return spectral_norm(output_hessian(f, params, x, sample).flat_product(), start, LANCZOS)


def stacked(trees: Sequence[Params]) -> Params:
    """Several networks as one, with an additional first axis; on the host, so that nothing is compiled."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def shapes_of(net: Network, features: int) -> Params:
    """Shapes of the parameters of a network; for the network of a graph nothing is traced."""
    if isinstance(net.layer, Dag):
        kind = jnp.result_type(float)
        return tuple({"weight": jax.ShapeDtypeStruct(block.weight_shape, kind)} for block in net.layer.graph.blocks)
    return jax.eval_shape(lambda key: net.init(key, (1, features)), jax.random.key(0))


def drawn(net: Network, x: jax.Array, seed: Sequence[int], count: int) -> list[Params]:
    """Networks whose weights are all standard normal, drawn on the host, so that nothing is compiled."""
    shapes = shapes_of(net, x.shape[1])

    def one(number: int) -> Params:
        random = np.random.default_rng([*seed, number])
        return jax.tree.map(lambda leaf: random.normal(size=leaf.shape).astype(leaf.dtype), shapes)

    return [one(number) for number in range(count)]


def descend(
    f: Callable[[Params, jax.Array], jax.Array],
    x: jax.Array,
    y: jax.Array,
    starts: Sequence[Params],
    steps: int,
    probes: Mapping[str, Probe],
    share: float = 1.0,
) -> xr.Dataset:
    r"""Gradient descent on $\frac12\sum_i (f_i - y_i)^2$ with step size $1/\lambda_{\max}(K_0)$, from several starts.

    As many starts run at once as are small together. `share` multiplies the step size. The records have the dimension
    `network`; beside them stand the `loss`, the step sizes `lr` and `slowest`, $\eta\lambda_{\min}(K_0)$.
    """
    at_once = max(1, min(len(starts), TOGETHER // nets.count_parameters(starts[0])))
    spectrum = jax.jit(lambda params, x: jnp.linalg.eigvalsh(kernel_matrix(f, params, x)))

    @jax.jit  # traced once for the look, for the steps and for their types
    def loss(params: Params) -> jax.Array:
        return half_sum(f(params, x), y)

    def system(network: dict[str, Any]) -> Map:
        return gradient_descent(loss, network["lr"])

    def start(network: dict[str, Any]) -> Params:
        return network["params"]

    looks, found = {"loss": Probe(loss), **probes}, []
    for first in range(0, len(starts), at_once):
        some = starts[first : first + at_once]
        eigenvalues = np.stack([spectrum(params, x) for params in some])
        lr = share / eigenvalues[:, -1]
        over = {"network": {"params": stacked(some), "lr": lr}}
        beside = {"lr": ("network", lr), "slowest": ("network", lr * eigenvalues[:, 0])}
        found.append(simulate(system, start, steps, over=over, probes=looks).dataset.assign(beside))
    return xr.concat(found, "network", join="outer")


def law(values: xr.DataArray) -> PowerLaw:
    """The power law of values in the width; `values` has the dimensions `width` and `network`."""
    return fit_power_law(values.width, values.transpose("width", "network"))


def plot_law(axes: Axes, values: xr.DataArray, mark: str, label: str, **look: Any) -> None:
    """Draws geometric means over networks and the law through them, labelled with its exponent.

    `look` holds arguments of `Axes.plot` for the points.
    """
    found = law(values)
    means = np.log(values.transpose("width", "network").values).mean(axis=1)
    style = {"ms": 6, "mfc": "none", "mew": 1.4, "label": f"{label}: {found.exponent:.2f}", **look}
    (points,) = axes.plot(values.width, np.exp(means), mark, **style)
    axes.plot(values.width, found(values.width), color=points.get_color(), lw=1)


def mark_widths(axes: Axes, widths: xr.DataArray) -> None:
    """Makes both axes logarithmic, with ticks at every width and, upwards, at 1, 2 and 5 times powers of ten."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(widths.values, [str(width) for width in widths.values])
    low, high = axes.get_ylim()
    ticks = [a * 10.0**b for b in range(-8, 4) for a in (1, 2, 5) if low <= a * 10.0**b <= high]
    if len(ticks) <= 8:
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("width $m$")


def stored_numbers(make: Callable[[int], Network], features: int) -> Callable[[int], int]:
    """The number of parameters of a network as a function of its width, found without making the network.

    Weights join two layers. Their number is therefore a quadratic polynomial in the width, and three small widths
    determine it.
    """

    def count(small: int) -> int:
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes_of(make(small), features)))

    first, second, third = (count(4 * i) for i in (1, 2, 3))

    def polynomial(width: int) -> int:
        u = width / 4 - 1
        return round(first + u * (second - first) + u * (u - 1) / 2 * (third - 2 * second + first))

    return polynomial


def refuse_oversized(
    caller: str,
    make: Callable[[int], Network],
    features: int,
    widths: Sequence[int],
    *,
    copies: float = COPIES,
    itemsize: int = 4,
) -> None:
    """Raises an error for a sweep over widths that cannot fit into memory, before anything is computed.

    Args:
        caller: the name that the error begins with.
        make: width -> network.
        features: entries of an input.
        widths: all widths of the sweep.
        copies: how many copies of the parameters are held at once.
        itemsize: bytes of a number.

    Raises:
        MemoryError: names the memory needed, the free memory, and the widths that would fit.
    """
    free, count, widest = available_bytes(), stored_numbers(make, features), max(widths)

    def needed(width: int) -> float:
        return copies * itemsize * count(width)

    if free is None or needed(widest) <= free:
        return
    fits = 1 << int(math.log2(widest))
    while fits > 1 and needed(fits) > free:
        fits //= 2
    raise MemoryError(
        f"{caller}: `widths` goes up to {widest:,}, where a network has {count(widest):,} weights; {copies:g} copies "
        f"of them take {needed(widest) / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free. "
        f"Widths up to {fits:,} fit."
    )
