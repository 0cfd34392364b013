"""Whatever options a study is given, it refuses them in a line or runs to its end."""

import random
import zlib

import pytest
from fuzzing import accepted, chosen, outcome, small_configurations

from secant import lab

IDS = [study.id for study in lab.catalog()]
EACH = -(-2_000 // len(IDS))
"""Configurations of each study that are validated: 2,000 in all."""


@pytest.mark.parametrize("id", IDS)
def test_options_are_accepted_or_refused_in_a_line_that_names_them(id):
    study, draw = lab.get(id), random.Random(zlib.crc32(id.encode()))
    for _ in range(EACH):
        accepted(study, chosen(study, draw, small=False))


LIGHT = {
    "lectures/11-07-catapult", "quadreg/acceleration", "quadreg/app-A.1", "quadreg/app-B.2", "quadreg/app-B.4",
    "quadreg/drift-law", "quadreg/eq-27", "quadreg/fig-1", "quadreg/fig-11", "quadreg/fig-2", "quadreg/fig-8",
    "quadreg/fig-9", "quadreg/limit-series", "quadreg/sec-3.3", "quadreg/thm-2.1", "quadreg/thm-B.3",
    "thesis/lem-3.3.3", "thesis/lem-A.11", "thesis/thm-3.3.4",
}  # fmt: skip
"""Studies of at most three CPU-seconds at smoke scale."""


def runs(id):
    """How often a study is run: every one once, and four times where that takes seconds.

    `python tests/studies/fuzzing.py ID --runs 20 --seed 1` tries more.
    """
    return 4 if id in LIGHT else 1


@pytest.mark.parametrize("id", IDS)
def test_whatever_is_accepted_runs_to_its_end(id):
    study = lab.get(id)
    for config in small_configurations(study, 0, runs(id)):
        outcome(study, config)


def test_enough_is_tried():
    assert EACH * len(IDS) >= 2_000
    assert set(IDS) >= LIGHT
    assert sum(map(runs, IDS)) >= 140
