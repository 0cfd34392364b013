"""Lemma 13.2.2: layers behind a layer norm have degree one, and a network with a frozen top has degree zero."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr

from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.nets import Homogeneity
from secant.theory.normalization.scale_invariance import degree

EPSILONS = (1e-8, 1e-6, 1e-4, 1e-2)
"""Over the least variance that a layer divides by."""
FACTORS = (0.1, 3.0)


class Config(Seeded):
    layers: int = options.layers(3, at_least=2, at_most=8)
    width: int = options.width(8, at_least=8, at_most=256)
    features: int = option(5, at_least=2, at_most=256, help="of the inputs")
    samples: int = options.samples(4, at_most=256)


def drawn(config: Config) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Weights, gains and shifts of every layer, the last with weights only; and inputs."""
    random = np.random.default_rng(config.seed)
    sizes = [config.features, *[config.width] * config.layers, 1]
    params = [{"weight": random.normal(size=pair) / np.sqrt(pair[0])} for pair in itertools.pairwise(sizes)]
    for own in params[:-1]:
        own |= {"gain": random.normal(1, 0.3, config.width), "shift": random.normal(0, 0.2, config.width)}
    return params, random.normal(size=(config.samples, config.features))


def forward(params: list[dict[str, Any]], x: np.ndarray, epsilon: float) -> dict[str, np.ndarray]:
    """All pre-activations Wx and layers x^(l), and the outputs, by the formula."""
    seen = {}
    for number, own in enumerate(params[:-1], 1):
        a = seen[f"Wx{number}"] = x @ own["weight"]
        centred = a - a.mean(1, keepdims=True)
        z = centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
        x = seen[f"x{number}"] = np.maximum(own["gain"] * z + own["shift"], 0)
    return seen | {"f": x @ params[-1]["weight"]}


def network(config: Config) -> nets.Network:
    """The same of Secant's layers."""
    hidden = [
        nets.dense(config.width, parametrization="standard"),
        nets.layer_norm(epsilon=0.0),
        nets.activation("relu"),
    ]
    return nets.serial(*hidden * config.layers, nets.dense(1, parametrization="standard", last=True))


def as_tree(params: list[dict[str, Any]]) -> Any:
    """Parameters as the network holds them."""
    parts = [({"weight": own["weight"]}, {"gain": own["gain"], "shift": own["shift"]}, ()) for own in params[:-1]]
    return (*(part for three in parts for part in three), params[-1])


@study("book/lem-13.2.2", section="13.2", title="What a layer norm does to degrees")
def run(config: Config) -> xr.Dataset:
    r"""With $x^{(l)} = \mathrm{ReLU}(\mathrm{LayerNorm}(W^{(l-1)}x^{(l-1)}))$, every $x^{(l)}$ with $l \ge 1$ has
    degree of homogeneity 1 in all parameters together; if those after the last normalisation, $\gamma^{(L-1)}$,
    $\beta^{(L-1)}$ and $W^{(L)}$, are fixed, the network is scale-invariant in the others. With $\epsilon$ under the
    root it is so up to $O(\epsilon)$.
    """
    params, x = drawn(config)
    last = config.layers - 1
    exact = forward(params, x, 0.0)
    apply = jax.jit(network(config).apply)
    top = (f"[{last}]['gain']", f"[{last}]['shift']", f"[{last + 1}]['weight']")
    names = [name for name in exact if name != "f"]

    def of(name: str, part: Callable[[str], bool] | None = None) -> Homogeneity:
        return degree(lambda p: forward(p, x, 0.0)[name], params, part, factors=FACTORS)

    whole = [of(name) for name in names]
    invariant = of("f", lambda path: path not in top)
    alone = [of("f", lambda path, own=f"[{i}]['weight']": path == own) for i in range(config.layers)]  # type: ignore[misc]
    output = degree(lambda p: apply(as_tree(p), x), params, factors=FACTORS)
    frozen = degree(lambda p: apply(as_tree(p), x), params, lambda path: path not in top, factors=FACTORS)

    least = min(exact[name].var(1).min() for name in names if name.startswith("W"))

    def longer(epsilon: float) -> float:
        scaled = [{k: v if f"[{i}]['{k}']" in top else 2 * v for k, v in own.items()} for i, own in enumerate(params)]
        after, before = (forward(p, x, epsilon)["f"] for p in (scaled, params))
        return float(np.linalg.norm(after - before) / np.linalg.norm(before))

    return xr.Dataset(
        {
            "degree": ("what", [float(one.degree) for one in whole]),
            "residual": ("what", [float(one.residual) for one in whole]),
            "alone": ("layer", [float(one.degree) for one in alone]),
            "changed": ("layer", [float(one.residual) for one in alone]),
            "top": ("kind", [float(output.degree), float(frozen.degree), float(invariant.degree)]),
            "top_residual": ("kind", [float(output.residual), float(frozen.residual), float(invariant.residual)]),
            "library": np.abs(np.asarray(apply(as_tree(params), x)) - exact["f"]).max() / np.abs(exact["f"]).max(),
            "broken": ("epsilon", [longer(epsilon * least) for epsilon in EPSILONS]),
        },
        coords={"what": names, "epsilon": list(EPSILONS), "layer": np.arange(config.layers)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = "rounding of a forward pass, over log c"
    layers = data.sel(what=[f"x{number}" for number in range(1, config.layers + 1)])
    yield claim("degree-x-l", "degree of x^(l) in all parameters less 1, largest over layers").zero(
        np.abs(layers.degree - 1).max(), 1e-9, rounding
    )
    yield claim("x-c-w", "|x(c w) - c x(w)|/|c x(w)|, largest").zero(layers.residual.max(), 1e-9, rounding)
    yield claim("degree-network-top", "degree of the network with its top block fixed").zero(
        data.top[1], 1e-9, rounding
    )
    yield claim("same-formula-numpy", "the same by the formula in NumPy").zero(data.top[2], 1e-9, rounding)
    yield claim("what-scaling-changes", "what scaling changes of its outputs").zero(
        data.top_residual[1], 1e-9, rounding
    )
    yield claim("degree-network-trained", "degree of the network with all trained").equal(
        2.0, data.top[0], 1e-9, rounding, note="a layer of degree 1 times a last layer of degree 1"
    )
    yield claim("degree-one-weight", "degree in one weight matrix below a norm, largest").zero(
        np.abs(data.alone).max(), 1e-9, rounding, note="each of them alone is scale-invariant too"
    )
    yield claim("network-secant-s", "network of Secant's layers against the formula").zero(
        data.library, 1e-12, "rounding"
    )
    yield claim("degree-pre-activations", "degree of the pre-activations of the second layer").erratum(
        ("1", 1.0),
        ("2", 2.0),
        data.degree.sel(what="Wx2"),
        1e-9,
        rounding,
        where="proof of Lemma 13.2.2",
        note="they are weights times a layer of degree 1; only those of the first layer, whose inputs are data, have "
        "degree 1. The norm divides any degree out, and the lemma stands",
    )
    small = data.broken.isel(epsilon=slice(0, 3))
    yield claim("exponent-what-scaling", "exponent of what scaling by 2 changes against epsilon").equal(
        1.0,
        np.polyfit(np.log(small.epsilon), np.log(small), 1)[0],
        0.01,
        "O(epsilon): the next order is at most 1e-4 of it, and so is rounding",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    numbers = np.arange(1, config.layers + 1)
    left.plot(numbers, data.degree.sel(what=[f"x{n}" for n in numbers]), "o", color="C0", label="$x^{(l)}$")
    left.plot(numbers, data.degree.sel(what=[f"Wx{n}" for n in numbers]), "s", color="C1", label="$W^{(l-1)}x^{(l-1)}$")
    left.plot(config.layers + 1, data.top[0], "D", color="C2", label="outputs")
    left.plot(config.layers + 1, data.top[1], "v", color="C3", label="outputs, top block fixed")
    sheet.mark(left, y=(0, 1, 2))
    sheet.label(
        left,
        "Degree in all parameters",
        "layer $l$",
        "degree",
        {"loc": "center left", "bbox_to_anchor": (0.02, 0.27)},
        ylim=(-0.3, 2.4),
        xticks=np.arange(1, config.layers + 2),
    )
    right.plot(data.epsilon, data.broken, "o", color="C0", label="measured")
    sheet.guide(right, data.epsilon, data.broken[1] * data.epsilon / data.epsilon[1], "slope 1")
    sheet.label(
        right,
        "Outputs of weights twice as long",
        r"$\epsilon$ over the least variance",
        "relative change",
        "upper left",
        xscale="log",
        yscale="log",
    )
