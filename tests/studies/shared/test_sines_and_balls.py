"""Runs on a sum of sines, and random points of a ball."""

import numpy as np

from secant.optim import optimisers
from secant.studies.shared.landscapes import sines
from secant.studies.shared.landscapes.balls import in_ball


def test_points_fill_the_unit_ball_evenly():
    sizes = np.linalg.norm(in_ball(np.random.default_rng(0), 20_000, 3), axis=1)
    assert sizes.max() <= 1
    # The share within a radius is its cube.
    np.testing.assert_allclose([(sizes <= r).mean() for r in (0.5, 0.8)], [0.125, 0.512], atol=0.015)


def test_a_step_of_adagrad_goes_by_the_direction_alone():
    w = sines.paths(optimisers.adagrad_norm(), np.random.default_rng(0), 3, 2, 1)
    slope = np.cos(w[:, 0])
    np.testing.assert_allclose(w[:, 1], w[:, 0] - slope / np.linalg.norm(slope, axis=1, keepdims=True), rtol=1e-12)
