"""What every measurement asks of its arguments, and how it says so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant import nets
from secant.curvature.checks import refuse_mixing

X = np.random.default_rng(0).normal(size=(6, 3))
NET = nets.mlp([4], activation="tanh")
MEASURES = {
    "jacobian": sc.jacobian,
    "ntk": sc.ntk,
    "hessian": lambda f, p, x: sc.hessian(f, p, x, np.ones(len(X)), "half_sum"),
    "gauss_newton": lambda f, p, x: sc.gauss_newton(f, p, x, np.ones(len(X)), "half_sum"),
    "second_derivative": lambda f, p, x: sc.second_derivative(f, p, x, np.ones(len(X))),
    "output_hessian": sc.output_hessian,
    "ntk_per_parameter": sc.curvature.ntk_per_parameter,
    "loss_split": lambda f, p, x: sc.loss_split(f, p, x, np.ones(len(X)), "half_sum"),
    "convergence": lambda f, p, x: sc.curvature.convergence(f, p, x, np.ones(len(X)), "half_sum"),
    "batch_critical_lr": lambda f, p, x: sc.batch_critical_lr(f, p, x, np.ones(len(X)), "half_sum", [[0]]),
}


def linear(w, x):
    return x @ w


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(
    ("f", "params", "x", "error", "message"),
    [
        (linear, np.ones(3), X[:0], ValueError, "`x` is an empty batch. Pass at least one sample"),
        (linear, np.ones(3), 1.0, ValueError, r"`x` must hold one row a sample, got shapes \[\(\)\]"),
        (linear, np.ones(3), (), ValueError, r"`x` must hold one row a sample, got shapes \[\]"),
        (linear, np.ones(3), (X, X[:2]), ValueError, r"got shapes \[\(6, 3\), \(2, 3\)\]"),
        (linear, np.ones(3) * 1j, X, TypeError, "`params` is of type complex128; every parameter must be real"),
        (linear, {"w": np.ones(3, int)}, X, TypeError, r"`params`\['w'\] is of type int64; .* Keep counters"),
        (linear, (), X, ValueError, "`params` holds no array"),
        (lambda w, x: (x @ w, w), np.ones(3), X, TypeError, "`f` must return one array, it returns PyTreeDef"),
        (lambda w, x: jnp.sum(x @ w), np.ones(3), X, ValueError, r"has shape \(\) for 6 samples. .* \(6, outputs\)"),
        (lambda w, x: w * 1.0, np.ones(3), X, ValueError, r"`f\(params, x\)` has shape \(3,\) for 6 samples"),
        (lambda w, x: x @ w > 0, np.ones(3), X, TypeError, "must return real floating-point outputs, it returns bool"),
    ],
)
def test_arguments_are_refused_by_name(name, f, params, x, error, message):
    with pytest.raises(error, match=f"{name}: .*{message}"):
        MEASURES[name](f, params, x)


@pytest.mark.parametrize("name", MEASURES)
def test_swapped_arguments_are_named(name):
    weights = {"first": np.ones((3, 4)), "last": np.ones(4)}

    def inputs_first(x, p):
        return jnp.tanh(x @ p["first"]) @ p["last"]

    with pytest.raises(TypeError, match=rf"{name}: .* `f\(x, params\)` does not. Wrap it: `lambda params, x: f\(x"):
        MEASURES[name](inputs_first, weights, X)


def test_arguments_that_only_look_swapped_are_left_to_the_reader():
    # As a matrix product this runs either way; but only one has a row a sample.
    with pytest.raises(ValueError, match=r"has shape \(3, 3\) for 6 samples. .* `f\(x, params\)` does: if `f` takes"):
        sc.ntk(lambda x, w: x @ w, np.ones((3, 6)), X)
    # What fails both ways is told as it is.
    with pytest.raises(TypeError, match="dot_general") as raised:
        sc.ntk(linear, np.ones(4), X)
    assert "raised, for `x` of shape" in raised.value.__notes__[-1]


def test_networks_refuse_integers_and_other_shapes(drawn):
    params = drawn(NET, X.shape, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"must hold real floating-point numbers, got int64. Pass x.astype\(float\)"):
        sc.ntk(NET.apply, params, X.astype(int))
    with pytest.raises(ValueError, match=r"`x` has 2 features per sample but the first layer of `params` takes 3"):
        sc.ntk(NET.apply, params, X[:, :2])
    with pytest.raises(TypeError, match=r"`params`.* is of type complex128"):
        sc.ntk(NET.apply, jax.tree.map(lambda leaf: leaf * 1j, params), X)


def test_what_the_function_itself_raises_says_for_which_argument():
    with pytest.raises(TypeError) as raised:
        sc.ntk(linear, np.ones(3), X, X[:, :2])
    assert raised.value.__notes__[-1] == "ntk: this is what `f(params, x2)` raised, for `x2` of shape [(6, 2)]."


def test_integers_are_fine_for_functions_that_take_them():
    tokens = np.array([[0, 1], [2, 2], [1, 0]])
    table = np.random.default_rng(0).normal(size=(3, 4))

    def f(p, x):
        return jnp.sum(p[x], axis=(1, 2))

    counts = np.array([[1, 1, 0], [0, 0, 2], [1, 1, 0]])
    np.testing.assert_allclose(sc.ntk(f, table, tokens).dense(), 4 * counts @ counts.T, rtol=1e-12)


def batch_norm(w, x):
    z = x @ w
    return (z - z.mean(0)) / z.std(0)


MIXING = {
    "batch norm": batch_norm,
    "batch norm of small outputs": lambda w, x: 1e-20 * batch_norm(w, x),
    "statistics without gradients": lambda w, x: x @ w - jax.lax.stop_gradient((x @ w).mean(0)),
    "sum over the batch": lambda w, x: x @ w + jnp.sum(x),
}


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize(
    "measure",
    [
        lambda f: sc.ntk(f, np.ones(3), X).dense(),
        lambda f: sc.curvature.ntk_per_parameter(f, np.ones(3), X),
        lambda f: sc.loss_split(f, np.ones(3), X, np.ones(6), "half_sum"),
        lambda f: sc.batch_critical_lr(f, np.ones(3), X, np.ones(6), "half_sum", [[0, 1]]),
    ],
)
def test_a_function_that_mixes_samples_has_no_gradients_per_sample(measure, name):
    with pytest.raises(ValueError, match=r"`f` mixes samples: its first 3 outputs .* Use the operator's `mv`"):
        measure(MIXING[name])


def test_it_still_has_products_and_eigenvalues():
    w = np.random.default_rng(1).normal(size=3)
    J = np.asarray(jax.jit(jax.jacrev(lambda p: batch_norm(p, X)))(w))
    K = sc.ntk(batch_norm, w, X)
    np.testing.assert_allclose(K.mv(np.arange(6.0)), J @ (J.T @ np.arange(6.0)), rtol=1e-10)
    np.testing.assert_allclose(K.top().values, np.linalg.eigvalsh(J @ J.T)[-1:], rtol=1e-10)
    np.testing.assert_allclose(sc.jacobian(batch_norm, w, X).dense(), J, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        linear,
        lambda w, x: 1e-20 * linear(w, x),
        lambda w, x: linear(w, x) - linear(jnp.ones(3), x),  # zero, but for rounding
        lambda w, x: linear(w, x) / 0.0,
        lambda w, x: jnp.where(x[:, 0] > 0, linear(w, x), jnp.nan),
    ],
)
def test_a_function_that_treats_samples_alone_is_never_refused(f):
    for x in (X, X[:1], X[:2]):
        refuse_mixing("ntk", f, jnp.ones(3, jnp.float32), jnp.asarray(x, jnp.float32))


def test_inside_a_compiled_function_nothing_is_refused():
    jax.jit(lambda w: sc.ntk(batch_norm, w, X).dense())(np.ones(3))
