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
