"""Claims in a line each are findings, word for word."""

import math

import pytest

from secant.lab import Estimate, Finding, Tolerance, claims


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
