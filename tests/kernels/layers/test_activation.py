"""Activations of infinite width: published numbers, arcs, and the recursion of ReLU in fifty digits."""

import itertools

import jax
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.core.device import jit
from secant.nets import Parametrization

HE = Parametrization("ntk", gain=2**0.5)
TABLE = {  # correlation of unit inputs: (covariance, tangent kernel) of 1, 2, 3 and 5 hidden layers of ReLU
    -1.0: [(0, 0), (0.3183098862, 0.3183098862), (0.4937310902, 0.6857086363), (0.6809535334, 1.4303904972)],
    -0.5: [
        *((0.1089977810, -0.0576688856), (0.3747014983, 0.3438622463)),
        *((0.5282793877, 0.7422493226), (0.6974392828, 1.5071068020)),
    ],
    0.5: [
        *((0.6089977810, 0.9423311144), (0.6839056509, 1.3514795611)),
        *((0.7381281923, 1.7378446792), (0.8104542010, 2.4628931325)),
    ],
    0.9: [
        *((0.9095383988, 1.6803287350), (0.9177411442, 2.3688136627)),
        *((0.9248508954, 2.9856931874), (0.9365084202, 4.0608947406)),
    ],
    1.0: [(1, 2), (1, 3), (1, 4), (1, 6)],
}


def relu_net(layers, outputs=1):
    """Weights of variance 2 over the fan-in, but 1 in the first and last layer, as in the theory of unit inputs."""
    rules = [Parametrization("ntk"), *[HE] * layers]
    return nets.mlp([64] * layers, outputs, activation="relu", parametrization=rules)


def test_the_table_of_relu_networks():
    x = np.array([[1.0, 0.0], *((c, np.sqrt(1 - c * c)) for c in TABLE)]) * np.sqrt(2)
    depths = (1, 2, 3, 5)
    every = jit(lambda a, b: [sc.kernel(relu_net(layers), a, b)[:2] for layers in depths], quick=True)(x[:1], x[1:])
    for column, found in enumerate(every):
        # The readout multiplies by two what is one in the table, and its own weights are scaled alike.
        expected = np.array([row[column] for row in TABLE.values()])
        assert_allclose(found[0][0], expected[:, 0], atol=1e-9)
        assert_allclose(found[1][0], expected[:, 1], atol=1e-9)


def test_two_layers_of_signs_are_arcs_to_rounding():
    """A rounding in the correlation of an input with itself, which is one, would be its root in the second layer."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(6, 5)), random.normal(size=(4, 5))
    rule = {"parametrization": Parametrization("ntk", gain=1.3, bias_gain=0.4), "bias": True}
    found = sc.kernel(nets.mlp([8, 8], activation="sign", **rule), x, y)
    affine = lambda k: 1.3**2 * k + 0.4**2  # noqa: E731
    own = [affine(np.sum(z**2, 1) / 5) for z in (x, y)]
    first = affine(2 / np.pi * np.arcsin(affine(x @ y.T / 5) / np.sqrt(np.outer(*own))))
    assert_allclose(found.nngp, affine(2 / np.pi * np.arcsin(first / affine(1))), rtol=1e-14)


def reference(x, y, layers, weights, biases):
    """The recursion of a network of ReLU in fifty digits."""
    with mpmath.workdps(50):
        x, y = ([mpmath.mpf(float(entry)) for entry in vector] for vector in (x, y))
        k, qx, qy = (mpmath.fdot(*pair) / len(x) for pair in ((x, y), (x, x), (y, y)))
        theta = mpmath.mpf(0)
        for layer in range(layers + 1):
            theta = weights * (theta + k) + biases
            k, qx, qy = (weights * part + biases for part in (k, qx, qy))
            if layer == layers:
                return k, theta
            size = mpmath.sqrt(qx * qy)
            angle = mpmath.acos(min(max(k / size, -1), 1)) if size else mpmath.mpf(0)
            theta = theta * (mpmath.pi - angle) / (2 * mpmath.pi)
            k = size * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)) / (2 * mpmath.pi)
            qx, qy = qx / 2, qy / 2


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-10)])
@pytest.mark.parametrize("biases", [0.0, 0.3])
def test_fifty_digits(dtype, tolerance, biases):
    """Of inputs that are far apart, close, equal, opposite and of other sizes."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 50))
    near = a + rng.normal(size=a.shape) * np.geomspace(1e-6, 1e-1, 6)[:, None]
    x = np.concatenate([a, near, -a[:2], 3 * a[:2], a[:1]]).astype(dtype)
    gain = dtype(np.sqrt(2)).item()
    net = nets.mlp([64] * 5, activation="relu", bias=True, parametrization=Parametrization("ntk", gain, biases**0.5))
    found = jax.tree.map(np.asarray, sc.kernel(net, jax.device_put(x)))
    assert found.nngp.dtype == dtype
    weights, shift = mpmath.mpf(gain) ** 2, mpmath.mpf(biases)
    for i, j in itertools.combinations_with_replacement(range(len(x)), 2):
        if (i + j) % 3 and i != j and j - i != 6:
            continue
        for value, exact in zip(
            (found.nngp[i, j], found.ntk[i, j]), reference(x[i], x[j], 5, weights, shift), strict=True
        ):
            assert abs(float(value) / float(exact) - 1) < tolerance, (i, j)
    assert found.ntk[0, 0] == found.ntk[0, 16]  # the same input twice


def test_quadrature_says_its_error():
    x = np.random.default_rng(0).normal(size=(4, 5))
    closed = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation="erf"), x))
    erf = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation=lambda z: jax.scipy.special.erf(z)), x))
    assert closed.error == 0
    assert 0 < erf.error < 1e-10
    assert_allclose(erf.ntk, closed.ntk, rtol=1e-10)
