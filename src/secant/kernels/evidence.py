r"""Variances of weights and biases by the marginal likelihood of the targets.

A network of infinite width is a Gaussian process. The evidence is the logarithm of the density of the targets under
this process, and a smooth function of the variances: it tells how likely random networks with these variances are to
give the targets.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secant.core.arguments import positive, whole
from secant.core.device import jit, to_device
from secant.kernels.infinite_width import checked_inputs, kernel
from secant.kernels.layers import rule_of
from secant.kernels.predict import log_evidence
from secant.nets.network import Network
from secant.nets.parametrization import Parametrization
from secant.nets.rebuild import PARAMETRIZED, with_parametrizations

SMALLEST = 1e-6
"""The smallest variance to start from, in place of zero: the logarithm of a variance is fitted, and zero has none."""


class FittedVariances(NamedTuple):
    r"""Variances under which the targets are most likely.

    Attributes:
        net: the same network with these variances.
        parametrization: that of the network, or one for every layer of weights if they were fitted one by one.
        variances: $(\sigma_w^2, \sigma_b^2)$ for every layer, as [`kernel`][secant.kernels.kernel] takes them.
        noise: variance of the noise.
        names: what was fitted, such as `weights` and `biases`.
        logs: natural logarithms of what was fitted.
        errors: standard errors of the logarithms, from the Hessian of the evidence; infinite where the targets do not
            tell.
        evidence: log evidence at the start and after every step.
        converged: whether the last gradient is below the tolerance.
    """

    net: Network
    parametrization: Parametrization | tuple[Parametrization, ...]
    variances: list[tuple[float, float]]
    noise: float
    names: tuple[str, ...]
    logs: np.ndarray
    errors: np.ndarray
    evidence: np.ndarray
    converged: bool


class _Layout(NamedTuple):
    """Where numbers of a vector go: a group for every layer, and for every group its weights and its biases."""

    slots: tuple[int, ...]  # the group of every layer of weights that a kernel meets
    weights: tuple[int, ...]  # place in the vector, by group
    biases: tuple[int | None, ...]
    names: tuple[str, ...]


def fit_variances(
    net: Network,
    x: Float[Array, "n ..."],
    y: Any,
    *,
    noise: float = 0.01,
    fit_noise: bool = False,
    tied: bool = True,
    steps: int = 100,
    tolerance: float | None = None,
) -> FittedVariances:
    r"""The variances of weights and biases under which the targets are most likely, starting from the network's own.

    L-BFGS climbs the evidence in the logarithms of the variances, in one compiled loop. It finds a maximum near the
    start; there may be others where the targets say little.

    Args:
        net: a network of dense layers, convolutions or attention in the parametrisation `ntk` or `standard`.
        x: inputs, one row a sample.
        y: targets, shape `(n,)` or `(n, outputs)`.
        noise: variance $s^2$ of the noise of the targets.
        fit_noise: whether the noise is fitted too, starting from `noise`.
        tied: whether all layers share their variances; otherwise each has its own. In a network of ReLU without biases
            the targets determine only the product of the weights' variances.
        steps: steps of L-BFGS, at most.
        tolerance: the climb ends when no entry of the gradient is larger; by default the cube root of the precision.

    Example:
        ```python
        import jax
        import secant as sc
        from secant.kernels import fit_variances

        net = sc.nets.mlp([64], activation="erf", bias=True)
        x = jax.random.normal(jax.random.key(0), (30, 2))
        fitted = fit_variances(net, x, 3 * jax.numpy.sin(x[:, 0]))
        print(fitted.names, fitted.converged, bool(fitted.evidence[-1] > fitted.evidence[0]))
        ```
        ```text
        ('weights', 'biases') True True
        ```
    """
    caller = "fit_variances"
    if not isinstance(net, Network):
        raise TypeError(f"{caller}: `net` must be a secant.nets.Network, got {type(net).__name__}. See `secant.lift`.")
    x, _ = checked_inputs(net, x, None)
    layers = _weighted(net)
    for layer in layers:
        if layer.parametrization.name not in ("ntk", "standard"):
            raise ValueError(
                f"{caller}: the parametrisation must be 'ntk' or 'standard', which have gains and outputs that do not "
                f"vanish, got {layer.parametrization.name!r}."
            )
    noise = positive(caller, "noise", noise)
    layout = _laid_out(layers, tied, fit_noise)
    least = float(jnp.finfo(x.dtype).eps) ** (1 / 3) if tolerance is None else positive(caller, "tolerance", tolerance)
    start = to_device(np.asarray(_start(layers, layout, noise), x.dtype))
    data = (x, to_device(y).astype(x.dtype), to_device(np.asarray(noise, x.dtype)))
    climb, slopes = _compiled(net, layout, whole(caller, "steps", steps))
    logs, trace, number, gradient = (np.asarray(part, float) for part in climb(start, least, *data))
    trace = trace[: int(number) + 1]
    if not np.isfinite(trace).all():
        raise ValueError(f"{caller}: the evidence is not a number: the kernel is singular. Use a larger `noise`.")
    found = [(float(w), float(b)) for w, b in _variances(layout, logs)]
    by_group = [found[layout.slots.index(group)] for group in range(len(layout.weights))]
    rules = [
        replace(layer.parametrization, gain=math.sqrt(w), **({"bias_gain": math.sqrt(b)} if layer.bias else {}))
        for layer, (w, b) in zip(layers, by_group * len(layers) if tied else by_group, strict=False)
    ]
    return FittedVariances(
        with_parametrizations(net, _with_tables(net, rules)),
        rules[0] if tied else tuple(rules),
        found,
        float(np.exp(logs[-1])) if fit_noise else noise,
        layout.names,
        logs,
        _errors(lambda logs: np.asarray(slopes(np.asarray(logs, x.dtype), *data), float), logs, x.dtype),
        -trace,
        bool(np.abs(gradient).max() <= least),
    )


def _weighted(net: Network) -> list[Any]:
    """Records of the layers that mix features, in order."""
    if isinstance(net.layer, PARAMETRIZED):
        return [net.layer] if rule_of(net.layer).weights else []
    return [layer for part in net.parts for layer in _weighted(part)]


def _with_tables(net: Network, rules: list[Parametrization]) -> list[Parametrization]:
    """The rules of all layers in order: those given, and between them those of tables of positions as they are."""
    left = iter(rules)

    def rules_of(net: Network) -> list[Parametrization]:
        if isinstance(net.layer, PARAMETRIZED):
            return [next(left) if rule_of(net.layer).weights else net.layer.parametrization]
        return [rule for part in net.parts for rule in rules_of(part)]

    return rules_of(net)


def _laid_out(layers: list[Any], tied: bool, fit_noise: bool) -> _Layout:
    if not layers:
        raise ValueError("fit_variances: the network has no weights. Add a dense layer.")
    groups = [layers] if tied else [[layer] for layer in layers]
    slots: list[int] = []
    for index, layer in enumerate(layers):
        slots += [0 if tied else index] * rule_of(layer).weights
    weights: list[int] = []
    biases: list[int | None] = []
    names: list[str] = []
    for number, group in enumerate(groups):
        which = "" if tied else f" of layer {number + 1}"
        weights.append(len(names))
        names.append(f"weights{which}")
        biased = any(layer.bias for layer in group)
        biases.append(len(names) if biased else None)
        names += [f"biases{which}"] * biased
    return _Layout(tuple(slots), tuple(weights), tuple(biases), (*names, *["noise"] * fit_noise))


def _start(layers: list[Any], layout: _Layout, noise: float) -> list[float]:
    found = [math.log(noise)] * len(layout.names)
    for group, (weight, bias) in enumerate(zip(layout.weights, layout.biases, strict=True)):
        rule = layers[group].parametrization
        found[weight] = math.log(max(rule.gain**2, SMALLEST))
        if bias is not None:
            found[bias] = math.log(max(rule.bias_gain**2, SMALLEST))
    return found


def _variances(layout: _Layout, logs: Any) -> list[tuple[Any, Any]]:
    values = np.exp(logs) if isinstance(logs, np.ndarray) else jnp.exp(logs)
    biases = [0.0 if place is None else values[place] for place in layout.biases]
    return [(values[layout.weights[group]], biases[group]) for group in layout.slots]


@functools.lru_cache(maxsize=16)
def _compiled(net: Network, layout: _Layout, steps: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The climb, and gradients of the loss at several points, compiled once for a network and a shape of the data."""
    import optax

    def loss(logs: Array, x: Array, y: Array, noise: Array) -> Array:
        spread: Any = jnp.exp(logs[-1]) if layout.names[-1] == "noise" else noise
        return -log_evidence(kernel(net, x, only="nngp", variances=_variances(layout, logs)).nngp, y, noise=spread)

    solver = optax.lbfgs()

    def climb(start: Array, least: Array, *data: Array) -> tuple[Any, ...]:
        def of(logs: Array) -> Array:
            return loss(logs, *data)

        look = optax.value_and_grad_from_state(of)
        kept = optax.tree_utils.tree_get

        def more(carry: Any) -> Array:
            number, _, state, _ = carry
            return (number == 0) | ((number < steps) & (jnp.max(jnp.abs(kept(state, "grad"))) > least))

        def step(carry: Any) -> Any:
            number, logs, state, trace = carry
            value, slope = look(logs, state=state)
            move, state = solver.update(slope, state, logs, value=value, grad=slope, value_fn=of)
            return number + 1, optax.apply_updates(logs, move), state, trace.at[number].set(value)

        first = (0, start, solver.init(start), jnp.zeros(steps + 1, start.dtype))
        number, logs, state, trace = jax.lax.while_loop(more, step, first)
        return logs, trace.at[number].set(kept(state, "value")), number, kept(state, "grad")

    return jit(climb, quick=True), jit(jax.vmap(jax.grad(loss), (0, None, None, None)), quick=True)


def _errors(slopes: Callable[[np.ndarray], np.ndarray], logs: np.ndarray, dtype: Any) -> np.ndarray:
    """Standard errors at a maximum of the likelihood: roots of the diagonal of its inverse Hessian.

    Differences of gradients: second derivatives of a kernel need not exist where inputs coincide.
    """
    h = float(jnp.finfo(dtype).eps) ** (1 / 3)
    steps = h * np.eye(len(logs))
    ends = slopes(np.concatenate([logs + steps, logs - steps]))
    hessian = (ends[: len(logs)] - ends[len(logs) :]) / (2 * h)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    told = values > 10 * h * max(float(np.abs(values).max()), 1e-300)  # below, it is rounding
    shares = vectors**2
    unknown = (shares * ~told).sum(1) > 10 * h
    return np.where(unknown, np.inf, np.sqrt((shares * told / np.where(told, values, 1.0)).sum(1)))


__all__ = ["FittedVariances", "fit_variances"]
