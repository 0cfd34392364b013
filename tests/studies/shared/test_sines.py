"""Runs on a sum of sines."""

import numpy as np

from secant.optim import optimisers
from secant.studies.shared import sines


def test_a_step_of_adagrad_goes_by_the_direction_alone():
    w = sines.paths(optimisers.adagrad_norm(), np.random.default_rng(0), 3, 2, 1)
    slope = np.cos(w[:, 0])
    np.testing.assert_allclose(w[:, 1], w[:, 0] - slope / np.linalg.norm(slope, axis=1, keepdims=True), rtol=1e-12)
