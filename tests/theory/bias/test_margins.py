"""The largest margin: right where it is known, proved where it is not, refused where there is none."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from secant.theory.bias import margins
from secant.theory.bias.margins import NotSeparableError, boost, dual, max_margin, norm_of

NORMS = (1, 1.3, 2, 4, math.inf)


def separable(seed, n=14, d=4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = np.sign(x @ rng.normal(size=d) + 1e-9)
    return x * y[:, None], y


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), d=st.integers(1, 8), norm=st.sampled_from(NORMS))
@settings(max_examples=40, deadline=None)
def test_weights_and_multipliers_prove_each_other(seed, n, d, norm):
    Z, y = separable(seed, n, d)
    for labels in (None, y) if abs(y.sum()) < n else (None,):
        found = max_margin(Z, norm, labels=labels)
        reached = Z @ found.w + (0 if labels is None else labels * found.b)
        assert reached.min() == pytest.approx(1, abs=1e-12)
        assert found.margin == pytest.approx(1 / norm_of(found.w, norm), rel=1e-12)
        a = found.multipliers
        assert a.min() >= 0
        assert a.sum() == pytest.approx(1 / found.margin**2, rel=1e-9)
        assert found.residual < 1e-9
        # The dual weights bound the margin of every w from above: nobody does better.
        assert norm_of(a @ Z, dual(norm)) / a.sum() == pytest.approx(found.margin, rel=1e-8)
        assert np.all(reached[found.support] < 1 + 1e-5)
        if labels is not None:
            assert abs(a @ labels) < 1e-9 * a.sum()


@given(seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS), scale=st.sampled_from([1e-120, 1e-6, 1e7, 1e120]))
@settings(max_examples=15, deadline=None)
def test_a_margin_scales_with_its_data(seed, norm, scale):
    Z, _ = separable(seed)
    assert max_margin(Z * scale, norm).margin == pytest.approx(scale * max_margin(Z, norm).margin, rel=1e-8)


def test_two_points_have_the_margin_of_their_middle():
    found = max_margin([[3.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(found.w, [0.25, 0.25], rtol=1e-14)
    assert found.margin == pytest.approx(math.sqrt(8))
    # With a bias: half of the distance of two points of two kinds.
    x, y = np.array([[5.0, 1.0], [1.0, 4.0]]), np.array([1.0, -1.0])
    assert max_margin(x * y[:, None], labels=y).margin == pytest.approx(2.5)
    assert max_margin(x * y[:, None], 1, labels=y).margin == pytest.approx(4 / 2)
    assert max_margin(x * y[:, None], math.inf, labels=y).margin == pytest.approx(7 / 2)


# Of cvxpy 1.9.3 with Clarabel 0.11.1: a line of margins for `separable(seed)`, of each norm without and with a bias.
# `python -m bench.convex_agreement` writes it, and `make bench ONLY=convex_agreement` compares all of it with ours.
GOLDEN = np.loadtxt(Path(__file__).parent / "golden_margins.csv", delimiter=",").reshape(50, len(NORMS), 2)


@pytest.mark.parametrize("norm", NORMS)
def test_cvxpy_agrees(norm):
    for seed, wanted in enumerate(GOLDEN[:, NORMS.index(norm)]):
        Z, y = separable(seed)
        biased = seed % 2
        assert max_margin(Z, norm, labels=y if biased else None).margin == pytest.approx(wanted[biased], rel=1e-6)


def test_rank_duplicates_and_empty_features_do_no_harm():
    Z, y = separable(3, 12, 3)
    for norm in NORMS:
        exact = max_margin(Z, norm).margin
        assert max_margin(np.repeat(Z, 3, axis=0), norm).margin == pytest.approx(exact, rel=1e-8)
        assert max_margin(np.pad(Z, ((0, 0), (0, 2))), norm).margin == pytest.approx(exact, rel=1e-8)
    turned = Z @ np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:3]  # three of nine directions
    assert max_margin(turned).margin == pytest.approx(max_margin(Z).margin, rel=1e-10)
    assert max_margin(np.repeat(Z, 2, axis=0), labels=np.repeat(y, 2)).residual < 1e-9


@pytest.mark.parametrize(("near", "norm"), [(1, 1 + 1e-9), (1, 1 + 1e-12), (math.inf, 1e10)])
def test_norms_near_the_linear_ones_have_their_limit(near, norm):
    Z, y = separable(5)
    for labels in (None, y):
        found, limit = max_margin(Z, norm, labels=labels), max_margin(Z, near, labels=labels)
        assert found.margin == pytest.approx(limit.margin, rel=1e-8)
        assert found.residual < 1e-6


def test_margins_fall_from_norm_to_norm():
    Z, _ = separable(7, 20, 6)
    found = [max_margin(Z, p).margin for p in (1, 1.001, 1.1, 1.5, 2, 3, 10, 300, math.inf)]
    assert np.all(np.diff(found) > 0)


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["mirror", "zero", "random"]), norm=st.sampled_from(NORMS))
@settings(max_examples=20, deadline=None)
def test_what_does_not_separate_is_refused_with_the_origin(seed, kind, norm):
    Z, _ = separable(seed, 20, 3)
    extra = {"mirror": -Z[:1], "zero": 0 * Z[:1], "random": -Z[:5].sum(0, keepdims=True)}[kind]
    Z = np.vstack([Z, extra])
    with pytest.raises(NotSeparableError, match="nothing separates") as caught:
        max_margin(Z, norm)
    weights = caught.value.weights
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights @ Z, 0, atol=1e-9)


def test_a_bias_separates_what_a_plane_through_the_origin_does_not():
    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([-1.0, -1.0, 1.0])
    with pytest.raises(NotSeparableError):
        max_margin(x * y[:, None])
    assert max_margin(x * y[:, None], labels=y).margin == pytest.approx(1.0)
    y = np.array([-1.0, 1.0, -1.0])
    with pytest.raises(NotSeparableError) as caught:
        max_margin(x * y[:, None], labels=y)
    np.testing.assert_allclose([caught.value.weights @ (x * y[:, None])[:, 0], caught.value.weights @ y], 0, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3),), "`Z` must be finite numbers of shape"),
        ((np.full((2, 2), np.nan),), "`Z` must be finite"),
        ((np.ones((2, 2)), 0.5), "Below 1 it is no norm"),
        ((np.ones((2, 2)), math.nan), "`norm` must be from 1"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        max_margin(*arguments)


def test_labels_and_norms_of_another_kind_are_refused():
    Z = np.ones((2, 2))
    with pytest.raises(TypeError, match="`norm` must be a number"):
        max_margin(Z, "spectral")
    for labels, message in (([0, 1], "must be -1 or 1"), ([1], "one per sample of 2"), ([1, 1], "are all the same")):
        with pytest.raises(ValueError, match=message):
            max_margin(Z, labels=labels)
    with pytest.raises(NotSeparableError, match="all of `Z` is zero"):
        max_margin(0 * Z)


def test_the_solver_takes_few_samples_of_many_and_is_the_least_squares_of_all():
    Z, _ = separable(11, 400, 5)
    u = nnls(np.vstack([Z.T, np.ones(len(Z))]), np.eye(6)[5])[0]
    found = max_margin(Z)
    np.testing.assert_allclose(found.w, u @ Z / (1 - u.sum()), rtol=1e-7)
    assert set(found.support) == set(np.flatnonzero(u))


def weak(seed, samples=12, learners=9):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((samples, learners)) < 0.75, 1.0, -1.0)


def test_boosting_descends_one_coordinate_to_its_least():
    Z = weak(2)
    for scaled in (Z, Z * np.linspace(0.5, 2, Z.shape[1])):  # plain learners, and learners that say how sure they are
        run = boost(scaled, 20)
        w = np.zeros(Z.shape[1])
        for j, step, log_loss in zip(run.columns, run.steps, run.log_loss, strict=True):
            p = np.exp(-scaled @ w)
            assert abs(p @ scaled[:, j]) == pytest.approx(np.abs(p @ scaled).max())
            w[j] += step
            assert np.exp(-scaled @ w) @ scaled[:, j] == pytest.approx(0, abs=1e-9)
            assert log_loss == pytest.approx(np.log(np.exp(-scaled @ w).sum()))
        np.testing.assert_allclose(run.w, w)
        assert run.margins[-1] == pytest.approx((scaled @ w).min() / np.abs(w).sum())


def test_a_learner_that_is_always_wrong_is_as_good_as_one_that_is_right():
    Z, turned = weak(3), np.array([-1.0, 1.0] * 4 + [-1.0])
    run, other = boost(Z, 15), boost(Z * turned, 15)
    np.testing.assert_array_equal(run.columns, other.columns)
    np.testing.assert_allclose(run.w, other.w * turned, atol=1e-12)


def test_a_share_of_the_step_and_steps_without_an_end():
    Z = weak(4)
    assert boost(Z, 1, share=0.5).steps[0] == pytest.approx(boost(Z, 1).steps[0] / 2)
    with pytest.raises(ValueError, match="a column alone makes no mistake"):
        boost(np.array([[1.0, 1.0], [1.0, -1.0]]), 3)
    with pytest.raises(NotSeparableError):
        boost(np.array([[1.0], [-1.0]]), 3)
    with pytest.raises(ValueError, match="`step`"):
        boost(Z, 3, step=-1.0)
    assert isinstance(boost(Z, 2, step=0.1), margins.Boosting)


def test_the_share_of_a_late_time_is_that_of_the_weights_it_comes_from():
    Z, _ = separable(1, 12, 4)
    found = max_margin(Z)
    S, a = found.support, found.multipliers[found.support]
    for log_time in (1e3, 1e6):
        w = found.w * log_time - np.linalg.lstsq(Z[S], np.log(a))[0]
        assert (Z @ w).min() / np.linalg.norm(w) / found.margin == pytest.approx(
            found.late_share(log_time), abs=30 / log_time**2
        )
    with pytest.raises(ValueError, match="has the Euclidean margin"):
        max_margin(Z, 1).late_share(10.0)


@pytest.mark.parametrize("biased", [False, True])
def test_a_margin_of_a_ten_thousandth_of_the_samples_is_found(biased):
    """All tumours are separable, by so little that the square of it is lost in a Gram matrix."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), np.where(y, 1.0, -1.0)
    rows = x if biased else np.hstack([x, np.ones((len(x), 1))])
    found = max_margin(rows * y[:, None], labels=y if biased else None)
    assert found.residual < 1e-10
    np.testing.assert_allclose(found.margin, 1.39985e-3 if biased else 1.39252e-3, rtol=1e-5)
