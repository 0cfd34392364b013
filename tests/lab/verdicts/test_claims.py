"""A claim has a key, a sentence and a method for its numbers; what it makes is a finding, word for word."""

import functools
import math
import re

import numpy as np
import pytest
import xarray as xr

from secant.lab import Erratum, Estimate, Finding, Tolerance, claim

A = claim("a", "A sentence.")


def finding(expected, measured, tolerance, **more):
    """What `A` makes, written out."""
    seen = measured if isinstance(measured, Estimate) else Estimate(measured, 0.0)
    return Finding(key="a", name="A sentence.", expected=expected, measured=seen, tolerance=tolerance, **more)


def test_an_erratum_in_pairs_of_a_formula_and_its_number():
    whole = Erratum(
        key="a",
        name="A sentence.",
        printed="p",
        corrected="c",
        printed_value=1.0,
        corrected_value=2.0,
        measured=Estimate(2.1, 0.0),
        tolerance=Tolerance(0.2, 0.1, "w"),
        note="a slip",
        where="(3)",
        relation="at most",
        by="run",
    )
    said = functools.partial(A.erratum, ("p", 1), ("c", 2), 2.1, note="a slip", where="(3)")
    assert said(0.2, "w", relative=0.1, relation="at most") == whole
    assert said(Tolerance(0.2, why="w")).tolerance == Tolerance(0.2, why="w")
    assert said(0.2, "w", by="derivation").by == "derivation"


def test_every_method_makes_the_finding_that_it_abbreviates():
    slack = Tolerance(0.1, why="a rate")
    seen = Estimate(1.02, 0.01, 7.0)
    assert A.equal(1, seen, 0.1, "a rate", note="n") == finding(1.0, seen, slack, note="n")
    assert A.equal(1, seen, slack) == finding(1.0, seen, slack)
    assert A.equal(4, 4.1, 0, "w", relative=0.1) == finding(4.0, 4.1, Tolerance(0, 0.1, "w"))
    assert A.equal(4, 7, 4, "w", qualitative=True).qualitative
    assert A.zero(1e-13, 1e-12, "rounding") == finding(0.0, 1e-13, Tolerance(1e-12, why="rounding"))
    assert A.count(3, 3) == finding(3.0, 3.0, Tolerance(why="a count"))
    assert A.at_most(2, 1.9) == finding(2.0, 1.9, Tolerance(why="an inequality"), relation="at most")
    below = finding(2.0, 1.95, slack, relation="at least")
    assert A.at_least(2, 1.95, slack=slack) == A.at_least(2, 1.95, "a rate", slack=0.1) == below


def test_claims_can_fail():
    assert A.equal(1, 1.2, 0.1, "a rate").verdict == "fails"
    assert A.zero(1e-9, 1e-12, "rounding").verdict == "fails"
    assert A.count(3, 4).verdict == "fails"
    assert A.at_most(2, 2.1).verdict == "fails"
    assert A.at_least(2, 1.9).verdict == "fails"
    assert A.at_least(2, math.nan).verdict == "inconclusive"


def test_a_distance_needs_its_reason():
    with pytest.raises(ValueError, match="`why` must say where the tolerance comes from"):
        A.equal(1, 1, 0.1)
    with pytest.raises(ValueError, match="`why`"):
        A.zero(0, 1e-12)


@pytest.mark.parametrize("key", ["", "  ", "---", "!?", "é", "x" * 81])
def test_a_key_that_is_none_is_refused_with_what_works(key):
    said = rf"`key` must have 1 to 80 characters, one of them a letter or a digit, got {re.escape(repr(key))}"
    with pytest.raises(ValueError, match=said):
        claim(key, "A sentence.")


def test_a_claim_without_a_sentence_is_refused_by_its_key():
    with pytest.raises(ValueError, match=r"`name` of 'slope' is empty\. Say in a few words what is claimed"):
        claim("slope", " ")


@pytest.mark.parametrize(
    ("key", "short"),
    [
        ("slope", "slope"),
        ("Slope of lambda=0.5", "slope-of-lambda-0.5"),
        ("eta-1e-05", "eta-1e-05"),
        ("x" * 80, "x" * 80),
        ("-a_b-", "a-b"),
        ("+1", "+1"),
    ],
)
def test_a_key_may_hold_the_value_of_an_option(key, short):
    assert claim(key, "A sentence.").key == short


@pytest.mark.parametrize("bad", [[1.0, 2.0], np.zeros(2), "many", None])
@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("what is predicted", lambda slope, bad: slope.equal(bad, 1.0, 0.1, "test")),
        ("what is predicted", lambda slope, bad: slope.undecided(bad, "nothing came of it")),
        ("what is measured", lambda slope, bad: slope.count(1, bad)),
        ("what is measured", lambda slope, bad: slope.at_most(1, lambda: bad)),
        ("error of slope: what is measured", lambda slope, bad: slope.zero(Estimate(1.0, bad), 0.1, "test")),
        ("freedom of slope: what is measured", lambda slope, bad: slope.zero(Estimate(1.0, 1.0, bad), 0.1, "test")),
        (
            "the number that the print gives",
            lambda slope, bad: slope.erratum(("p", bad), ("c", 1), 1, 0.1, "test", note="a slip", where="(3)"),
        ),
        (
            "the number that the correction gives",
            lambda slope, bad: slope.erratum(("p", 1), ("c", bad), 1, 0.1, "test", note="a slip", where="(3)"),
        ),
        (
            "what is measured",
            lambda slope, bad: slope.erratum(("p", 1), ("c", 1), bad, 0.1, "test", note="a slip", where="(3)"),
        ),
    ],
)
def test_what_is_no_number_is_named_with_the_key_and_what_was_given(place, make, bad):
    place = place if "slope" in place else f"slope: {place}"
    with pytest.raises(TypeError, match=rf"^{place} must be one number, got {re.escape(repr(bad))}\.$"):
        make(claim("slope", "A slope."), bad)


def test_without_anything_to_judge_a_claim_is_undecided_and_says_why():
    spikes = []
    spike = claim("spike", "smallest spike", given=spikes, otherwise="no run has a spike")
    found = spike.at_least(2, lambda: min(spikes), "the claim")
    assert found == spike.undecided(2.0, "no run has a spike", "at least")
    assert found.verdict == "inconclusive"
    assert claim("spike", "smallest spike", given=[3.0]).at_least(2, lambda: min([3.0]), "the claim").verdict == "holds"
    for given in (False, 0, np.zeros(3, bool), xr.DataArray([False, False]), ()):
        none = claim("a", "A sentence.", given=given, otherwise="nothing")
        for found in (
            none.equal(1, 1, 0.1, "why"),
            none.at_most(1, 1, "why"),
            none.at_least(1, 1, "why"),
            none.zero(0, 0.1, "why"),
            none.count(1, 1),
        ):
            assert (found.note, found.tolerance.why) == ("nothing", "nothing")
            assert found.reason
    assert claim("a", "A sentence.", given=xr.DataArray([False, True])).count(1, 1).verdict == "holds"


def test_a_share_is_of_the_cases_that_count():
    among, seen = (
        xr.DataArray([True, True, True, False], dims="run"),
        xr.DataArray([True, False, True, True], dims="run"),
    )
    caught = claim("caught", "caught", otherwise="none")
    found = caught.share(2 / 3, seen, among, "the claim", within=1e-12)
    assert (found.verdict, found.note) == ("holds", "of 3")
    assert caught.share(1, seen, among, "the claim").verdict == "fails"
    assert caught.share(1, seen, among & False, "the claim").note == "none"
    assert caught.share(1, seen, among & False, "the claim", otherwise="no run").note == "no run"
