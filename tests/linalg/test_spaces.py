"""Spaces of pytrees: flat and back, and equal where their shapes are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from secant.linalg.spaces import Space, images, is_flat, size_of, unravel_like


def shapes(tree):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


TREE = {"w": np.ones((2, 3), np.float32), "b": (np.zeros(()), np.ones(0), np.ones(4))}


def test_unravelling_undoes_ravelling_and_keeps_types():
    flat, _ = ravel_pytree(TREE)
    back = unravel_like(shapes(TREE))(flat)
    assert size_of(shapes(TREE)) == flat.size == 11
    jax.tree.map(np.testing.assert_array_equal, back, TREE)
    assert jax.tree.map(lambda a: a.dtype, back) == jax.tree.map(lambda a: a.dtype, TREE)


def test_spaces_are_equal_where_shapes_types_and_structure_are():
    space = Space(shapes(TREE))
    assert space == Space(shapes(TREE))
    assert hash(space) == hash(Space(shapes(TREE)))
    assert space.tree() == shapes(TREE)
    assert space != Space(shapes(TREE | {"w": np.ones((3, 2), np.float32)}))
    assert space != Space(shapes(TREE | {"w": np.ones((2, 3))}))
    assert space != Space(shapes((TREE["b"], TREE["w"])))


def test_only_one_array_with_one_axis_is_flat():
    assert is_flat(shapes(jnp.ones(3)))
    assert not any(is_flat(shapes(tree)) for tree in ({"w": jnp.ones(3)}, jnp.ones((3, 1)), jnp.ones(()), TREE))


@pytest.mark.parametrize("size", [3, 65])
def test_images_of_all_basis_vectors_are_the_columns_whatever_is_left_over(size):
    matrix = np.random.default_rng(0).normal(size=(4, size))
    found = jax.jit(lambda matrix: images(lambda v: matrix @ v, size, float))(matrix)
    np.testing.assert_allclose(found, matrix.T, rtol=1e-12)
