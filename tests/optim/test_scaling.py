"""On linear problems the second moments are known, and with them what the scaling test has to say."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import secant as sc
from secant.optim.scaling import compared
from secant.theory.noise.mean_square import critical_step, mean_losses

N, D = 32, 40


def linear_problem(features):
    """Many features, or one that hardly differs from sample to sample."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) / np.sqrt(D) if features > 1 else 1 + 0.1 * rng.normal(size=(N, 1))
    return sc.Problem(lambda w, x: x @ w, x, x @ rng.normal(size=features), sc.losses.half_mean), x @ x.T


@pytest.fixture(scope="module")
def problem():
    return linear_problem(D)


# Small steps, at which all agree; such that eight times larger ones do not; such that every step changes the sign.
@pytest.mark.parametrize(
    ("lr", "features", "factors", "draws", "rule", "sde"),
    [
        (0.4, D, (2, 8), 60, 8, "tracks"),
        (1.6, D, (2, 8), 120, 2, "tracks"),
        (1.5, 1, (2,), 30, 1, "differs"),
    ],
)
def test_verdicts_are_right_where_the_answer_is_known(lr, features, factors, draws, rule, sde):
    one, kernel = linear_problem(features)
    residual, steps, batch = -np.asarray(one.y), 16, 4
    first = mean_losses(kernel, residual, lr, batch, steps)[::8]
    exact = {
        **{f"scaled {k}": mean_losses(kernel, residual, k * lr, k * batch, steps // k)[:: 8 // k] for k in factors},
        "svag 4": mean_losses(kernel, residual, lr, batch, steps * 4, amplify=4)[::32],
    }
    within = {name: bool((np.abs(np.log(loss / first)) < np.log(1.2)).all()) for name, loss in exact.items()}
    assert within == {**{f"scaled {k}": rule >= k for k in factors}, "svag 4": sde == "tracks"}
    batches = sc.Batches(batch, replace=True)
    whole = sc.scaling_test(
        one, jnp.zeros(features), lr=lr, batches=batches, steps=steps, looks=2, factors=factors, amplify=(4,),
        draws=20 * draws, tolerance=0.2,
    )  # fmt: skip
    parts = [slice(draws * k, draws * (k + 1)) for k in range(20)]
    found = [dataclasses.replace(whole, dataset=whole.dataset.isel(draw=part)) for part in parts]
    # Chance may leave one of twenty unclear; none says the opposite.
    assert sum((one.holds_to, one.sde) == (rule, sde) for one in found) >= 19
    assert {one.sde for one in found} <= {sde, "unclear"}
    assert {one.holds_to for one in found} <= {rule, 1}
    if sde == "tracks":  # further out losses have hardly a variance
        for name in ("scaled 2", "svag 4"):
            ratio = exact[name] / first
            missed = [((ratio < one.runs[name].low) | (ratio > one.runs[name].high))[1:].any() for one in found]
            assert sum(missed) <= 2, name  # of twenty intervals of 99 %


def test_what_is_compared():
    rng = np.random.default_rng(0)
    first = 1 + 0.1 * rng.normal(size=(30, 4))
    first[:, 0] = 1.0
    assert compared(first, first + 0.01, 0.2).verdict == "same"
    assert compared(first, first * np.array([1, 1, 1, 1.5]), 0.2).verdict == "differs"
    assert compared(first, first / np.array([1, 1, 1, 1.5]), 0.2).verdict == "differs"
    assert compared(first[:4], first[4:8] * np.array([1, 1, 1, 1.2]), 0.2).verdict == "unclear"
    assert compared(first, np.where(first > 1.2, np.inf, first), 0.2).verdict == "diverged"
    with pytest.raises(ValueError, match="SGD itself diverges"):
        compared(np.full((3, 2), np.nan), first[:3, :2], 0.2)
    # The logarithm of a quotient has the squared relative errors of both.
    alone = compared(np.ones((30, 4)) + 1e-9 * first, first, 0.2)
    both = compared(first, first[::-1], 0.2)
    wider = np.log(both.high / both.low)[1:] / np.log(alone.high / alone.low)[1:]
    np.testing.assert_allclose(
        wider, np.sqrt(2) * stats.t.ppf(1 - 0.005 / 3, 58) / stats.t.ppf(1 - 0.005 / 3, 29), 1e-6
    )
    at_first = compared(first, first, 0.2)
    assert (at_first.low[0], at_first.high[0]) == (1.0, 1.0)


def test_critical_steps_stand_beside_the_factors_and_a_figure_draws(problem):
    one, kernel = problem
    found = sc.scaling_test(
        one, jnp.zeros(D), lr=0.4, batches=sc.Batches(8), factors=(2,), amplify=(), steps=3, looks=2, critical=True
    )
    assert found.dataset.time.values.tolist() == [0, 2, 4]  # whole steps of the doubled one
    assert found.critical == {k: pytest.approx(critical_step(kernel, 8 * k).step, rel=1e-5) for k in (1, 2)}
    assert found.sde == "unclear"  # nothing was amplified
    assert "of the critical" in str(found)
    axes = found.plot()
    assert len(axes.get_lines()) == 2
    axes.figure.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factors": (64,)}, "64 times a batch of 2 is more than all 32 samples. Take `factors` of at most 16"),
        ({"factors": (1,)}, "`factors` must be a whole number of at least 2"),
        ({"amplify": (0,)}, "`amplify` must be a whole number of at least 2"),
        ({"lr": -1.0}, "`lr` must be a finite number above 0"),
        ({"tolerance": 0.0}, "`tolerance` must be a finite number above 0"),
        ({"draws": 1}, "`draws` must be a whole number of at least 2"),
        ({"batches": 4}, "`batches` must be secant.Batches"),
    ],
)
def test_what_cannot_be_tested_is_refused(problem, change, message):
    given = {"lr": 0.1, "batches": sc.Batches(2)} | change
    with pytest.raises((ValueError, TypeError), match=message):
        sc.scaling_test(problem[0], jnp.zeros(D), **given)
