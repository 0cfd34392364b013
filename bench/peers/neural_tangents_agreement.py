"""Kernels of many architectures by neural-tangents, in float64.

Options: `architectures` by kind of input and by name (lists of layers), `gain`, `bias`. Arrays: two sets of inputs for
each kind.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from exchange import Exchange, say
from neural_tangents import stax

jax.config.update("jax_enable_x64", True)


def network(layers: list[Any], gain: float, bias: float) -> tuple:
    """The architecture, in neural-tangents' words."""
    rule = {"W_std": gain, "b_std": bias, "parameterization": "ntk"}

    def branches(parts: list[Any], join: tuple) -> tuple:
        return stax.serial(stax.FanOut(len(parts)), stax.parallel(*(network(p, gain, bias) for p in parts)), join)

    def part(name: str, *given: Any) -> tuple:
        if name == "dense":
            return stax.Dense(1, **rule)
        if name == "conv":
            window, stride, padding = given
            return stax.Conv(1, tuple(window), (stride, stride), padding, **rule)
        if name == "pool":
            size, stride, padding = given
            return stax.AvgPool((size, size), (stride, stride), padding)
        if name == "residual":
            return branches([[["identity"]], given[0]], stax.FanInSum())
        joins = {"sum": stax.FanInSum, "product": stax.FanInProd, "concatenation": stax.FanInConcat}
        if name in joins:
            return branches(given[0], joins[name]())
        plain = {
            "relu": stax.Relu,
            "leaky": stax.LeakyRelu,
            "abs": stax.Abs,
            "identity": stax.Identity,
            "erf": stax.Erf,
            "sin": stax.Sin,
            "cos": stax.Cos,
            "rbf": stax.Rbf,
            "gelu": stax.Gelu,
            "exp": stax.Exp,
            "monomial": stax.Monomial,
            "sign": stax.Sign,
            "sigmoid_like": stax.Sigmoid_like,
            "layer norm": stax.LayerNorm,
            "flatten": stax.Flatten,
            "global pool": stax.GlobalAvgPool,
        }
        return plain[name](*given)

    return stax.serial(*(part(*layer) for layer in layers))


def main() -> None:
    exchange = Exchange(("neural-tangents", "jax", "jaxlib", "numpy"))
    gain, bias = exchange.options["gain"], exchange.options["bias"]
    for kind, architectures in exchange.options["architectures"].items():
        x, y = (exchange.arrays[f"{kind}-{i}"] for i in range(2))
        say(f"{len(architectures)} architectures of {kind}")
        for name, layers in architectures.items():
            try:
                found = network(layers, gain, bias)[2](x, y, ("nngp", "ntk"))
            except Exception as error:
                exchange.fail(name, error)
                continue
            exchange.results[f"{name}/nngp"], exchange.results[f"{name}/ntk"] = map(np.asarray, found)
    exchange.close()


if __name__ == "__main__":
    main()
