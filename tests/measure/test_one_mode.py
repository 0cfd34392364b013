"""The followed mode of the tangent kernel, against the dense answer of a model whose second derivative is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.measure import one_mode
from secant.theory.regression import quadratic_regression as qr

D, P = 6, 9


@pytest.fixture(scope="module")
def regression():
    with jax.enable_x64(True):
        one, two = jax.random.split(jax.random.key(0))
        Q, unit = qr.random_tensor(one, D, P), qr.random_start(two, D, P)
        model = qr.Model(0.1 * unit.z, 0.3 * unit.J, Q)
        problem = sc.Problem(
            lambda theta, x: model.residuals(theta)[:, None] * x,
            jnp.ones((D, 1)),
            jnp.zeros((D, 1)),
            sc.losses.half_sum,
        )
        return model, problem


def test_it_is_the_dense_answer_at_every_step(regression):
    model, problem = regression
    probes = {"mode": sc.measure.leading_mode(3, tol=1e-10), "theta": sc.Probe(lambda theta: theta)}
    run = sc.train(problem, jnp.zeros(P), lr=0.3, steps=12, probes=probes).dataset
    last, both = None, jax.jit(lambda theta: (model.jacobian(theta), model.residuals(theta)))
    for step in range(13):
        J, z = map(np.asarray, both(run.theta[step].values))
        values, vectors = np.linalg.eigh(J @ J.T)
        np.testing.assert_allclose(run.mode[step], values[::-1][:3], rtol=1e-8)
        index = D - 1 if last is None else int(np.argmax(np.abs(vectors.T @ last)))
        vector = vectors[:, index]
        if last is not None:
            assert float(run.mode_overlap[step]) == pytest.approx(abs(vector @ last), abs=1e-6)
            vector = vector * np.sign(vector @ last)  # a mode keeps its sign as it is followed
        last = vector
        along = vector @ z
        w = J.T @ vector * along
        assert float(run.mode_followed[step]) == pytest.approx(values[index], rel=1e-8)
        sign = np.sign(float(run.mode_along[0]) * along) if step == 0 else sign  # its first is anybody's choice
        assert sign * float(run.mode_along[step]) == pytest.approx(along, rel=1e-5)
        bend = np.einsum("a,aij,i,j", vector, np.asarray(model.Q), w, w)
        assert sign * float(run.mode_bend[step]) == pytest.approx(bend, rel=1e-5)


def test_the_normalisation_of_the_loss_is_in_it(regression):
    _, problem = regression
    mean = sc.Problem(problem.f, problem.x, problem.y, sc.losses.mean_mse)
    look = {"mode": sc.measure.leading_mode(2, tol=1e-10)}
    one = sc.train(problem, jnp.zeros(P), lr=0.1, steps=1, probes=look).dataset.isel(step=0)
    two = sc.train(mean, jnp.zeros(P), lr=0.1, steps=1, probes=look).dataset.isel(step=0)
    c = 2 / D
    np.testing.assert_allclose(two.mode, c * one.mode, rtol=1e-8)
    assert abs(float(two.mode_along)) == pytest.approx(c**0.5 * abs(float(one.mode_along)), rel=1e-6)
    assert abs(float(two.mode_bend)) == pytest.approx(c**2.5 * abs(float(one.mode_bend)), rel=1e-6)


def drifting(start, by, steps, **options):
    """Two independent modes with the eigenvalues p^2, whose parameters move by the same amount in every step."""

    def drift(loss):
        return sc.Map(init=lambda p: p, step=lambda p: p + jnp.array(by))

    squares = sc.Problem(lambda p, x: (p**2)[:, None] * x / 2, np.ones((2, 1)), np.zeros((2, 1)), sc.losses.half_sum)
    look = {"mode": sc.measure.leading_mode(2, tol=1e-10, **options)}
    return sc.train(squares, jnp.array(start), rule=drift, steps=steps, probes=look).dataset


def test_a_mode_is_followed_through_a_crossing():
    # The first falls below the second, and is still followed.
    run = drifting([1.5, 1.0], [-0.1, 0.0], 8)
    first = np.square(1.5 - 0.1 * np.arange(9))
    np.testing.assert_allclose(run.mode_followed, first, rtol=1e-7)
    np.testing.assert_allclose(run.mode[:, 0], np.maximum(first, 1.0), rtol=1e-7)
    np.testing.assert_allclose(run.mode_overlap[1:], 1.0, atol=1e-6)


def test_a_mode_is_followed_from_where_it_is_large():
    # The second overtakes the first on the way: it is the largest where the following begins.
    run = drifting([1.0, 0.5], [0.05, 0.2], 8, above=2.0)
    first, second = np.square(1 + 0.05 * np.arange(9)), np.square(0.5 + 0.2 * np.arange(9))
    largest = np.maximum(first, second)
    begins = int(np.argmax(largest > 2.0))
    assert second[begins] > first[begins]
    assert first[0] > second[0]
    np.testing.assert_allclose(run.mode_followed[:begins], largest[:begins], rtol=1e-7)
    np.testing.assert_allclose(run.mode_followed[begins:], second[begins:], rtol=1e-7)
    np.testing.assert_array_equal(run.mode_overlap[: begins + 1], 0.0)
    np.testing.assert_allclose(run.mode_overlap[begins + 1 :], 1.0, atol=1e-6)


def test_a_curvature_to_follow_from_is_checked():
    with pytest.raises(ValueError, match="`above` is nan"):
        drifting([1.0, 0.5], [0.1, 0.1], 1, above=float("nan"))


def test_only_squared_losses_have_one(regression):
    _, problem = regression
    other = sc.Problem(problem.f, problem.x, problem.y, sc.losses.cross_entropy)
    with pytest.raises(ValueError, match="squared losses"):
        sc.train(other, jnp.zeros(P), lr=0.1, steps=1, probes={"mode": sc.measure.leading_mode()})


@pytest.mark.parametrize("order", [None, 2])
def test_a_small_kernel_written_out_gives_what_a_search_gives(order, monkeypatch):
    net = sc.nets.mlp([5], outputs=2, activation="tanh")
    x = jax.random.normal(jax.random.key(0), (6, 3))
    params = net.init(jax.random.key(1), x.shape)
    f = net.apply if order is None else sc.expand(net.apply, params, order)

    def followed():
        problem = sc.Problem(f, x, jnp.ones((6, 2)), sc.losses.half_mean)
        return sc.train(
            problem, params, lr=0.3, steps=4, probes={"mode": sc.measure.leading_mode(2, tol=1e-12)}, reduce=False
        ).dataset

    dense = followed()
    monkeypatch.setattr(one_mode, "DENSE_ROWS", 0)
    searched = followed()
    for name in ("mode", "mode_followed", "mode_overlap"):
        np.testing.assert_allclose(dense[name], searched[name], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(np.abs(dense.mode_along), np.abs(searched.mode_along), rtol=1e-6)
