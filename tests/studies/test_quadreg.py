"""Every study of the quadratic regression paper: its findings hold, its figure draws, its golden numbers stand."""

import functools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import secant.lab as lab
from secant.lab import Erratum, Verdict

IDS = [study.id for study in lab.catalog("quadreg")]


@functools.cache
def outcome(id):
    """A study run at smoke scale: its data, its configuration, its findings."""
    study = lab.get(id)
    config = study.config("smoke")
    data = study(config)
    return data, config, study.judge(data, config)


def test_every_study_of_the_paper_is_there():
    named = {
        "sec-2.1", "fig-1", "fig-2", "fig-8", "fig-9", "fig-10", "thm-2.1", "app-B.2", "app-B.4", "thm-B.3",
        "app-A.1", "app-A.2", "app-A.3", "skeleton", "lambert-limit", "limit-series", "drift-law",
    }  # fmt: skip
    assert {f"quadreg/{name}" for name in named} <= set(IDS)
    new = {id.removeprefix("quadreg/") for id in IDS if lab.get(id).new}
    assert {"skeleton", "lambert-limit", "limit-series", "drift-law"} <= new


@pytest.mark.parametrize("id", IDS)
def test_findings_hold_or_are_errata(id):
    for finding in outcome(id)[2]:
        expected = Verdict.ERRATUM if isinstance(finding, Erratum) else Verdict.HOLDS
        assert finding.verdict == expected, (finding.name, finding.predicted, finding.measured)


@pytest.mark.parametrize("id", IDS)
def test_the_figure_draws(id):
    data, config, _ = outcome(id)
    with lab.drawn(lab.get(id), data, config, "dark") as figure:
        FigureCanvasAgg(figure).draw()
        titled = [axis for axis in figure.axes if axis.get_title(loc="left")]
        assert titled
        assert all(axis.get_xlabel() or axis.get_shared_x_axes() for axis in titled)


@pytest.mark.parametrize("id", IDS)
def test_the_chapter_has_a_name(id):
    study = lab.get(id)
    assert study.source.chapters[study.chapter]


def measured(id, start):
    """The measured value of the one finding whose name starts so."""
    (found,) = [f for f in outcome(id)[2] if f.name.startswith(start)]
    return found.measured


def test_golden_edge_of_figure_2():
    data, config, _ = outcome("quadreg/fig-2")
    end = data.curvature.isel(step=-1).values * np.array(config.lrs)
    np.testing.assert_allclose(end, 1.99748, atol=1e-5)
    assert float(data.y.isel(start=0, even=-1)) == pytest.approx(-0.002521, abs=2e-6)


def test_golden_curvatures_of_figure_1():
    data = outcome("quadreg/fig-1")[0]
    np.testing.assert_allclose(data.curvature.isel(step=-1), [1.9361, 1.9356, 1.9358], atol=1e-4)


def test_golden_window_of_theorem_2_1():
    data, config, _ = outcome("quadreg/thm-2.1")
    np.testing.assert_allclose(data.final.sel(lr=list(config.inside)), 1.99748, atol=1e-4)
    np.testing.assert_allclose(data.final.sel(lr=[0.5, 0.8, 0.95]), [0.998, 1.597, 1.895], atol=1e-3)


def test_golden_limits_of_figure_10():
    assert measured("quadreg/fig-10", "median final distance") == pytest.approx(1.0017, abs=2e-4)


def test_golden_offset_limits():
    data = outcome("quadreg/drift-law")[0]
    np.testing.assert_allclose(data.offset_limit.sel(E=[-1.0, 0.5, 1.0]), [-0.003788, -0.001889, -0.001258], atol=2e-6)


def test_golden_memory_of_the_printed_exponent():
    assert measured("quadreg/thm-B.3", "how the limit forgets") == pytest.approx(4, abs=0.1)


def test_unequal_lists_of_starts_are_refused():
    study = lab.get("quadreg/fig-2")
    with pytest.raises(ValueError, match="2 and 4 entries"):
        study(study.config("smoke", residuals=(-0.9, -0.6)))
