"""Norms are their formulas, and networks made of them do not see the scale of their weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
        (lambda: nets.scale_invariant([]), None, "`widths` is empty"),
        (lambda: nets.scale_invariant([4], norm="weight"), None, "`norm` must be"),
        (lambda: nets.frozen(nets.dense(2), -1), None, "`seed`"),
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


def test_the_kernel_of_a_network_with_a_frozen_top_is_that_of_its_parameters():
    net = nets.scale_invariant([6, 4], 2)
    x = np.random.default_rng(3).normal(size=(4, 3))
    params = net.init(jax.random.key(0), x.shape)
    rows = np.asarray(sc.jacobian(net.apply, params, x).dense())
    np.testing.assert_allclose(sc.ntk(net.apply, params, x).dense(), rows @ rows.T, rtol=1e-8, atol=1e-10)


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
