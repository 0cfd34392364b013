"""Whatever options a study is given, it refuses them in a line or runs to its end."""

import random
import zlib
from pathlib import Path

import pytest
from fuzzing import accepted, chosen, outcome, small_configurations

from secant import lab
from secant.lab.code import closure

IDS = [study.id for study in lab.catalog()]
EACH = -(-2_000 // len(IDS))
"""Configurations of each study that are validated: 2,000 in all."""


@pytest.mark.parametrize("id", IDS)
def test_options_are_accepted_or_refused_in_a_line_that_names_them(id):
    study, draw = lab.get(id), random.Random(zlib.crc32(id.encode()))
    for _ in range(EACH):
        accepted(study, chosen(study, draw, small=False))


def runs(id):
    """How often a study is run: those of networks and of phase planes are dear, and run once, the others four times."""
    files = {path.parts[-2:] for path in closure(Path(lab.get(id).module))}
    return 1 if files & {("nets", "network.py"), ("theory", "phase_plane.py")} else 4


@pytest.mark.parametrize("id", IDS)
def test_whatever_is_accepted_runs_to_its_end(id):
    study = lab.get(id)
    for config in small_configurations(study, 0, runs(id)):
        outcome(study, config)


def test_enough_is_tried():
    assert EACH * len(IDS) >= 2_000
    assert sum(map(runs, IDS)) >= 200
