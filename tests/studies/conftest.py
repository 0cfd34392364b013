"""Every study once, at smoke scale."""

import functools
import time

import pytest

from secant import lab


@pytest.fixture(autouse=True)
def optimised_studies(optimised):
    """Studies compute, even at smoke scale."""


def note_cost(root, id, seconds):
    """Keeps what a study cost, unless its run was only read back."""
    costs = root.with_name("costs-of-studies")
    costs.mkdir(parents=True, exist_ok=True)
    with (costs / id.replace("/", "-")).open("a") as file:
        file.write(f"{seconds}\n")


@functools.cache
def _outcome(root, id):
    study = lab.get(id)
    config = study.config("smoke")
    began = time.process_time()
    data = lab.run(study, config=config, scale="smoke", store=lab.Store(root), figure=False).data()
    findings = study.judge(data, config)
    note_cost(root, id, time.process_time() - began)
    return data, config, findings


@pytest.fixture
def outcome(runs_of_studies, random_clock):
    """A function of a study's id: its data, its configuration and its findings, computed once, by a random clock."""
    random_clock()
    return functools.partial(_outcome, runs_of_studies)


@pytest.fixture
def measured(outcome):
    """A function of a study's id and a finding's key: what it measured."""

    def find(id, key):
        return {finding.key: finding.measured.value for finding in outcome(id)[2]}[key]

    return find
