"""The lecture on the catapult phase."""

import numpy as np
import pytest

from secant.lab import Verdict
from secant.studies.lectures.catapult_11_07 import run


@pytest.fixture(scope="module")
def outcome():
    config = run.config("smoke")
    data = run(config)
    return data, run.judge(data, config)


def test_no_finding_fails(outcome):
    verdicts = {finding.name: finding.verdict for finding in outcome[1]}
    assert set(verdicts.values()) == {Verdict.HOLDS, Verdict.ERRATUM}, verdicts


def test_the_source_knows_the_chapter():
    assert run.source.key == "lectures"
    assert run.chapter in run.source.chapters


def test_the_three_phases_at_a_wide_network(outcome):
    data = outcome[0].sel(width=1e4, method="nearest")
    ends = {r: data.sel(ratio=r, method="nearest") for r in (1.9, 3.0, 4.1)}
    assert not bool(ends[1.9].risen)
    assert bool(ends[3.0].risen)
    assert int(ends[3.0].outcome) == 1
    assert float(ends[3.0].final) == pytest.approx(0.23, abs=0.06)
    assert int(ends[4.1].outcome) == 2


def test_the_recursion_is_exact(outcome):
    np.testing.assert_allclose(outcome[0].z, outcome[0].z_map, atol=1e-10)
