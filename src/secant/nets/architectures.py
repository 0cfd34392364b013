"""Architectures by name. Each is a chain of layers, and treats every sample alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from secant.nets.activations import Function
from secant.nets.layers.activation import activation as activation_layer
from secant.nets.layers.attention import attention
from secant.nets.layers.checks import at_least_one
from secant.nets.layers.combinators import concat, residual, serial
from secant.nets.layers.conv import conv
from secant.nets.layers.dense import dense
from secant.nets.layers.norm import layer_norm
from secant.nets.layers.pool import average_pool, global_average_pool
from secant.nets.layers.shape import flatten, identity, scalar
from secant.nets.layers.tokens import patches, positions
from secant.nets.network import Network
from secant.nets.parametrization import Parametrization, parametrized

Rule = str | Parametrization
Rules = Rule | Sequence[Rule]
"""One for all layers, or one a layer."""
Norm = Literal["layer"] | None


def _readout(outputs: int, rule: Rule, bias: bool, output_activation: str | Function | None = None) -> list[Network]:
    """The last dense layer; a single output has no axis of its own."""
    at_least_one("readout", outputs=outputs)
    layers = [dense(outputs, parametrization=rule, bias=bias, last=True)]
    if output_activation is not None:
        layers.append(activation_layer(output_activation))
    return [*layers, scalar()] if outputs == 1 else layers


def _one_a_layer(name: str, parametrization: Rules, layers: int) -> list[Parametrization]:
    """The rule of every layer of weights."""
    if isinstance(parametrization, str | Parametrization):
        return [parametrized(parametrization)] * layers
    rules = [parametrized(rule) for rule in parametrization]
    if len(rules) != layers:
        raise ValueError(
            f"{name}: `parametrization` must be one rule or one for each of {layers} layers, got {len(rules)}."
        )
    return rules


def mlp(
    widths: Sequence[int],
    outputs: int = 1,
    *,
    activation: str | Function = "relu",
    parametrization: Rules = "ntk",
    bias: bool = False,
    output_activation: str | Function | None = None,
    name: str = "mlp",
) -> Network:
    r"""A fully connected network.

    In the default parametrisation $f^{(\ell)} = \sigma(f^{(\ell-1)} W^{(\ell)} / \sqrt{m_{\ell-1}})$ with $f^{(0)} = x$
    and $W_{ij} \sim N(0, 1)$; the last layer is linear.

    Args:
        widths: sizes of the hidden layers; an empty list gives a linear model.
        outputs: how many outputs; one gives outputs of shape `(samples,)`, several `(samples, outputs)`.
        activation: name or function, after every hidden layer.
        parametrization: name or [`Parametrization`][secant.nets.Parametrization], or one for every layer of weights.
        bias: whether all layers have biases.
        output_activation: name or function after the last layer.
        name: the network's name in errors and records.

    Example:
        ```python
        import jax
        from secant import nets

        net = nets.mlp([256, 256], outputs=10, activation="tanh", parametrization="standard", bias=True)
        params = net.init(jax.random.key(0), (1, 784))
        print(nets.count_parameters(params), net.output_shape((5, 784)))
        ```
        ```text
        269322 (5, 10)
        ```
    """
    *hidden, last = _one_a_layer(name, parametrization, len(widths) + 1)
    layers: list[Network] = []
    for width, rule in zip(widths, hidden, strict=True):
        layers += [dense(width, parametrization=rule, bias=bias), activation_layer(activation)]
    layers += _readout(outputs, last, bias, output_activation)
    return replace(serial(*layers, name=name), axes=1)


def deep_linear(widths: Sequence[int], outputs: int = 1, *, parametrization: Rules = "ntk") -> Network:
    r"""A product of matrices, $f(x) = s\, x W^{(1)} \cdots W^{(L)}$: linear in the data, not in the weights."""
    return mlp(widths, outputs, activation="identity", parametrization=parametrization, name="deep_linear")


def two_layer(width: int, *, activation: str | Function = "relu") -> Network:
    r"""One hidden layer and signs, $f(x) = m^{-1/2} \sum_{i \le m} v_i\, \sigma(u_i^\top x / \sqrt d)$.

    At the start $u_i \sim N(0, I_d)$ and $v_i = \pm1$ with probability one half each; both are trained.
    """
    rule = Parametrization("ntk", output_signs=True)
    return mlp([width], activation=activation, parametrization=rule, name="two_layer")


def cnn(
    channels: Sequence[int],
    outputs: int = 1,
    *,
    window: int | tuple[int, ...] = 3,
    pool: Literal["average"] | None = None,
    padding: str = "SAME",
    activation: str | Function = "relu",
    parametrization: Rules = "ntk",
    bias: bool = False,
    name: str = "cnn",
) -> Network:
    r"""A convolutional network: convolutions of stride 1, then a dense layer on all positions.

    Args:
        channels: channels of the convolutions; `[1024]` is a network of depth 2, `[512] * 4` of depth 5.
        outputs: as for [`mlp`][secant.nets.mlp].
        window: `3` for images with a 3 by 3 window, `(3,)` for signals of shape `(length, channels)`.
        pool: `"average"` gives the dense layer the mean over positions instead of all of them.
        padding: of the convolutions, as for [`conv`][secant.nets.conv].
        activation: as for `mlp`.
        parametrization: as for `mlp`.
        bias: as for `mlp`.
        name: as for `mlp`.
    """
    if pool not in (None, "average"):
        raise ValueError(f"{name}: `pool` must be 'average' or None, got {pool!r}.")
    *hidden, last = _one_a_layer(name, parametrization, len(channels) + 1)
    layers: list[Network] = []
    for width, rule in zip(channels, hidden, strict=True):
        convolution = conv(width, window, padding=padding, parametrization=rule, bias=bias)
        layers += [convolution, activation_layer(activation)]
    layers += [flatten() if pool is None else global_average_pool(), *_readout(outputs, last, bias)]
    return serial(*layers, name=name)


def densenet(
    widths: Sequence[int],
    outputs: int = 1,
    *,
    concat_input: bool = True,
    activation: str | Function = "relu",
    parametrization: Rule = "ntk",
    bias: bool = False,
) -> Network:
    r"""A network whose every layer reads all layers before it.

    $f^{(\ell)} = \sigma([f^{(0)}, \dots, f^{(\ell-1)}]\, W^{(\ell)} / \sqrt{m})$, where $m$ counts everything that is
    read. With `concat_input=False` only the first layer reads the input $f^{(0)} = x$, so that in all others the width
    of the hidden layers sets $m$.
    """
    layers: list[Network] = []
    for index, width in enumerate(widths):
        layer = serial(dense(width, parametrization=parametrization, bias=bias), activation_layer(activation))
        layers.append(concat(identity(), layer) if concat_input or index > 0 else layer)
    layers += _readout(outputs, parametrization, bias)
    return replace(serial(*layers, name="densenet"), axes=1)


def _block(channels: int, strides: int, project: bool, activation: str | Function, norm: Norm, **rule: Any) -> Network:
    """Two convolutions, each after a norm and an activation, beside a shortcut."""
    layers: list[Network] = []
    for step in (strides, 1):
        layers += [layer_norm(over="sample")] if norm == "layer" else []
        layers += [activation_layer(activation), conv(channels, 3, strides=step, **rule)]
    return residual(serial(*layers), conv(channels, 1, strides=strides, **rule) if project else None)


def resnet(
    channels: Sequence[int] = (16, 32, 64),
    outputs: int = 1,
    *,
    blocks: int = 1,
    stem: int | None = None,
    norm: Norm = None,
    activation: str | Function = "relu",
    parametrization: Rule = "ntk",
    bias: bool = False,
    name: str = "resnet",
) -> Network:
    r"""A residual network for images.

    A convolution, then for every entry of `channels` a stage of residual blocks, $x \mapsto P(x) + f(x)$ with two
    convolutions in $f$; then the mean over positions and a dense layer. From the second stage on, the first block of
    a stage halves the image. The shortcut $P$ is a 1 by 1 convolution where the shape changes, otherwise the identity.

    Args:
        channels: channels of the stages.
        outputs: as for [`mlp`][secant.nets.mlp].
        blocks: residual blocks in every stage.
        stem: channels of the first convolution; by default those of the first stage.
        norm: `"layer"` normalises every sample before every activation. There is no norm over a batch, because it
            would couple the samples.
        activation: as for `mlp`.
        parametrization: as for `mlp`.
        bias: as for `mlp`.
        name: as for `mlp`.
    """
    at_least_one(name, blocks=blocks)
    if norm not in (None, "layer"):
        raise ValueError(f"{name}: `norm` must be 'layer' or None, got {norm!r}.")
    if not channels:
        raise ValueError(f"{name}: `channels` must name at least one stage, got {channels!r}.")
    rule: dict[str, Any] = {"parametrization": parametrization, "bias": bias}
    before = channels[0] if stem is None else stem
    layers = [conv(before, 3, **rule)]
    for stage, width in enumerate(channels):
        for index in range(blocks):
            strides = 2 if stage > 0 and index == 0 else 1
            layers.append(_block(width, strides, strides > 1 or before != width, activation, norm, **rule))
            before = width
    layers += [layer_norm(over="sample")] if norm == "layer" else []
    layers += [activation_layer(activation), global_average_pool(), *_readout(outputs, parametrization, bias)]
    return serial(*layers, name=name)


def wide_resnet(depth: int = 10, widen: int = 10, outputs: int = 1, *, base: int = 16, **options: Any) -> Network:
    r"""A wide residual network: stages of $16k$, $32k$ and $64k$ channels, each of $(\text{depth} - 4)/6$ blocks.

    Args:
        depth: 10, 16, 22, ...
        widen: the factor $k$.
        outputs: as for [`mlp`][secant.nets.mlp].
        base: channels of the first convolution, in place of 16.
        **options: `norm`, `activation`, `parametrization` and `bias`, as for [`resnet`][secant.nets.resnet].
    """
    at_least_one("wide_resnet", depth=depth, widen=widen, base=base)
    if depth < 10 or (depth - 4) % 6:
        raise ValueError(f"wide_resnet: `depth` must be 10, 16, 22, ..., got {depth}.")
    channels = [base * widen * factor for factor in (1, 2, 4)]
    return resnet(channels, outputs, blocks=(depth - 4) // 6, stem=base, name="wide_resnet", **options)


def myrtle5(
    outputs: int = 1,
    *,
    width: int = 64,
    activation: str | Function = "relu",
    parametrization: Rule = "ntk",
    bias: bool = False,
) -> Network:
    """Four convolutions of `width`, 2, 4 and 8 `width` channels and a dense layer.

    The image is halved after the second and third convolution, and averaged after the fourth.
    """
    layers: list[Network] = []
    for factor, pool in ((1, None), (2, average_pool(2)), (4, average_pool(2)), (8, global_average_pool())):
        layers += [conv(factor * width, 3, parametrization=parametrization, bias=bias), activation_layer(activation)]
        layers += [] if pool is None else [pool]
    return serial(*layers, *_readout(outputs, parametrization, bias), name="myrtle5")


def vit(
    outputs: int = 1,
    *,
    blocks: int = 4,
    patch: int = 4,
    dim: int = 64,
    heads: int = 4,
    hidden: int | None = None,
    activation: str | Function = "gelu",
    parametrization: Rule = "ntk",
    bias: bool = False,
    name: str = "vit",
) -> Network:
    """A vision transformer.

    Patches of the image become tokens of `dim` features with a table of positions; every block is attention and then
    two dense layers, each beside a shortcut and after a norm. The mean over tokens passes a dense layer. With `mup`,
    products of queries and keys are divided by the size of a head instead of its root.

    Args:
        outputs: as for [`mlp`][secant.nets.mlp].
        blocks: how many blocks.
        patch: side of a patch.
        dim: features of a token.
        heads: heads of the attention.
        hidden: features between the two dense layers of a block, by default twice `dim`.
        activation: between them.
        parametrization: as for `mlp`.
        bias: as for `mlp`.
        name: as for `mlp`.
    """
    at_least_one(name, blocks=blocks)
    rule = parametrized(parametrization)
    options: dict[str, Any] = {"parametrization": rule, "bias": bias}
    # Once trained, queries and keys are correlated: their product grows like the size of a head, not like its root.
    scaling: Literal["root", "linear"] = "linear" if rule.name == "mup" else "root"
    layers = [patches(patch), dense(dim, **options), positions(rule)]
    for _ in range(blocks):
        mix = [layer_norm(), attention(heads, scaling=scaling, **options)]
        think = [dense(2 * dim if hidden is None else hidden, **options), activation_layer(activation)]
        layers += [residual(serial(*mix)), residual(serial(layer_norm(), *think, dense(dim, **options)))]
    layers += [layer_norm(), global_average_pool(), *_readout(outputs, rule, bias)]
    return serial(*layers, name=name)


def vit4(outputs: int = 1, **options: Any) -> Network:
    """A vision transformer of four blocks; `options` as for [`vit`][secant.nets.vit]."""
    return vit(outputs, blocks=4, name="vit4", **options)
