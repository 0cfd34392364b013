"""Combinators compose, add and lay side by side."""

import jax
import numpy as np
import pytest

from secant import nets

X = np.random.default_rng(0).normal(size=(3, 4))


def drawn(net):
    """Parameters, as arrays of the host."""
    return jax.tree.map(np.asarray, net.init(jax.random.key(0), X.shape))


def run(net, params, x=X):
    """Outputs, by one compiled program."""
    return np.asarray(jax.jit(net.apply)(params, x))


def test_a_chain_applies_its_parts_in_order():
    first, second = nets.dense(5), nets.dense(2, bias=True)
    net = nets.serial(first, nets.activation("tanh"), second)
    params = drawn(net)
    expected = run(second, params[2], np.tanh(run(first, params[0])))
    np.testing.assert_allclose(run(net, params), expected, rtol=1e-12)
    assert [part.name for part in net.parts] == ["dense", "activation", "dense"]


def test_a_residual_adds_the_branch_to_the_shortcut():
    branch = nets.dense(4)
    net = nets.residual(branch)
    params = drawn(net)
    np.testing.assert_allclose(run(net, params), X + run(branch, params[0]), rtol=1e-12)
    projected = nets.residual(nets.dense(2), nets.dense(2))
    own = drawn(projected)
    expected = X @ (own[0]["weight"] + own[1]["weight"]) / 2
    np.testing.assert_allclose(run(projected, own), expected, rtol=1e-12)


def test_branches_lie_side_by_side():
    net = nets.concat(nets.identity(), nets.dense(2), nets.dense(3))
    params = drawn(net)
    expected = np.hstack([X, *(X @ own["weight"] / 2 for own in params[1:])])
    np.testing.assert_allclose(run(net, params), expected, rtol=1e-12)
    assert net.output_shape(X.shape) == (3, 9)


def test_branches_are_added_and_multiplied():
    parts = nets.identity(), nets.dense(4), nets.serial(nets.dense(4), nets.activation("tanh"))
    for join, expected in ((nets.add, lambda a, b, c: a + b + c), (nets.multiply, lambda a, b, c: a * b * c)):
        net = join(*parts)
        params = drawn(net)
        values = [run(part, own) for part, own in zip(parts, params, strict=True)]
        np.testing.assert_allclose(run(net, params), expected(*values), rtol=1e-12)
        assert net.output_shape(X.shape) == X.shape


def test_equal_layers_get_different_parameters():
    layer = nets.dense(4)
    for net in (nets.serial(layer, layer), nets.concat(layer, layer), nets.residual(layer, layer)):
        first, second = drawn(net)
        assert not np.allclose(first["weight"], second["weight"])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nets.serial(), ValueError, "serial: takes at least one network"),
        (lambda: nets.serial(nets.dense(3), "tanh"), TypeError, "part 1 is 'tanh'"),
        (
            lambda: nets.residual(nets.dense(3)).output_shape(X.shape),
            ValueError,
            r"branch gives shape \(3,\) but the shortcut gives \(4,\)",
        ),
        (
            lambda: nets.concat(nets.identity(), nets.global_average_pool()).output_shape((2, 3, 4)),
            ValueError,
            "differ in more than their features",
        ),
        (
            lambda: nets.add(nets.identity(), nets.dense(3)).output_shape(X.shape),
            ValueError,
            r"add: the branches give shapes \[\(4,\), \(3,\)\]; they must give the same one",
        ),
        (lambda: nets.multiply(nets.dense(3)).apply((), X), ValueError, "has 0 entries but there are 1 branches"),
        (
            lambda: nets.serial(nets.dense(3)).apply((), X),
            ValueError,
            "`params` has 0 entries but the network has 1 parts",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
