"""Verdicts that hang on the seed are found and counted."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from secant import lab
from secant.lab import claim, estimate, option, study, wavering
from secant.lab.registry import lookup
from secant.lab.sweeping.execute import seeds_of


@dataclass(frozen=True)
class Config:
    draws: int = option(6, at_least=2)
    seed: int = option(3)


@study("demo/coins", section="1.1", title="Coins")
def coins(config: Config) -> xr.Dataset:
    """Noise has mean zero, and falls on both sides of it."""
    return xr.Dataset({"x": ("draw", np.random.default_rng(config.seed).normal(size=config.draws))})


@coins.findings
def check(data, config):
    yield claim("mean", "mean over sampling error").zero(estimate(data.x.values), 0, "exact")
    yield claim("first", "first draw is positive").at_least(0.0, data.x[0], "a coin")


@pytest.fixture
def rows(monkeypatch, tmp_path):
    monkeypatch.setattr(lookup, "_all", lambda: {coins.id: coins})
    return lambda **options: lab.verify([coins.id], store=lab.Store(tmp_path), **options)


def test_every_seed_is_run_from_the_studys_own(rows):
    found = rows(seeds=4)
    assert [row["seed"] for row in found] == [seed for seed in (3, 10_003, 20_003, 30_003) for _ in range(2)]
    assert seeds_of(coins, "smoke", 3) == [3, 10_003, 20_003]
    with pytest.raises(ValueError, match="seeds: must be at least 1, got 0"):
        rows(seeds=0)


def test_processes_are_started_for_what_has_not_been_run(rows, monkeypatch):
    started = []

    def processes(jobs, *_):
        started.append(jobs)
        return lab.Here()

    monkeypatch.setattr("secant.lab.sweeping.execute.Processes", processes)
    first = rows(seeds=3)
    assert rows(seeds=3, jobs=2) == first
    assert rows(seeds=4, jobs=2)[: len(first)] == first  # one more: it is run here
    assert started == []
    rows(seeds=7, jobs=8)
    rows(seeds=7, jobs=2, force=True)
    assert started == [3, 2]


def test_a_finding_that_flips_is_named_and_one_with_a_sampling_error_does_not(rows):
    (flips,) = wavering(rows(seeds=12))
    assert flips.finding == "first draw is positive"
    assert set(flips.verdicts) == {"holds", "fails"}
    assert flips.verdicts.total() == 12
    assert flips.beyond  # it says that it never fails


def test_a_finding_may_fail_as_often_as_it_says():
    def row(seed, verdict, risk):
        return {"study": "a/b", "seed": seed, "key": "f", "finding": f"f {seed}", "verdict": verdict, "risk": risk}

    def found(fails, risk):
        return wavering([row(k, "fails" if k < fails else "holds", risk) for k in range(20)])[0]

    assert not found(1, 0.05).beyond
    assert found(5, 0.05).beyond
    assert found(1, 0.0).beyond
    assert not wavering([row(k, "holds", 0.0) for k in range(3)])


def test_of_many_findings_one_may_fail_by_chance():
    def found(fails, others):
        rows = [
            {"study": "a/b", "seed": k, "key": str(n), "finding": f"{n} of seed {k}", "verdict": "holds", "risk": 1e-3}
            for k in range(5)
            for n in range(others + 1)
        ]
        for k in range(fails):
            rows[k * (others + 1)]["verdict"] = "fails"
        (one,) = wavering(rows)
        return one.beyond

    assert found(1, others=0)  # half a percent
    assert not found(1, others=300)
    assert found(2, others=300)


def test_what_is_not_random_is_run_once():
    assert seeds_of(lab.get("quadreg/fig-1"), "smoke", 5) == [None]


def test_a_scale_that_there_is_not_is_refused_before_any_study_runs(tmp_path):
    with pytest.raises(ValueError, match=r"unknown scale 'huge'\. Use one of smoke, laptop, paper"):
        lab.verify(["quadreg/fig-1"], scale="huge", store=lab.Store(tmp_path))
