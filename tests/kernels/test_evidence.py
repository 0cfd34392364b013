"""Variances are found again from targets that were drawn with them."""

import functools

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.kernels import fit_variances, log_evidence
from secant.kernels.evidence import _compiled, _laid_out, _weighted
from secant.nets import Parametrization

TRUTH = Parametrization("ntk", gain=1.4, bias_gain=0.5)
NET = nets.mlp([8], activation="erf", bias=True)
PLANTED = nets.with_parametrizations(NET, TRUTH)
X = np.random.default_rng(0).normal(size=(40, 3))


@functools.cache
def covariance(net, few=None):
    """Of the outputs of random networks, on the first so many samples."""
    with jax.enable_x64(True):
        return np.asarray(sc.kernel(net, X[:few]).nngp)


def drawn(net, x, noise, seed, outputs=4):
    few = None if x is X else len(x)
    whole = covariance(net, few) + noise * np.eye(len(x))
    return np.random.default_rng(seed).multivariate_normal(np.zeros(len(x)), whole, size=outputs).T


def test_planted_variances_are_recovered_within_the_errors_of_the_hessian():
    planted = np.log([1.4**2, 0.5**2])
    truth = sc.kernel(NET, X, variances=[(1.4**2, 0.25)] * 2).nngp
    scores = []
    for seed in range(6):
        y = drawn(PLANTED, X, 0.01, seed)
        found = fit_variances(NET, X, y, noise=0.01)
        assert found.converged
        assert found.names == ("weights", "biases")
        assert (np.diff(found.evidence) > -1e-9).all()  # it never goes down
        at = log_evidence(sc.kernel(NET, X, variances=found.variances).nngp, y, noise=0.01)
        assert_allclose(at, found.evidence[-1], rtol=1e-10)
        assert found.evidence[-1] >= float(log_evidence(truth, y, noise=0.01))
        scores.append((found.logs - planted) / found.errors)
    # twelve scores of variance about 1: each within four errors, and their mean square as of a chi-squared law
    assert np.abs(scores).max() < 4
    assert 0.2 < np.mean(np.square(scores)) < 3


def test_the_fitted_network_is_ready_to_use():
    y = drawn(PLANTED, X, 0.01, 0)
    found = fit_variances(NET, X, y, noise=0.01)
    assert_allclose(sc.kernel(found.net, X).nngp, sc.kernel(NET, X, variances=found.variances).nngp, rtol=1e-12)
    assert found.parametrization.gain**2 == pytest.approx(found.variances[0][0])
    assert found.net.name == "mlp"
    outputs = jax.eval_shape(lambda key: found.net.apply(found.net.init(key, X.shape), X), jax.random.key(0))
    assert outputs.shape == (40,)


def test_gradients_of_the_evidence_are_those_of_differences():
    x = X[:12]
    y = drawn(NET, x, 0.01, 3)
    layout = _laid_out(_weighted(NET), tied=False, fit_noise=True)
    assert layout.names[-1] == "noise"
    assert len(layout.names) == 5
    slopes = _compiled(NET, layout, 5)[1]
    logs = np.linspace(-0.5, 0.4, 5)
    exact = np.asarray(slopes(logs[None], x, y, np.asarray(0.01)))[0]

    def evidence(logs):
        values = np.exp(logs)
        pairs = [(values[2 * i], values[2 * i + 1]) for i in range(2)]
        found = sc.kernel(NET, x, only="nngp", variances=pairs).nngp
        return float(log_evidence(np.asarray(found), y, noise=float(values[-1])))

    for place in range(5):
        h = 1e-5 * np.eye(5)[place]
        assert_allclose(-exact[place], (evidence(logs + h) - evidence(logs - h)) / 2e-5, rtol=1e-5, atol=1e-6)


def test_what_the_targets_do_not_tell_has_no_error():
    """A network of ReLU without biases knows only the product of its variances, which is found."""
    net = nets.mlp([8], activation="relu")
    y = drawn(net, X, 0.05, 1)
    apart, tied = fit_variances(net, X, y, noise=0.05, tied=False), fit_variances(net, X, y, noise=0.05)
    assert np.isinf(apart.errors).all()
    assert np.isfinite(tied.errors).all()
    assert_allclose(apart.logs.sum(), 2 * tied.logs[0], rtol=1e-4)
    assert len(apart.parametrization) == 2
    assert apart.names[0] == "weights of layer 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": 3}, "`net` must be a secant.nets.Network, got int"),
        ({"net": nets.mlp([4], parametrization="mup")}, "must be 'ntk' or 'standard'"),
        ({"noise": 0.0}, "`noise` must be a finite number above 0"),
        ({"steps": 0}, "`steps` must be a whole number of at least 1"),
        ({"net": nets.flatten()}, "the network has no weights"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, message):
    given = {"net": NET, "x": X, "y": X[:, 0]} | change
    with pytest.raises((ValueError, TypeError), match=message):
        fit_variances(given.pop("net"), given.pop("x"), given.pop("y"), **given)
