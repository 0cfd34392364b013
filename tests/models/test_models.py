"""A model of any library is its function written by hand; what is no parameter stays as it is."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import secant as sc


def test_a_model_is_its_function(case):
    model = sc.model(*case.given)
    found, expected = jax.jit(model.apply)(model.params, case.x), jax.jit(case.f)(case.params, case.x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    # All that is a parameter, and nothing else.
    sizes = [sorted(np.size(leaf) for leaf in jax.tree.leaves(tree)) for tree in (model.params, case.params)]
    assert sizes[0] == sizes[1]


def test_its_critical_step_is_that_of_its_function(case, targets):
    got = sc.critical_lr(*case.given, case.x, targets, "mse", tol=1e-12)
    want = sc.critical_lr(case.f, case.params, case.x, targets, sc.losses.entry_mean, tol=1e-12)
    np.testing.assert_allclose(got[:3], want[:3], rtol=1e-9)
    model = sc.model(*case.given)
    assert sc.critical_lr(model, case.x, targets, loss="mse", tol=1e-12) == got
    assert sc.critical_lr(model.apply, model.params, case.x, targets, "mse", tol=1e-12) == got


def test_nothing_is_compiled_twice_for_one_module(of_library):
    for name in ("nnx", "linen", "equinox with a state"):
        case = of_library(name)
        assert sc.model(*case.given).apply is sc.model(*case.given).apply
    module = of_library("nnx").given[0]
    before = sc.model(module)
    nnx.update(module, jax.tree.map(lambda leaf: leaf + 1, before.params))
    after = sc.model(module)
    # Other parameters are the same function; other statistics are not.
    assert after.apply is before.apply
    assert float(after.params["last"]["bias"][0]) == float(before.params["last"]["bias"][0]) + 1
    module.norm.mean[...] = jnp.zeros(3)
    assert sc.model(module).apply != before.apply


def test_a_module_can_be_measured_inside_a_compiled_function(of_library):
    module, x = of_library("nnx").given[0], of_library("nnx").x

    @nnx.jit
    def trace(module, x):
        model = sc.model(module)
        # Nothing that ends with the trace is remembered.
        assert model.apply is not sc.model(module).apply
        return jnp.sum(sc.jacobian(model, x).mv(jax.tree.map(jnp.ones_like, model.params)))

    model = sc.model(module)
    want = jnp.sum(sc.jacobian(model, x).mv(jax.tree.map(jnp.ones_like, model.params)))
    assert float(trace(module, x)) == pytest.approx(float(want), rel=1e-12)


def test_the_users_module_is_left_alone(of_library):
    case = of_library("nnx")
    module = case.given[0]
    kept = jax.tree.map(np.asarray, nnx.state(module, nnx.Not(nnx.RngState)))
    model = sc.model(module)
    run = sc.train(sc.Problem(model, case.x, np.ones((5, 2)), "mse"), lr=0.1, steps=3)
    assert not module.drop.deterministic
    assert not module.norm.use_running_average
    jax.tree.map(np.testing.assert_array_equal, kept, nnx.state(module, nnx.Not(nnx.RngState)))
    # And what is done to it later does not reach the model.
    at = float(model.params["last"]["bias"][0])
    module.last.bias[...] = module.last.bias[...] + 1
    assert float(model.params["last"]["bias"][0]) == at
    trained = model.at(run.state).module
    assert isinstance(trained, type(module))
    assert not trained.drop.deterministic
    trained.eval()
    np.testing.assert_allclose(trained(case.x), model.apply(run.state, case.x), rtol=1e-12)


def test_a_module_comes_back_with_other_parameters(of_library):
    case = of_library("linen")
    module, variables = case.given
    model = sc.model(module, variables)
    doubled = jax.tree.map(lambda leaf: 2 * np.asarray(leaf), model.params)
    back = model.at(doubled).module
    assert set(back) == set(variables)
    expected = jax.jit(lambda back: module.apply(back, case.x, train=False))(back)
    np.testing.assert_allclose(expected, jax.jit(model.apply)(doubled, case.x), rtol=1e-12)

    case = of_library("equinox")
    model = sc.model(*case.given)
    doubled = jax.tree.map(lambda leaf: 2 * np.asarray(leaf), model.params)
    expected = jax.jit(jax.vmap(model.at(doubled).module))(case.x)
    np.testing.assert_allclose(expected, jax.jit(model.apply)(doubled, case.x), rtol=1e-12)

    case = of_library("a function")
    model = sc.model(*case.given)
    np.testing.assert_array_equal(model.module(case.x), model.apply(model.params, case.x))


def test_it_says_what_was_done(of_library):
    assert repr(sc.model(*of_library("linen").given)) == (
        "Model(Flax linen Linen, 32 parameters, applied to the batch, with train=False)"
    )
    model = sc.model(eqx.nn.MLP(3, 2, 7, 2, key=jax.random.key(0)))
    assert repr(model).endswith("100 parameters, applied to each sample or the batch, by the shape of its inputs)")
    model.apply(model.params, of_library("equinox").x)
    assert repr(model) == "Model(Equinox MLP, 100 parameters, applied to each sample)"
    assert repr(sc.model(*of_library("a function").given)).endswith("f, 20 parameters)")


def test_samples_are_never_taken_for_features():
    # Three samples of three features: the matrix product with the whole batch runs, and means something else.
    module, x = eqx.nn.Linear(3, 3, use_bias=False, key=jax.random.key(0)), np.random.default_rng(0).normal(size=(3, 3))
    model = sc.model(module)
    np.testing.assert_allclose(model.apply(model.params, x), x @ module.weight.T, rtol=1e-12)
    assert "each sample" in repr(model)


class Batched(eqx.Module):
    inner: eqx.nn.MLP

    def __call__(self, x):
        return jax.vmap(self.inner)(x)


class Centred(eqx.Module):
    """Means one thing for a batch and another for a sample."""

    weight: jax.Array

    def __call__(self, x):
        return (x - x.mean(0)) @ self.weight


def test_a_module_for_batches_is_given_the_batch(of_library):
    case = of_library("equinox")
    model = sc.model(Batched(*case.given))
    np.testing.assert_allclose(model.apply(model.params, case.x), case.f(case.params, case.x), rtol=1e-12)
    assert repr(model).endswith("applied to the batch)")


def test_a_module_that_means_two_things_has_to_be_told_which(of_library):
    x, module = of_library("equinox").x, Centred(jnp.asarray(np.random.default_rng(0).normal(size=(3, 2))))
    with pytest.raises(
        ValueError, match=r"takes a batch as well as one sample, and the outputs differ.*per_sample=True"
    ):
        sc.jacobian(module, x)
    for per_sample, centre in ((True, x.mean(1, keepdims=True)), (False, x.mean(0))):
        model = sc.model(module, per_sample=per_sample)
        np.testing.assert_allclose(model.apply(model.params, x), (x - centre) @ module.weight, rtol=1e-10)
        sc.jacobian(model, x)


def test_a_flax_module_for_one_sample_is_mapped_when_asked(of_library):
    case = of_library("nnx")
    model = sc.model(*case.given, per_sample=True)
    np.testing.assert_allclose(model.apply(model.params, case.x), case.f(case.params, case.x), rtol=1e-12)


class Switched(eqx.Module):
    weight: jax.Array

    def __call__(self, x, *, inference, key=None, power=1):
        return (x @ self.weight) ** power if inference else x[0] / 0


def test_modules_are_told_to_evaluate_and_given_what_else_they_take(of_library):
    x, module = of_library("equinox").x, Switched(jnp.ones(3))
    model = sc.model(module, power=2)
    np.testing.assert_allclose(model.apply(model.params, x), (x @ np.ones(3)) ** 2, rtol=1e-12)
    assert repr(model).endswith("with inference=True, power=2)")


def test_a_module_of_numpy_arrays_is_read_once(of_library):
    class Table(eqx.Module):
        weight: np.ndarray
        order: np.ndarray

        def __call__(self, x):
            return x[jnp.asarray(self.order)] @ self.weight

    x, order = of_library("equinox").x, np.array([2, 0, 1])
    model = sc.model(Table(np.arange(3.0), order))
    want = x[:, order] @ np.arange(3.0)
    order[:] = 0
    np.testing.assert_allclose(model.apply(model.params, x), want, rtol=1e-12)
    assert [leaf.shape for leaf in jax.tree.leaves(model.params)] == [(3,)]


def test_a_model_is_made_of_networks_functions_and_models():
    net = sc.nets.mlp([4], activation="tanh")
    params = net.init(jax.random.key(0), (1, 3))
    model = sc.model(net, params)
    # The very method, so that Secant knows the network behind it.
    assert model.apply == net.apply
    assert sc.model(model) is model
    other = jax.tree.map(jnp.zeros_like, params)
    assert sc.model(model, other).params is other


def test_no_library_is_loaded_for_its_models():
    code = "import sys, secant as sc, numpy as np; sc.ntk(lambda w, x: x @ w, np.ones(3), np.ones((2, 3))); "
    code += "print('flax' in sys.modules, 'equinox' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
