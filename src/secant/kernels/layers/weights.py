"""Weights of infinite width: what any matrix of weights makes of signals, whichever layer it belongs to."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from secant.kernels.propagation.place import Place
from secant.kernels.propagation.signal import Signal, Signals, largest_error
from secant.nets.parametrization import Parametrization


class Constants(NamedTuple):
    r"""What weights with $m$ incoming edges multiply and add, to covariances and to tangent kernels.

    Attributes:
        weights: $m\,\mathrm{Var}(s w)$, which multiplies covariances.
        biases: $\mathrm{Var}(s_b b)$, which is added to them.
        passed: what multiplies the tangent kernel that is passed on: $m\,\mathrm{Var}(s w)$, also for a layer whose
            outputs vanish.
        trained: $m s^2$: times covariances, what training the weights adds to the tangent kernel.
        shifts: $s_b^2$, what training the biases adds.
    """

    weights: Any
    biases: Any
    passed: Any
    trained: Any
    shifts: Any


def constants(
    rule: Parametrization,
    bias: bool,
    fans: tuple[int, int],
    place: Place,
    *,
    last: bool,
    inputs: bool,
    number: int = 0,
) -> Constants:
    """The constants of a set of weights.

    Widths that stay in them are those of the network as it stands. What vanishes in the limit is zero: biases of
    `pytorch` behind the first layer, and the outputs of `mean-field` and `mup`.

    Args:
        rule: how the weights are drawn and scaled.
        bias: whether there are biases.
        fans: incoming edges and neurons.
        place: of the layer.
        last: whether the layer gives the outputs of the network.
        inputs: whether the layer reads inputs that no weights have met.
        number: which of the layer's sets of weights.
    """
    if rule.name == "near-zero":
        raise ValueError(
            f"kernel: the layer at {place} is drawn `near-zero`, with a spread that does not fall with the "
            "width, so that its signals have no limit. Use 'ntk', 'standard', 'pytorch', 'mean-field' or 'mup'."
        )
    draw, shift = rule.weight(*fans, last=last), rule.bias(*fans, last=last)
    weights, trained = fans[0] * draw.variance, fans[0] * draw.scale**2
    biases, shifts = (shift.variance, shift.scale**2) if bias else (0.0, 0.0)
    variances = place.variances(number)
    if variances is not None:
        given, added = variances
        if rule.scaled:
            trained, shifts = given / draw.spread**2, added / shift.spread**2 if bias else 0.0
        weights, biases = given, added if bias else 0.0
    passed = weights
    if rule.vanishing and last:
        weights = 0.0
    if rule.name == "pytorch" and not inputs:
        biases = 0.0
    return Constants(weights, biases, passed, trained, shifts)


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
        error=largest_error(*(signal.error for signal in signals)),
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


def mixed_by_weights(signal: Signal, made: Constants, features: int, place: Place) -> Signal:
    """Behind weights that mix the features of one position."""
    ntk, multiple = None, None
    if place.on.ntk:
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
    gapped = signal.gap is not None and not place.alone and place.sizes_behind
    if not gapped:
        return place.sized(signal.with_(cov=made.weights * signal.covariance + made.biases, **changes))
    # Gaps stay as they are without biases; with them they shrink, and no digit of theirs is lost.
    sizes = place.sizes(signal)
    gap = signal.gap
    if not _is_zero(made.biases):
        (r1, r2), scale = signal.sizes, sizes[0] * sizes[1]
        old = made.weights * signal.scale
        unequal = made.weights * made.biases * (r1 - r2) ** 2 / jnp.maximum(scale + old + made.biases, 1e-30)
        gap = jnp.where(scale > 0, (unequal + old * gap) / jnp.where(scale > 0, scale, 1.0), 0.0)
    return signal.with_(gap=gap, sizes=sizes, **changes)


def _is_zero(number: Any) -> bool:
    return isinstance(number, int | float) and number == 0
