"""Random networks without their weights: drawn in blocks, they are those of arrays of their own shape."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.studies.shared.two_layer import starts


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def drawn(key, width, seeds, signs):
    inner, outer = jax.random.split(key)
    s = jnp.maximum(jax.random.normal(inner, (seeds, width)), 0)
    return s, (jax.random.rademacher if signs else jax.random.normal)(outer, (seeds, width))


def written_out(key, width, seeds, signs):
    s, v = map(np.asarray, drawn(key, width, seeds, signs))
    return np.sum(v * s, axis=1) / np.sqrt(width), np.mean((s > 0) * (v**2 + s**2), axis=1)


@pytest.mark.parametrize("signs", [True, False])
def test_networks_drawn_in_blocks_are_those_of_one_array(signs, monkeypatch):
    monkeypatch.setattr(starts, "FEW", 64)
    key = jax.random.key(3)
    found = starts.starting_points(key, 50, 7, signs=signs)
    (own,) = jax.random.split(key, 1)
    np.testing.assert_allclose(found, written_out(own, 50, 7, signs), rtol=1e-12, atol=1e-12)


def test_several_widths_follow_one_another_each_with_a_key_of_its_own(monkeypatch):
    monkeypatch.setattr(starts, "FEW", 64)
    monkeypatch.setattr(starts, "BLOCK", 100)  # four networks of 30 neurons take two blocks
    key, widths = jax.random.key(5), (10, 30)
    found = starts.random_starts(key, widths, 4)
    assert found["width"].tolist() == [10.0] * 4 + [30.0] * 4
    small, large = jax.random.split(key, 2)
    first = written_out(jax.random.split(small, 1)[0], 10, 4, True)
    second = [written_out(k, 30, n, True) for k, n in zip(jax.random.split(large, 2), (3, 1), strict=True)]
    for index, name in enumerate(("output", "curvature")):
        expected = [first[index], *(part[index] for part in second)]
        np.testing.assert_allclose(found[name], np.concatenate(expected), rtol=1e-12, atol=1e-12)


def test_the_same_networks_one_width_at_a_time():
    key = jax.random.key(7)
    together = starts.random_starts(key, (20, 40), 3)
    for number, (own, width) in enumerate(zip(jax.random.split(key, 2), (20, 40), strict=True)):
        output, curvature = starts.starting_points(own, width, 3)
        part = slice(3 * number, 3 * number + 3)
        np.testing.assert_allclose(together["output"][part], output, rtol=1e-14)
        np.testing.assert_allclose(together["curvature"][part], curvature, rtol=1e-14)
