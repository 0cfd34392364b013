"""Networks rebuilt with other parametrisations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from secant.nets.layers import Attention, Concat, Conv, Dense, Frozen, Positions, Product, Residual, Serial, Sum
from secant.nets.layers.attention import attention
from secant.nets.layers.combinators import add, concat, multiply, residual, serial
from secant.nets.layers.conv import conv
from secant.nets.layers.dense import dense
from secant.nets.layers.tokens import positions
from secant.nets.network import Network
from secant.nets.parametrization import Parametrization, parametrized

JOINS: dict[type, Any] = {Serial: serial, Residual: residual, Concat: concat, Sum: add, Product: multiply}
PARAMETRIZED = (Dense, Conv, Attention, Positions)


def parametrizations(net: Network) -> list[Parametrization]:
    """The parametrisations of all layers that have one, in the order of the network."""
    if isinstance(net.layer, PARAMETRIZED):
        return [net.layer.parametrization]
    if isinstance(net.layer, Frozen):  # stays as it has been drawn
        return []
    return [rule for part in net.parts for rule in parametrizations(part)]


def with_parametrizations(net: Network, rules: str | Parametrization | Sequence[str | Parametrization]) -> Network:
    """The same layers, drawn and scaled by other parametrisations.

    Args:
        net: a network made of the layers and combinators of `secant.nets`.
        rules: one parametrisation for all layers, or one for each layer that has one, in the order of the network.
            Dense layers, convolutions, attention and tables of positions have one.

    Example:
        ```python
        from secant import nets

        net = nets.mlp([8, 8], activation="tanh", bias=True)
        other = nets.with_parametrizations(net, nets.Parametrization("mup", optimizer="adam"))
        print(other.parts[0].layer.parametrization.name, other.name)
        ```
        ```text
        mup mlp
        ```
    """
    count = len(parametrizations(net))
    given = [rules] * count if isinstance(rules, str | Parametrization) else list(rules)
    if len(given) != count:
        raise ValueError(
            f"with_parametrizations: `rules` must be one parametrisation, or one for each of {count} layers, got "
            f"{len(given)}."
        )
    return _rebuilt(net, iter([parametrized(rule) for rule in given]))


def _rebuilt(net: Network, rules: Iterator[Parametrization]) -> Network:
    layer = net.layer
    if isinstance(layer, PARAMETRIZED):
        return _layer(layer, next(rules))
    if not net.parts or isinstance(layer, Frozen):
        return net
    if type(layer) not in JOINS:
        raise ValueError(
            f"with_parametrizations: {net.name} is not made by a combinator of secant.nets. Build it with serial, "
            "residual, concat, add or multiply."
        )
    parts = [_rebuilt(part, rules) for part in net.parts]
    return replace(JOINS[type(layer)](*parts, name=net.name), axes=net.axes)


def _layer(layer: Dense | Conv | Attention | Positions, rule: Parametrization) -> Network:
    if isinstance(layer, Positions):
        return positions(rule)
    if isinstance(layer, Attention):
        how = {"scores": layer.scores, "scaling": layer.scaling, "bias": layer.bias}
        return attention(layer.heads, layer.features, parametrization=rule, **how)  # type: ignore[arg-type]
    if isinstance(layer, Dense):
        return dense(layer.features, parametrization=rule, bias=layer.bias, last=layer.last)
    return conv(
        layer.channels,
        layer.window,
        strides=layer.strides,
        padding=layer.padding,
        parametrization=rule,
        bias=layer.bias,
        last=layer.last,
    )


__all__ = ["parametrizations", "with_parametrizations"]
