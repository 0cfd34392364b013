"""Verdicts follow from the numbers and nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from secant.lab import Estimate, Finding, Tolerance, Verdict, claim, estimate
from secant.lab.verdicts.finding import as_dict, quantity

numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e3)


def finding(predicted, measured, width, **more):
    given = {
        "expected": predicted,
        "measured": quantity(measured, "measured"),
        "tolerance": Tolerance(width, why="test"),
    }
    return Finding(key="f", name="f", **given, **more)


@given(numbers, numbers, widths)
def test_equal_means_within_the_tolerance(predicted, measured, width):
    found = finding(predicted, measured, width)
    if abs(measured - predicted) > width:
        assert found.verdict == Verdict.FAILS
    elif predicted and width >= abs(predicted) / 2:
        assert found.verdict == Verdict.INCONCLUSIVE
        assert "half of what is predicted" in found.reason
        assert finding(predicted, measured, width, qualitative=True).verdict == Verdict.HOLDS
    else:
        assert found.verdict == Verdict.HOLDS


@given(numbers, numbers, widths)
def test_bounds_are_one_sided(predicted, measured, width):
    below = finding(predicted, measured, width, relation="at most").verdict == Verdict.HOLDS
    above = finding(predicted, measured, width, relation="at least").verdict == Verdict.HOLDS
    assert below == (measured - predicted <= width)
    assert above == (predicted - measured <= width)


@given(numbers, st.floats(1e-3, 1e3), st.integers(1, 40), st.floats(-12, 12))
def test_a_bound_is_cleared_or_missed_by_standard_errors_or_nothing_is_decided(bound, error, freedom, errors):
    """Student's distribution, written out by another library."""
    clears, misses = stats.t.isf(0.01, freedom), stats.t.isf(0.0005, freedom)
    found = finding(bound, Estimate(bound + errors * error, error, freedom), 0, relation="at least")
    at_least = "holds" if errors > clears else "fails" if errors < -misses else "inconclusive"
    if min(abs(errors - clears), abs(errors + misses)) > 1e-6:
        assert found.verdict == at_least
    opposite = finding(bound, Estimate(bound - errors * error, error, freedom), 0, relation="at most")
    if min(abs(errors - clears), abs(errors + misses)) > 1e-6:
        assert opposite.verdict == at_least


@given(st.integers(2, 12), st.sampled_from(["at least", "at most"]), st.integers(0, 2**32))
def test_a_claim_without_an_effect_seldom_holds(repeats, relation, seed):
    draws = np.random.default_rng(seed).normal(size=(400, repeats))
    verdicts = [finding(0.0, estimate(one), 0, relation=relation).verdict for one in draws]
    # One in a hundred holds; of 400, as many as 16 have a chance of 2e-6.
    assert verdicts.count(Verdict.HOLDS) < 16
    assert verdicts.count(Verdict.FAILS) < 8


def test_a_true_equality_seldom_fails_and_a_factor_of_two_is_seen():
    draws = 1 + 0.1 * np.random.default_rng(0).normal(size=(2_000, 6))
    found = [finding(1.0, estimate(one), 0) for one in draws]
    assert sum(one.verdict == Verdict.FAILS for one in found) <= 9  # two are expected
    assert all(one.risk == 1e-3 for one in found)
    wrong = [finding(2.0, estimate(one), 0).verdict for one in draws]
    assert wrong.count(Verdict.HOLDS) == 0


@pytest.mark.parametrize("values", [[], [1.0], [np.nan, 1.0]])
def test_fewer_than_two_repeats_decide_nothing(values):
    assert finding(0.0, estimate(values), 10.0).verdict == Verdict.INCONCLUSIVE


@pytest.mark.parametrize("relation", ["equal", "at most", "at least"])
@pytest.mark.parametrize("predicted", [1.0, math.nan])
def test_what_is_no_number_decides_nothing(predicted, relation):
    found = finding(predicted, math.nan, 1e9, relation=relation)
    assert found.verdict == Verdict.INCONCLUSIVE
    assert found.reason == "there is no number to judge"


def test_what_a_run_cannot_decide_says_why():
    found = claim("spikes", "spikes").undecided(1.0, "no run has a spike")
    assert (found.verdict, found.note) == (Verdict.INCONCLUSIVE, "no run has a spike")
    assert as_dict(found)["measured"] == "nan"


@pytest.mark.parametrize(
    ("p", "verdict"), [(0.009, "holds"), (0.011, "inconclusive"), (0.999, "inconclusive"), (0.9996, "fails")]
)
def test_a_test_decides_by_its_p_value(p, verdict):
    found = claim("rises", "rises").significant(p, "a test")
    assert found.verdict == verdict
    assert f"p = {p:.2g}" in found.note


@pytest.mark.parametrize(("p", "verdict"), [(0.0, "holds"), (1.0, "fails"), (math.nan, "inconclusive")])
def test_p_values_may_be_extreme_or_missing(p, verdict):
    assert claim("rises", "rises").significant(p, "a test").verdict == verdict


def test_infinity_equals_infinity():
    assert finding(math.inf, math.inf, 0).verdict == Verdict.HOLDS
    assert finding(math.inf, 1.0, 1e9).verdict == Verdict.FAILS


@pytest.mark.parametrize(
    ("printed", "corrected", "width", "verdict"),
    [
        (2.0, 1.0, 0.1, "erratum"),
        (1.0, 1.0, 0.1, "inconclusive"),  # the print is right as well
        (1.05, 0.95, 0.2, "inconclusive"),  # too close to tell
        (1.11, 0.95, 0.12, "inconclusive"),  # not refuted by what was measured, only by the correction
        (5.0, 1.0, 0.6, "inconclusive"),  # half of the correction would pass as well
        (1.0, 2.0, 0.1, "fails"),
        (2.0, 3.0, 0.1, "fails"),
        (math.nan, 1.0, 0.1, "inconclusive"),
    ],
)
def test_an_erratum_needs_the_print_refuted_and_the_correction_confirmed(printed, corrected, width, verdict):
    pairs = ("p", printed), ("c", corrected)
    erratum = claim("e", "e").erratum(*pairs, 1.0, width, "test", note="a slip", where="(3)")
    assert erratum.verdict == verdict
    assert bool(erratum.reason) == (verdict == "inconclusive")
    assert as_dict(erratum)["by"] == "run"


def test_an_erratum_of_a_bound_needs_the_printed_one_violated():
    def erratum(printed, error=0.0):
        measured = Estimate(2.0, error)
        more = {"note": "a slip", "where": "(3)", "relation": "at most"}
        return claim("e", "e").erratum(("p", printed), ("c", 3.0), measured, 0, "a bound", **more)

    assert erratum(1.0).verdict == Verdict.ERRATUM
    assert erratum(2.5).verdict == Verdict.INCONCLUSIVE
    assert erratum(1.0, error=0.2).verdict == Verdict.ERRATUM
    assert erratum(1.0, error=0.4).verdict == Verdict.INCONCLUSIVE


def test_the_tolerance_must_say_why():
    with pytest.raises(ValueError, match="`why` must say"):
        Tolerance(0.1)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_the_tolerance_is_a_finite_distance(bad):
    with pytest.raises(ValueError, match="`absolute` must be a finite number"):
        Tolerance(bad, why="test")


def test_a_measurement_is_one_number():
    with pytest.raises(TypeError, match=r"measured must be one number, got \[1\.0, 2\.0\]"):
        finding(1.0, [1.0, 2.0], 0.1)
