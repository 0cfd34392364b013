"""Normal numbers by polynomials: the right transform of the words, and the law that it ought to give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from secant.dynamics import normals as module

normals = jax.jit(module.normals, static_argnums=(1, 2))
pairs = jax.jit(module._pairs)

COUNT = 400_001
"""Odd: the last word makes one number only."""


@pytest.fixture(scope="module")
def drawn():
    return np.asarray(normals(jax.random.key(3), (COUNT,), jnp.dtype("float32")), float)


def test_pairs_are_those_of_box_and_muller():
    words = np.random.default_rng(0).integers(0, 2**32, (2, 20_000), dtype=np.uint32)
    words[0, :3] = 0, 2**32 - 1, 1
    found = np.asarray(pairs(*words), float)
    size = np.sqrt(-2 * np.log((words[0] + 0.5) / 2**32))
    angle = 2 * np.pi * (words[1].astype(np.int32) / 2.0**33 + 0.5 * (words[1] & 1))
    # Words next to 2^32 round to it in single precision: a radius below 4e-4 is then off by as much.
    error = np.where(size < 0.01, 4e-4, 4e-6)
    assert (np.abs(found - size * np.stack([np.sin(angle), np.cos(angle)])) < error).all()


def test_the_law_is_normal(drawn):
    assert drawn.shape == (COUNT,)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    for power, moment, error in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)):
        assert abs((drawn**power).mean() - moment) < 4 * np.sqrt(error / COUNT)
    for far in (3.0, 4.0):
        expected = COUNT * 2 * stats.norm.sf(far)
        assert abs((np.abs(drawn) > far).sum() - expected) < 4 * np.sqrt(expected)


def test_neighbours_and_partners_are_independent(drawn):
    half = COUNT // 2 + 1
    for other in (drawn[1:half], drawn[half:]):
        one = drawn[: len(other)]
        for f in (lambda z: z, lambda z: z**2, np.sign):
            assert abs(np.corrcoef(f(one), f(other))[0, 1]) * np.sqrt(len(one)) < 4


def test_keys_and_precisions():
    a, b = (np.asarray(normals(jax.random.key(seed), (4, 3), jnp.dtype("float32"))) for seed in (0, 1))
    assert (a.shape, a.dtype) == ((4, 3), np.float32)
    assert (a != b).all()
    wide = normals(jax.random.key(0), (4, 3), jnp.dtype("float64"))
    assert (wide == jax.random.normal(jax.random.key(0), (4, 3), jnp.float64)).all()
