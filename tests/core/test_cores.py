"""The cores that this process may use."""

import os

import pytest

from secant.core.cores import cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system keeps no process to some cores")
def test_they_are_those_that_the_process_is_kept_to(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert cores() == 2


@pytest.mark.parametrize(("told", "found"), [("3", 3), ("0", 2), ("many", 2), ("", 2)])
def test_what_xla_is_told_counts_if_it_is_a_number(monkeypatch, told, found):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    monkeypatch.setenv("NPROC", told)
    assert cores() == found
