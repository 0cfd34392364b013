"""The two halves at a network's sites make up its per-sample gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import nets
from secant.nets import taps


def per_sample(site, signal):
    """Gradient of every sample's output in the weight of a site, from its inputs and the signal that comes back."""
    n, weight = len(signal), site.weight
    if site.kind == "linear":
        inputs = np.reshape(site.inputs, (n, -1, site.inputs.shape[-1]))
        outer = np.einsum("npi,npo->nio", inputs, np.reshape(signal, (n, -1, signal.shape[-1])))
        scale = np.reshape(site.scale, outer.shape[1:]) if np.ndim(site.scale) else site.scale
        return (scale * outer).reshape(n, *weight.shape)
    product = site.scale * np.asarray(site.inputs) * signal
    return product.reshape(n, -1, *weight.shape).sum(axis=1)


def check(backward, params, x):
    """Compares the gradients of every sample's last output, both from one backward pass."""
    leaves = jax.tree.leaves(params)
    for sample in range(len(x)):
        _, wanted, signals, halves = backward(params, x, sample)
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(wanted)]
        size = max(np.abs(leaf).max() for leaf in wanted)
        summed = [np.zeros(leaf.shape) for leaf in leaves]
        for (index, kind), signal, (inputs, scale) in zip(backward.owners, signals, halves, strict=True):
            site = taps.Site(leaves[index], kind, inputs, scale)
            summed[index] += per_sample(site, np.asarray(signal))[sample]
        for ours, one in zip(summed, wanted, strict=True):
            np.testing.assert_allclose(ours, one, rtol=0, atol=1e-12 * size)


def test_per_sample_gradients_come_from_the_sites(case):
    check(case.backward, case.params, case.x)


@given(
    widths=st.lists(st.integers(1, 5), max_size=3),
    features=st.integers(1, 4),
    outputs=st.integers(1, 3),
    bias=st.booleans(),
    name=st.sampled_from(["ntk", "standard", "pytorch", "mean-field", "mup", "near-zero"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=3, deadline=None)
def test_per_sample_gradients_of_random_mlps_come_from_the_sites(backward, widths, features, outputs, bias, name, seed):
    net = nets.mlp(widths, outputs, activation="gelu", parametrization=name, bias=bias)
    x = jax.random.normal(jax.random.key(seed), (3, features))
    check(backward(net), net.init(jax.random.key(seed + 1), x.shape), x)


def test_the_sites_are_exactly_the_parameters(case):
    case.backward(case.params, case.x)
    assert {index for index, _ in case.backward.owners} == set(range(len(jax.tree.leaves(case.params))))


def test_nothing_is_observed_outside_of_observe():
    net = nets.mlp([3])
    params = net.init(jax.random.key(0), (1, 2))
    with pytest.raises(ValueError, match="features"):
        nets.observe(lambda: net.apply(params, jnp.ones((1, 5))))
    _, found, _ = nets.observe(lambda: net.apply(params, jnp.ones((1, 2))))
    net.apply(params, jnp.ones((1, 2)))
    assert len(found) == 2
