"""Every study once, at smoke scale."""

import functools
import sys
from pathlib import Path

import pytest

from secant import lab

sys.path.append(str(Path(__file__).parent))


@functools.cache
def _outcome(root, id):
    study = lab.get(id)
    config = study.config("smoke")
    data = lab.run(study, config=config, scale="smoke", store=lab.Store(root), figure=False).data()
    return data, config, study.judge(data, config)


@pytest.fixture
def outcome(runs_of_studies, random_clock):
    """A function of a study's id: its data, its configuration and its findings, computed once, by a random clock."""
    random_clock()
    return functools.partial(_outcome, runs_of_studies)


@pytest.fixture
def measured(outcome):
    """A function of a study's id and the beginning of a finding's name: what it measured."""

    def find(id, start):
        (found,) = [finding for finding in outcome(id)[2] if finding.name.startswith(start)]
        return found.measured

    return find
