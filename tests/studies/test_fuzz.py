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


# Two runs a study, and three of every third: 200 in all.
@pytest.mark.parametrize(("id", "runs"), [(id, 3 if i % 3 == 0 else 2) for i, id in enumerate(IDS)])
def test_whatever_is_accepted_runs_to_its_end(id, runs):
    study = lab.get(id)
    for config in small_configurations(study, 0, runs):
        outcome(study, config)


def test_enough_is_tried():
    assert EACH * len(IDS) >= 2_000
    assert sum(3 if i % 3 == 0 else 2 for i in range(len(IDS))) >= 200
