"""The catapult studies: every one runs at smoke scale and none of its findings fails."""

import importlib
import pkgutil

import numpy as np
import pytest

import secant.studies.thesis as thesis
from secant.lab import Erratum, Study, Verdict
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs

NAMES = [info.name for info in pkgutil.iter_modules(thesis.__path__) if not info.name.startswith("_")]


@pytest.fixture(scope="module")
def outcomes():
    """Data and findings of each study, computed once."""
    kept = {}

    def outcome(name):
        if name not in kept:
            study = importlib.import_module(f"secant.studies.thesis.{name}").run
            config = study.config("smoke")
            data = study(config)
            kept[name] = study, data, study.judge(data, config)
        return kept[name]

    return outcome


@pytest.mark.parametrize("name", NAMES)
def test_no_finding_fails(name, outcomes):
    study, _, findings = outcomes(name)
    assert isinstance(study, Study)
    assert study.source.key == "thesis"
    assert study.chapter in study.source.chapters
    verdicts = {finding.name: finding.verdict for finding in findings}
    bad = {k: v for k, v in verdicts.items() if v not in (Verdict.HOLDS, Verdict.ERRATUM)}
    assert not bad
    for finding in findings:
        assert isinstance(finding, Erratum) == (finding.verdict is Verdict.ERRATUM)


def test_every_study_of_the_chapter_is_there():
    assert {
        "sec_3_3", "thm_3_3_1", "lem_3_3_2", "lem_3_3_3", "thm_3_3_4", "max_step", "thm_3_3_6", "prop_b_11",
        "prop_b_9_1", "thm_b_3_1", "thm_b_7_1", "prop_b_13_1", "eq_3_16", "fig_3_1", "fig_3_2a", "fig_3_3", "fig_b_4a",
    } <= set(NAMES)  # fmt: skip


def test_the_peak_over_the_width_is_the_known_constant(outcomes):
    _, data, _ = outcomes("thm_3_3_1")
    wide = (data.peak / data.width).sel(excess=1.0).sel(width=data.width >= 10_000)
    assert float(wide.min()) > 0.02
    assert float(wide.max()) < 0.08


def test_distance_travelled_over_root_width_is_the_known_constant(outcomes):
    _, data, _ = outcomes("fig_3_2a")
    end = data.distance.isel(step=-1, width=-1).sel(regime="above").mean("seed") / np.sqrt(float(data.width[-1]))
    assert float(end.sel(model="quadratic")) == pytest.approx(0.73, abs=0.03)
    assert float(end.sel(model="network")) == pytest.approx(0.51, abs=0.03)


def test_the_bisected_border_is_the_formula(outcomes):
    _, data, _ = outcomes("max_step")
    np.testing.assert_allclose(data.bisected, data.exact, rtol=1e-5)


def test_random_quadratic_models_peak_where_they_should(outcomes):
    _, data, _ = outcomes("fig_b_4a")
    peak = data.loss.max("step").median("model")
    assert float(peak.sel(gamma=1e-3, lr=2.8)) == pytest.approx(3e4, rel=0.5)
    assert float(peak.sel(gamma=1e-3, lr=2.2)) == pytest.approx(2.5e3, rel=0.5)
    assert float(data.kernel.isel(step=-1).sel(gamma=1e-3, lr=2.2).median("model")) == pytest.approx(0.80, abs=0.02)
    assert float(data.kernel.isel(step=-1).sel(gamma=1e-3, lr=2.5).median("model")) == pytest.approx(0.52, abs=0.03)


def test_small_excess_curvature_at_the_golden_point():
    end = cs.catapult_outcome(1e-4, 2.2, steps=600).curvature
    assert float(end) == pytest.approx(1.7691, abs=1e-3)
    assert float(ct.max_step(0.0, 1.0, 100)) == pytest.approx(4.0)
