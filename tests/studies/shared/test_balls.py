"""Random points of a ball."""

import numpy as np

from secant.studies.shared.balls import in_ball


def test_points_fill_the_unit_ball_evenly():
    sizes = np.linalg.norm(in_ball(np.random.default_rng(0), 20_000, 3), axis=1)
    assert sizes.max() <= 1
    # The share within a radius is its cube.
    np.testing.assert_allclose([(sizes <= r).mean() for r in (0.5, 0.8)], [0.125, 0.512], atol=0.015)
