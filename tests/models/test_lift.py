"""A lifted module gives the module's outputs, and has a kernel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from numpy.testing import assert_allclose

import secant as sc


@pytest.fixture(autouse=True)
def float32():
    """As these libraries compute unless told otherwise."""
    with jax.enable_x64(False):
        yield


X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
IMAGES = np.random.default_rng(1).normal(size=(3, 6, 6, 2)).astype(np.float32)


def rngs(seed):
    return nnx.Rngs(seed)


def test_nnx():
    @nnx.jit
    def make():
        inner = nnx.Sequential(nnx.Linear(5, 8, rngs=rngs(0)), nnx.LayerNorm(8, rngs=rngs(1)), jnp.tanh)
        return nnx.Sequential(
            inner, nnx.Linear(8, 8, use_bias=False, rngs=rngs(2)), nnx.gelu, nnx.Linear(8, 2, rngs=rngs(3))
        )

    module = make()
    net, params, inputs = sc.lift(module, X)
    assert_allclose(jax.jit(net.apply)(params, inputs(X)), module(X), atol=1e-5)
    assert sc.kernel(net, inputs(X)).ntk.shape == (3, 3)


def test_linen():
    flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
    convolutions = [linen.Conv(4, (3, 3)), linen.relu, linen.Conv(4, (3, 3), padding="VALID"), linen.relu]
    module = linen.Sequential([*convolutions, flat, linen.Dense(2)])
    variables = jax.jit(module.init)(jax.random.key(0), IMAGES)
    net, params, _ = sc.lift(module, IMAGES, variables)
    assert_allclose(jax.jit(net.apply)(params, IMAGES), jax.jit(module.apply)(variables, IMAGES), atol=1e-5)
    with pytest.raises(sc.models.LiftError) as caught:
        sc.lift(linen.Sequential([flat, linen.softmax, linen.Dense(2)]), X, {"params": {"layers_2": {"kernel": X}}})
    assert len(caught.value.layers) == 1


def test_equinox():
    keys = jax.random.split(jax.random.key(0), 3)
    module = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(2, 4, 3, padding=1, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(4 * 36, 2, key=keys[1]),
        ]
    )
    x = np.moveaxis(IMAGES, -1, 1)
    net, params, inputs = sc.lift(module, x)
    assert_allclose(jax.jit(net.apply)(params, inputs(x)), jax.jit(jax.vmap(module))(x), atol=1e-5)
    assert np.isfinite(sc.kernel(net, inputs(x)).ntk).all()


def test_torch():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, padding="same"), nn.GELU()),
        *(nn.Flatten(), nn.Linear(36, 8), nn.LayerNorm(8), nn.LeakyReLU(0.2), nn.Dropout(), nn.Linear(8, 2)),
    )
    x = np.moveaxis(IMAGES, -1, 1)
    net, params, inputs = sc.lift(module, torch.as_tensor(x.copy()))
    with torch.no_grad():
        assert_allclose(
            jax.jit(net.apply)(params, inputs(x)), module.eval()(torch.as_tensor(x.copy())).numpy(), atol=1e-5
        )
    assert sc.kernel(net, inputs(x)).ntk.shape == (3, 3)
    with pytest.raises(sc.models.LiftError, match="BatchNorm2d, LSTM"):
        sc.lift(nn.Sequential(nn.BatchNorm2d(2), nn.LSTM(2, 2)), x)


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="`module` must be a module of PyTorch"):
        sc.lift(jax.nn.relu, X)
    with pytest.raises(TypeError, match="needs its `variables`"):
        sc.lift(linen.Sequential([linen.Dense(2)]), X)
    strided = nnx.Sequential(nnx.Conv(2, 3, (3, 3), kernel_dilation=2, rngs=rngs(0)))
    with pytest.raises(sc.models.LiftError, match="Conv"):
        sc.lift(strided, IMAGES)
