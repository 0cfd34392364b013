"""Every operator is its dense matrix on networks that nobody chose: layers, sizes and rules are drawn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant import nets

ACTIVATIONS = st.sampled_from(["tanh", "erf", "sigmoid", "swish", "gelu", "softplus", "sin", "identity"])
RULES = {
    "parametrization": st.sampled_from(["ntk", "standard", "pytorch", "mean-field", "mup"]),
    "bias": st.booleans(),
}
WIDTHS = st.integers(1, 3)


@st.composite
def dense_part(draw, rules):
    layer = nets.serial(nets.dense(draw(WIDTHS), **rules), nets.activation(draw(ACTIVATIONS)))
    return draw(st.sampled_from([layer, nets.concat(nets.identity(), layer)]))


@st.composite
def image_part(draw, rules):
    width, strides = draw(WIDTHS), draw(st.integers(1, 2))
    window = draw(st.integers(1, 3))
    act = nets.activation(draw(ACTIVATIONS))
    conv = nets.serial(nets.conv(width, window, strides=strides, **rules), act)
    beside = nets.residual(conv, nets.conv(width, 1, strides=strides, **rules))
    return draw(st.sampled_from([conv, beside, nets.serial(conv, nets.layer_norm(over="sample"))]))


@st.composite
def token_part(draw, rules):
    plain = {"parametrization": rules["parametrization"]}
    mix = nets.attention(draw(st.sampled_from([1, 2])), **plain)
    return draw(st.sampled_from([nets.residual(mix), nets.serial(nets.layer_norm(), mix)]))


@st.composite
def networks(draw):
    """A network of one to two random parts behind each other and a readout, with the shape of a sample."""
    rules = {name: draw(strategy) for name, strategy in RULES.items()}
    kind, shape = draw(st.sampled_from([(dense_part, (3,)), (image_part, (4, 4, 2)), (token_part, (3, 4))]))
    parts = [draw(kind(rules)) for _ in range(draw(st.integers(1, 2)))]
    head = [] if len(shape) == 1 else [draw(st.sampled_from([nets.flatten(), nets.global_average_pool()]))]
    readout = nets.dense(draw(st.integers(1, 2)), last=True, **rules)
    return nets.serial(*parts, *head, readout), shape


def loss(outputs, targets):
    return jnp.sum(jnp.cosh((outputs - targets) / 2)) + 0.1 * jnp.sum(outputs) ** 2


def test_any_network_has_the_matrices_of_its_derivatives(compile_quickly, derivatives, drawn):
    @given(networks(), st.integers(0, 2**16))
    @settings(max_examples=3, deadline=None)
    def check(network, seed):
        net, shape = network
        generator = np.random.default_rng(seed)
        params = drawn(net, (1, *shape), generator)
        x = generator.normal(size=(3, *shape))
        y = generator.normal(size=net.output_shape(x.shape))

        def operators(params, x, y):
            return {
                "jacobian": sc.jacobian(net.apply, params, x).dense(),
                "ntk": sc.ntk(net.apply, params, x).dense(),
                "gn": sc.gauss_newton(net.apply, params, x, y, loss).dense(),
                "hessian": sc.hessian(net.apply, params, x, y, loss).dense(),
            }

        outputs, slopes, second = jax.tree.map(
            np.asarray, compile_quickly(functools.partial(derivatives, net))(params, x)
        )
        half = (outputs - y.ravel()) / 2  # the derivatives of the loss by hand
        bend = np.diag(np.cosh(half) / 4) + 0.2
        gn = slopes.T @ bend @ slopes
        whole = gn + np.tensordot(np.sinh(half) / 2 + 0.2 * np.sum(outputs), second, 1)
        wanted = {"jacobian": slopes, "ntk": slopes @ slopes.T, "gn": gn, "hessian": whole}
        for dtype, slack in ((np.float64, 1e-11), (np.float32, 5e-4)):
            rounded = jax.tree.map(lambda leaf: leaf.astype(dtype), (params, x, y))  # noqa: B023
            for key, found in compile_quickly(operators)(*rounded).items():
                assert found.dtype == dtype, key
                atol = slack * (1 + np.abs(wanted[key]).max())
                np.testing.assert_allclose(found, wanted[key], atol=atol, rtol=0, err_msg=f"{key} of {net}")

    check()
