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


def test_binary_cross_entropy_is_the_mean_over_all_entries():
    scores = batch(5, 4)[0]
    labels = (batch(5, 4, 1)[0] > 0).astype(int)
    chances = 1 / (1 + np.exp(-scores))
    expected = -np.mean(np.log(np.where(labels, chances, 1 - chances)))
    assert losses.binary_cross_entropy(scores, labels) == pytest.approx(expected, rel=1e-13)
    assert losses.binary_cross_entropy(scores[:, 0], labels[:, 0]).shape == ()
    assert losses.binary_cross_entropy(jnp.array([1e4, -1e4]), jnp.array([1.0, 0.0])) == 0
    with pytest.raises(ValueError, match=r"binary_cross_entropy: `outputs` has shape \(5, 4\) but `targets` has"):
        losses.binary_cross_entropy(scores, labels[:, 0])


def test_targets_that_mean_nothing_are_refused_where_they_can_be_seen():
    scores, signs = jnp.ones((3, 2)), jnp.array([-1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"must be from 0 to 1, got numbers from -1 to 1.* pass \(targets \+ 1\) / 2"):
        losses.get("bce")(scores[:, 0], signs)
    with pytest.raises(ValueError, match="must be from 0 to 1, since there are 2 outputs, got numbers from 0 to 2"):
        losses.get("ce")(scores, jnp.array([0, 1, 2]))
    # Inside a compiled function there are no numbers to look at.
    assert np.isfinite(jax.jit(losses.get("bce"))(scores[:, 0], signs))
    # A closed-over target is a number even there.
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        jax.jit(lambda f: losses.get("bce")(f, signs))(scores[:, 0])


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (("mse", "MSELoss", "mse_loss", "mean_squared_error", "Mean squared error"), losses.entry_mean),
        (("ce", "CrossEntropyLoss", "crossentropy", "softmax_cross_entropy"), losses.cross_entropy),
        (("bce", "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"), losses.binary_cross_entropy),
        (("half-sum", "HALF_SUM"), losses.half_sum),
    ],
)
def test_the_usual_names_are_found(names, ours):
    for name in names:
        assert losses.get(name) is ours


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("l2", r"more than one meaning.*'half_sum' is 1/2.*'mean_mse' the sum over n.*'mse'\) the sum over n k"),
        ("l2_loss", "'half_sum' is 1/2 of the sum of squares"),
        ("squared_error", "The critical step size follows the factor"),
        (
            "binary_crossentropy",
            "leave out the softmax or sigmoid.* 'binary_cross_entropy', which takes the",
        ),
        ("sparse_categorical_crossentropy", "choose 'cross_entropy'"),
        ("NLLLoss", "choose 'cross_entropy'"),
        ("log_loss", "'cross_entropy' for classes or 'binary_cross_entropy' for targets 0 and 1"),
        ("mean_mes", "unknown loss 'mean_mes'. Did you mean 'mean_mse'"),
        (
            "zzz",
            "unknown loss 'zzz'. Known losses: half_sum, .*, mse, ce, bce; or pass any function",
        ),
    ],
)
def test_other_names_say_what_there_is(name, message):
    with pytest.raises(ValueError, match=message):
        losses.get(name)


def test_a_loss_is_found_by_name_or_made_of_a_function():
    assert losses.get("half_sum") is losses.half_sum is losses.get(losses.half_sum)
    own = losses.get(lambda outputs, targets: jnp.max(jnp.abs(outputs - targets)))
    assert own(*batch(3, 1)) > 0
    assert own.curvature(jnp.ones(3)) is None
    with pytest.raises(TypeError, match="must be a name"):
        losses.get(3)


@given(seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_losses_of_margins_are_their_sums(seed):
    rng = np.random.default_rng(seed)
    outputs, labels = rng.normal(size=6), rng.choice([-1.0, 1.0], size=6)
    for name, each in (("exponential", np.exp), ("logistic", lambda minus: np.log1p(np.exp(minus)))):
        total = each(-labels * outputs).sum()
        for shape in ((6,), (6, 1)):
            given_ = outputs.reshape(shape), labels.reshape(shape)
            assert losses.get(name)(*given_) == pytest.approx(total, rel=1e-13)
            assert losses.get(f"{name}_mean")(*given_) == pytest.approx(total / 6, rel=1e-13)
    probability = float(losses.binary_cross_entropy(outputs, (labels + 1) / 2))
    assert losses.logistic_mean(outputs, labels) == pytest.approx(probability, rel=1e-13)


def test_losses_of_margins_have_gradients_where_a_margin_is_large():
    outputs = np.array([700.0, -800.0, 3.0])
    assert losses.logistic(outputs, np.ones(3)) == pytest.approx(800 + np.log1p(np.exp(-3)))
    np.testing.assert_allclose(jax.grad(losses.logistic)(outputs, np.ones(3))[:2], [0, -1], atol=1e-300)
    far = jax.grad(losses.exponential)(np.array([700.0, 705.0]), np.ones(2))
    np.testing.assert_allclose(far, [-np.exp(-700.0), -np.exp(-705.0)], rtol=1e-10)


def test_losses_of_margins_want_one_output_and_signs():
    for loss in (losses.exponential, losses.logistic_mean):
        with pytest.raises(ValueError, match=r"must be -1 or 1, got numbers from 0 to 1.*2 \* targets"):
            loss(np.ones(2), np.array([0.0, 1.0]))
        with pytest.raises(ValueError, match=r"one output a sample.*'cross_entropy'"):
            loss(np.ones((2, 3)), np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"must have shape \(2,\)"):
            loss(np.ones(2), np.ones((2, 1)))
    with pytest.raises(ValueError, match="class numbers"):
        losses.margins(np.ones((2, 3)), np.ones(2))
