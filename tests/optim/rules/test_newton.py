"""Newton's method: one step on quadratics, squared errors near a minimum, words where there is no step."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.optim import newton


def quadratic(seed, size, condition=1e3):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    A = (basis * np.geomspace(1, condition, size)) @ basis.T
    return (A + A.T) / 2, rng.normal(size=size), rng.normal(size=size)


@functools.cache
def step_on_quadratics(lr=1.0, **options):
    """`(A, minimum, start) -> ` where a step leads."""

    def step(A, least, start):
        return newton(lambda w: (w - least) @ A @ (w - least) / 2, lr, **options).step(start)

    return jax.jit(step)


@pytest.mark.parametrize("dense", [0, 256])
@pytest.mark.parametrize("condition", [10.0, 1e3])
def test_a_quadratic_takes_one_step(dense, condition):
    A, least, start = quadratic(0, 6, condition)
    # Products go on to a residual of eps^(3/4) of the gradient, and the smallest eigenvalue is one. Six would do, but
    # for rounding, which costs their directions the conjugacy.
    atol = np.finfo(float).eps ** 0.75 * condition * np.linalg.norm(start - least)
    step = step_on_quadratics(dense=dense, products=30)
    np.testing.assert_allclose(step(A, least, start), least, rtol=0, atol=atol)


def test_half_a_step_goes_half_the_way_and_a_ridge_shortens_it():
    A, least, start = quadratic(1, 4)
    np.testing.assert_allclose(step_on_quadratics(0.5)(A, least, start), (start + least) / 2, atol=1e-12)
    ridged = start - np.linalg.solve(A + 3 * np.eye(4), A @ (start - least))
    for dense in (0, 256):
        np.testing.assert_allclose(step_on_quadratics(ridge=3.0, dense=dense)(A, least, start), ridged, atol=1e-10)


def test_on_a_tree_the_error_is_squared_at_each_step():
    loss = lambda p: jnp.cosh(p["a"]).sum() + jnp.exp(p["b"]) - 2 * p["b"] + 0.1 * p["a"][0] * p["b"]  # noqa: E731
    start = {"a": jnp.array([0.1, -0.2]), "b": 0.5}
    probes = {"slope": lambda p: jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(jax.grad(loss)(p))))}
    run = sc.simulate(lambda dense: newton(loss), start, 5, probes=probes, over={"dense": jnp.arange(2)})
    slope = run.dataset.slope.values[0]
    assert slope[-1] < 1e-14
    assert (slope[2:4] < 2 * slope[1:3] ** 2).all()
    assert run.state["a"].shape == (2, 2)


def test_it_goes_to_a_saddle_and_stays_where_the_gradient_is_zero():
    step = jax.jit(newton(lambda w: w[0] ** 2 - w[1] ** 2).step)
    np.testing.assert_allclose(step(np.array([1.0, 2.0])), 0, atol=1e-14)
    assert jax.jit(newton(lambda w: w**3).step)(0.0) == 0
    # A loss with flat directions: of all minima the nearest.
    X = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    found = jax.jit(newton(lambda w: ((X @ w - 1) ** 2).sum()).step)(np.zeros(3))
    np.testing.assert_allclose(found, np.linalg.pinv(X) @ np.ones(2), atol=1e-13)


def flat_along_the_gradient(w):
    return w[0] ** 2 + w[1]


@pytest.mark.parametrize("dense", [0, 256])
def test_a_singular_hessian_is_an_error_and_never_a_nan(dense):
    start = np.array([1.0, 0.0])
    with pytest.raises(ValueError, match=r"singular .* `ridge`"):
        newton(flat_along_the_gradient, dense=dense).step(start)
    with pytest.raises(RuntimeError, match="newton: the Hessian is singular"):
        sc.simulate(newton(flat_along_the_gradient, dense=dense), start, 2)
    assert np.isfinite(jax.jit(newton(flat_along_the_gradient, ridge=0.1, dense=dense).step)(start)).all()


def test_divergence_is_an_outcome():
    run = sc.simulate(newton(lambda w: w**2, 1e30), 1.5, 20)
    assert int(run.dataset.outcome) == sc.Outcome.DIVERGED
    assert not np.isnan(jax.jit(newton(lambda w: jnp.log(w)).step)(0.0))


def test_many_parameters_by_products_alone_in_float32():
    with jax.enable_x64(False):
        x = np.random.default_rng(0).normal(size=(20, 300)).astype(np.float32)
        y = np.float32(x[:, 0] > 0)
        loss = lambda w: jnp.mean(jnp.logaddexp(0, x @ w) - y * (x @ w)) + 0.05 * (w**2).sum()  # noqa: E731
        run = sc.simulate(newton(loss), np.zeros(300, np.float32), 6)
        assert np.linalg.norm(jax.jit(jax.grad(loss))(run.state)) < 1e-6
        assert run.state.dtype == jnp.float32


def test_what_has_no_meaning_is_refused_by_name():
    for options, name in (({"lr": 0.0}, "lr"), ({"ridge": -1.0}, "ridge"), ({"dense": 1.5}, "dense")):
        with pytest.raises(ValueError, match=f"`{name}`"):
            newton(lambda w: w**2, **options)
