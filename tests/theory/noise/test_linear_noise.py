"""Moments of stochastic gradients on quadratics, and of the equations beside them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.noise.linear_noise import LinearDiffusion, NoisyQuadratic

THREE = NoisyQuadratic(2 * np.ones((3, 1, 1)), np.array([[6.0], [-6.0], [0.0]]))
SKEWED = NoisyQuadratic(np.ones((2, 1, 1)), np.array([[-3.0], [1 / 3]]), np.array([0.1, 0.9]))


def numbers(moments):
    return [part.item() for part in moments[:3] if part is not None]


@pytest.mark.parametrize(
    ("lr", "mean", "variance", "diffusion"),
    [
        (0.1, 0.3221225, 0.6589805, 0.5890106),
        (0.05, 0.3647300, 0.3111218, 0.2945053),
        (0.025, 0.3855365, 0.1513053, 0.1472527),
        (0.0125, 0.3958134, 0.0746273, 0.0736263),
    ],
)
def test_sgd_and_its_equation_at_time_one(lr, mean, variance, diffusion):
    np.testing.assert_allclose(numbers(THREE.sgd(lr).moments([3.0], round(1 / lr))), [mean, variance], atol=5e-8)
    np.testing.assert_allclose(numbers(THREE.diffusion(lr).moments([3.0], 1.0)), [0.4060058, diffusion], atol=5e-8)


@pytest.mark.parametrize(
    ("factor", "mean", "variance"),
    [(1, 0.395813, 0.074627), (2, 0.385536, 0.075653), (4, 0.364730, 0.077780), (8, 0.322123, 0.082373)],
)
def test_the_scaling_rule(factor, mean, variance):
    steps = THREE.sgd(0.0125 * factor, factor**-0.5)
    np.testing.assert_allclose(numbers(steps.moments([3.0], 80 // factor)), [mean, variance], atol=6e-7)


@pytest.mark.parametrize(
    ("amplify", "mean", "variance"),
    [
        (1, 0.23328, 1.49093),
        (2, 0.32212, 1.31796),
        (4, 0.36473, 1.24449),
        (8, 0.38554, 1.21044),
        (16, 0.39581, 1.19404),
        (32, 0.40092, 1.18598),
    ],
)
def test_amplified_noise(amplify, mean, variance):
    steps = THREE.svag(0.2, amplify)
    np.testing.assert_allclose(numbers(steps.moments([3.0], 5 * amplify)), [mean, variance], atol=6e-6)
    np.testing.assert_allclose(steps.stationary().covariance, 1.2 / (1 - 0.2 / amplify), rtol=1e-11)


@pytest.mark.parametrize(
    ("amplify", "variance", "third"),
    [
        (1, 0.11111, -0.04372),
        (2, 0.10526, -0.02460),
        (4, 0.10256, -0.01285),
        (8, 0.10127, -0.00655),
        (16, 0.10063, -0.00331),
        (32, 0.10031, -0.00166),
    ],
)
def test_skewed_noise_in_its_stationary_law(amplify, variance, third):
    found = SKEWED.svag(0.2, amplify).stationary(order=3)
    np.testing.assert_allclose(numbers(found), [0.0, variance, third], atol=6e-6)
    late = SKEWED.svag(0.2, amplify).moments([1.0], 300 * amplify, order=3)
    np.testing.assert_allclose(numbers(late), numbers(found), atol=1e-12)
    np.testing.assert_allclose(numbers(SKEWED.diffusion(0.2).stationary(3)), [0, 0.1, 0], atol=1e-13)


def drawn(seed, n=4, d=2):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, d, d)) / 2
    return NoisyQuadratic(
        half @ half.swapaxes(1, 2) + 0.3 * np.eye(d), rng.normal(size=(n, d)), rng.dirichlet(np.ones(n))
    )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), lr=st.floats(0.01, 0.1), amplify=st.sampled_from([1, 3]))
def test_every_way_of_a_few_steps(seed, lr, amplify):
    """Against all ways that three steps can go, listed one by one."""
    steps = drawn(seed, 2).svag(lr, amplify)
    points, weights = np.array([[1.0, -2.0]]), np.ones(1)
    for _ in range(3):
        moved = np.einsum("mij,pj->pmi", steps.matrices, points) + steps.shifts
        points, weights = moved.reshape(-1, 2), np.outer(weights, steps.chances).ravel()
    mean = weights @ points
    apart = points - mean
    found = steps.moments([1.0, -2.0], 3, order=3)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, (apart.T * weights) @ apart, atol=1e-12)
    third = np.einsum("p,pi,pj,pk->ijk", weights, apart, apart, apart)
    np.testing.assert_allclose(found.third, third, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_stationary_laws_are_kept(seed):
    model = drawn(seed)
    steps, flow = model.sgd(0.02), model.diffusion(0.02)
    for law, late in (
        (steps.stationary(3), steps.moments([1.0, 1.0], 20_000, 3)),
        (flow.stationary(3), flow.moments([1.0, 1.0], 400.0, 3)),
    ):
        if law.reason:
            continue
        for one, other in zip(law[:3], late[:3], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


def test_small_steps_are_the_equation():
    """The generator is the derivative of a step, with the noise held fixed."""
    model, eta = drawn(3), 1e-6
    step = (model.sgd(eta, eta**-0.5).lifted(2) - np.eye(9)) / eta
    np.testing.assert_allclose(step, model.diffusion(1.0).generator(2), atol=1e-4)


def test_a_process_with_constant_noise_is_normal():
    """Ornstein-Uhlenbeck: the covariance is an integral."""
    from scipy.linalg import expm

    K, L = np.array([[-1.0, 0.5], [-0.3, -2.0]]), np.array([[1.0, 0.0], [0.4, 0.7]])
    process = LinearDiffusion(K, np.array([0.2, 0.0]), np.zeros((2, 2, 2)), L.T.copy())
    nodes, weights = np.polynomial.legendre.leggauss(40)
    exact = sum(
        w / 2 * expm(K * (s + 1) / 2) @ L @ L.T @ expm(K * (s + 1) / 2).T for s, w in zip(nodes, weights, strict=True)
    )
    found = process.moments([1.0, 1.0], 1.0, 3)
    np.testing.assert_allclose(found.covariance, exact, atol=1e-12)
    np.testing.assert_allclose(found.third, 0, atol=1e-12)
    faster = process.faster(4.0).moments([1.0, 1.0], 0.25)
    np.testing.assert_allclose(faster.covariance, found.covariance, atol=1e-12)


def test_characteristic_function():
    steps = THREE.sgd(0.1)
    h = 1e-4
    plus, minus = (steps.characteristic([s * h], [3.0], 7) for s in (1, -1))
    found = steps.moments([3.0], 7)
    assert ((plus - minus) / (2j * h)).real == pytest.approx(found.mean.item(), abs=1e-6)
    second = found.covariance.item() + found.mean.item() ** 2
    assert (2 - plus - minus).real / h**2 == pytest.approx(second, abs=1e-5)
    with pytest.raises(ValueError, match="`matrices`"):
        drawn(0).sgd(0.1).characteristic([1.0, 0], [0.0, 0.0], 2)


def test_above_stability_moments_are_infinite_with_a_reason():
    for steps in (THREE.sgd(1.01), THREE.svag(3.0, 2)):
        law = steps.stationary(3)
        assert np.isinf(law.covariance).all()
        assert "smaller step size" in law.reason
    assert np.isinf(drawn(1).diffusion(50.0).stationary().covariance).all()
    assert not THREE.sgd(0.99).stationary().reason


def test_covariance_of_gradients():
    model, x = drawn(5), np.array([0.3, -1.0])
    each = model.hessians @ x - model.offsets
    np.testing.assert_allclose(model.covariance(x), np.cov(each.T, aweights=model.chances, bias=True), atol=1e-12)
    noise = model.diffusion(1.0)
    columns = noise.noise_matrices @ x + noise.noise_shifts
    np.testing.assert_allclose(columns.T @ columns, model.covariance(x), atol=1e-12)


def test_bad_input_is_refused_by_name():
    bad = {
        "`hessians` and `offsets`": lambda: NoisyQuadratic(np.ones((2, 2)), np.ones((2, 1))),
        "`chances`": lambda: NoisyQuadratic(np.ones((2, 1, 1)), np.ones((2, 1)), np.array([0.5, 0.6])),
        "`amplify` must be at least 1": lambda: THREE.svag(0.1, 0.9),
        "`scale`": lambda: THREE.sgd(0.1, -1.0),
        "`lr`": lambda: THREE.sgd(-0.1),
        "`start`": lambda: THREE.sgd(0.1).moments([1.0, 2.0], 3),
        "`order`": lambda: THREE.sgd(0.1).moments([1.0], 3, order=4),
        "`factor`": lambda: THREE.diffusion(0.1).faster(0.0),
    }
    for message, call in bad.items():
        with pytest.raises(ValueError, match=message):
            call()
