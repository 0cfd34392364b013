"""Networks of norms do not see the scale of their weights."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant import nets


@given(
    norm=st.sampled_from(["layer", "group", "batch"]),
    activation=st.sampled_from(["relu", "tanh"]),
    gain=st.booleans(),
    outputs=st.integers(1, 2),
    scale=st.floats(1e-3, 1e3),
)
@settings(max_examples=8, deadline=None)
def test_the_scale_of_the_weights_changes_nothing(norm, activation, gain, outputs, scale):
    gain = gain and activation == "relu"
    net = nets.scale_invariant([6, 6], outputs, activation=activation, norm=norm, gain=gain)
    params = net.init(jax.random.key(1), (5, 3))
    x = np.random.default_rng(2).normal(size=(5, 3))
    run = jax.jit(net.apply)
    before = run(params, x)
    assert before.shape == ((5,) if outputs == 1 else (5, 2))
    after = run(jax.tree.map(lambda w: scale * np.asarray(w), params), x)
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-10)


def test_an_epsilon_breaks_the_invariance():
    net = nets.scale_invariant([6], epsilon=1e-2)
    x = np.random.default_rng(2).normal(size=(5, 3))
    params, run = jax.tree.map(np.asarray, net.init(jax.random.key(1), x.shape)), jax.jit(net.apply)
    moved = run(jax.tree.map(lambda w: 0.1 * w, params), x)
    assert np.abs(np.asarray(moved) - np.asarray(run(params, x))).max() > 1e-2


def test_the_kernel_of_a_network_with_a_frozen_top_is_that_of_its_parameters():
    net = nets.scale_invariant([6, 4], 2)
    x = np.random.default_rng(3).normal(size=(4, 3))
    params = net.init(jax.random.key(0), x.shape)
    rows = np.asarray(sc.jacobian(net.apply, params, x).dense())
    np.testing.assert_allclose(sc.ntk(net.apply, params, x).dense(), rows @ rows.T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nets.scale_invariant([]), "`widths` is empty"),
        (lambda: nets.scale_invariant([4], norm="weight"), "`norm` must be"),
    ],
)
def test_what_cannot_be_scale_invariant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
