r"""Normal random numbers in single precision at half the usual cost, for loops that draw millions of them.

The random bits come from Threefry, a cipher applied to a counter. The method of Box and Muller turns two words into two
numbers: $\sqrt{-2\log u}\,(\cos 2\pi v, \sin 2\pi v)$. Logarithm, sine and cosine are polynomials on the intervals that
remain after exponent and sign are split off, right to a few units in the last place. All operations are additions,
products and one root of whole arrays, so that a CPU does four at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray


def normals(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Independent standard normal numbers: those of JAX in double precision, else by the polynomials of this file.

    Args:
        key: a random key of JAX.
        shape: the shape of the result.
        dtype: the type of the result.
    """
    if dtype != jnp.float32:
        return jax.random.normal(key, shape, dtype)
    count = int(np.prod(shape, dtype=int))
    state = jnp.concatenate([jnp.ravel(jax.random.key_data(key))[:2], jnp.zeros(2, jnp.uint32)])
    threefry = lax.RandomAlgorithm.RNG_THREE_FRY
    words = lax.rng_bit_generator(state, (2, -(-count // 2)), jnp.uint32, algorithm=threefry)[1]
    # Without the barrier the compiler draws the same words again at every use.
    return _pairs(*lax.optimization_barrier(words)).ravel()[:count].reshape(shape)


def _pairs(radius: Array, angle: Array) -> Array:
    """Two normal numbers from each pair of words, `(2, n)`."""
    # Half a unit is added so that the logarithm is finite. The largest radius is 6.7; a share of 2^-33 lies beyond it.
    u = (radius.astype(jnp.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    size = jnp.sqrt(np.float32(-2) * _log(u))
    # The angle covers half a turn. A sign gives the other half: the word's last bit, which the angle loses by rounding.
    v = lax.bitcast_convert_type(angle, jnp.int32).astype(jnp.float32) * np.float32(2.0**-33)
    turned = lax.bitcast_convert_type(lax.bitcast_convert_type(size, jnp.uint32) ^ (angle << 31), jnp.float32)
    return jnp.stack([turned * v * _at(_SINE, v * v), turned * _at(_COSINE, v * v)])


def _log(u: Array) -> Array:
    """The logarithm of positive numbers: the exponent, and a polynomial of the rest, between 0.7 and 1.42."""
    bits = lax.bitcast_convert_type(u, jnp.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> 23
    m = lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32) - 1
    return exponent.astype(jnp.float32) * np.float32(np.log(2)) + m * _at(_LOGARITHM, m)


def _at(coefficients: np.ndarray, x: Array) -> Array:
    """A polynomial by Horner's rule, highest coefficient first."""
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _fitted(function: Callable[[np.ndarray], np.ndarray], low: float, high: float, degree: int) -> np.ndarray:
    """Coefficients of the polynomial through Chebyshev's points, highest first."""
    fit = np.polynomial.Chebyshev.interpolate(function, degree, domain=[low, high])
    return fit.convert(kind=np.polynomial.Polynomial).coef[::-1].astype(np.float32)


_LOGARITHM = _fitted(lambda m: np.log1p(m) / m, np.sqrt(0.5) - 1, np.sqrt(2) - 1, 9)
_SINE = _fitted(lambda q: np.sin(2 * np.pi * np.sqrt(q)) / np.sqrt(q), 0.0, 0.0625, 5)
_COSINE = _fitted(lambda q: np.cos(2 * np.pi * np.sqrt(q)), 0.0, 0.0625, 6)
