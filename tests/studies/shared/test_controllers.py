"""What the study of controllers compares: schedules, runs that diverge, and step sizes chosen by validation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import get
from secant.studies.shared.catapults.controllers import SCHEDULES, Setting, draw, network_for, runs, scheduled, tuned


def test_schedules_are_what_their_names_say():
    sizes = {}
    for number, name in enumerate(SCHEDULES[:3]):
        schedule = dict(scheduled(100)(jnp.float32(2.0), number).settings)["lr"]
        sizes[name] = np.array([float(schedule(step)) for step in (0, 4, 9, 50, 100)])
    np.testing.assert_allclose(sizes["constant"], 2.0)
    np.testing.assert_allclose(sizes["warm-up"], [0.2, 1.0, 2.0, 2.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(sizes["cosine"], 1 + np.cos(np.pi * np.array([0, 4, 9, 50, 100]) / 100), atol=1e-6)


def test_a_run_that_diverges_is_worth_a_guess():
    setting = Setting("rank-2", width=16, samples=20, held_out=30, dim=4, batch=10, steps=20, look=10)
    net = network_for(setting)
    draws = jax.tree.map(lambda *leaves: np.stack(leaves), *(draw(net, setting, seed) for seed in (0, 1)))
    found = runs(net, setting, scheduled(20), [0.1, 1e3], [0], draws, "test").isel(variant=0)
    assert (found.outcome.isel(ratio=1) == Outcome.DIVERGED).all()
    np.testing.assert_allclose(found.score.isel(ratio=1), np.var(draws.y_test, axis=1), rtol=1e-6)
    assert np.isinf(found.valid.isel(ratio=1)).all()
    assert (found.outcome.isel(ratio=0) == Outcome.UNFINISHED).all()
    np.testing.assert_allclose(tuned(found), found.score.isel(ratio=0))


def test_step_sizes_are_chosen_by_validation_and_not_by_the_test():
    data = xr.Dataset(
        {
            "valid": (("seed", "ratio"), [[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]]),
            "score": (("seed", "ratio"), [[0.1, 0.5, 0.2], [0.7, 0.0, 0.0]]),
        }
    )
    np.testing.assert_array_equal(tuned(data), [0.5, 0.7])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedules": ("constant", "linear")}, "schedules: there is no linear"),
        ({"schedules": ("constant",)}, "schedules: must have 'below critical' and another to compare"),
        ({"ratios": (1.0,)}, "ratios: needs at least 2 values"),
        ({"catapults": (0, 2, 1)}, "catapults: every value must be larger than the one before"),
        ({"tasks": ("nonsense",)}, "tasks: there is no 'nonsense'"),
        ({"tasks": ("rank-3",), "dim": 9}, "dim: must be at least 10 for rank-3"),
        ({"look": 121}, "look: must be at most the number of steps, 120"),
    ],
)
def test_options_that_make_no_comparison_are_refused(options, message):
    study = get("thesis/controller")
    with pytest.raises(ValueError, match=message):
        study.config("smoke", **options)
