"""Norms are their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_loops import draw

import secant as sc
from secant import nets

X = np.random.default_rng(0).normal(size=(6, 4, 5, 8))


def standard(x, axes, epsilon):
    mean, spread = x.mean(axes, keepdims=True), x.std(axes, keepdims=True)
    return (x - mean) / np.sqrt(spread**2 + epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
def test_norms_are_their_formulas(epsilon):
    bare = {"gain": False, "shift": False, "epsilon": epsilon}
    grouped = X.reshape(6, 4, 5, 2, 4)
    for net, expected in (
        (nets.layer_norm(**bare), standard(X, -1, epsilon)),
        (nets.layer_norm(over="sample", **bare), standard(X, (1, 2, 3), epsilon)),
        (nets.group_norm(2, **bare), standard(grouped, (1, 2, 4), epsilon).reshape(X.shape)),
        (nets.group_norm(2, over="features", **bare), standard(grouped, -1, epsilon).reshape(X.shape)),
        (nets.group_norm(1, **bare), standard(X, (1, 2, 3), epsilon)),
        (nets.batch_norm(**bare), standard(X, (0, 1, 2), epsilon)),
    ):
        np.testing.assert_allclose(jax.jit(net.apply)((), X), expected, rtol=1e-10, atol=1e-12)
        assert net.output_shape(X.shape) == X.shape


def test_gain_and_shift_are_one_number_a_feature():
    for net in (nets.group_norm(4), nets.batch_norm()):
        params, run = jax.tree.map(np.asarray, net.init(jax.random.key(0), X.shape)), jax.jit(net.apply)
        assert {name: value.shape for name, value in params.items()} == {"gain": (8,), "shift": (8,)}
        moved = {"gain": 2 * params["gain"], "shift": params["shift"] + 3}
        np.testing.assert_allclose(run(moved, X), 2 * np.asarray(run(params, X)) + 3, rtol=1e-12)
        with pytest.raises(ValueError, match="8 features"):
            net.apply({"gain": np.ones(3)}, X)


@pytest.mark.parametrize(
    ("make", "x", "message"),
    [
        (lambda: nets.layer_norm(epsilon=0), np.full((2, 3), 0.1), "layer_norm: `epsilon` is 0 .* all equal"),
        (lambda: nets.group_norm(2, epsilon=0), np.array([[1.0, 2, 5, 5]]), "group_norm: `epsilon` is 0"),
        (lambda: nets.batch_norm(epsilon=0), np.array([[1.0, 7], [2, 7]]), "batch_norm: `epsilon` is 0"),
        (lambda: nets.layer_norm(epsilon=0), np.ones((2, 1)), "variance is that of one number"),
        (nets.batch_norm, np.ones((1, 3)), "batch_norm: one sample .* Pass at least 2"),
        (nets.batch_norm, np.ones((1, 5, 3)), "batch_norm: one sample"),
        (lambda: nets.group_norm(3), np.ones((2, 4)), r"4 features cannot be split into 3 .* \[1, 2\]"),
        (lambda: nets.group_norm(0), None, "`groups` must be a whole number"),
        (lambda: nets.group_norm(2, over="batch"), None, "`over` must be 'features' or 'sample'"),
        (lambda: nets.layer_norm(epsilon=-1.0), None, "layer_norm: `epsilon` must be"),
    ],
)
def test_what_cannot_be_normalised_is_refused(make, x, message):
    def use():
        net = make()
        net.apply(net.init(jax.random.key(0), x.shape), x)

    with pytest.raises(ValueError, match=message):
        use()


def test_compiled_code_gives_nan_where_there_is_no_answer():
    net = nets.layer_norm(epsilon=0, gain=False, shift=False)
    assert np.isnan(jax.jit(net.apply)((), np.ones((2, 3)))).any()


@pytest.mark.parametrize(("over", "axes"), [("features", -1), ("sample", (1, 2))])
def test_a_layer_norm_has_mean_zero_and_variance_one(over, axes):
    x, params, z = draw(nets.layer_norm(over=over, epsilon=1e-3), (3, 4, 5))
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-14)
    moved = {"gain": params["gain"] * 2, "shift": params["shift"] + 3}
    again = jax.jit(nets.layer_norm(over=over, epsilon=1e-3).apply)(moved, x)
    np.testing.assert_allclose(again, 2 * expected + 3, rtol=1e-12)


def test_a_layer_norm_may_have_no_parameters():
    assert nets.layer_norm(gain=False, shift=False).init(jax.random.key(0), (1, 3)) == ()
    assert set(nets.layer_norm(shift=False).init(jax.random.key(0), (1, 3))) == {"gain"}


def test_a_layer_norm_of_equal_entries_has_finite_gradients():
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(nets.layer_norm(gain=False, shift=False).apply((), x)))))
    assert np.all(np.isfinite(gradient(np.ones((2, 3)))))


def test_what_asks_for_gradients_of_samples_refuses_a_batch_norm():
    net = nets.scale_invariant([6], norm="batch")
    x = np.random.default_rng(3).normal(size=(4, 3))
    y = np.ones(4)
    params = net.init(jax.random.key(0), x.shape)
    assert net.mixes_samples
    assert nets.frozen(net).mixes_samples
    assert not nets.scale_invariant([6]).mixes_samples
    for measure in (
        lambda: sc.ntk(net.apply, params, x).dense(),
        lambda: sc.curvature.ntk_per_parameter(net.apply, params, x),
        lambda: sc.batch_critical_lr(net.apply, params, x, y, "half_sum", [[0, 1]]),
    ):
        with pytest.raises(ValueError, match="mixes samples"):
            measure()
    operator = sc.hessian(net.apply, params, x, y, "half_sum")  # of the batch as one function
    assert np.isfinite(operator.top(1).values).all()
