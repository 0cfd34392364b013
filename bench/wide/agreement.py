"""Whether our kernels of infinite width are neural-tangents', in float64, on every architecture that both know."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench import environments
from bench.row import Row, row
from secant import nets
from secant.kernels import kernel
from secant.nets import Network, activations

Layers = list[Any]
"""An architecture as data that both sides read: a layer is a list of its name and what it takes."""

GAIN, BIAS = 1.3, 0.4


def _dense(*layers: Any) -> Layers:
    return [["dense"], *layers, ["dense"]]


ACTIVATIONS: Layers = [
    *(["relu"], ["leaky", 0.3], ["abs"], ["identity"], ["erf"], ["sin"], ["cos"], ["rbf", 0.7], ["gelu"]),
    *(["exp", 0.8, 0.5], ["monomial", 2], ["monomial", 3], ["sign"], ["sigmoid_like"]),
]
BRANCH = [["relu"], ["dense"]]
DENSE: dict[str, Layers] = {
    **{"-".join(map(str, layer)): _dense(layer, ["dense"], layer) for layer in ACTIVATIONS},
    "residual": _dense(["residual", BRANCH], ["erf"]),
    "sum": _dense(["sum", [BRANCH, [["erf"], ["dense"]]]], ["relu"]),
    "product": _dense(["product", [BRANCH, [["dense"]]]]),
    "concatenation": _dense(["concatenation", [BRANCH, [["dense"]]]], ["dense"], ["relu"]),
    "layer norm": _dense(["layer norm"], ["relu"], ["dense"], ["layer norm"], ["erf"]),
}
IMAGES: dict[str, Layers] = {
    **{
        f"convolution {padding} {stride}": [["conv", [3, 2], stride, padding], ["relu"], ["flatten"], ["dense"]]
        for padding in ("SAME", "VALID", "CIRCULAR")
        for stride in (1, 2)
    },
    **{
        f"pool {padding}": [["conv", [3, 3], 1, "SAME"], ["relu"], ["pool", 2, 2, padding], ["flatten"], ["dense"]]
        for padding in ("SAME", "VALID", "CIRCULAR")
    },
    "global pool": [*[["conv", [3, 3], 1, "SAME"], ["relu"]] * 3, ["global pool"], ["dense"]],
    "convolution of erf": [*[["conv", [3, 3], 1, "SAME"], ["erf"]] * 2, ["global pool"], ["dense"]],
    "residual convolution": [
        ["conv", [3, 3], 1, "SAME"], ["residual", [["relu"], ["conv", [3, 3], 1, "SAME"]]], ["global pool"], ["dense"]
    ],
    "pool between": [
        ["conv", [3, 3], 1, "SAME"], ["relu"], ["pool", 2, 2, "VALID"], ["conv", [2, 2], 1, "SAME"], ["relu"],
        ["global pool"], ["dense"],
    ],
}  # fmt: skip


def network(layers: Layers) -> Network:
    """The architecture, as one of our networks."""
    rule = {"parametrization": nets.Parametrization("ntk", gain=GAIN, bias_gain=BIAS), "bias": True}

    def part(name: str, *given: Any) -> Network:
        if name == "dense":
            return nets.dense(8, **rule)
        if name == "conv":
            return nets.conv(8, tuple(given[0]), strides=given[1], padding=given[2], **rule)
        if name == "pool":
            return nets.average_pool(given[0], strides=given[1], padding=given[2])
        if name == "residual":
            return nets.residual(network(given[0]))
        if name in ("sum", "product", "concatenation"):
            join = {"sum": nets.add, "product": nets.multiply, "concatenation": nets.concat}[name]
            return join(*map(network, given[0]))
        if name == "layer norm":
            return nets.layer_norm(gain=False, shift=False, epsilon=1e-12)
        plain = {"flatten": nets.flatten, "global pool": nets.global_average_pool}
        if name in plain:
            return plain[name]()
        families = {
            "leaky": activations.leaky,
            "rbf": activations.rbf,
            "exp": activations.exp,
            "monomial": activations.monomial,
            "sigmoid_like": activations.sigmoid_like,
        }
        return nets.activation(families[name](*given) if name in families else name)

    return nets.serial(*(part(*layer) for layer in layers))


@row
def kernel_agreement() -> Row:
    """The largest relative difference over all architectures, both kernels, of one set of inputs with another."""
    random = np.random.default_rng(0)
    shapes = {"vectors": ((4, 6), (3, 6)), "images": ((3, 6, 5, 2), (2, 6, 5, 2))}
    inputs = {f"{kind}-{i}": random.normal(size=shape) for kind, pair in shapes.items() for i, shape in enumerate(pair)}
    report = environments.run(
        "neural-tangents",
        "neural_tangents_agreement",
        inputs,
        architectures={"vectors": DENSE, "images": IMAGES},
        gain=GAIN,
        bias=BIAS,
    )
    assert not report.failed, report.failed
    worst, where = 0.0, ""
    with jax.enable_x64(True):
        for kind, architectures in (("vectors", DENSE), ("images", IMAGES)):
            x, y = (jnp.asarray(inputs[f"{kind}-{i}"]) for i in range(2))
            for name, layers in architectures.items():
                found = kernel(network(layers), x, y)
                for which in ("nngp", "ntk"):
                    theirs = report.arrays[f"{name}/{which}"]
                    error = float(np.abs(np.asarray(getattr(found, which)) - theirs).max() / np.abs(theirs).max())
                    if error > worst:
                        worst, where = error, f"{which} of {name}"
    count = len(DENSE) + len(IMAGES)
    work = f"largest relative difference of both kernels in float64, {count} architectures ({where})"
    peer = f"neural-tangents {report.versions['neural-tangents']} on JAX {report.versions['jax']}"
    return Row("kernel_agreement", work, peer, 1.0, worst, 1e-9, unit="")
