"""Verdicts follow from the numbers and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.lab import Erratum, Finding, Tolerance, Verdict
from secant.lab.finding import as_dict

numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e3)


def finding(predicted, measured, width, **more):
    return Finding("f", predicted, measured, Tolerance(width, why="test"), **more)


@given(numbers, numbers, widths)
def test_equal_means_within_the_tolerance(predicted, measured, width):
    inside = abs(measured - predicted) <= width
    assert finding(predicted, measured, width).verdict == (Verdict.HOLDS if inside else Verdict.FAILS)


@given(numbers, numbers, widths)
def test_bounds_are_one_sided(predicted, measured, width):
    below = finding(predicted, measured, width, relation="at most").verdict == Verdict.HOLDS
    above = finding(predicted, measured, width, relation="at least").verdict == Verdict.HOLDS
    assert below == (measured - predicted <= width)
    assert above == (predicted - measured <= width)


@given(numbers, numbers, widths, widths)
def test_a_miss_within_three_standard_errors_decides_nothing(predicted, measured, width, error):
    excess = abs(measured - predicted) - width
    expected = Verdict.HOLDS if excess <= 0 else Verdict.INCONCLUSIVE if excess <= 3 * error else Verdict.FAILS
    assert finding(predicted, measured, width, uncertainty=error).verdict == expected


@pytest.mark.parametrize("predicted", [1.0, math.nan])
def test_what_is_no_number_fails(predicted):
    assert finding(predicted, math.nan, 1e9).verdict == Verdict.FAILS


def test_infinity_equals_infinity():
    assert finding(math.inf, math.inf, 0).verdict == Verdict.HOLDS
    assert finding(math.inf, 1.0, 1e9).verdict == Verdict.FAILS


@pytest.mark.parametrize(
    ("printed", "corrected", "verdict"),
    [(2.0, 1.0, "erratum"), (1.0, 1.0, "inconclusive"), (1.0, 2.0, "fails"), (2.0, 3.0, "fails")],
)
def test_an_erratum_needs_the_print_refuted_and_the_correction_confirmed(printed, corrected, verdict):
    erratum = Erratum("e", "p", "c", printed, corrected, 1.0, Tolerance(0.1, why="test"), why="a slip")
    assert erratum.verdict == verdict
    assert as_dict(erratum)["printed_value"] == printed


def test_the_tolerance_must_say_why():
    with pytest.raises(ValueError, match="`why` must say"):
        Tolerance(0.1)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_the_tolerance_is_a_finite_distance(bad):
    with pytest.raises(ValueError, match="`absolute` must be a finite number"):
        Tolerance(bad, why="test")


def test_a_measurement_is_one_number():
    with pytest.raises(TypeError, match="`measured` must be one number"):
        finding(1.0, [1.0, 2.0], 0.1)
