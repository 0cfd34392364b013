"""Every study once, at smoke scale."""

import functools

import pytest

from secant import lab


@functools.cache
def _outcome(id):
    study = lab.get(id)
    config = study.config("smoke")
    data = study(config)
    return data, config, study.judge(data, config)


@pytest.fixture
def outcome():
    """A function of a study's id: its data, its configuration and its findings, computed once."""
    return _outcome


@pytest.fixture
def measured():
    """A function of a study's id and the beginning of a finding's name: what it measured."""

    def find(id, start):
        (found,) = [finding for finding in _outcome(id)[2] if finding.name.startswith(start)]
        return found.measured

    return find
