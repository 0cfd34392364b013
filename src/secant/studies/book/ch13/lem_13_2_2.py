"""Lemma 13.2.2: layers behind a layer norm have degree one; a network with a frozen top has degree zero."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr

from secant import nets
from secant.lab import Figure, Findings, Seeded, claim, options, sheet, study
from secant.nets import Homogeneity
from secant.studies.shared.numerics.exponents import rate
from secant.theory.normalization.scale_invariance import degree

EPSILONS = (1e-8, 1e-6, 1e-4, 1e-2)
"""Values of epsilon over the least variance that a layer divides by."""
FACTORS = (0.1, 3.0)


class Config(Seeded):
    layers: int = options.layers(3, at_least=2, at_most=8)
    width: int = options.width(8, at_least=8, at_most=256)
    features: int = options.features(5, at_least=2, at_most=256)
    samples: int = options.samples(4, at_most=256)


def drawn(config: Config) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Weights, gains and shifts of every layer (the last has weights only), and inputs."""
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
    """The same network, made of Secant's layers."""
    weights = nets.dense(config.width, parametrization="standard")
    hidden = [weights, nets.layer_norm(epsilon=0.0), nets.activation("relu")]
    return nets.serial(*hidden * config.layers, nets.dense(1, parametrization="standard", last=True))


def as_tree(params: list[dict[str, Any]]) -> Any:
    """The parameters in the form that the network takes."""
    parts = [({"weight": own["weight"]}, {"gain": own["gain"], "shift": own["shift"]}, ()) for own in params[:-1]]
    return (*(part for three in parts for part in three), params[-1])


@study("book/lem-13.2.2", section="13.2", title="What a layer norm does to degrees")
def run(config: Config) -> xr.Dataset:
    r"""With $x^{(l)} = \mathrm{ReLU}(\mathrm{LayerNorm}(W^{(l-1)}x^{(l-1)}))$, every $x^{(l)}$ with $l \ge 1$ has
    degree of homogeneity 1 in all parameters together. If the parameters after the last normalisation,
    $\gamma^{(L-1)}$, $\beta^{(L-1)}$ and $W^{(L)}$, are fixed, the network is scale-invariant in the others. With
    $\epsilon$ under the root this holds up to $O(\epsilon)$.
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
    rounding = r"rounding of a forward pass, over $\log c$"
    layers = data.sel(what=[f"x{number}" for number in range(1, config.layers + 1)])
    each = "each of the matrices alone is scale-invariant too"
    both = "a layer of degree 1 times a last layer of degree 1"
    degrees, invariant, frozen = np.abs(layers.degree - 1).max(), data.top[1:3], data.top_residual[1]
    for key, name, wanted, found, note in (
        ("layers", "degree of $x^{(l)}$ in all parameters less 1, largest over layers", 0.0, degrees, ""),
        ("layers-misfit", "$|x(cw) - c\\,x(w)|/|c\\,x(w)|$, largest", 0.0, layers.residual.max(), ""),
        ("frozen", "degree of the network with its top block fixed", 0.0, invariant[0], ""),
        ("frozen-numpy", "degree with the top block fixed, by the formula in NumPy", 0.0, invariant[1], ""),
        ("frozen-misfit", "share of the outputs that scaling changes, top block fixed", 0.0, frozen, ""),
        ("trained", "degree of the network with all parameters trained", 2.0, data.top[0], both),
        ("one-matrix", "degree in one weight matrix below a norm, largest", 0.0, np.abs(data.alone).max(), each),
    ):
        yield claim(key, name).equal(wanted, found, 1e-9, rounding, note=note)
    yield claim("library", "network of Secant's layers less the formula").zero(data.library, 1e-12, "rounding")
    yield claim("pre-activations", "degree of the pre-activations of the second layer").erratum(
        ("1", 1.0),
        ("2", 2.0),
        data.degree.sel(what="Wx2"),
        1e-9,
        rounding,
        where="proof of Lemma 13.2.2",
        note="The pre-activations are weights times a layer of degree 1. Only the first layer, whose inputs are data, "
        "gives degree 1. The norm divides any degree out, and the lemma stands.",
    )
    small = data.broken.isel(epsilon=slice(0, 3))
    why = r"$O(\epsilon)$: the next order is at most $10^{-4}$ of it, and so is rounding"
    yield claim("epsilon", r"exponent in $\epsilon$ of the change when weights double").equal(
        1.0, rate(small.epsilon, small), 0.01, why
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
    left.set(ylim=(-0.3, 2.4), xticks=np.arange(1, config.layers + 2))
    legend = {"loc": "center left", "bbox_to_anchor": (0.02, 0.27)}
    sheet.label(left, "Degree in all parameters", "layer $l$", "degree", legend)
    right.plot(data.epsilon, data.broken, "o", color="C0", label="measured")
    sheet.guide(right, data.epsilon, data.broken[1] * data.epsilon / data.epsilon[1], "slope 1")
    right.set(xscale="log", yscale="log")
    x = r"$\epsilon$ over the least variance"
    sheet.label(right, "Outputs of weights twice as long", x, "relative change", "upper left")
