"""Solutions of least divergence, of least norm, and the stagewise path."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import lars_path

from secant.theory.bias import interpolants, potentials

X3, Y3 = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])


def problem(seed, n=4, d=9, positive=False, sparse=False):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    w = np.exp(w) if positive else w
    if sparse:
        w[2:] = 0
    return X, X @ w


D = np.random.default_rng(1).normal(size=(9, 9))
CASES = {
    "entropy": potentials.entropy(),
    "diagonal": potentials.quadratic(np.arange(1.0, 10.0)),
    "matrix": potentials.quadratic(D @ D.T + np.eye(9)),
    "l4/3": potentials.lp(4 / 3),
    "l1.05": potentials.lp(1.05),
    "hypentropy": potentials.hypentropy(0.1),
    "small": potentials.hypentropy(1e-8),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
def test_the_dual_of_the_solution_is_in_the_span_of_the_samples(name, seed, n):
    potential = CASES[name]
    X, y = problem(seed, n, positive=name == "entropy")
    start = np.exp(np.random.default_rng(seed + 1).normal(size=9)) if name == "entropy" else None
    found = interpolants.bregman_projection(X, y, potential, start)
    assert found.steps <= 50
    np.testing.assert_allclose(X @ found.weights, y, atol=1e-9 * np.abs(y).max())
    begin = potential.gradient(potential.inverse(np.zeros(9)) if start is None else start)
    # In the dual, where each coordinate's own rounding counts.
    np.testing.assert_allclose(potential.inverse(begin + found.multipliers @ X), found.weights, atol=1e-8)
    # Nearer than any other solution.
    away = np.linalg.svd(X)[2][-1] * 1e-2 * np.abs(found.weights).min()
    begin = potential.inverse(begin)
    at = [potential.divergence(w, begin) for w in (found.weights, found.weights + away, found.weights - away)]
    assert at[0] <= min(at[1:]) + 1e-12 * abs(at[0])


def test_closed_forms():
    X, y = problem(0)
    diagonal = np.arange(1.0, 10.0)
    inverse = X.T / diagonal[:, None]
    found = interpolants.bregman_projection(X, y, potentials.quadratic(diagonal)).weights
    np.testing.assert_allclose(found, inverse @ np.linalg.solve(X @ inverse, y), atol=1e-13)
    start = np.arange(9.0)
    found = interpolants.bregman_projection(X, y, potentials.lp(2), start).weights
    np.testing.assert_allclose(found, start + np.linalg.pinv(X) @ (y - X @ start), atol=1e-13)


def test_matrices_by_spectral_entropy():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(4, 5, 5)), rng.normal(size=(5, 5))
    y = np.einsum("nij,ij->n", A, B @ B.T)
    found = interpolants.bregman_projection(A, y, potentials.spectral_entropy())
    np.testing.assert_allclose(np.einsum("nij,ij->n", A, found.weights), y, atol=1e-10)
    even = (A + A.transpose(0, 2, 1)) / 2
    dual = potentials.spectral_entropy().gradient(found.weights)
    np.testing.assert_allclose(dual, np.einsum("n,nij->ij", found.multipliers, even), atol=1e-9)
    # Of diagonal matrices it is the entropy of their diagonals.
    X, y = problem(3, 2, 4, positive=True)
    diagonal = interpolants.bregman_projection(X[:, :, None] * np.eye(4), y, potentials.spectral_entropy()).weights
    np.testing.assert_allclose(
        np.diag(diagonal), interpolants.bregman_projection(X, y, potentials.entropy()).weights, atol=1e-11
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), sparse=st.booleans(), wide=st.sampled_from([1, 4]))
def test_at_most_fifty_steps_down_to_the_smallest_scale(seed, n, sparse, wide):
    X, y = problem(seed, wide * n, wide * 9, sparse=sparse)
    least = interpolants.min_norm(X, y, 1)
    alphas = np.array([1, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12])
    found = interpolants.bregman_projection(X, y, potentials.hypentropy(alphas[:, None]))
    assert found.steps <= 50
    assert found.residual.max() < 1e-9 * np.abs(y).max()
    assert np.abs(found.weights[-2:]).sum(1).max() < np.abs(least).sum() * (1 + 0.15)
    flat = interpolants.bregman_projection(X, y, potentials.hypentropy(1e6))
    np.testing.assert_allclose(flat.weights, np.linalg.pinv(X) @ y, atol=1e-9)


def test_axes_are_solved_together():
    X, y = problem(5)
    alphas, starts = np.geomspace(1e-6, 10, 5), np.random.default_rng(2).normal(size=(2, 1, 9))
    found = interpolants.bregman_projection(X, y, potentials.hypentropy(alphas[:, None]), starts)
    assert found.weights.shape == (2, 5, 9)
    assert found.multipliers.shape == (2, 5, 4)
    for i, j in np.ndindex(2, 5):
        one = interpolants.bregman_projection(X, y, potentials.hypentropy(alphas[j]), starts[i, 0])
        np.testing.assert_allclose(found.weights[i, j], one.weights, atol=1e-9)
    several = interpolants.bregman_projection(X, np.stack([y, 2 * y]), potentials.lp(1.5))
    np.testing.assert_allclose(several.weights[1], 2 * several.weights[0], atol=1e-9)


def test_repeated_dependent_and_zero_samples_change_nothing():
    X, y = problem(6)
    more = np.vstack([X, X[:1], X[1:2] + X[2:3], np.zeros((1, 9))])
    longer = np.concatenate([y, y[:1], y[1:2] + y[2:3], [0.0]])
    for potential in (potentials.hypentropy(0.01), potentials.lp(1.5)):
        one, other = (interpolants.bregman_projection(*data, potential) for data in ((X, y), (more, longer)))
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-11)
        np.testing.assert_allclose(one.multipliers @ X, other.multipliers @ more, atol=1e-9)
    # Equal columns get equal weights.
    found = interpolants.bregman_projection(np.hstack([X, X]), y, potentials.hypentropy(1e-6)).weights
    np.testing.assert_allclose(found[:9], found[9:], atol=1e-12)
    zero = interpolants.bregman_projection(X, 0 * y, potentials.hypentropy(1.0))
    assert (zero.steps, zero.weights.tolist()) == (0, [0.0] * 9)


def test_least_norms_of_the_small_example():
    exact = {
        1: (0, 5, -4),
        4 / 3: (0.000230, 4.999885, -4.000115),
        2: (1 / 3, 29 / 6, -25 / 6),
        math.inf: (1, 4.5, -4.5),
    }
    for p, weights in exact.items():
        np.testing.assert_allclose(interpolants.min_norm(X3, Y3, p), weights, atol=1e-6)
    assert np.linalg.norm(interpolants.min_norm(X3, Y3, 4 / 3), 4 / 3) == pytest.approx(7.583651, abs=1e-6)
    np.testing.assert_allclose(interpolants.min_norm(X3, Y3, 1 + 1e-9), (0, 5, -4), atol=1e-6)
    np.testing.assert_allclose(interpolants.min_norm(X3, Y3, 1e4), (1, 4.5, -4.5), atol=1e-3)
    assert interpolants.min_norm(X3, 0 * Y3, 1.5).tolist() == [0, 0, 0]


EXPONENTS = [1, 1 + 1e-9, 1 + 1e-6, 1.0001, 1.001, 1.01, 1.3, 2, 3, 20, 1e3, 1e6, 1e9, math.inf]


def degenerate(seed, n, kind):
    """Data of which the linear programs at both ends have ties, or corners with more constraints than they need."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 9)), rng.normal(size=9)
    if kind in ("sparse", "signs"):
        w[max(1, n // 2) :] = 0
    if kind == "signs":
        X = np.sign(X)
    if kind == "whole":
        X, w = np.rint(X), np.rint(w)
    if kind == "twice":
        X, w = np.hstack([X, X]), np.hstack([w, w])
    return X, X @ w


def size(v, p):
    top = np.abs(v).max(initial=0.0)
    return top if p == math.inf or top == 0 else top * ((np.abs(v) / top) ** p).sum() ** (1 / p)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    kind=st.sampled_from(["plain", "sparse", "signs", "whole", "twice"]),
    p=st.sampled_from(EXPONENTS) | st.floats(-9, -3).map(lambda e: 1 + 10**e) | st.floats(3, 9).map(lambda e: 10**e),
)
def test_the_least_norm_is_proved_for_every_exponent(seed, n, kind, p):
    X, y = degenerate(seed, n, kind)
    found = interpolants.least_norm(X, y, p)
    np.testing.assert_allclose(X @ found.weights, y, atol=1e-9 * np.abs(y).max())
    assert found.norm == pytest.approx(size(found.weights, p), rel=1e-12)
    if np.any(y):
        q = {1: math.inf, math.inf: 1}.get(p) or p / (p - 1)
        assert size(found.multipliers @ X, q) == pytest.approx(1, rel=1e-9)
        assert found.multipliers @ y == pytest.approx(found.norm, rel=1e-11)  # every other solution is above this
    assert found.gap < 1e-11


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), p=st.sampled_from(EXPONENTS))
def test_no_solution_has_a_smaller_norm(seed, n, p):
    X, y = problem(seed, n)
    w = interpolants.min_norm(X, y, p)
    np.testing.assert_allclose(X @ w, y, atol=1e-9 * np.abs(y).max())
    away = np.linalg.svd(X)[2][n:]
    others = w + 1e-2 * np.random.default_rng(seed).normal(size=(20, 9 - n)) @ away
    assert size(w, p) <= min(size(other, p) for other in others) + 1e-9


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 7))
def test_exponents_near_one_and_large_ones_have_the_limits_of_the_linear_programs(seed, n):
    """Where these have one solution, as random data do; the norms themselves differ by a power of the dimension."""
    X, y = problem(seed, n)
    for p, near in ((1 + 1e-9, 1), (1e9, math.inf)):
        one, limit = interpolants.least_norm(X, y, p), interpolants.least_norm(X, y, near)
        assert one.norm == pytest.approx(limit.norm, rel=9 ** (1e-9) - 1 + 1e-12)
    np.testing.assert_allclose(
        interpolants.min_norm(X, y, 1 + 1e-9), interpolants.min_norm(X, y, 1), atol=1e-5 * np.abs(y).max()
    )


def test_of_several_solutions_of_least_1_norm_the_limit_has_the_largest_entropy():
    """Four equal columns and one of half the length that no solution needs: each of the four has a quarter."""
    X, y = np.array([[1.0, 1.0, 1.0, 1.0, 0.5]]), np.array([4.0])
    np.testing.assert_allclose(interpolants.min_norm(X, y, 1 + 1e-9), [1, 1, 1, 1, 0], atol=1e-6)
    # Two equations with a line of solutions: w + t (1, 1, -1, -1), all positive, and the largest entropy on it.
    X, y = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]]), np.array([7.0, 1.0, 3.0])
    w = interpolants.min_norm(X, y, 1 + 1e-9)
    line = np.linalg.svd(X)[2][-1]
    assert w.min() > 0
    assert line @ np.log(w) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("p", [1 + 1e-9, 1.0001, 1.05])
def test_mirror_descent_with_a_norm_near_the_first(p):
    X, y = problem(3)
    potential = potentials.lp(p)
    found = interpolants.bregman_projection(X, np.stack([y, 2 * y]), potential)
    np.testing.assert_allclose(found.weights[1], 2 * found.weights[0], atol=1e-6)
    np.testing.assert_allclose(found.weights[0], interpolants.min_norm(X, y, p), atol=1e-9)
    there = np.abs(found.weights[0]) > 1e-9
    dual = found.multipliers[0] @ X
    np.testing.assert_allclose(potential.gradient(found.weights[0])[there], dual[there], rtol=1e-7)
    # With a start the last digits of the dual decide.
    start = np.random.default_rng(0).normal(size=9)
    moved = interpolants.bregman_projection(X, y, potential, start)
    np.testing.assert_allclose(X @ moved.weights, y, atol=1e-8 * np.abs(y).max())
    there = np.abs(moved.weights) > 1e-6
    dual = potential.gradient(start) + moved.multipliers @ X
    np.testing.assert_allclose(potential.gradient(moved.weights)[there], dual[there], rtol=1e-6)
    with pytest.raises(ValueError, match="Leave out `start`"):
        interpolants.bregman_projection(X, y, potentials.lp(1 + 1e-15), start)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_stagewise_path_obeys_its_law(seed):
    X, y = problem(seed, 5, 7)
    path = interpolants.stagewise_path(X, y)
    np.testing.assert_allclose(X @ path.weights[-1], y, atol=1e-9)
    assert np.all(np.diff(path.correlation) < 0)
    for before, after, height in zip(path.weights, path.weights[1:], path.correlation, strict=False):
        correlation = X.T @ (y - X @ before)
        assert np.abs(correlation).max() == pytest.approx(height, rel=1e-8, abs=1e-10)
        moved = np.abs(after - before) > 0
        np.testing.assert_allclose(np.abs(correlation[moved]), height, rtol=1e-7, atol=1e-10)
        assert np.all(np.sign(after - before)[moved] == np.sign(correlation)[moved])
    assert path.length[-1] == pytest.approx(np.abs(np.diff(path.weights, axis=0)).sum())


def test_where_the_lasso_is_monotone_it_is_the_stagewise_path():
    seen = 0
    for seed in range(60):
        X, y = problem(seed, 5, 7)
        lasso = lars_path(X, y, method="lasso")[2].T
        path = interpolants.stagewise_path(X, y).weights
        if np.all(lasso[1:] * lasso[:-1] >= 0) and np.all(np.diff(np.abs(lasso), axis=0) > -1e-12):
            seen += 1
            np.testing.assert_allclose(path, lasso, atol=1e-9)
        else:
            assert np.abs(path[-1]).sum() > np.abs(lasso[-1]).sum() * (1 - 1e-9)
    assert seen >= 3


def test_small_steps_of_coordinate_descent_follow_the_path():
    X, y = problem(3, 3, 4)
    path, w, left, step = interpolants.stagewise_path(X, y), np.zeros(4), y, 1e-3
    for _ in range(int(path.length[-1] / step) + 1):
        correlation = X.T @ left
        j = np.argmax(np.abs(correlation))
        w[j] += step * np.sign(correlation[j])
        left = y - X @ w
    np.testing.assert_allclose(w, path.weights[-1], atol=0.02)


def test_tied_columns_share_or_take_turns_but_fit_the_same():
    X, y = problem(7, 3, 5)
    path = interpolants.stagewise_path(np.hstack([X, X]), y)
    np.testing.assert_allclose(
        path.weights[-1][:5] + path.weights[-1][5:], interpolants.stagewise_path(X, y).weights[-1], atol=1e-9
    )
    assert interpolants.stagewise_path(X, 0 * y).weights.tolist() == [[0.0] * 5]


def test_data_without_a_solution_is_refused_with_the_least_residual():
    X, y = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([0.0, 2.0])
    with pytest.raises(ValueError, match=r"no weights fit the data: the least length of Xw - y is 1\.41421"):
        interpolants.bregman_projection(X, y, potentials.hypentropy(0.1))
    with pytest.raises(ValueError, match="no weights fit the data"):
        interpolants.min_norm(X, y, 1)


@pytest.mark.parametrize("y", [[-1.0, 0.0], [0.0, 1.0], [1.0, 1.001]])
def test_data_without_a_positive_solution_is_refused_with_a_certificate(y):
    X, y = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), np.array(y)
    with pytest.raises(ValueError, match=r"no positive weights fit the data.*times its entry of nu"):
        interpolants.bregman_projection(X, y, potentials.entropy())
    found = interpolants.positive_solution("test", X, np.array([1.0, 0.5]))
    assert found.min() > 0
    np.testing.assert_allclose(X @ found, [1.0, 0.5], atol=1e-12)
    border = interpolants.bregman_projection(X, np.array([1.0, 1.0]), potentials.entropy()).weights
    np.testing.assert_allclose(border, [1, 0, 0], atol=1e-8)


def test_what_has_no_meaning_is_refused_by_name():
    X, y = problem(0)
    with pytest.raises(ValueError, match="`start` is not there"):
        interpolants.bregman_projection(X, y, potentials.entropy(), -np.ones(9))
    with pytest.raises(ValueError, match="`start` must have shape"):
        interpolants.bregman_projection(X, y, potentials.lp(1.5), np.zeros(3))
    for bad in (y[:2], np.float64(1.0)):
        with pytest.raises(ValueError, match="`y`"):
            interpolants.bregman_projection(X, bad, potentials.lp(1.5))
    with pytest.raises(ValueError, match="`X` must be finite"):
        interpolants.bregman_projection(X * np.nan, y, potentials.lp(1.5))
    for p in (0.5, math.nan):
        with pytest.raises(ValueError, match="`p`"):
            interpolants.min_norm(X, y, p)
    with pytest.raises(ValueError, match="`y`"):
        interpolants.min_norm(X, y[:2], 2)
    with pytest.raises(ValueError, match="`y`"):
        interpolants.stagewise_path(X, y[:2])


# By cvxpy 1.9.3 with Clarabel 0.11.1 at tolerances of 1e-12: `bench/peers/convex_agreement.py`; the row
# `convex_agreement` of `make bench` compares four random problems of each.
WHOLE = np.array([[3, -1, 2, 0, 1, -2, 1, 1], [1, 2, -1, 3, -2, 1, 0, 1], [-2, 1, 1, 1, 2, 0, 3, -1]], float)
TARGETS = WHOLE @ np.array([1, 2, 0.5, 1.5, 0.25, 1, 0.75, 3])
START = np.array([1, 2, 1, 0.5, 1, 0.5, 2, 1])
GOLDEN = [
    (
        potentials.entropy(),
        START,
        [1.80505772, 3.10927274, 0.4168311, 0.94800563, 0.24913598, 0.87437617, 0.68694694, 1.6731068],
    ),
    (
        potentials.quadratic(np.diag(np.arange(1.0, 9.0)) + 0.5),
        START,
        [2.16782969, 2.67418388, -0.24025597, 0.86325441, -0.02420135, 0.9232178, 1.33968087, 1.18216284],
    ),
    (
        potentials.lp(1.5),
        None,
        [1.30904331, 0.78526494, 0.045406, 2.91975037, -0.22198969, -0.0055884, 0.50994514, 0.46819073],
    ),
    (
        potentials.lp(1.5),
        START,
        [1.744319581, 2.630832579, 0.32920579, 1.185520967, 0.08228322, 0.868187464, 0.830516838, 1.563037126],
    ),
    (
        potentials.lp(4 / 3),
        None,
        [1.29322988, 0.41360386, 0.01690378, 3.3507806, -0.05045176, -0.00227168, 0.30052253, 0.24549254],
    ),
    (
        potentials.hypentropy(1.0),
        None,
        [1.26604196, 1.15264209, 0.16886304, 2.38098559, -0.59125461, 0.00262519, 0.84384938, 0.76944573],
    ),
    (
        potentials.hypentropy(0.1),
        None,
        [1.23699225, 0.15308743, 0.04316485, 3.61117183, -0.026717, -0.02253066, 0.20185776, 0.13557889],
    ),
]


@pytest.mark.parametrize(("potential", "start", "weights"), GOLDEN, ids=lambda case: getattr(case, "name", ""))
def test_convex_optimisation_finds_the_same(potential, start, weights):
    found = interpolants.bregman_projection(WHOLE, TARGETS, potential, start)
    np.testing.assert_allclose(found.weights, weights, atol=1e-6)


def test_convex_optimisation_finds_the_same_matrix():
    measured = np.array([[[2, 1, 0], [1, 0, -1], [0, -1, 1]], [[0, 0, 2], [0, 1, 1], [2, 1, -1]]], float)
    root = np.array([[1, 0, 1], [2, 1, 0], [0, 1, 1]], float)
    y = np.einsum("nij,ij->n", measured, root @ root.T)
    found = interpolants.bregman_projection(measured, y, potentials.spectral_entropy())
    wanted = [[2.972592175, 0.896005452, 1.825071169], [0.896005452, 1.96252007, 0.677317705]]
    np.testing.assert_allclose(found.weights[:2], wanted, atol=2e-6)
