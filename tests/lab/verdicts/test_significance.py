"""Exact tests and shares of cases."""

import itertools

import numpy as np
import pytest
from scipy import stats

from secant.lab import claim
from secant.lab.verdicts.significance import goes_with, proportion


def test_one_run_is_judged_by_fishers_exact_test():
    random = np.random.default_rng(0)
    rises, above = random.random(40) < 0.4, random.random(40) < 0.3
    table = [[np.sum(rises & above), np.sum(rises & ~above)], [np.sum(~rises & above), np.sum(~rises & ~above)]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert goes_with([(rises, above)]) == pytest.approx(expected, rel=1e-10)


def test_several_runs_are_judged_by_all_orders_within_each():
    runs = [([1, 1, 0, 0], [1, 0, 1, 0]), ([1, 0, 0], [1, 0, 0])]
    observed = sum(int(np.sum(np.array(a) & np.array(b))) for a, b in runs)
    orders = [[np.sum(np.array(a) & np.array(p)) for p in itertools.permutations(b)] for a, b in runs]
    together = np.add.outer(*orders)
    assert goes_with(runs) == pytest.approx(np.mean(together >= observed))


def test_events_of_which_one_never_happens_decide_nothing():
    assert np.isnan(goes_with([([0, 0], [1, 0]), ([0, 0], [0, 0])]))


@pytest.mark.parametrize(("cases", "verdict"), [([1] * 12, "holds"), ([1] * 3, "inconclusive"), ([0] * 12, "fails")])
def test_a_few_cases_that_agree_are_no_certainty(cases, verdict):
    found = claim("most", "most").at_least(0.5, proportion(cases), "a test")
    assert found.verdict == verdict


def test_a_share_of_no_cases_is_no_number():
    assert np.isnan(proportion([]).value)
