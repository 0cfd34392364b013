"""Golden numbers of the lecture on the catapult phase."""

import numpy as np
import pytest

ID = "lectures/11-07-catapult"


def test_the_three_phases_at_a_wide_network(outcome):
    data = outcome(ID)[0].sel(width=1e4, method="nearest")
    ends = {r: data.sel(ratio=r, method="nearest") for r in (1.9, 3.0, 4.1)}
    assert [int(ends[ratio].phase) for ratio in ends] == [0, 1, 2]
    assert int(ends[3.0].outcome) == 1
    assert float(ends[3.0].final) == pytest.approx(0.23, abs=0.06)
    assert int(ends[4.1].outcome) == 2


def test_the_recursion_is_exact(outcome):
    data = outcome(ID)[0]
    np.testing.assert_allclose(data.z, data.z_map, atol=1e-10)


def test_a_network_is_the_sum_over_its_paths(outcome):
    data = outcome("lectures/11-30-paths")[0]
    assert int(data.number) == 18
    np.testing.assert_allclose(data.output, data.forward, atol=1e-14)


def test_the_kernel_of_the_path_count_at_a_tenth(outcome):
    data = outcome("lectures/11-30-kernel")[0]
    assert float(data.spread.sel(size=800)) == pytest.approx(1.4544, abs=1e-4)
    assert float(data.share.mean() * data.sizes["layer"]) == pytest.approx(1.5, rel=0.03)


def test_the_evidence_of_deep_linear_networks(outcome):
    data = outcome("lectures/12-07-evidence")[0]
    np.testing.assert_allclose(data.evidence, [64.0005, 88.1892, 121.0701, 141.2757, 166.0060, 171.7833], atol=1e-3)
    assert float(data.deepening.sel(depth=50)) == pytest.approx(1.780, abs=1e-3)


def test_features_move_in_one_scaling_and_not_in_the_other(outcome):
    data = outcome("lectures/09-28-features")[0].features.mean("draw")
    assert (data.sel(rule="mean field") > 0.5).all()
    assert float(data.sel(rule="kernel", width=1024)) < 0.01


def test_gradient_descent_contracts_by_its_slowest_direction(outcome):
    data = outcome("lectures/09-26-rates")[0]
    np.testing.assert_allclose(data["factor"][2:], [9 / 11, 0.890909, 0.963636], atol=1e-6)


def test_the_kernel_of_a_wide_network_is_kept(outcome):
    data = outcome("lectures/10-12-convergence")[0].sel(width=512)
    assert (data.smallest > data.smallest.isel(time=0) / 2).all()
    assert (data.loss.isel(time=-1) < 1e-2 * data.loss.isel(time=0)).all()
