"""Golden numbers of the chapter on normalisation, and its losses by other ways."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.studies.shared import scale_invariant
from secant.theory.normalization.scale_invariance import schedule_without_decay


def test_products_explode_as_in_the_text(outcome):
    data = outcome("book/prob-13.1.1")[0].sel(k=4, start=2.0)
    assert float(data.threshold) == pytest.approx(1.007285, abs=5e-7)
    assert float(data.said) == pytest.approx(0.84702, abs=5e-6)
    np.testing.assert_allclose(data.above[:4], [2, 2.165, 4.847, 642], rtol=1e-3)
    np.testing.assert_allclose(data.below[:3], [2, 1.845, 0.699], rtol=1e-3)
    np.testing.assert_allclose(data.printed[:5], [2, 0.476, 0.388, 0.406, 0.405], atol=6e-4)
    assert float(data.printed[-1]) == pytest.approx(math.log(1.5), abs=1e-6)


@pytest.mark.parametrize(("eta", "decay"), [(0.05, 0.05), (0.1, 0.05), (0.5, 0.02)])
def test_twins_on_a_quotient_agree_to_rounding(eta, decay):
    loss = scale_invariant.Quotient(np.array([1.0, 0.5, 0.2, 0.1, 0.0]))
    schedule = schedule_without_decay(eta, decay, 200)
    w = twin = np.arange(1.0, 6.0)
    for t in range(200):
        w, twin = (1 - eta * decay) * w - eta * loss.gradient(w), twin - schedule.lr[t] * loss.gradient(twin)
        assert np.abs(schedule.scale[t + 1] * twin - w).max() < 1e-12


def test_times_of_the_main_theorem(outcome):
    data = outcome("book/thm-13.4.2")[0]
    assert data.bound.sel(start=[1e-3, 10, 1e3]).values.tolist() == [86342, 35762, 81814]
    assert float(data.floor) == pytest.approx(19.79, abs=0.005)


def test_the_repaired_proof_closes(measured):
    assert measured("book/lem-13.4.9", "repaired-constant") == pytest.approx(0.814, abs=1e-3)


def test_gradients_and_smoothness_of_the_losses():
    random = np.random.default_rng(1)
    losses = scale_invariant.three_losses(random, 4, 30)
    w = random.normal(size=(3, 4))
    for loss in losses.values():
        g = loss.gradient(w)
        np.testing.assert_allclose((w * g).sum(-1), 0, atol=1e-14)
        for i, e in enumerate(1e-6 * np.eye(4)):
            np.testing.assert_allclose((loss.value(w + e) - loss.value(w - e)) / 2e-6, g[:, i], atol=1e-8)
    assert losses["quotient"].smoothness == pytest.approx(2 * np.ptp(losses["quotient"].spectrum))
    b = losses["cosine"].direction
    angles = np.linspace(0, np.pi, 2001)
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    flat = scale_invariant.Cosine(np.array([np.linalg.norm(b), 0.0]))
    bend = jax.jit(jax.vmap(jax.hessian(lambda w: w[0] * flat.direction[0] / jnp.linalg.norm(w))))(points)
    assert np.linalg.norm(bend, 2, axis=(1, 2)).max() == pytest.approx(flat.smoothness, rel=1e-6)
    assert flat.smoothness == pytest.approx(losses["cosine"].smoothness)


def test_a_path_obeys_pythagoras():
    loss = scale_invariant.Cosine(np.array([1.0, 2.0]))
    path = scale_invariant.descend(loss, np.array([[3.0, -1.0]]), 0.3, 0.2, 5)
    after = (1 - 0.06) ** 2 * path.square[:-1] + 0.09 * path.gradient[:-1] / path.square[:-1]
    np.testing.assert_allclose(path.square[1:], after, rtol=1e-12)
    assert (np.diff(path.loss[:, 0]) < 0).all()


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("book/prob-13.1.1", {"factors": (5,)}, "factors: must be even"),
        ("book/prob-13.1.1", {"starts": (0.3, 2.0)}, "starts: must be above the minimiser"),
        ("book/prob-13.1.1", {"wrong": 4}, "wrong: must be below right"),
        ("book/lem-13.2.3", {"width": 7}, "width: must be even"),
        ("book/equilibrium-layers", {"data": "letters"}, "data: must be one of"),
        ("book/equilibrium-layers", {"samples": 100, "batch": 200}, "batch: must be at most"),
        ("book/thm-13.4.6", {"products": (0.6,)}, "products: must be"),
    ],
)
def test_settings_without_a_meaning_are_refused(id, options, message):
    from secant import lab

    with pytest.raises(ValueError, match=message):
        lab.get(id).config("smoke", **options)
