"""A frozen network is drawn once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets


def test_a_frozen_network_has_no_parameters_and_always_the_same_weights():
    head = nets.frozen(nets.dense(2), seed=3)
    x = np.random.default_rng(0).normal(size=(4, 5))
    weight = np.asarray(nets.dense(2).init(jax.random.key(3), x.shape)["weight"])
    assert head.init(jax.random.key(0), x.shape) == ()
    for run in (head.apply, jax.jit(head.apply)):
        np.testing.assert_allclose(run((), x), x @ weight / np.sqrt(5), rtol=1e-12)
    assert head.apply((), x.astype(np.float32)).dtype == jnp.float32
    net = nets.serial(nets.dense(5), nets.activation("tanh"), head)
    same = nets.with_parametrizations(net, "standard")
    assert same.parts[-1] is head


def test_a_seed_below_zero_is_refused():
    with pytest.raises(ValueError, match="`seed`"):
        nets.frozen(nets.dense(2), -1)
