"""Rules of layers: what each does to covariances and tangent kernels. Those of positions are in `places`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from secant.kernels.arc import arc
from secant.kernels.dual import CLOSED, quadrature
from secant.kernels.passes import Pass
from secant.kernels.plan import Path
from secant.kernels.signal import Signal
from secant.nets.activations import Function, Nonlinearity
from secant.nets.parametrization import Parametrization
from secant.nets.records import (
    Activation,
    Concat,
    Dense,
    Identity,
    LayerNorm,
    Product,
    Residual,
    Scalar,
    Sum,
)

Signals = tuple[Signal, ...]
"""The features behind a layer, one signal a kind; there are several kinds behind a concatenation."""

Rule = Callable[[Any, Signals, Pass, Path], Signals]
"""`(layer, signals, pass, place) -> signals`."""

ODD = ("identity", "tanh", "erf", "sin", "sign")


class Constants(NamedTuple):
    """What a layer of weights multiplies and adds: to covariances, and to tangent kernels."""

    weights: Any
    biases: Any
    passed: Any
    trained: Any
    shifts: Any


def constants(
    rule: Parametrization, bias: bool, fans: tuple[int, int], on: Pass, path: Path, *, last: bool, inputs: bool
) -> Constants:
    r"""Of a layer with $m$ incoming edges and $k$ neurons, `fans`: $m\,\mathrm{Var}(s w)$ and $\mathrm{Var}(s_b b)$;
    the same for the tangent kernel that is passed on; and $m s^2$ and $s_b^2$ for what its own parameters add to it.

    Widths that stay in them are those of the network as it stands. What vanishes in the limit is zero: biases of
    `pytorch` behind the first layer, and the outputs of `mean-field` and `mup`.
    """
    if rule.name == "near-zero":
        raise ValueError(
            f"kernel: the layer at {written(path)} is drawn `near-zero`, with a spread that does not fall with the "
            "width, so that its signals have no limit. Use 'ntk', 'standard', 'pytorch', 'mean-field' or 'mup'."
        )
    draw, shift = rule.weight(*fans, last=last), rule.bias(*fans, last=last)
    weights, trained = fans[0] * draw.variance, fans[0] * draw.scale**2
    biases, shifts = (shift.variance, shift.scale**2) if bias else (0.0, 0.0)
    if on.variances is not None:
        given, added = on.variances[on.weighted]
        if rule.scaled:
            trained, shifts = given / draw.spread**2, added / shift.spread**2 if bias else 0.0
        weights, biases = given, added if bias else 0.0
    on.weighted += 1
    passed = weights
    if rule.vanishing and last:
        weights = 0.0
    if rule.name == "pytorch" and not inputs:
        biases = 0.0
    return Constants(weights, biases, passed, trained, shifts)


def written(path: Path) -> str:
    """A place in words: part 2, part 0 of part 3."""
    return " of ".join(f"part {index}" for index in reversed(path)) or "the start"


def merged(signals: Signals) -> Signal:
    """All kinds of features, and flat positions, as the mean that a matrix of weights makes of them."""
    signals = tuple(_unflat(signal.folded()) for signal in signals)
    if len(signals) == 1:
        return signals[0]
    total = sum(signal.count for signal in signals)
    shares = [signal.count / total for signal in signals]
    mean = lambda parts: sum(share * part for share, part in zip(shares, parts, strict=True))  # noqa: E731
    sizes = None
    if all(signal.sizes is not None for signal in signals):
        first, second = (mean([s.sizes[i] ** 2 for s in signals]) ** 0.5 for i in (0, 1))
        sizes = (first, second)
    return signals[0].with_(
        cov=mean([signal.covariance for signal in signals]),
        ntk=None if signals[0].ntk is None else mean([signal.ntk for signal in signals]),
        sizes=sizes,
        features=total,
    )


def _unflat(signal: Signal) -> Signal:
    if not signal.flat or not signal.positions:
        return signal
    axes = tuple(range(len(signal.positions)))
    # Sizes are not needed: whoever averages covariances does not ask for gaps.
    return signal.with_(
        cov=jnp.mean(signal.covariance, axes),
        ntk=None if signal.ntk is None else jnp.mean(signal.ntk, axes),
        sizes=None,
        positions=(),
        full=False,
        flat=False,
        features=signal.count,
    )


def mixed_by_weights(signal: Signal, made: Constants, features: int, on: Pass, path: Path) -> Signal:
    """Behind weights that mix the features of one position."""
    ntk, multiple = None, None
    if on.ntk:
        ntk = made.trained * signal.covariance + made.shifts
        if signal.ntk is not None:
            ntk = made.passed * signal.ntk + ntk
        elif isinstance(made.weights, float) and made.weights > 0:
            ratio = made.trained / made.weights
            multiple = (ratio, made.shifts - ratio * made.biases)
    changes = {
        "ntk": ntk,
        "multiple": multiple,
        "features": features,
        "gaussian": True,
        "centred": True,
        "fresh": True,
        "behind_weights": True,
    }
    gapped = signal.gap is not None and not on.own and on.plan.after[path].sizes
    if not gapped:
        return on.sized(signal.with_(cov=made.weights * signal.covariance + made.biases, **changes), path)
    # Gaps stay as they are without biases; with them they shrink, and no digit of theirs is lost.
    sizes = on.next_sizes(signal)
    gap = signal.gap
    if not _is_zero(made.biases):
        (r1, r2), scale = signal.sizes, sizes[0] * sizes[1]
        old = made.weights * signal.scale
        unequal = made.weights * made.biases * (r1 - r2) ** 2 / jnp.maximum(scale + old + made.biases, 1e-30)
        gap = jnp.where(scale > 0, (unequal + old * gap) / jnp.where(scale > 0, scale, 1.0), 0.0)
    return signal.with_(gap=gap, sizes=sizes, **changes)


def _is_zero(number: Any) -> bool:
    return isinstance(number, int | float) and number == 0


def dense(layer: Dense, signals: Signals, on: Pass, path: Path) -> Signals:
    """A matrix on the features."""
    signal = merged(signals)
    fans, inputs = (signal.features, layer.features), not signal.behind_weights
    made = constants(layer.parametrization, layer.bias, fans, on, path, last=layer.last, inputs=inputs)
    return (mixed_by_weights(signal, made, layer.features, on, path),)


def activation(layer: Activation, signals: Signals, on: Pass, path: Path) -> Signals:
    """A function of every feature."""
    if layer.activation == "identity":
        return signals
    return tuple(_activated(layer, signal, on, path) for signal in signals)


def _activated(layer: Activation, signal: Signal, on: Pass, path: Path) -> Signal:
    if not signal.gaussian:
        raise ValueError(
            f"kernel: the activation `{layer.activation}` at {written(path)} is given signals that are not Gaussian, "
            "for which there is no kernel. Put a dense layer or a convolution in front of it."
        )
    function = layer.function
    name = function.name if isinstance(function, Nonlinearity) else ""
    parameters = function.parameters if isinstance(function, Nonlinearity) else ()
    odd = name in ODD or (name == "monomial" and parameters[0] % 2 == 1)
    plain = signal.with_(cov=signal.cov, gap=signal.gap, gaussian=False, centred=odd)
    bend = bend_of(function)
    if bend is not None:
        return _bent(plain, bend, on, path)
    q1, q2 = (size**2 for size in signal.sizes)
    cov = signal.covariance
    if name in CLOSED:
        value, slope = CLOSED[name](q1, q2, cov, *parameters)
    else:
        value, slope, error = quadrature(function, q1, q2, cov, on.nodes)
        on.errors.append(jnp.max(error))
    ntk: Any = None if signal.ntk is None else signal.ntk * slope
    if signal.gains is not None:
        stretched, _, error = quadrature(_stretched(function), q1, q2, cov, on.nodes)
        on.errors.append(jnp.max(error))
        ntk = ntk + stretched
    return on.sized(on.kept(plain.with_(cov=value, ntk=ntk, gains=None)), path)


def bend_of(function: Function) -> float | None:
    """The slope of an activation below zero, if it is a straight line there and the identity above."""
    if not isinstance(function, Nonlinearity) or function.name not in ("relu", "leaky", "abs"):
        return None
    return {"relu": 0.0, "abs": -1.0}[function.name] if function.name != "leaky" else float(function.parameters[0])


@functools.lru_cache(maxsize=64)
def _stretched(function: Function) -> Function:
    r"""$z\,\sigma'(z)$: how a neuron moves with a gain in front of it."""
    return lambda z: jax.jvp(function, (z,), (z,))[1]


def _bent(signal: Signal, slope: float, on: Pass, path: Path) -> Signal:
    r"""Behind $z \mapsto \max(z, 0) + a \min(z, 0)$: an odd part, and an even one, the absolute value."""
    odd, even = ((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2
    if on.own and not (signal.full and signal.positions):  # each signal with itself: no angle
        return on.sized(on.kept(signal.with_(cov=(odd + even) * signal.covariance, gains=None)), path)
    on_both: Any
    keep = list if on.never is None else on.held
    gap, on_both = arc(signal.gaps, slope=signal.ntk is not None, keep=keep)
    if odd != even:  # not ReLU, of which the gap is the polynomial's
        gap = (odd * signal.gaps + even * (2 * gap - signal.gaps)) / (odd + even)
    ntk: Any = None if signal.ntk is None else signal.ntk * (odd - even + 2 * even * on_both)
    if signal.gains is not None:  # a gain stretches the neuron itself
        ntk = ntk + (odd + even) * signal.scale * (1 - gap)
    signal = signal.with_(cov=signal.cov, gap=signal.gap, gains=None)
    if on.own or not on.plan.after[path].sizes or signal.positions:
        return on.sized(on.kept(signal.with_(cov=(odd + even) * signal.scale * (1 - gap), ntk=ntk)), path)
    return on.kept(signal.with_(gap=gap, ntk=ntk, sizes=on.next_sizes(signal)))


def layer_norm(layer: LayerNorm, signals: Signals, on: Pass, path: Path) -> Signals:
    """Features of mean 0 and variance 1, with a gain and a shift that start at 1 and 0."""
    if not all(signal.gaussian for signal in signals):
        raise ValueError(
            f"kernel: the layer norm at {written(path)} is given signals that are not Gaussian, whose mean is not "
            "known to be zero. Put a dense layer or a convolution in front of it."
        )
    total = sum(signal.features for signal in signals)
    lengths = []
    for side in (0, 1):
        variance = sum(signal.features / total * signal.sizes[side] ** 2 for signal in signals)
        if layer.over == "sample" or signals[0].flat:
            axes = tuple(range(variance.ndim - (1 if on.listed else 2)))
            variance = jnp.mean(variance, axes, keepdims=True)
        lengths.append(jnp.sqrt(variance + layer.epsilon))
    found = []
    for signal in signals:
        cov = signal.covariance / (lengths[0] * lengths[1])
        ntk = None
        if signal.ntk is not None:
            ntk = signal.folded().ntk / (lengths[0] * lengths[1]) + (1.0 if layer.shift else 0.0)
        changes = {"ntk": ntk, "gains": cov if layer.gain and ntk is not None else None}
        if signal.gap is None or on.own or not on.plan.after[path].sizes:
            found.append(on.sized(signal.with_(cov=cov, **changes), path))
        else:
            found.append(signal.with_(gap=signal.gap, sizes=on.next_sizes(signal), **changes))
    return tuple(found)


def unchanged(layer: Identity | Scalar, signals: Signals, on: Pass, path: Path) -> Signals:
    """Nothing happens."""
    return signals


def added(branches: list[Signals], on: Pass, path: Path) -> Signals:
    """Branches added up, at most one of which may read the same features as another or have a mean."""
    alike = _alike(branches, "sum", path)
    for kind, wrong in (
        ("share the features they add", [not all(s.fresh for s in b) for b in branches]),
        ("have a mean", [not all(s.centred for s in b) for b in branches]),
    ):
        if sum(wrong) > 1:
            raise ValueError(
                f"kernel: several branches of the sum at {written(path)} {kind}, so that their products do not vanish. "
                "End all branches but one with a dense layer or a convolution."
            )
    found = []
    for parts in alike:
        ntk = None if parts[0].ntk is None else functools.reduce(jnp.add, [part.ntk for part in parts])
        # Weights on a plain input give features of different means.
        plain = parts[0].with_(
            cov=functools.reduce(jnp.add, [part.covariance for part in parts]),
            ntk=ntk,
            gaussian=all(part.gaussian for part in parts),
            centred=all(part.centred for part in parts),
            fresh=all(part.fresh for part in parts),
            behind_weights=any(part.behind_weights for part in parts),
        )
        found.append(on.sized(plain, path))
    return tuple(found)


def multiplied(branches: list[Signals], on: Pass, path: Path) -> Signals:
    """Branches multiplied, which must not share features."""
    if sum(not all(signal.fresh for signal in branch) for branch in branches) > 1:
        raise ValueError(
            f"kernel: several branches of the product at {written(path)} share the features they multiply. End all "
            "branches but one with a dense layer or a convolution, or with one and then an activation."
        )
    found = []
    for parts in _alike(branches, "product", path):
        covs = [part.covariance for part in parts]
        ntk = None
        if parts[0].ntk is not None:
            others = [math.prod(covs[:i] + covs[i + 1 :]) for i in range(len(covs))]
            ntk = sum(part.ntk * other for part, other in zip(parts, others, strict=True))
        plain = parts[0].with_(
            cov=functools.reduce(jnp.multiply, covs),
            ntk=ntk,
            gaussian=False,
            centred=any(part.centred for part in parts),
            fresh=all(part.fresh for part in parts),
            behind_weights=any(part.behind_weights for part in parts),
        )
        found.append(on.sized(plain, path))
    return tuple(found)


def _alike(branches: list[Signals], what: str, path: Path) -> list[tuple[Signal, ...]]:
    """Parts of the branches that stand at the same features."""
    counts = [[signal.features for signal in branch] for branch in branches]
    if any(count != counts[0] for count in counts):
        raise ValueError(
            f"kernel: the branches of the {what} at {written(path)} are concatenations of different features, "
            f"{counts}. Put a dense layer behind each concatenation."
        )
    return list(zip(*(tuple(signal.mixed() for signal in branch) for branch in branches), strict=True))


RULES: dict[type, Rule] = {
    Dense: dense,
    Activation: activation,
    LayerNorm: layer_norm,
    Identity: unchanged,
    Scalar: unchanged,
}
"""Rules of single layers by the type of their record."""

JOINS: dict[type, Callable[[list[Signals], Pass, Path], Signals]] = {
    Residual: added,
    Sum: added,
    Product: multiplied,
    Concat: lambda branches, on, path: tuple(signal for branch in branches for signal in branch),
}
"""Rules of branches by the type of the record that joins them."""
