"""The short cut to the largest Hessian eigenvalues leads to the same place."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.curvature.in_span import has_short_cut

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(130, 150)), GENERATOR.normal(size=(130, 2))
NET = sc.nets.mlp([4], 2, activation="tanh", bias=True)


def test_it_finds_what_the_whole_space_holds(drawn):
    x = jax.device_put(X)
    params = drawn(NET, x.shape, np.random.default_rng(0))
    H = sc.hessian(NET.apply, params, x, Y, "mean_mse")
    assert H.search is not None
    short = H.top(2, tol=1e-7)
    usual = replace(H, search=None).top(2, tol=1e-7)
    short, usual = jax.tree.map(np.asarray, (short, usual))
    np.testing.assert_allclose(short.values, usual.values, rtol=1e-5)
    assert np.all(np.abs(short.values - usual.values) <= short.residuals + usual.residuals)
    assert jax.tree.structure(short.vectors) == jax.tree.structure(params)
    for index in range(2):
        vector = jax.tree.map(lambda leaf: leaf[index], short.vectors)  # noqa: B023
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(vector)])
        assert np.linalg.norm(flat) == pytest.approx(1, abs=1e-6)
        image = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(H.mv(vector))])
        assert np.linalg.norm(image - short.values[index] * flat) <= 1.1 * short.residuals[index] + 1e-6
    broken = jax.tree.map(lambda leaf: leaf * np.nan, params)
    with pytest.raises(FloatingPointError, match="a product is not finite"):
        sc.hessian(NET.apply, broken, x, Y, "mean_mse").top(2)


@pytest.mark.parametrize(
    "loss",
    [
        lambda outputs, y: jnp.sum(outputs * y),  # no curvature of its own
        lambda outputs, y: -jnp.sum((outputs - y) ** 2) / len(y),  # a concave one
        sc.losses.mean_mse,
    ],
)
def test_it_needs_no_particular_loss(loss, drawn):
    params = drawn(NET, X.shape, np.random.default_rng(1))
    H = sc.hessian(NET.apply, params, jax.device_put(X), Y, loss)
    assert H.search is not None
    short, usual = H.top(2, tol=1e-4), replace(H, search=None).top(2, tol=1e-7)
    np.testing.assert_allclose(short.values, usual.values, rtol=1e-3)


def test_it_is_taken_only_where_it_is_shorter():
    x = jax.device_put(X)
    assert has_short_cut(NET.apply, x)
    assert not has_short_cut(NET.apply, jax.device_put(X[:100]))  # few samples
    assert not has_short_cut(NET.apply, jax.device_put(X[:, :100]))  # fewer features than samples
    assert not has_short_cut(lambda p, a: NET.apply(p, a), x)
    assert not has_short_cut(sc.nets.cnn([2]).apply, jax.device_put(np.ones((130, 4, 4, 64))))
