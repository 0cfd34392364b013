"""Bounds on Gaussian vectors and matrices, against draws and against cases that are known."""

import numpy as np
import pytest
from scipy import stats

from secant.theory.wide import gaussian_matrices as gm

LEVELS = np.array([0.5, 0.1, 0.02])
DRAWS, RADIUS = 4_000, 0.7


def rare_enough(sizes, bounds):
    """Not more often above the bound than allowed, but for four standard errors."""
    seen = (sizes[:, None] > bounds).mean(axis=0)
    return np.all(seen <= LEVELS + 4 * np.sqrt(LEVELS * (1 - LEVELS) / len(sizes)))


def test_the_bound_on_a_product_is_a_gaussian_tail():
    b = np.array([3.0, -4.0])
    allowed = gm.product_bound(b, LEVELS)
    assert np.all(2 * stats.norm.sf(allowed, scale=5.0) <= LEVELS)
    np.testing.assert_allclose(gm.product_bound(b, LEVELS, RADIUS) - allowed, 5 * RADIUS)


@pytest.mark.parametrize("rows", [2, 6])
def test_no_bound_is_exceeded_more_often_than_allowed(rows):
    random = np.random.default_rng(rows)
    terms = random.normal(size=(5, rows, 4))
    columns = gm.moved_norms(
        lambda a: np.einsum("nij,snj->sin", terms, a),
        lambda left, right: np.einsum("si,nij,sn->snj", left, terms, right),
        random.normal(size=(DRAWS, 5, 4)),
        RADIUS,
    )
    assert rare_enough(columns, gm.columns_bound(terms, LEVELS, RADIUS))
    images = gm.moved_images(terms[0], random.normal(size=(DRAWS, 4)), RADIUS)
    assert rare_enough(images, gm.image_bound(terms[0], LEVELS, RADIUS))
    series = gm.moved_norms(
        lambda a: np.tensordot(a, terms, 1),
        lambda left, right: np.einsum("si,kij,sj->sk", left, terms, right),
        random.normal(size=(DRAWS, 5)),
        RADIUS,
    )
    assert rare_enough(series, gm.series_bound(terms, LEVELS, RADIUS))


def test_the_variance_of_a_diagonal_series_is_that_of_an_entry():
    terms = np.stack([np.diag(row) for row in np.eye(4)]) / 3
    assert gm.matrix_variance(terms) == pytest.approx(1 / 9)
    wide = np.ones((1, 2, 3))  # one matrix of norm sqrt(6)
    assert gm.matrix_variance(wide) == pytest.approx(6.0)
    assert float(gm.series_bound(terms, 0.05, 2.0)) == pytest.approx(np.sqrt(2 / 9 * np.log(8 / 0.05)) + 2 / 3)


def test_a_move_lengthens_by_as_much_as_it_can():
    """Along the leading singular vector the image of a move is as long as the norm; nothing is longer."""
    random = np.random.default_rng(0)
    matrix, drawn = random.normal(size=(3, 4)), random.normal(size=(50, 4))
    before, after = np.linalg.norm(drawn @ matrix.T, axis=1), gm.moved_images(matrix, drawn, RADIUS)
    assert np.all(after > before)
    assert np.all(after <= before + RADIUS * np.linalg.norm(matrix, 2) + 1e-12)
    across = random.normal(size=(50, 4))
    across *= RADIUS / np.linalg.norm(across, axis=1, keepdims=True)
    assert np.all(np.linalg.norm((drawn + across) @ matrix.T, axis=1) <= after + RADIUS**2 * np.linalg.norm(matrix, 2))


def test_the_norm_of_one_gaussian_times_a_matrix_moves_with_it():
    matrix, drawn = np.diag([2.0, 1.0]), np.array([[1.0], [-3.0]])
    moved = gm.moved_norms(
        lambda a: a[:, :, None] * matrix,
        lambda left, right: np.einsum("si,ij,sj->s", left, matrix, right)[:, None],
        drawn,
        0.5,
    )
    np.testing.assert_allclose(moved, [3.0, 7.0])
