"""Claims in a line each are findings, word for word."""

import math

import numpy as np
import pytest
import xarray as xr

from secant.lab import Erratum, Estimate, Finding, Tolerance, claims, undecided


def test_an_erratum_in_pairs_of_a_formula_and_its_number():
    whole = Erratum(
        "e", "p", "c", 1.0, 2.0, 2.1, Tolerance(0.2, 0.1, "w"), "a slip", "(3)", relation="at most", by="run"
    )
    pair = claims.erratum(
        "e", ("p", 1), ("c", 2), 2.1, 0.2, "w", relative=0.1, note="a slip", where="(3)", relation="at most"
    )
    assert pair == whole
    slack = Tolerance(0.2, why="w")
    assert claims.erratum("e", ("p", 1), ("c", 2), 2.1, slack, note="a slip", where="(3)").tolerance == slack


def test_every_claim_is_the_finding_that_it_abbreviates():
    slack = Tolerance(0.1, why="a rate")
    seen = Estimate(1.02, 0.01, 7.0)
    assert claims.equal("a", 1, seen, 0.1, "a rate", note="n") == Finding("a", 1.0, seen, slack, note="n")
    assert claims.equal("a", 1, seen, slack) == Finding("a", 1.0, seen, slack)
    assert claims.equal("a", 4, 4.1, 0, "w", relative=0.1) == Finding("a", 4.0, 4.1, Tolerance(0, 0.1, "w"))
    assert claims.equal("a", 4, 7, 4, "w", qualitative=True).qualitative
    assert claims.zero("b", 1e-13, 1e-12, "rounding") == Finding("b", 0.0, 1e-13, Tolerance(1e-12, why="rounding"))
    assert claims.count("c", 3, 3) == Finding("c", 3.0, 3.0, Tolerance(why="a count"))
    above = Finding("d", 2.0, 1.9, Tolerance(why="an inequality"), relation="at most")
    assert claims.at_most("d", 2, 1.9) == above
    below = Finding("d", 2.0, 1.95, slack, relation="at least")
    assert claims.at_least("d", 2, 1.95, slack=slack) == claims.at_least("d", 2, 1.95, "a rate", slack=0.1) == below


def test_claims_can_fail():
    assert claims.equal("a", 1, 1.2, 0.1, "a rate").verdict == "fails"
    assert claims.zero("a", 1e-9, 1e-12, "rounding").verdict == "fails"
    assert claims.count("a", 3, 4).verdict == "fails"
    assert claims.at_most("a", 2, 2.1).verdict == "fails"
    assert claims.at_least("a", 2, 1.9).verdict == "fails"
    assert claims.at_least("a", 2, math.nan).verdict == "inconclusive"


def test_a_distance_needs_its_reason():
    with pytest.raises(ValueError, match="`why` must say where the tolerance comes from"):
        claims.equal("a", 1, 1, 0.1)
    with pytest.raises(ValueError, match="`why`"):
        claims.zero("a", 0, 1e-12)
    with pytest.raises(TypeError, match="`measured` must be one number"):
        claims.count("a", 1, "many")


def test_without_anything_to_judge_a_claim_is_undecided_and_says_why():
    spikes = []
    found = claims.at_least("spike", 2, lambda: min(spikes), "the claim", given=spikes, otherwise="no run has a spike")
    assert found == undecided("spike", 2.0, "no run has a spike", "at least")
    assert claims.at_least("spike", 2, lambda: min([3.0]), "the claim", given=[3.0]).verdict == "holds"
    for given in (False, 0, np.zeros(3, bool), xr.DataArray([False, False]), ()):
        for claim in (claims.equal, claims.at_most, claims.at_least):
            assert claim("a", 1, 1, *([0.1] if claim is claims.equal else []), "why", given=given, otherwise="n").reason
        assert claims.zero("a", 0, 0.1, "why", given=given, otherwise="nothing").note == "nothing"
        assert claims.count("a", 1, 1, given=given, otherwise="nothing").note == "nothing"
    assert claims.count("a", 1, 1, given=xr.DataArray([False, True])).verdict == "holds"


def test_a_share_is_of_the_cases_that_count():
    among, seen = (
        xr.DataArray([True, True, True, False], dims="run"),
        xr.DataArray([True, False, True, True], dims="run"),
    )
    found = claims.share("caught", 2 / 3, seen, among, "the claim", within=1e-12, otherwise="none")
    assert (found.verdict, found.note) == ("holds", "of 3")
    assert claims.share("caught", 1, seen, among, "the claim", otherwise="none").verdict == "fails"
    assert claims.share("caught", 1, seen, among & False, "the claim", otherwise="no run").note == "no run"
