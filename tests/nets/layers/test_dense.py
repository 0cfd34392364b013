"""A dense layer, and others like it, take their precision from inputs and parameters."""

import jax
import jax.numpy as jnp

from secant import nets


def test_single_and_double_precision_meet():
    for net, shape in ((nets.conv(2), (1, 4, 4, 3)), (nets.dense(2, bias=True), (1, 3)), (nets.attention(), (1, 2, 3))):
        params = jax.eval_shape(lambda key, net=net, shape=shape: net.init(key, shape), jax.random.key(0))
        assert jax.eval_shape(net.apply, params, jax.ShapeDtypeStruct(shape, jnp.float32)).dtype == jnp.float64
