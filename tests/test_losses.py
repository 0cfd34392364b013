"""A loss knows its scale, its curvature is its second derivative, and shapes that do not match are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant import losses

SQUARED = {
    "half_sum": lambda n, k: 1 / 2,
    "mean_mse": lambda n, k: 1 / n,
    "half_mean": lambda n, k: 1 / (2 * n),
    "entry_mean": lambda n, k: 1 / (n * k),
}


def batch(n, k, seed=0):
    """Outputs and targets; no axis for outputs when there is one."""
    values = np.random.default_rng(seed).normal(size=(2, n, k) if k > 1 else (2, n))
    return values[0], values[1]


@given(shape=st.sampled_from([(1, 1), (3, 1), (1, 3), (4, 2)]), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_a_squared_loss_is_its_normalised_sum(shape, seed):
    outputs, targets = batch(*shape, seed)
    for name, factor in SQUARED.items():
        expected = factor(*shape) * sum((a - b) ** 2 for a, b in zip(outputs.flat, targets.flat, strict=True))
        assert losses.get(name)(outputs, targets) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", SQUARED)
@pytest.mark.parametrize(("n", "k"), [(3, 1), (4, 2)])
def test_the_gradient_changes_by_the_curvature_times_the_step(name, n, k):
    loss, (outputs, targets), (step, _) = losses.get(name), batch(n, k), batch(n, k, 1)
    before, after = (jax.grad(loss)(at, targets) for at in (outputs, outputs + step))
    np.testing.assert_allclose(after - before, loss.curvature(outputs, targets) * step, rtol=1e-12)


def test_cross_entropy_takes_class_numbers_and_rows():
    scores, classes = batch(5, 4)[0], np.array([0, 3, 1, 1, 2])
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = -np.mean([np.log(p[c]) for p, c in zip(probabilities, classes, strict=True)])
    for targets in (classes, np.eye(4)[classes], np.eye(4, dtype=int)[classes]):
        assert losses.cross_entropy(scores, targets) == pytest.approx(expected, rel=1e-13)
    assert losses.cross_entropy.curvature(scores, classes) is None


def test_cross_entropy_of_large_scores_is_finite():
    assert losses.cross_entropy(jnp.array([[1e4, 0.0], [0.0, 1e4]]), jnp.array([1, 1])) == pytest.approx(5e3)


@pytest.mark.parametrize("name", SQUARED)
@pytest.mark.parametrize(
    ("outputs", "targets"), [((3,), (3, 1)), ((3, 1), (3,)), ((3, 2), (3,)), ((3, 2), (1, 2)), ((3,), ())]
)
def test_shapes_are_never_broadcast(name, outputs, targets):
    with pytest.raises(ValueError, match=r"`outputs` has shape .* but `targets` has shape .*Pass targets with shape"):
        losses.get(name)(jnp.ones(outputs), jnp.ones(targets))


@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "message"),
    [
        ("mean_mse", (0,), (0,), r"must have shape \(samples,\) or \(samples, outputs\), got \(0,\)"),
        ("mean_mse", (2, 2, 2), (2, 2, 2), r"got \(2, 2, 2\)"),
        ("cross_entropy", (3,), (3,), r"must have shape \(samples, classes\)"),
        ("cross_entropy", (3, 2), (2,), r"must hold class numbers, shape \(3,\)"),
        ("cross_entropy", (3, 2), (3,), "must be integers, got float64"),
    ],
)
def test_bad_batches_are_refused_by_name(loss, outputs, targets, message):
    with pytest.raises(ValueError, match=f"{loss}: .*{message}"):
        losses.get(loss)(jnp.ones(outputs), jnp.ones(targets))


def test_a_loss_is_found_by_name_or_made_of_a_function():
    assert losses.get("half_sum") is losses.half_sum is losses.get(losses.half_sum)
    own = losses.get(lambda outputs, targets: jnp.max(jnp.abs(outputs - targets)))
    assert own(*batch(3, 1)) > 0
    assert own.curvature(jnp.ones(3)) is None
    with pytest.raises(ValueError, match="Did you mean 'mean_mse'"):
        losses.get("mean_mes")
    with pytest.raises(ValueError, match="Known losses: half_sum"):
        losses.get("zzz")
    with pytest.raises(TypeError, match="must be a name"):
        losses.get(3)
