"""Sites: the places where a parameter meets the data.

Every layer with parameters touches them through one of the functions below, and nowhere else. Usually each of these
functions is just its formula. Under [`observe`][secant.nets.taps.observe] it also hands out its inputs, and adds a
perturbation to its output. These are the two halves of every per-sample gradient, and tangent kernels are built from
them without the Jacobian.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Site:
    r"""One use of one parameter.

    Attributes:
        weight: the parameter, as the network holds it.
        kind: `linear` for $z_p = a_p^\top (S \circ W)$ at positions $p$ with a fixed scale $S$, or `elementwise` for
            $z = S a \circ w$, where $w$ is broadcast over positions.
        inputs: $a$, of shape `(samples, *positions, features)`; patches of the input for a convolution.
        scale: $S$: a number, or for `linear` also a matrix of the shape of `weight` (zero where there is no edge).
    """

    weight: Array
    kind: Literal["linear", "elementwise"]
    inputs: Array
    scale: Any


@dataclass
class _Tape:
    taps: Mapping[int, Array]
    sites: list[Site] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)


_tape: ContextVar[_Tape | None] = ContextVar("tape", default=None)


def observe(
    run: Callable[[], Any], taps: Sequence[Array] | Mapping[int, Array] | None = None
) -> tuple[Any, list[Site], list[Array]]:
    r"""Runs a network and reports its sites.

    Args:
        run: evaluates the network.
        taps: one array a site, or some by the number of the site, added to its output. The gradient of the network's
            outputs in a tap at zero is the backpropagated signal at that site.

    Returns:
        What `run` returned, the sites in the order of evaluation, and the output of each site.
    """
    tape = _Tape(taps if isinstance(taps, Mapping) else dict(enumerate(taps or ())))
    token = _tape.set(tape)
    try:
        result = run()
    finally:
        _tape.reset(token)
    return result, tape.sites, tape.outputs


def unobserved(run: Callable[[], Any]) -> Any:
    """Runs a function whose sites are not reported, also where the network around it is observed."""
    token = _tape.set(None)
    try:
        return run()
    finally:
        _tape.reset(token)


def _note(outputs: Array, site: Callable[[], Site]) -> Array:
    tape = _tape.get()
    if tape is None:
        return outputs
    if len(tape.sites) in tape.taps:
        outputs = outputs + tape.taps[len(tape.sites)]
    tape.sites.append(site())
    tape.outputs.append(outputs)
    return outputs


def linear(weight: Float[Array, "in out"], inputs: Float[Array, "n *p in"], scale: Any = 1.0) -> Array:
    r"""$z = s\, a W$ at every position; `scale` may be a matrix like the weight, then $z = a (S \circ W)$."""
    whole = jnp.ndim(scale) == 2
    # The scale goes on the smaller of the three arrays: it is then cheapest, and exact for what follows.
    outputs = inputs @ (scale * weight) if whole else scale * (inputs @ weight)
    return _note(outputs, lambda: Site(weight, "linear", inputs, scale))


def convolution(
    weight: Float[Array, "*window in out"],
    inputs: Float[Array, "n *p in"],
    scale: Any = 1.0,
    *,
    strides: int = 1,
    padding: str = "SAME",
) -> Array:
    r"""$z_p = s \sum_\delta a_{p+\delta} W_\delta$ over one or two spatial axes, channels last."""
    axes = weight.ndim - 2
    inputs, padding = padded(inputs, weight.shape[:axes], (strides,) * axes, padding)
    letters = "HW"[:axes]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    steps = (strides,) * axes
    dtype = jnp.promote_types(inputs.dtype, weight.dtype)  # which this function, unlike a product, leaves to its caller

    def convolve(inputs: Array, weight: Array) -> Array:
        return lax.conv_general_dilated(
            inputs.astype(dtype), weight.astype(dtype), steps, padding, dimension_numbers=numbers
        )

    if _tape.get() is None:
        return scale * convolve(inputs, weight)
    # Whoever observes needs the patches, and then the forward pass is one matrix product.
    patches = windows(inputs, weight.shape[:axes], steps, padding)
    z = _derived_as(convolve, inputs, weight, patches @ weight.reshape(-1, weight.shape[-1]))
    return _note(scale * z, lambda: Site(weight, "linear", patches, scale))


def padded(inputs: Array, window: tuple[int, ...], steps: tuple[int, ...], padding: str) -> tuple[Array, str]:
    """Inputs, `(samples, *positions, features)`, after a circular padding, and the padding that is still to be done."""
    if padding != "CIRCULAR":
        return inputs, padding
    pads = lax.padtype_to_pads(inputs.shape[1:-1], window, steps, "SAME")
    return jnp.pad(inputs, ((0, 0), *pads, (0, 0)), mode="wrap"), "VALID"


def _derived_as(bilinear: Callable[[Array, Array], Array], left: Array, right: Array, value: Array) -> Array:
    """`value`, which is `bilinear(left, right)`, with the derivatives of that product."""

    @jax.custom_jvp
    def known(left: Array, right: Array, value: Array) -> Array:
        return value

    @functools.partial(known.defjvp, symbolic_zeros=True)
    def derivative(at: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
        parts = [
            bilinear(*pair)
            for pair, tangent in zip(((tangents[0], at[1]), (at[0], tangents[1])), tangents, strict=False)
            if not isinstance(tangent, SymbolicZero)
        ]
        # The rule holds for what is differentiated again too.
        return known(*at), functools.reduce(jnp.add, parts) if parts else jnp.zeros_like(at[2])

    return known(left, right, lax.stop_gradient(value))


def windows(inputs: Array, window: tuple[int, ...], steps: tuple[int, ...], padding: str) -> Array:
    """What the window sees at every position, with features ordered as in the weight: (*window, channels)."""
    pads = lax.padtype_to_pads(inputs.shape[1:-1], window, steps, padding)
    padded = jnp.pad(inputs, ((0, 0), *pads, (0, 0)))
    sizes = [(size - w) // step + 1 for size, w, step in zip(padded.shape[1:-1], window, steps, strict=True)]
    seen = [
        padded[
            (
                slice(None),
                *(slice(o, o + (n - 1) * step + 1, step) for o, n, step in zip(offset, sizes, steps, strict=True)),
            )
        ]
        for offset in itertools.product(*map(range, window))
    ]
    return jnp.concatenate(seen, axis=-1)


def shift(weight: Float[Array, "*shape"], inputs: Float[Array, "n *p"], scale: Any = 1.0) -> Array:
    r"""$z = a + s\, b$: a bias, or a table of positions, broadcast against the inputs."""
    return _note(inputs + scale * weight, lambda: Site(weight, "elementwise", jnp.ones_like(inputs), scale))


def stretch(weight: Float[Array, "*shape"], inputs: Float[Array, "n *p"], scale: Any = 1.0) -> Array:
    r"""$z = s\, a \circ w$: a gain, broadcast against the inputs."""
    return _note(scale * inputs * weight, lambda: Site(weight, "elementwise", inputs, scale))


def zeros_like_outputs(run: Callable[[], Any]) -> list[Array]:
    """One zero tap a site, found without computing anything."""
    shapes = jax.eval_shape(lambda: observe(run)[2])
    return [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
