"""The tangent kernel is the same by every way and under every memory budget."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.curvature.tangent import tangent_kernel
from secant.curvature.tangent.tangent_kernel import count, kernel_matrix

X, X2 = np.random.default_rng(0).normal(size=(2, 7, 3))
NET = sc.nets.mlp([5], 2, activation="tanh")


def anybodys(params, x):
    return NET.apply(params, x)


@pytest.fixture(scope="module")
def params(drawn):
    return drawn(NET, X.shape, np.random.default_rng(1))


@pytest.mark.parametrize("way", ["structured", "contraction", "products"])
def test_blocks_under_any_budget_make_the_same_matrix(params, way, monkeypatch):
    f = NET.apply if way == "structured" else anybodys
    cheap = {"contraction": (0.0, 1.0), "products": (1.0, 0.0)}.get(way)
    if cheap:
        monkeypatch.setattr(tangent_kernel, "_counted", lambda *arguments: tangent_kernel.Costs(*cheap))
    J, J2 = (np.asarray(sc.jacobian(NET.apply, params, x).dense()) for x in (X, X2[:4]))

    for power in (0, 12, 16):  # sample by sample, in some blocks, and whole
        np.testing.assert_allclose(kernel_matrix(f, params, X, memory=2**power), J @ J.T, atol=1e-12)
        np.testing.assert_allclose(kernel_matrix(f, params, X, X2[:4], memory=2**power), J @ J2.T, atol=1e-12)
        np.testing.assert_allclose(kernel_matrix(f, params, X2[:4], X, memory=2**power), J2 @ J.T, atol=1e-12)


def test_the_blocks_do_fit_the_budget(params, monkeypatch):
    """Counted from the shapes that are multiplied: fewer samples a side under a smaller budget."""
    sides = []

    def spy(f, way):
        pair = jax.jit(tangent_kernel.pair_kernel(f, way))

        def run(p, x, x2):
            sides.append(len(x))
            return pair(p, x, x2)

        return run

    monkeypatch.setattr(tangent_kernel, "_compiled_pair", spy)
    largest = []
    for memory in (1, 2**12, 2**13, 2**30):
        sides.clear()
        kernel_matrix(anybodys, params, X, memory=memory)
        largest.append(max(sides))
    assert largest[0] == 1
    assert largest[-1] == 7
    assert largest == sorted(largest)
    assert 1 < largest[1] < 7 or 1 < largest[2] < 7


def test_the_cheapest_way_is_found_by_counting(drawn):
    generator = np.random.default_rng(0)
    wide = sc.nets.mlp([64, 64], 10)
    params = drawn(wide, (1, 16), generator)
    x = np.ones((8, 16))
    # Ten outputs: pushing ten rows through the function costs less than multiplying ten by ten of them.
    costs = count(lambda p, a: wide.apply(p, a), params, x)
    assert costs.products < costs.contraction
    # One output: no.
    single = sc.nets.mlp([64, 64])
    costs = count(lambda p, a: single.apply(p, a), drawn(single, (1, 16), generator), x)
    assert costs.contraction < costs.products
    # A convolution is used at many positions and has few parameters: multiplying rows is cheap.
    images = sc.nets.cnn([8], 3, pool="average")
    costs = count(lambda p, a: images.apply(p, a), drawn(images, (1, 8, 8, 1), generator), np.ones((4, 8, 8, 1)))
    assert costs.contraction < costs.products


def test_counts_grow_as_they_should(params):
    few, many = count(anybodys, params, X), count(anybodys, params, np.concatenate([X, X]))
    cross = count(anybodys, params, X, X2)
    assert 2 < many.contraction / few.contraction < 4
    # The whole kernel between two sets costs twice the half of one set with itself, and twice as many rows.
    assert cross.contraction == pytest.approx(2 * few.contraction)


def test_the_kernel_between_two_sets_has_a_transpose(params):
    K = sc.ntk(NET.apply, params, X, X2[:4])
    matrix = np.asarray(K.dense())
    assert K.shape == (14, 8)
    assert not K.symmetric
    v, u = np.arange(8.0).reshape(4, 2), np.arange(14.0)
    np.testing.assert_allclose(np.ravel(K.mv(v)), matrix @ v.ravel(), rtol=1e-10)
    np.testing.assert_allclose(K.T @ u, matrix.T @ u, rtol=1e-10)
    np.testing.assert_allclose(K.T.dense(), matrix.T, rtol=1e-12)
    with pytest.raises(ValueError, match=r"ntk\.top: only a symmetric operator has a real spectrum"):
        K.top()


def test_the_kernel_is_the_jacobian_times_its_transpose_on_pytrees_of_inputs():
    def f(p, batch):
        return jnp.tanh(batch["a"] @ p["u"]) * batch["b"][:, None]

    p = {"u": np.random.default_rng(0).normal(size=(3, 2))}
    batch = {"a": X, "b": np.arange(1.0, 8.0)}
    # The slope of tanh times the input, of an output in its own column of weights.
    slopes = (1 - np.tanh(X @ p["u"]) ** 2) * batch["b"][:, None]
    J = np.einsum("nk,nd,kl->nkdl", slopes, X, np.eye(2)).reshape(14, -1)
    np.testing.assert_allclose(sc.ntk(f, p, batch).dense(), J @ J.T, rtol=1e-10)
    np.testing.assert_allclose(kernel_matrix(f, p, batch, memory=1), J @ J.T, rtol=1e-10)


def test_shares_of_the_parameters_add_up(params):
    shares = sc.curvature.ntk_per_parameter(NET.apply, params, X)
    assert jax.tree.structure(shares) == jax.tree.structure(params)
    np.testing.assert_allclose(
        sum(map(np.asarray, jax.tree.leaves(shares))), sc.ntk(NET.apply, params, X).dense(), rtol=1e-12
    )


def test_numbers_that_are_no_arrays_are_parameters_too():
    K = sc.ntk(lambda p, x: p["a"] * x + p["b"], {"a": 2.0, "b": 1.0}, np.arange(3.0)).dense()
    np.testing.assert_allclose(K, np.outer(np.arange(3.0), np.arange(3.0)) + 1)
