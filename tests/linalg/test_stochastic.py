"""Random vectors give traces, norms and densities within the errors they state."""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.linalg import Density
from secant.linalg.stochastic import gaussian_density, hutchinson

matplotlib.use("Agg")
from matplotlib import pyplot

SIZE = 40
VALUES = np.random.default_rng(0).normal(size=SIZE)


def moments(density, powers):
    """The moments of the quadrature, for each random vector."""
    return [np.sum(density.weights * density.nodes**power, axis=1) for power in powers]


def test_estimates_come_within_their_errors(symmetric, hide):
    operator = hide(symmetric(VALUES))
    deviations = []
    for seed in range(20):
        key = jax.random.key(seed)
        trace, norm = operator.trace(probes=30, key=key), operator.frobenius(probes=30, key=key)
        deviations.append(
            [(trace.value - VALUES.sum()) / trace.error, (norm.value - np.linalg.norm(VALUES)) / norm.error]
        )
    deviations = np.array(deviations)
    assert np.all(np.abs(deviations) < 4)
    # The errors are neither too small nor too large: 20 standard normals have a variance of 1 up to 4 * sqrt(2/19).
    assert np.all(np.abs(np.mean(deviations**2, axis=0) - 1) < 4 * np.sqrt(2 / 19))


@pytest.mark.parametrize("what", ["trace", "frobenius"])
def test_the_stated_error_is_the_spread_of_repeated_estimates(symmetric, what):
    # A spectrum on both sides of zero, whose diagonal says little about the rest.
    matrix = jnp.asarray(symmetric(VALUES))
    keys = jax.random.split(jax.random.key(0), 3000)
    draw = partial(hutchinson, what, lambda v: matrix @ v, jnp.zeros(SIZE), probes=6, exact=False)
    values, errors = map(np.asarray, jax.jit(lambda keys: jax.lax.map(draw, keys, batch_size=500))(keys))
    # A standard deviation of 3,000 draws is known to 1.3 percent; the root of a mean square is curved, which adds
    # terms of one over the number of vectors.
    curved = 0.0 if what == "trace" else 0.02
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.05 + curved)
    diagonal = np.diag(matrix)
    if what == "trace":  # known in closed form: 2 (|A|_F^2 - sum of the squared diagonal) a vector of signs
        true = np.sqrt(2 * (np.sum(VALUES**2) - np.sum(diagonal**2)) / 6)
        assert values.std() == pytest.approx(true, rel=0.05)
        assert values.mean() == pytest.approx(VALUES.sum(), abs=4 * true / np.sqrt(3000))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_enough_vectors_make_it_exact(symmetric, hide, dtype):
    operator = hide(symmetric(VALUES), dtype)
    for probes in (SIZE, 5 * SIZE):
        trace, norm = operator.trace(probes=probes), operator.frobenius(probes=probes)
        assert trace.error == norm.error == 0
        np.testing.assert_allclose(trace.value, VALUES.sum(), atol=100 * np.finfo(dtype).eps)
        np.testing.assert_allclose(norm.value, np.linalg.norm(VALUES), rtol=100 * np.finfo(dtype).eps)


def test_one_vector_cannot_tell_its_error(symmetric, hide):
    assert hide(symmetric(VALUES)).trace(probes=1).error == np.inf


def test_the_same_key_gives_the_same_number_and_another_does_not(symmetric, hide):
    operator = hide(symmetric(VALUES))
    first, again, other = (operator.trace(probes=5, key=jax.random.key(k)).value for k in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("width", [None, 0.3])
def test_a_density_integrates_to_one(symmetric, hide, width):
    density = hide(symmetric(VALUES)).density(degree=10, probes=4, width=width)
    assert np.trapezoid(density.values, density.grid) == pytest.approx(1, abs=1e-6)
    assert density.values.min() >= 0
    assert density.grid.shape == density.values.shape == (512,)
    assert density.nodes.shape == density.weights.shape == (4, 10)
    np.testing.assert_allclose(density.weights.sum(axis=1), 1, rtol=1e-12)


def test_its_moments_are_traces_of_powers(symmetric, hide):
    density = hide(symmetric(VALUES)).density(degree=10, probes=100)
    for power, found in enumerate(moments(density, range(1, 7)), start=1):
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - np.mean(VALUES**power)) < 4 * error


def test_its_moments_are_exact_where_random_signs_are(hide):
    """For a diagonal matrix $v^T A^k v = tr A^k$ for every vector of signs; n Gauss nodes know 2n - 1 moments."""
    density = hide(np.diag(VALUES)).density(degree=6, probes=3)
    for power, found in enumerate(moments(density, range(12))):
        np.testing.assert_allclose(found, np.mean(VALUES**power), rtol=1e-9)


def test_as_many_nodes_as_dimensions_are_the_eigenvalues(hide):
    for degree in (SIZE, 10 * SIZE):
        density = hide(np.diag(VALUES)).density(degree=degree, probes=2)
        np.testing.assert_allclose(density.nodes, np.tile(np.sort(VALUES), (2, 1)), atol=1e-10)
        np.testing.assert_allclose(density.weights, 1 / SIZE, atol=1e-10)


@pytest.mark.parametrize(
    ("values", "extent"),
    [
        (np.zeros(SIZE), (-0.1, 0.1)),
        (np.full(SIZE, 5.0), (4.9, 5.1)),
        (np.r_[3.0, 2, np.zeros(SIZE - 2)], (-0.5, 3.5)),
        (np.array([2.0]), (1.9, 2.1)),
    ],
)
def test_a_krylov_space_that_ends_early_leaves_no_trace(symmetric, hide, values, extent):
    density = hide(symmetric(values)).density()
    assert np.trapezoid(density.values, density.grid) == pytest.approx(1, abs=1e-6)
    assert extent[0] < density.grid[0] <= values.min()
    assert values.max() <= density.grid[-1] < extent[1]
    for power, found in enumerate(moments(density, range(1, 4)), start=1):
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - np.mean(values**power)) <= 4 * error + 1e-12


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.floats(0.01, 10.0),
)
@settings(max_examples=50, deadline=None)
def test_smoothing_keeps_the_mass_and_the_mean(nodes, width):
    at = np.array([nodes])
    weights = np.full(at.shape, 1 / at.size)
    points = int(np.ptp(at) / width) + 20
    density = gaussian_density(at, weights, points=max(points, 512), width=width)
    assert np.trapezoid(density.values, density.grid) == pytest.approx(1, abs=1e-6)
    mean = np.trapezoid(density.values * density.grid, density.grid)
    assert mean == pytest.approx(at.mean(), abs=1e-4 + 1e-5 * np.abs(at).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0.0}, "density: `width` must be positive, got 0.0"),
        ({"width": float("nan")}, "density: `width` must be positive, got nan"),
        ({"width": 1e-4}, r"density: 512 `points` are too few for a `width` of 0.0001 .* Pass points=\d+ or more"),
        ({"points": 3}, "density: 3 `points` are too few"),
    ],
)
def test_a_density_that_cannot_be_drawn_is_refused(symmetric, hide, options, message):
    with pytest.raises(ValueError, match=message):
        hide(symmetric(VALUES)).density(degree=10, probes=4, **options)


def test_the_largest_eigenvalues_are_those_that_every_vector_sees(symmetric, hide):
    values = np.concatenate([np.linspace(0, 1, 30), [3.0, 5.0]])
    density = hide(symmetric(values)).density(degree=16)
    np.testing.assert_allclose(density.largest(2), [5.0, 3.0], atol=1e-6)
    assert density.width == pytest.approx(0.05, rel=1e-3)
    # Where two runs differ there is none, and below neither.
    nodes, even = np.array([[0.0, 4.0, 9.0], [0.0, 5.0, 9.0]]), np.full((2, 3), 1 / 3)
    assert gaussian_density(nodes, even).largest() == [9.0]
    # What has no weight is no eigenvalue.
    assert gaussian_density(nodes, np.array([[0.5, 0.5, 0.0]] * 2)).largest() == []


def test_a_density_draws_itself(symmetric, hide):
    density = hide(symmetric(np.concatenate([np.linspace(0, 1, 30), [3.0, 5.0]]))).density(degree=16)
    ax = density.plot(k=2)
    ax.figure.canvas.draw()
    curve, *marks = ax.lines
    np.testing.assert_array_equal(curve.get_ydata(), density.values)
    assert ax.get_yscale() == "log"
    np.testing.assert_allclose([mark.get_xdata()[0] for mark in marks], [5.0, 3.0], atol=1e-6)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["largest: 5, 3"]
    assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())
    # Every bump of weight is seen, and no more than eight decades.
    low, high = ax.get_ylim()
    assert low < np.interp([3.0, 5.0], density.grid, density.values).min()
    assert high / low <= 3.1e8
    _, own = pyplot.subplots()
    assert density.plot(own) is own
    pyplot.close("all")


def test_a_density_of_one_eigenvalue_draws_itself():
    density = Density(*gaussian_density(np.full((2, 1), 2.0), np.ones((2, 1))))
    ax = density.plot()
    ax.figure.canvas.draw()
    assert ax.get_legend().get_texts()[0].get_text() == "largest: 2"
    pyplot.close("all")
