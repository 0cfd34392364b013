"""Kernels of networks: published numbers, fifty digits, limits, and what is no kernel."""

import dataclasses
import functools
import itertools
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.core.device import jit
from secant.nets import Parametrization, activations

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


def test_blocks_and_halves_do_not_show():
    x = np.random.default_rng(0).normal(size=(7, 4, 3, 2))
    for net in (nets.cnn([8], bias=True), nets.cnn([8], pool="average"), nets.mlp([8], activation="erf")):
        x_ = x if net.name == "cnn" else x.reshape(7, -1)
        whole = jax.tree.map(np.asarray, sc.kernel(net, x_))
        pooled = net.name == "cnn" and net.parts[-3].name == "global_average_pool"
        pair = 12 ** (2 if pooled else 1) * 8 if net.name == "cnn" else 8
        found = sc.kernel(net, x_, memory=10 * 9 * pair)
        assert_allclose(found.nngp, whole.nngp, rtol=1e-12)
        assert_allclose(found.ntk, whole.ntk, rtol=1e-12)
        part = sc.kernel(net, x_[:2], x_[3:])
        assert_allclose(part.nngp, whole.nngp[:2, 3:], rtol=1e-12)
        assert_allclose(part.ntk, whole.ntk[:2, 3:], rtol=1e-12)
        if net.name == "cnn" and not pooled:
            continue
        alone = sc.kernel(net, x_, only="nngp")
        assert alone.ntk is None
        assert_allclose(alone.nngp, whole.nngp, rtol=1e-12)
        alone = sc.kernel(net, x_, only="ntk")
        assert alone.nngp is None
        assert_allclose(alone.ntk, whole.ntk, rtol=1e-12)


def test_the_number_of_cores_changes_no_bit(monkeypatch):
    x, net = np.random.default_rng(0).normal(size=(40, 3)), nets.mlp([8], activation="relu", bias=True)
    for dtype in (np.float32, np.float64):
        found = []
        for count in (1, 3):
            monkeypatch.setenv("NPROC", str(count))
            found.append(jax.tree.map(np.asarray, sc.kernel(net, x.astype(dtype), memory=10 * 81 * 8)))
        assert found[0].ntk.dtype == dtype
        assert (found[0].ntk == found[1].ntk).all()
        assert (found[0].nngp == found[0].nngp.T).all()
        for kind in (np.float32, np.float64):  # variances of either precision, one after the other
            numbers = [(kind(1.0), kind(1.0))] * 2
            other = sc.kernel(net, x.astype(dtype), memory=10 * 81 * 8, variances=numbers)
            assert_allclose(other.ntk, found[0].ntk, rtol=1e-5)


SHARED = """
import jax, numpy as np
import secant as sc
from secant import nets

assert len(jax.devices()) == 3
x = np.random.default_rng(0).normal(size=(8, 3, 3, 2)).astype(np.float32)
rows = x.reshape(8, -1)
images, vectors = nets.cnn([8], pool="average"), nets.mlp([8], activation="relu", bias=True)
for net, pair in ((images, (x,)), (vectors, (rows,)), (vectors, (rows[:5], rows))):
    one, many = sc.kernel(net, *pair), sc.kernel(net, *pair, devices=jax.devices())
    for which in ("nngp", "ntk"):
        found = getattr(many, which)
        np.testing.assert_allclose(found, getattr(one, which), rtol=2e-6)
assert sc.kernel(vectors, rows, devices=jax.devices(), only="nngp").ntk is None
"""


def test_many_devices_share_the_work():
    told = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3 " + os.environ.get("XLA_FLAGS", "")}
    subprocess.run([sys.executable, "-c", SHARED], env=os.environ | told, check=True)


def test_quadrature_says_its_error():
    x = np.random.default_rng(0).normal(size=(4, 5))
    closed = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation="erf"), x))
    erf = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation=lambda z: jax.scipy.special.erf(z)), x))
    assert closed.error == 0
    assert 0 < erf.error < 1e-10
    assert_allclose(erf.ntk, closed.ntk, rtol=1e-10)


def test_slopes_of_the_kernel_are_those_of_differences():
    net = nets.mlp([8, 8], activation="relu", bias=True)
    x, weights = (np.random.default_rng(seed).normal(size=(3, size)) for seed, size in enumerate((4, 3)))
    x[2] = x[0]  # coincident
    weights[0, 2] = weights[2, 0] = 0.0
    both = jit(
        jax.value_and_grad(lambda x, v: jnp.sum(weights * sc.kernel(net, x, variances=v).ntk), (0, 1)), quick=True
    )
    value = lambda x, v: float(both(x, v)[0])  # noqa: E731
    variances = [(1.5, 0.1), (2.0, 0.2), (1.0, 0.3)]
    slopes, by_variance = jax.tree.map(np.asarray, both(x, variances)[1])
    assert np.isfinite(slopes).all()
    for at in ((1, 2), (1, 0)):
        step = np.zeros_like(x)
        step[at] = 1e-5
        assert_allclose(slopes[at], (value(x + step, variances) - value(x - step, variances)) / 2e-5, rtol=1e-6)
    for layer, which in itertools.product(range(3), range(2)):
        sides = []
        for sign in (1, -1):
            moved = [list(pair) for pair in variances]
            moved[layer][which] += sign * 1e-5
            sides.append(value(x, [tuple(pair) for pair in moved]))
        assert_allclose(by_variance[layer][which], (sides[0] - sides[1]) / 2e-5, rtol=1e-6)


def test_given_variances_are_those_of_a_network():
    def pair(name, x):
        own = nets.mlp([8], bias=True, activation="erf", parametrization=Parametrization(name, 1.3, 0.4))
        other = nets.mlp([8], bias=True, activation="erf", parametrization=name)
        last = 1.3**2 / 8 if name in ("mean-field", "mup") else 1.3**2  # which vanishes as the width grows
        found = sc.kernel(other, x, variances=[(1.3**2, 0.4**2), (last, 0.4**2)])
        return found.ntk, sc.kernel(own, x).ntk

    names, x = ("ntk", "standard", "mean-field", "mup"), np.random.default_rng(0).normal(size=(3, 4))
    for found, expected in jit(lambda x: [pair(name, x) for name in names], quick=True)(x):
        assert_allclose(found, expected, rtol=1e-12)


def test_limits_of_other_parametrisations():
    x = np.random.default_rng(0).normal(size=(3, 4))
    rules = {name: {"parametrization": name} for name in ("mean-field", "pytorch")}
    rules |= {name: {"parametrization": Parametrization("mup", optimizer=name)} for name in ("sgd", "adam")}
    rules["biased"] = rules["pytorch"] | {"bias": True}

    @functools.partial(jit, quick=True)
    def every(x):
        return {name: sc.kernel(nets.mlp([64], **rule), x)[:2] for name, rule in rules.items()}

    found = jax.tree.map(np.asarray, every(x))
    for name in ("mean-field", "sgd", "adam"):
        assert (found[name][0] == 0).all()
    assert (found["mean-field"][1].diagonal() > 0).all()
    assert (found["biased"][0] > found["pytorch"][0]).all()
    with pytest.raises(ValueError, match="near-zero"):
        sc.kernel(nets.mlp([64], parametrization="near-zero"), x)


@pytest.mark.parametrize("activation", ["relu", "erf", "tanh", "gelu", "sign", "step", activations.leaky(0.1)])
@pytest.mark.parametrize("bias", [False, True])
def test_strange_inputs_have_their_limits(activation, bias):
    """Zeros, one vector, its double, its opposite, itself again; and in all of it nothing that is no number."""
    a = np.array([1.0, -2.0, 0.5])
    x = np.stack([np.zeros(3), a, 2 * a, -a, a, 1e-30 * a, 1e12 * a])
    found = jax.tree.map(np.asarray, sc.kernel(nets.mlp([8, 8], activation=activation, bias=bias), x))
    for kernel in (found.nngp, found.ntk):
        assert np.isfinite(kernel).all()
        assert_allclose(kernel[1, :], kernel[4, :], rtol=1e-14)
        assert_allclose(kernel, kernel.T, rtol=1e-14, atol=10 * float(found.error))
    if activation in ("relu", "erf") and not bias:
        assert (found.nngp[0] == 0).all()
    if activation == "erf" and not bias:  # nearly linear for small signals, however small
        assert_allclose(found.nngp[5, 5], 1e-60 * 5.25 / 3 * (4 / np.pi) ** 2, rtol=1e-12)
    if activation == "relu" and not bias:
        assert (found.ntk[0] == 0).all()
        assert_allclose(found.ntk[1, 2], 2 * found.ntk[1, 1], rtol=1e-14)


def test_constant_images_and_no_hidden_layer():
    images = (np.array([0.0, 1.0, 2.0])[:, None, None, None] * np.ones((3, 4, 4, 2))).astype(np.float32)
    net = nets.cnn([8, 8], pool="average", padding="CIRCULAR", parametrization=HE)
    found = sc.kernel(net, images)
    vectors = sc.kernel(nets.mlp([8, 8], parametrization=HE), images[:, 0, 0])
    assert_allclose(found.nngp, vectors.nngp, rtol=1e-6)
    assert_allclose(found.ntk, vectors.ntk, rtol=1e-6)
    x = np.random.default_rng(0).normal(size=(3, 5))
    assert_allclose(sc.kernel(nets.mlp([]), x).ntk, x @ x.T / 5, rtol=1e-12)
    assert sc.kernel(nets.mlp([]), x[:1]).ntk.shape == (1, 1)


def test_what_stands_before_all_weights_is_simply_applied():
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
    behind = nets.serial(nets.activation("tanh"), nets.average_pool(2), nets.flatten(), nets.dense(8), nets.dense(1))
    rows = np.tanh(x).reshape(3, 2, 2, 2, 2, 2).mean((2, 4)).reshape(3, -1)
    assert_allclose(sc.kernel(behind, x).ntk, sc.kernel(nets.deep_linear([8]), rows).ntk, rtol=1e-12)


WRONG = {
    "the layer `mine` at part 1 of part 0 has no rule": nets.serial(
        nets.serial(nets.dense(4), dataclasses.replace(nets.dense(4), name="mine", layer=None)), nets.dense(1)
    ),
    "softmax scores": nets.serial(nets.dense(4), nets.attention(), nets.flatten(), nets.dense(1)),
    "not Gaussian": nets.serial(nets.dense(4), nets.activation("relu"), nets.activation("relu"), nets.dense(1)),
    "share the features": nets.serial(nets.dense(4), nets.residual(nets.activation("relu")), nets.dense(1)),
    "have a mean": nets.serial(
        nets.dense(4), nets.add(*[nets.serial(nets.dense(4), nets.activation("relu"))] * 2), nets.dense(1)
    ),
    "no weights": nets.flatten(),
    "is given signals that are not Gaussian": nets.serial(nets.dense(4), nets.activation("relu"), nets.layer_norm()),
}


@pytest.mark.parametrize("match", WRONG)
def test_a_network_without_a_kernel_is_named(match):
    shape = (2, 3, 4) if match == "softmax scores" else (2, 3)
    with pytest.raises(ValueError, match=match):
        sc.kernel(WRONG[match], np.ones(shape))


def test_bad_arguments_are_named():
    net = nets.mlp([4])
    x = np.ones((2, 3))
    for match, arguments, options in (
        ("`x1` must hold finite", (np.array([[1.0], [np.nan]]),), {}),
        ("`x1` must have shape", (x[:0],), {}),
        ("floating-point", (np.ones((2, 3), int),), {}),
        ("samples of `x2`", (x, x[:, :2]), {}),
        ("`only`", (x,), {"only": "both"}),
        ("`memory` of 7 bytes", (x,), {"memory": 7}),
    ):
        with pytest.raises(ValueError, match=match):
            sc.kernel(net, *arguments, **options)
    with pytest.raises(TypeError, match="`net` must be"):
        sc.kernel(lambda x: x, x)
    with pytest.raises(ValueError, match="positions"):
        sc.kernel(nets.conv(4), np.ones((2, 4, 4, 1)))
    with pytest.raises(ValueError, match="not finite"):
        sc.kernel(nets.mlp([4], activation=lambda z: jnp.exp(z**2)), 3 * x)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_tangent_kernel_of_mup_at_the_start_is_that_of_wide_networks(optimizer):
    """It stays of order 1 for SGD; for Adam, whose steps know no kernel, the widths of the network stay in it."""
    x = np.random.default_rng(0).normal(size=(3, 4))
    rule = Parametrization("mup", gain=1.2, bias_gain=0.3, optimizer=optimizer)
    errors, draws = [], 40
    for width in (64, 256):
        net = nets.mlp([width, width], activation="erf", bias=True, parametrization=rule)

        @functools.partial(jit, quick=True)
        def every(key, net=net):
            one = lambda key: sc.ntk(net.apply, net.init(key, x.shape), x).dense()  # noqa: E731
            return jax.lax.map(one, jax.random.split(key, draws))

        ratios = np.asarray(every(jax.random.key(1))) / np.asarray(sc.kernel(net, x).ntk)
        spread = ratios.std(0, ddof=1) / math.sqrt(draws)
        # the mean is off by 1/n, which at the larger width is below a tenth
        assert (np.abs(ratios.mean(0) - 1) < 4 * spread + 10 / width).all()
        errors.append(ratios.std(0).max())
    assert errors[1] < 0.75 * errors[0]
