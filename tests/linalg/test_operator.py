"""An operator is its dense matrix, by every method, and refuses what it cannot do."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import eigsh, svds

from secant.linalg import Operator
from secant.linalg.operator import DENSE_ENTRIES


class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


def on_pairs(matrix):
    """A product on vectors that are pytrees: two entries in `b`, the rest in `a`."""

    def product(v):
        image = matrix @ jnp.concatenate([v.a.ravel(), v.b])
        return Pair(image[:-2].reshape(v.a.shape), image[-2:])

    return product


@pytest.fixture
def tree(symmetric):
    """A symmetric operator on pytrees and its matrix."""
    matrix = symmetric(np.arange(8.0))
    space = Pair(jax.ShapeDtypeStruct((2, 3), float), jax.ShapeDtypeStruct((2,), float))
    return Operator(on_pairs, matrix, space, space, name="tree"), matrix


@pytest.fixture
def tall(hide):
    """An operator from 3 numbers to 5, and its matrix."""
    matrix = np.random.default_rng(0).normal(size=(5, 3))
    return hide(matrix, is_symmetric=False), matrix


def test_products_and_the_dense_matrix_agree(tree):
    operator, matrix = tree
    v = Pair(np.arange(6.0).reshape(2, 3), np.array([-1.0, 2.0]))
    flat = np.concatenate([v.a.ravel(), v.b])
    image = operator.mv(v)
    assert jax.tree.map(jnp.shape, image) == Pair((2, 3), (2,))
    np.testing.assert_allclose(np.concatenate([np.ravel(image.a), image.b]), matrix @ flat, rtol=1e-12)
    # A flat vector gives a flat one.
    np.testing.assert_allclose(operator @ flat, matrix @ flat, rtol=1e-12)
    np.testing.assert_allclose(operator.mv(jax.device_put(flat)), matrix @ flat, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(operator.flat_product())(flat), matrix @ flat, rtol=1e-12)
    np.testing.assert_allclose(operator.dense(), matrix, rtol=1e-12, atol=1e-14)
    assert operator.shape == (8, 8)
    assert operator.dtype == np.float64
    assert operator.T is operator


def test_a_rectangular_operator_has_a_transpose(tall):
    operator, matrix = tall
    assert (operator.shape, operator.T.shape) == ((5, 3), (3, 5))
    np.testing.assert_allclose(operator.dense(), matrix, rtol=1e-12)
    np.testing.assert_allclose(operator.T.dense(), matrix.T, rtol=1e-12)
    np.testing.assert_allclose(operator.T.T @ np.ones(3), matrix.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(operator.T @ np.ones(5), matrix.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(operator.frobenius(probes=3).value, np.linalg.norm(matrix), rtol=1e-12)


def test_the_transpose_knows_the_fast_way_to_its_matrix(tall):
    operator, matrix = tall
    fast = Operator(
        operator.bind, operator.data, operator.domain, operator.codomain, False, operator.adjoint, lambda data: 2 * data
    )
    np.testing.assert_allclose(fast.dense(), 2 * matrix, rtol=1e-12)
    np.testing.assert_allclose(fast.T.dense(), 2 * matrix.T, rtol=1e-12)


@pytest.mark.parametrize("which", ["largest", "magnitude", "smallest"])
def test_top_gives_vectors_of_the_space_and_at_most_as_many_as_there_are(tree, which):
    operator, matrix = tree
    top = operator.top(20, which=which)
    expected = np.arange(8.0) if which == "smallest" else np.arange(8.0)[::-1]
    np.testing.assert_allclose(top.values, expected, atol=1e-12)
    assert jax.tree.map(jnp.shape, top.vectors) == Pair((8, 2, 3), (8, 2))
    rows = np.hstack([np.asarray(top.vectors.a).reshape(8, 6), np.asarray(top.vectors.b)])
    np.testing.assert_allclose(rows @ matrix, expected[:, None] * rows, atol=1e-12)
    assert top.converged is True
    assert isinstance(top.products, int)


SIZE = 150  # above the longest basis of a cold start


def test_top_of_a_large_operator_is_that_of_a_dense_solver(symmetric, hide):
    values = np.random.default_rng(0).normal(size=SIZE)
    operator = hide(symmetric(values))
    top = operator.top(3)
    assert top.converged
    assert top.products < SIZE
    np.testing.assert_allclose(top.values, np.sort(values)[::-1][:3], atol=1e-5 * np.abs(values).max())
    # What stops it is no part of the compiled code: other limits, and other data, cost nothing to compile.
    loose = operator.top(3, tol=1e-1)
    assert loose.products < top.products
    assert not operator.top(3, tol=1e-14, max_products=8).converged


def test_vectors_of_a_nearby_operator_save_products_in_any_form(symmetric, hide):
    values = np.random.default_rng(1).normal(size=SIZE)
    operator = hide(symmetric(values))
    cold = operator.top(3)
    warm = operator.top(3, start=cold.vectors)
    assert warm.products == 3 < cold.products
    np.testing.assert_allclose(warm.values, cold.values, atol=1e-5)
    half = operator.top(3, start=np.asarray(cold.vectors, np.float32))
    np.testing.assert_allclose(half.values, cold.values, atol=1e-4)


def test_multiplicities_are_seen_when_asked_for(symmetric, hide):
    values = np.r_[5.0, 5, 5, np.linspace(-1, 4, SIZE - 3)]
    top = hide(symmetric(values)).top(3, multiplicity=3)
    np.testing.assert_allclose(top.values, [5, 5, 5], atol=1e-4)


def test_an_operator_of_low_rank_yields_its_zeros(symmetric, hide):
    values = np.r_[2.0, 1, np.zeros(SIZE - 2)]
    np.testing.assert_allclose(hide(symmetric(values)).top(3).values, [2, 1, 0], atol=1e-12)
    np.testing.assert_allclose(hide(np.zeros((SIZE, SIZE))).top(3).values, 0)
    assert hide(np.full((1, 1), 3.0)).top(3).values.tolist() == [3.0]


def test_other_data_is_not_compiled_again(symmetric):
    traces = []

    def bind(matrix):
        def product(v):
            traces.append(v)
            return matrix @ v

        return product

    def operator(seed):
        matrix = jnp.asarray(symmetric(np.arange(6.0), seed))
        space = jax.ShapeDtypeStruct((6,), float)
        return Operator(bind, matrix, space, space)

    def measure(a):
        a.mv(jnp.ones(6)), a.dense(), a.top(2), a.trace(probes=2), a.density(degree=3, probes=2)

    measure(operator(0))
    seen = len(traces)
    assert seen > 0
    measure(operator(1))
    assert len(traces) == seen
    np.testing.assert_allclose(operator(1).top(1).values, [5.0])


def test_half_precision_is_computed_in_single():
    space = {"w": jax.ShapeDtypeStruct((5,), jnp.bfloat16)}
    scale = jnp.arange(1, 6, dtype=jnp.bfloat16)
    operator = Operator(lambda s: lambda v: {"w": s * v["w"]}, scale, space, space)
    top = operator.top(2)
    assert top.vectors["w"].dtype == jnp.bfloat16
    np.testing.assert_allclose(top.values, [5, 4], rtol=1e-2)
    assert operator.trace(probes=5).value == 15
    assert operator.dense().shape == (5, 5)


def test_scipy_takes_the_operator(symmetric, hide, tree, tall):
    matrix = symmetric(np.arange(20.0))
    np.testing.assert_allclose(eigsh(hide(matrix).to_scipy(), 3)[0], [17, 18, 19], rtol=1e-10)
    operator, dense = tree
    np.testing.assert_allclose(operator.to_scipy() @ np.eye(8), dense, rtol=1e-12, atol=1e-14)
    rectangular, dense = tall
    assert rectangular.to_scipy().dtype == np.float64
    singular = np.linalg.svd(dense)[1]
    np.testing.assert_allclose(np.sort(svds(rectangular.to_scipy(), 2)[1]), np.sort(singular[:2]), rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a.mv(jnp.ones(7)), ValueError, "tree.mv: `v` has 7 entries, the operator takes 8"),
        (
            lambda a: a.mv({"a": 1}),
            ValueError,
            "tree.mv: `v` has the structure .* takes .* flat vector of 8",
        ),
        (
            lambda a: a.mv(Pair(jnp.ones((3, 2)), jnp.ones(2))),
            ValueError,
            r"tree.mv: `v`.a has shape \(3, 2\), the operator takes \(2, 3\)",
        ),
        (lambda a: a.mv(jnp.ones(8) * 1j), TypeError, "tree.mv: `v` must hold real numbers, got complex128"),
        (lambda a: a.mv(jnp.ones(8, bool)), TypeError, "tree.mv: `v` must hold real numbers, got bool"),
        (lambda a: a.top(0), ValueError, "tree.top: `k` must be a whole number of at least 1, got 0"),
        (lambda a: a.top(1.5), ValueError, "`k` must be a whole number of at least 1, got 1.5"),
        (lambda a: a.top(True), ValueError, "`k` must be a whole number of at least 1, got True"),
        (lambda a: a.top(multiplicity=0), ValueError, "`multiplicity` must be a whole number"),
        (lambda a: a.top(max_products=0), ValueError, "`max_products` must be a whole number"),
        (lambda a: a.top(tol=-1.0), ValueError, "`tol` must be a number of at least 0, got -1.0"),
        (lambda a: a.top(tol=float("nan")), ValueError, "`tol` must be a number of at least 0, got nan"),
        (lambda a: a.top(which="LM"), ValueError, "`which` must be 'largest', 'magnitude' or 'smallest', got 'LM'"),
        (lambda a: a.top(start=jnp.ones((2, 7))), ValueError, r"vectors of 8 entries, got shape \(2, 7\)"),
        (lambda a: a.top(start=jnp.ones(8)), ValueError, "tree.top: a vector of `start` has the structure"),
        (lambda a: a.top(start=jnp.ones((0, 8))), ValueError, "vectors of 8 entries, got shape"),
        (
            lambda a: a.top(start=Pair(jnp.ones((2, 2, 3)), jnp.ones((3, 2)))),
            ValueError,
            r"leading axis that counts them, got shapes \[\(2, 2, 3\), \(3, 2\)\]",
        ),
        (
            lambda a: a.density(degree=0),
            ValueError,
            "tree.density: `degree` must be a whole number",
        ),
        (lambda a: a.density(probes=0), ValueError, "`probes` must be a whole number of at least 1, got 0"),
        (lambda a: a.trace(probes=0), ValueError, "tree.trace: `probes` must be a whole number of at least 1, got 0"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(tree, call, error, message):
    with pytest.raises(error, match=message):
        call(tree[0])


def test_only_a_symmetric_operator_has_a_spectrum(tall, hide):
    operator, _ = tall
    for method in ("top", "density"):
        with pytest.raises(ValueError, match=rf"operator.{method}: only a symmetric operator has a real spectrum"):
            getattr(operator, method)()
    with pytest.raises(ValueError, match=r"only a square operator has one, this is \(5, 3\)"):
        operator.trace()
    lonely = Operator(operator.bind, operator.data, operator.domain, operator.codomain, symmetric=False)
    with pytest.raises(NotImplementedError, match="no transposed product is known"):
        lonely.T
    # A square one that is not symmetric still has a trace.
    square = hide(np.arange(9.0).reshape(3, 3), is_symmetric=False)
    assert square.trace(probes=3).value == 12


def test_a_matrix_too_large_to_write_out_is_refused():
    side = int(DENSE_ENTRIES**0.5) + 1
    space = jax.ShapeDtypeStruct((side,), float)
    with pytest.raises(ValueError, match=r"dense: a matrix of 11,586 x 11,586 .* Use mv, top, density"):
        Operator(lambda data: lambda v: v, None, space, space).dense()


@pytest.mark.parametrize("method", ["top", "density", "trace", "frobenius"])
def test_products_that_are_not_finite_are_an_error(hide, method):
    operator = hide(np.full((6, 6), np.nan))
    with pytest.raises(FloatingPointError, match=f"operator.{method}: a product is not finite. Check that the param"):
        getattr(operator, method)()
