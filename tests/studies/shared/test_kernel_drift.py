"""The drift of the tangent kernel in training."""

import numpy as np
import pytest

from secant.nets import dag, graphs
from secant.studies.shared.kernel_drift import Training, sparse_drift, two_classes


def test_points_are_gaussian_or_images_of_two_classes():
    x, y, name = two_classes("here", "gaussian", 6, 5, 0)
    assert (x.shape, set(np.asarray(y).tolist()), name) == ((6, 5), {-1.0, 1.0}, "Gaussian points")
    x, y, name = two_classes("here", "digits", 8, 5, 0)
    assert (x.shape, set(np.asarray(y).tolist()), name) == ((8, 64), {-1.0, 1.0}, "digits, classes 0 and 2")
    assert float((x**2).mean()) == pytest.approx(1.0, abs=0.3)


def test_a_wider_network_moves_less_and_every_run_ends():
    x, y, _ = two_classes("here", "gaussian", 4, 6, 1)
    training = Training(runs=4, rate=0.5, steps=400, every=10, target=1e-3, seed=0)
    few, many = (
        sparse_drift(
            dag(graphs.densenet(6, [m, m], concat_input=False), "tanh"), x, y, m, ("new", "original"), training
        )
        for m in (8, 128)
    )
    assert dict(few.sizes) == {"scaling": 2, "network": 4}
    assert float(many.loss.max()) < training.target
    assert float(many.drift.mean()) < 0.5 * float(few.drift.mean())
    # A norm bounds every eigenvalue's move.
    assert float(many.excess.max()) <= 1e-5
    assert (few.degree <= 8).all()
    assert (many.degree > few.degree.max()).all()
