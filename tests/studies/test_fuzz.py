"""Whatever options a study is given, it refuses them in a line or runs to its end."""

import random
import zlib
from pathlib import Path

import pytest
from fuzzing import NOW, accepted, chosen, drawn_by, outcome, small_configurations

from secant import lab

ROOT = Path(__file__).parents[2]
IDS = [study.id for study in lab.catalog()]
EACH = -(-2_000 // len(IDS))
"""Configurations of each study that are validated: 2,000 in all."""


@pytest.mark.parametrize("id", IDS)
def test_options_are_accepted_or_refused_in_a_line_that_names_them(id):
    study, draw = lab.get(id), random.Random(zlib.crc32(id.encode()))
    for _ in range(EACH):
        accepted(study, chosen(study, draw, small=False))


SHOWN = {
    "quadreg/fig-2", "quadreg/optimisers", "thesis/fig-3.2b", "thesis/fig-4.8", "thesis/fig-4.9", "thesis/fig-4.11",
    "thesis/table-4.2",
}  # fmt: skip
"""Studies that commands on the pages run with options of their own, which is another test."""


TURNS = 6


def in_turn(number):
    """A sixth of the studies, those that share a run together: the others have their turn at the next numbers."""
    turns = {id: number + zlib.crc32(drawn_by(lab.get(id)).encode()) for id in IDS if id not in SHOWN}
    return [id for id, turn in turns.items() if turn % TURNS == 0]


# Each study once in a few changes, always with the same options, so that no change fails by what another one drew;
# `python tests/studies/fuzzing.py ID --runs 20 --seed 1` tries more.
@pytest.mark.parametrize("id", in_turn(NOW))
def test_whatever_is_accepted_runs_to_its_end(id):
    study = lab.get(id)
    for config in small_configurations(study, 0, 1):
        outcome(study, config)


def test_enough_is_tried():
    assert EACH * len(IDS) >= 2_000
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert all(f"$ secant run {id} --" in pages for id in SHOWN)
    turns = [in_turn(NOW + k) for k in range(TURNS)]
    assert sorted(id for turn in turns for id in turn) == sorted(set(IDS) - SHOWN)
    assert min(map(len, turns)) > len(IDS) / 12
