"""Tangent kernels of random ReLU networks: their mean and mean square at every width, and far and deep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.lab import estimate
from secant.lab.verdicts.estimate import miss
from secant.theory.wide import relu_kernel as rk
from secant.theory.wide import relu_paths as rp


def test_the_kernel_is_the_squared_gradient():
    random, widths = np.random.default_rng(0), (3, 5, 4)
    weights, x = rp.draw_weights(random, widths, 1), np.array([0.3, -1.0, 2.0])
    scales = [np.sqrt(2 / n) for n in widths]

    def output(unit):
        h = jnp.asarray(x)
        for layer, scale in zip(unit[:-1], scales, strict=False):
            h = jax.nn.relu(scale * layer @ h)
        return (scales[-1] * unit[-1] @ h)[0]

    slopes = jax.jit(jax.grad(output))([layer[0] / scale for layer, scale in zip(weights, scales, strict=True)])
    np.testing.assert_allclose(rk.kernel_draws(weights, x)[0], [np.sum(np.asarray(s) ** 2) for s in slopes], rtol=1e-12)


@pytest.mark.parametrize("widths", [(3, 6), (3, 6, 8), (4, 15, 12, 15)])
def test_mean_and_mean_square_are_those_of_random_networks(widths):
    random, x = np.random.default_rng(1), np.arange(1.0, widths[0] + 1)
    kernels = np.concatenate([rk.kernel_draws(rp.draw_weights(random, widths, 10_000), x).sum(1) for _ in range(4)])
    norm = np.linalg.norm(x)
    for predicted, samples in ((rk.kernel_mean(widths, norm), kernels), (rk.kernel_square(widths, norm), kernels**2)):
        value, error, freedom = estimate(samples)
        assert abs(value - predicted) <= miss(freedom) * error
        assert error < 0.03 * predicted


def test_every_layer_has_the_same_share():
    shares = rk.kernel_draws(rp.draw_weights(np.random.default_rng(2), (2, 9, 7, 8), 30_000), np.array([1.0, 1.0]))
    for share in shares.T:
        value, error, freedom = estimate(share)
        assert abs(value - 2) <= miss(freedom) * error


@pytest.mark.parametrize(
    ("ratio", "width", "exact", "limit"),
    [(0.02, 2000, 1.0758, 1.0766), (0.1, 1000, 1.4552, 1.4583), (0.5, 600, 7.680, 7.760), (1.0, 600, 75.43, 76.97)],
)
def test_the_spread_at_a_ratio_of_depth_to_width(ratio, width, exact, limit):
    widths = (1,) + (width,) * round(ratio * width)
    assert rk.kernel_square(widths) / rk.kernel_mean(widths) ** 2 == pytest.approx(exact, rel=7e-5)
    assert rk.kernel_spread(ratio) == pytest.approx(limit, rel=5e-5)


def test_the_spread_begins_as_eleven_thirds_and_is_smooth_where_it_changes_its_form():
    assert (rk.kernel_spread(1e-6) - 1) / 1e-6 == pytest.approx(11 / 3, rel=1e-4)
    below, above = rk.kernel_spread(np.array([1e-3 * (1 - 1e-9), 1e-3 * (1 + 1e-9)]))
    assert below == pytest.approx(above, rel=1e-10)
    with pytest.raises(ValueError, match="`ratio`"):
        rk.kernel_spread(0.0)
