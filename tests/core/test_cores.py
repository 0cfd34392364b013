"""The cores that this process may use, and the threads of XLA."""

import os

import pytest

from secant.core.cores import cores, threads


@pytest.fixture
def kept_to_two(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)


@pytest.mark.parametrize("told", ["1", "", "many"])
def test_cores_are_those_that_the_process_is_kept_to_whatever_xla_is_told(kept_to_two, monkeypatch, told):
    monkeypatch.setenv("NPROC", told)
    assert cores() == 2


def test_a_system_that_keeps_no_process_to_some_cores_counts_all(kept_to_two, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


@pytest.mark.parametrize(("told", "found"), [("3", 3), ("0", 2), ("many", 2), ("", 2)])
def test_threads_are_what_xla_is_told_if_it_is_a_number(kept_to_two, monkeypatch, told, found):
    monkeypatch.setenv("NPROC", told)
    assert threads() == found
