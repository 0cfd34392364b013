"""First corrections in one over the width: linear networks and ReLU exactly, others by drawing networks."""

import functools
import math

import jax
import numpy as np
import pytest

from secant.kernels import next_variance, susceptibilities
from secant.theory.power_law import fit_power_law
from secant.theory.wide import relu_paths
from secant.theory.wide.finite_width import fluctuations, gaussian_means, sample_variances

HIDDEN = (40, 60, 50)


def test_linear_networks_have_the_first_order_of_their_closed_form():
    """There the fourth moment is three times a product of 1 + 2/n, and the second has no correction."""
    for scale in (1, 2, 4):
        widths = [n * scale for n in HIDDEN]
        found = fluctuations("identity", widths, weights=1.3, size=0.7)
        np.testing.assert_allclose(found.variance, 0.7 * 1.3 ** np.arange(1, 5), rtol=1e-12)
        np.testing.assert_allclose(found.correction, 0, atol=1e-14)
        exact = math.prod(1 + 2 / n for n in widths) - 1
        first = sum(2 / n for n in widths)
        np.testing.assert_allclose(found.excess[-1], 3 * first, rtol=1e-12)
        assert 0 < 3 * exact - found.excess[-1] < 3 * first**2 / 2


def test_relu_networks_have_the_first_order_of_their_paths():
    left = []
    for scale in (1, 2, 4):
        widths = [n * scale for n in HIDDEN]
        found = fluctuations("relu", widths, weights=2.0, size=0.4)
        np.testing.assert_allclose(found.variance, 0.8, rtol=1e-12)
        np.testing.assert_allclose(found.correction, 0, atol=1e-14)
        moments = relu_paths.fourth_moment([3, *widths]) / relu_paths.second_moment([3, *widths]) ** 2 - 3
        np.testing.assert_allclose(found.excess[-1], 3 * relu_paths.aspect([3, *widths]), rtol=1e-12)
        left.append(moments - found.excess[-1])
    exponents = np.log2(np.array(left[:-1]) / left[1:])
    assert (np.abs(exponents - 2) < 0.1).all()  # what is left out is of second order


@pytest.mark.parametrize("name", ["tanh", "erf", "gelu", "relu", "sin"])
def test_means_are_those_of_criticality_and_derivatives_are_those_of_differences(name):
    from secant.nets import ACTIVATIONS

    function, K, h = ACTIVATIONS[name], 0.8, 1e-4
    means = jax.jit(functools.partial(gaussian_means, function))
    first, slope, bend, fourth = means(K)
    np.testing.assert_allclose(first, next_variance(name, K, weights=1.0, biases=0.0), rtol=1e-9)
    np.testing.assert_allclose(slope, susceptibilities(name, K).parallel, rtol=1e-8)
    up, down = (means(K + s * h) for s in (1, -1))
    np.testing.assert_allclose(slope, (up[0] - down[0]) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(bend, (up[1] - down[1]) / (2 * h), rtol=1e-5, atol=1e-7)
    z = math.sqrt(K) * np.random.default_rng(0).standard_normal(400_000)
    powers = np.asarray(function(z)) ** 4
    assert abs(powers.mean() - float(fourth)) < 5 * powers.std() / math.sqrt(len(z))


@pytest.mark.parametrize(("name", "weights", "biases"), [("tanh", 1.5, 0.1), ("erf", 1.2, 0.1)])
def test_random_networks_approach_the_first_order(name, weights, biases):
    groups, draws, widths = 16, 6_000, (6, 12, 24)
    found = []
    for width in widths:
        predicted = fluctuations(name, [width] * 3, weights=weights, biases=biases)
        random = np.random.default_rng(width)
        drawn = [
            sample_variances(random, name, [width] * 3, draws, weights=weights, biases=biases) for _ in range(groups)
        ]
        means, spreads = (np.array([part(one, axis=1) for one in drawn]) for part in (np.mean, np.var))
        small = predicted.spread / predicted.variance**2
        for values, first in ((means - predicted.variance, predicted.correction), (spreads, predicted.spread)):
            error = values.std(0, ddof=1) / math.sqrt(groups)
            # the next order is smaller than the first as the first is than the limit
            assert (np.abs(values.mean(0) - first)[1:] < 4 * error[1:] + (2 * small * np.abs(first))[1:] + 1e-12).all()
        found.append(spreads[:, -1])
    law = fit_power_law(widths, np.array(found))
    assert abs(law.exponent + 1) < 4 * law.error + 0.05


def test_what_is_left_out_of_gelu_falls_as_one_over_the_width():
    widths, groups = (16, 32, 64), 8
    how = {"weights": 1.983, "biases": 0.173}
    left = []
    for width in widths:
        predicted = fluctuations("gelu", [width] * 3, **how).spread[-1]
        random = np.random.default_rng(width)
        drawn = [sample_variances(random, "gelu", [width] * 3, 20_000, **how)[-1].var() for _ in range(groups)]
        left.append(np.array(drawn) / predicted - 1)
    law = fit_power_law(widths, np.array(left))
    # corrections of three layers, each of relative order 1/n, change the exponent between these widths
    assert abs(law.exponent + 1) < 4 * law.error + 3 * (1 / 16 - 1 / 64) / math.log(4)
    assert law.error < 0.15


def test_sampled_variances_are_those_of_networks_with_weights():
    random, draws, width = np.random.default_rng(0), 3_000, 5
    z = math.sqrt(1.6) * random.standard_normal((draws, width))
    weights = math.sqrt(1.5 / width) * random.standard_normal((draws, width, width))
    z = np.einsum("dij,dj->di", weights, np.tanh(z)) + math.sqrt(0.1) * random.standard_normal((draws, width))
    own = 0.1 + 1.5 * (np.tanh(z) ** 2).mean(1)
    law = sample_variances(random, "tanh", [width] * 2, draws, weights=1.5, biases=0.1)[-1]
    for power in (1, 2):
        a, b = own**power, law**power
        assert abs(a.mean() - b.mean()) < 5 * math.sqrt((a.var() + b.var()) / draws)


def test_critical_tanh_networks_grow_by_two_thirds_a_layer():
    found = fluctuations("tanh", [1] * 3000, weights=1.0)
    assert abs(found.spread[-1] / found.variance[-1] ** 2 / 3000 - 2 / 3) < math.log(3000) / 3000
    assert abs(found.variance[-1] * 3000 - 0.5) < math.log(3000) / 3000


@pytest.mark.parametrize(
    ("change", "message"),
    [({"widths": []}, "at least one hidden layer"), ({"weights": 0.0}, "`weights`"), ({"biases": -1.0}, "`biases`"),
     ({"size": 0.0}, "`size`"), ({"widths": [0]}, "`widths` must be a whole number")],
)  # fmt: skip
def test_what_is_no_network_is_refused(change, message):
    given = {"widths": [4], "weights": 1.0} | change
    with pytest.raises(ValueError, match=message):
        fluctuations("tanh", given.pop("widths"), **given)
