"""At infinite width a catapult knows its start by a phase only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.theory.catapult import scaling as cs
from secant.theory.catapult.infinite_width import small_excess_orders, wide_limit, wide_network_limit
from secant.theory.regression.quadratic_model import TwoLayer, gated_bilinear, two_layer, two_layer_init


def test_wide_models_peak_and_end_within_the_band_of_the_phases():
    limit = jax.jit(wide_limit)(1.0)
    for width in (1e6, 1e8):
        found = cs.catapult_outcome(np.geomspace(0.3, 2, 40) / np.sqrt(width), 3.0)
        assert float(limit.peak.min()) * (1 - 1e-3) < float(found.peak.min())
        assert float(found.peak.max()) < float(limit.peak.max()) * (1 + 1e-3)
        assert float(limit.curvature.min()) - 1e-3 < float(found.curvature.min())
        assert float(found.curvature.max()) < float(limit.curvature.max()) + 1e-3


def test_a_step_later_the_orbit_is_the_same():
    peaks = np.asarray(wide_limit(jnp.array([0.5, 1.0]), phases=64).peak)
    # The first and the last phase are neighbours on a circle.
    assert np.all(np.abs(peaks[:, 0] - peaks[:, -1]) < 2 * np.abs(np.diff(peaks, axis=1)).max(axis=1))


@pytest.mark.parametrize(("gated", "limit"), [(True, wide_limit), (False, wide_network_limit)])
def test_the_weights_of_a_wide_network_go_as_far(gated, limit):
    width, x = 20_000, jnp.ones(2)

    @jax.jit
    def distance_of(key):
        start = two_layer_init(key, width, 2)
        on = (start.u @ x >= 0).astype(float)

        def output(p):
            return gated_bilinear(p, on, x) if gated else two_layer(p, x)

        gradient = jax.grad(output)
        curvature = sum(jnp.sum(g**2) for g in gradient(start))
        target = output(start) - 0.7

        def move(_, p):
            slope, residual = gradient(p), output(p) - target
            return TwoLayer(*(w - 3.0 / curvature * residual * g for w, g in zip(p, slope, strict=True)))

        end = jax.lax.fori_loop(0, 100, move, start)
        return jnp.sqrt(sum(jnp.sum((a - b) ** 2) for a, b in zip(end, start, strict=True)) / (width * curvature))

    distance = distance_of(jax.random.key(1))
    band = jax.jit(limit)(1.0).distance
    assert float(band.min()) - 0.02 < float(distance) < float(band.max()) + 0.02


def test_the_orders_after_the_first_are_those_of_the_series():
    peak, end = small_excess_orders()
    assert peak == pytest.approx(1 / 3, abs=1e-3)
    assert end == pytest.approx(2 / 3, abs=1e-3)
