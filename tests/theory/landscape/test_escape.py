"""Escape from saddle points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secant.theory.landscape import escape


def test_the_volume_of_the_stuck_region():
    found = [escape.stuck_volume(d) for d in (1, 2, 10, 100)]
    np.testing.assert_allclose(found, [0.5, 0.63662, 1.29345, 3.99941], atol=5e-6)


@given(st.integers(1, 10**6))
def test_its_bounds_by_roots(d):
    found = escape.stuck_volume(d)
    assert (d / (2 * np.pi)) ** 0.5 < found * (1 + 1e-9)
    assert found < ((d + 1) / (2 * np.pi)) ** 0.5 * (1 + 1e-9)
    assert found < (d / np.pi) ** 0.5


@given(st.integers(1, 300), st.floats(0, 2), st.floats(-1, 1))
def test_a_slab_holds_less_than_its_bound_and_most_at_the_centre(d, width, offset):
    share, middle = escape.slab_share(width, d, offset), escape.slab_share(width, d)
    assert share <= middle + 1e-12
    assert middle <= escape.stuck_chance(width, 1.0, d) + 1e-12


def test_a_slab_is_that_of_random_points():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 5))
    x *= (rng.uniform(size=40_000) ** 0.2 / np.linalg.norm(x, axis=1))[:, None]
    share = np.mean(np.abs(x[:, 0] - 0.2) < 0.15)
    assert share == pytest.approx(float(escape.slab_share(0.3, 5, 0.2)), abs=3.3 * (0.25 / 40_000) ** 0.5)
    assert escape.slab_share(2.0, 7) == pytest.approx(1)
    assert float(escape.slab_share(1e-6, 7)) == pytest.approx(1e-6 * escape.stuck_volume(7), rel=1e-6)


def test_steps_a_decade_and_separation():
    assert escape.steps_per_decade(0.05, 1.0) == pytest.approx(47.19, abs=0.005)
    steps = np.array([0, 10])
    np.testing.assert_allclose(escape.separation(steps, 0.05, 1.0, 1e-3), 5e-5 * 1.05**steps)


def test_who_has_not_come_down_has_not_come_far():
    x, values = [np.array([1.0, 1.0])], []
    curvature = np.array([1.0, -0.5])
    for _ in range(20):
        values.append(curvature @ x[-1] ** 2 / 2)
        x.append(x[-1] - 0.9 * curvature * x[-1])
    for t in range(1, 20):
        bound = escape.improve_or_localize(0.9, t, values[0] - values[t])
        assert max(np.linalg.norm(x[s] - x[0]) for s in range(t + 1)) <= bound


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(ValueError, match="`dim`"):
        escape.stuck_volume(0)
    with pytest.raises(ValueError, match="`width`"):
        escape.slab_share(-1.0, 3)
    with pytest.raises(ValueError, match="`curvature`"):
        escape.steps_per_decade(0.1, 0.0)
    with pytest.raises(ValueError, match="`radius`"):
        escape.stuck_chance(1.0, 0.0, 3)
