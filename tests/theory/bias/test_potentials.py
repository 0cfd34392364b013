"""Potentials: a gradient, its inverse and the derivative of that."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.bias import potentials


def some(potential, seed, shape=()):
    rng = np.random.default_rng(seed)
    if potential.axes == 2:
        A = rng.normal(size=(*shape, 3, 3))
        return A @ np.swapaxes(A, -1, -2) + 0.1 * np.eye(3)
    w = rng.normal(size=(*shape, 4))
    return np.exp(w) if potential.domain == "positive weights" else w


A = np.random.default_rng(0).normal(size=(4, 4))
ALL = {
    "entropy": potentials.entropy(),
    "spectral": potentials.spectral_entropy(),
    "diagonal": potentials.quadratic(np.arange(1.0, 5.0)),
    "matrix": potentials.quadratic(A @ A.T + np.eye(4)),
    "lp": potentials.lp(4 / 3),
    "l2": potentials.lp(2),
    "hypentropy": potentials.hypentropy(0.3),
    "one a coordinate": potentials.hypentropy(np.array([0.1, 0.3, 1.0, 3.0])),
}


@pytest.mark.parametrize("name", ALL)
@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_gradient_inverse_and_slope_belong_together(name, seed):
    potential = ALL[name]
    w, v = some(potential, seed), np.random.default_rng(seed + 1).normal(size=some(potential, seed).shape)
    v = v + v.T if potential.axes == 2 else v
    z = potential.gradient(w)
    np.testing.assert_allclose(potential.inverse(z), w, rtol=1e-9, atol=1e-12)
    eps = 1e-5
    along = (potential.value(w + eps * v * 1e-1) - potential.value(w - eps * v * 1e-1)) / (2e-1 * eps)
    assert along == pytest.approx((z * v).sum(), rel=1e-4, abs=1e-5)
    eps = 1e-6 * np.abs(z).min() if name == "lp" else 1e-6
    difference = (potential.inverse(z + eps * v) - potential.inverse(z - eps * v)) / (2 * eps)
    np.testing.assert_allclose(potential.slope(z, v), difference, rtol=1e-3, atol=1e-4 * np.abs(difference).max())


@pytest.mark.parametrize("name", ALL)
@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_divergence_is_zero_only_at_the_start(name, seed):
    potential = ALL[name]
    w, start = some(potential, seed), some(potential, seed + 1)
    assert potential.divergence(w, start) > 0
    assert potential.divergence(w, w) == pytest.approx(0, abs=1e-12)


def test_leading_axes_and_jax_arrays():
    for potential in ALL.values():
        w = some(potential, 0, (2, 3))
        assert potential.value(w).shape == (2, 3)
        # What makes a NumPy array of one that is traced fails.
        value, gradient = jax.jit(lambda w, of=potential: (of.value(w), of.gradient(w)))(w)
        np.testing.assert_allclose(value, potential.value(w), rtol=2e-3, atol=1e-3)
        assert isinstance(potential.gradient(w), np.ndarray)
        np.testing.assert_allclose(gradient, potential.gradient(w), rtol=2e-3, atol=1e-3)


def test_a_family_of_hypentropies_has_a_leading_axis():
    alphas, w = np.array([0.1, 1.0, 10.0]), some(ALL["hypentropy"], 1)
    family = potentials.hypentropy(alphas[:, None])
    each = [potentials.hypentropy(a) for a in alphas]
    np.testing.assert_allclose(family.value(w), [p.value(w) for p in each])
    np.testing.assert_allclose(family.gradient(w), [p.gradient(w) for p in each])


def test_the_stable_form_of_hypentropy():
    z = np.array([1e-9, 1e-4, 1.0, 1e3])
    got = np.array([potentials.hypentropy(1.0).value(np.array([x])) * 4 for x in z])
    np.testing.assert_allclose(got[:2], z[:2] ** 2 / 4, rtol=1e-8)  # 2 - sqrt(4 + z^2) + ... would be zero here
    np.testing.assert_allclose(got[2:], 2 - np.sqrt(4 + z[2:] ** 2) + z[2:] * np.arcsinh(z[2:] / 2), rtol=1e-14)
    assert np.isfinite(potentials.hypentropy(1e-12).value(np.array([1e3])))
    # Limits: the squared 2-norm, and the 1-norm.
    w = np.array([0.3, -2.0, 0.7])
    assert potentials.hypentropy(1e4).value(w) * 16 * 1e8 == pytest.approx((w**2).sum(), rel=1e-8)
    small = 1e-100
    assert potentials.hypentropy(small).value(w) / (-np.log(small) / 2) == pytest.approx(np.abs(w).sum(), rel=0.01)


def test_of_a_network_of_two_squares():
    """The gradient at which u^2 - v^2 stands, u v = alpha^2, is that of hypentropy: u = alpha e^{2z}."""
    alpha, z = 0.3, np.array([0.5, -0.2, 0.0])
    u, v = alpha * np.exp(2 * z), alpha * np.exp(-2 * z)
    np.testing.assert_allclose(potentials.hypentropy(alpha).inverse(z), u**2 - v**2, atol=1e-15)
    np.testing.assert_allclose(potentials.hypentropy(alpha).slope(z, 1.0), 4 * (u**2 + v**2))


@pytest.mark.parametrize("p", [1.0, 0.5, 2.1, float("nan"), float("inf")])
def test_lp_has_its_range(p):
    with pytest.raises(ValueError, match="`p` must be above 1 and at most 2"):
        potentials.lp(p)


@pytest.mark.parametrize("p", [1 + 1e-9, 1.01])
def test_lp_near_one_does_not_overflow(p):
    potential, w = potentials.lp(p), np.array([1e-30, 1.0, -3.0, 0.0])
    z = potential.gradient(w)
    np.testing.assert_allclose(potential.inverse(z), w, rtol=1e-5, atol=1e-12)
    assert np.all(np.isfinite(potential.slope(z, w)))
    assert potential.inverse(np.zeros(3)).tolist() == [0, 0, 0]


def test_what_has_no_meaning_is_refused_by_name():
    for bad in (0.0, -1.0, float("nan"), np.array([1.0, 0.0]), 1e-200):
        with pytest.raises(ValueError, match="`alpha`"):
            potentials.hypentropy(bad)
    for bad in (0.0, np.array([1.0, -2.0]), -np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]]), np.ones((2, 3))):
        with pytest.raises(ValueError, match="`D`"):
            potentials.quadratic(bad)
    assert not potentials.entropy().inside(np.array([1.0, 0.0]))
    assert not potentials.spectral_entropy().inside(np.diag([1.0, -1.0]))
    assert not potentials.spectral_entropy().inside(np.array([[1.0, 0.5], [0.0, 1.0]]))
    assert not potentials.spectral_entropy().inside(np.ones(3))
    assert not potentials.lp(1.5).inside(np.array([np.inf]))
