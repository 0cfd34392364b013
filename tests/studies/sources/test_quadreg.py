"""Golden numbers of the quadratic regression paper's studies."""

import numpy as np
import pytest

from secant import lab
from secant.lab import drawn
from secant.lab.drawing import panels


def test_golden_edge_of_figure_2(outcome):
    data, config, _ = outcome("quadreg/fig-2")
    np.testing.assert_allclose(data.final, 1.99748, atol=1e-5)
    for lr, curve in zip(config.lrs, data.curvature.values, strict=True):
        assert lr * curve[np.isfinite(curve)][-1] == pytest.approx(1.99748, abs=1e-5)
    late = data.y.values[0][np.isfinite(data.y.values[0])]
    assert late[-1] == pytest.approx(-0.002521, abs=2e-6)


@pytest.mark.parametrize("stacked", [False, True], ids=["wide", "narrow"])
def test_the_gap_below_the_edge_is_seen_in_figure_2(outcome, stacked):
    data, config, _ = outcome("quadreg/fig-2")
    with drawn(lab.get("quadreg/fig-2"), data, config, "light") as figure:
        if stacked:
            panels.stack(figure)
        figure.canvas.draw()
        assert max(map(gap_in_points, figure.axes)) > 15


def gap_in_points(axes):
    """How far below a line at the edge, 2, the curves end on the page that settle there."""
    heights = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    if not any(np.all(one == 2) for one in heights):
        return 0.0
    ends = [one[np.isfinite(one)][-1] for one in heights if one.size > 100]
    settled = max((end for end in ends if 1.99 < end < 2), default=2.0)
    (_, edge), (_, end) = axes.transData.transform([(axes.get_xlim()[1], 2.0), (axes.get_xlim()[1], settled)])
    return (edge - end) * 72 / axes.figure.dpi


def test_golden_curvatures_of_figure_1(outcome):
    data = outcome("quadreg/fig-1")[0]
    np.testing.assert_allclose(data.final, [1.9361, 1.9356, 1.9358], atol=1e-4)


def test_golden_window_of_theorem_2_1(outcome):
    data, config, _ = outcome("quadreg/thm-2.1")
    np.testing.assert_allclose(data.final.sel(level=list(config.inside)), 1.99748, atol=1e-4)
    np.testing.assert_allclose(data.lr.sel(level=[1.0, 1.6, 1.9]), [0.5, 0.8, 0.95], atol=1e-4)
    np.testing.assert_allclose(data.final.sel(level=[1.0, 1.6, 1.9]), [0.998, 1.597, 1.895], atol=1e-3)


def test_golden_limits_of_figure_10(measured):
    assert measured("quadreg/fig-10", "median-final-distance") == pytest.approx(1.0017, abs=2e-4)


def test_golden_offset_limits(outcome):
    data = outcome("quadreg/drift-law")[0]
    np.testing.assert_allclose(data.offset_limit.sel(E=[-1.0, 0.5, 1.0]), [-0.003788, -0.001889, -0.001258], atol=2e-6)


def test_golden_memory_of_the_printed_exponent(measured):
    assert measured("quadreg/thm-B.3", "forgets") == pytest.approx(4, abs=0.1)


def test_unequal_lists_of_starts_are_refused():
    with pytest.raises(ValueError, match=r"fig-2: residuals: must be as many as curvatures, got 2 and 4\."):
        lab.get("quadreg/fig-2").config("smoke", residuals=(-0.9, -0.6))


@pytest.mark.parametrize("id", ["quadreg/fig-1", "quadreg/fig-2"])
def test_a_start_that_no_parameters_have_is_refused(id):
    with pytest.raises(ValueError, match=r"curvatures: must be at least 0\.8 with the residual 0\.4, got 0\.5\."):
        lab.get(id).config("smoke", residuals=(0.4,), curvatures=(0.5,))


def test_a_start_that_is_remembered_ends_where_the_closed_form_says():
    """At epsilon = 0.01 the first start falls below the window: no two starts end alike, and each as predicted."""
    study = lab.get("quadreg/fig-2")
    config = study.config("smoke", epsilon=0.01, lrs=(0.5, 2.0))
    found = study.judge(study(config), config)
    assert {finding.verdict for finding in found} == {"holds"}
    ends = [finding.measured.value for finding in found if finding.key.startswith("distance")]
    np.testing.assert_allclose(ends, [0.011330, 0.005043, 0.005086, 0.007465], atol=1e-6)


def test_the_acceleration_of_one_residual_is_known(outcome):
    data, config, _ = outcome("quadreg/acceleration")
    one = data.isel(size=0)
    assert (int(one.D), int(one.P)) == (1, 5)
    # lambda is sigma_J^2 chi-squared of 5: D P E[lambda] + E[lambda^2] / sigma_J^2 = 25 + 35
    exact = 60 * config.sigma_z**2 * config.sigma_J**2
    assert float(one.exact.mean()) == pytest.approx(exact, rel=0.05)
    assert float(one.given_J.mean()) == pytest.approx(exact, rel=0.05)


def test_the_exact_mean_has_a_light_tail(outcome):
    data = outcome("quadreg/acceleration")[0].isel(size=-1)
    assert float(data.given_J.max() / data.given_J.mean()) > 3 * float(data.exact.max() / data.exact.mean())


def test_the_convention_for_q_is_part_of_theorem_3_1(outcome):
    data = outcome("quadreg/thm-3.1")[0]
    assert float(data.given_J_formula.sel(convention="goe") / data.given_J_formula.sel(convention="averaged")) == (
        pytest.approx(2, rel=1e-12)
    )
    assert 1.5 < float(data.given_J_formula.sel(convention="independent") / data.given_J_formula[0]) < 2


def test_the_part_odd_in_the_residuals_is_linear_in_their_scale(outcome):
    data = outcome("quadreg/fig-11")[0]
    odd = data.one_sign - data.acceleration
    np.testing.assert_allclose(odd / data.sigma_z, (odd / data.sigma_z).isel(sigma_z=[0] * data.sizes["sigma_z"]))


def test_golden_nonlinearity_of_the_first_step(outcome):
    data, config, _ = outcome("quadreg/eq-27")
    exact = data.exact.sel(size="(10, 20)") / (config.lr * config.sigma_z / 2)
    assert float(exact) == pytest.approx(np.sqrt(10 * 12 * 22 / 31), rel=1e-12)


def test_small_residuals_leave_the_curvature_and_large_ones_make_it(outcome):
    data = outcome("quadreg/fig-12")[0]
    change = (data.top.isel(time=-1) / data.top.isel(time=0)).mean("draw")
    assert float(change[0]) == pytest.approx(1, abs=0.05)
    assert float(change[-1]) > 20


def test_descent_ends_where_the_flow_does_or_at_the_edge(outcome):
    data = outcome("quadreg/flow-scaling")[0]
    assert bool(data.same_bits)
    small = data.descent.sel(residual=0.05) / 0.05
    flow = data.F.isel(size=0, ratio=slice(0, data.sizes["low_ratio"]))
    np.testing.assert_allclose(small, flow, rtol=0.05)


def test_without_the_second_order_term_the_edge_is_lost(outcome):
    data = outcome("quadreg/sec-3.3")[0]
    diverged = (data.outcome == 2).sel(residual=0.6).mean("draw")
    assert float(diverged.sel(term="without")) > 0.6
    assert float(diverged.sel(term="with")) < 0.2


@pytest.mark.parametrize("id", ["quadreg/thm-3.1", "quadreg/fig-11", "quadreg/eq-27", "quadreg/flow-scaling"])
def test_unequal_lists_of_sizes_are_refused(id):
    study = lab.get(id)
    with pytest.raises(ValueError, match="parameters: must be as many as outputs, 2, got 1"):
        study.config("smoke", outputs=(3, 4), parameters=(5,))
