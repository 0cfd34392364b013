"""Critical step sizes are where descent really turns unstable."""

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secant as sc
from secant.curvature import CriticalStep, stability_factor

matplotlib.use("Agg")
from matplotlib import pyplot

X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.random.default_rng(1).normal(size=8)
NET = sc.nets.mlp([6], activation="tanh")


@pytest.fixture(scope="module")
def params(drawn):
    return drawn(NET, X.shape, np.random.default_rng(2))


@pytest.fixture(scope="module")
def largest(params):
    """The largest eigenvalue of the tangent kernel."""
    with jax.enable_x64(True):
        return np.linalg.eigvalsh(sc.ntk(NET.apply, params, X).dense())[-1]


@pytest.fixture(scope="module")
def sharpness(params):
    """The largest eigenvalue of the Hessian of half the sum of squares."""
    with jax.enable_x64(True):
        return np.linalg.eigvalsh(sc.hessian(NET.apply, params, X, Y, "half_sum").dense())[-1]


@pytest.mark.parametrize("loss", ["half_sum", "mean_mse", "half_mean", "entry_mean"])
def test_both_values_are_those_of_dense_matrices(params, largest, sharpness, loss):
    step = sc.critical_lr(NET.apply, params, X, Y, loss)
    # The normalisation of the loss is in the formula: 2/lambda for half the sum, n/lambda for the mean, and so on.
    numerator = {"half_sum": 2, "mean_mse": 8, "half_mean": 16, "entry_mean": 8}[loss]
    assert step.sharpness == pytest.approx(2 * sharpness / numerator, rel=1e-8)
    assert step.exact == pytest.approx(numerator / sharpness, rel=1e-8)
    assert step.ntk == pytest.approx(numerator / largest, rel=1e-8)
    assert step.ratio == step.ntk / step.exact
    assert 0 <= step.error < 1e-8


def test_a_loss_that_is_not_squared_has_both_values_too(drawn):
    net = sc.nets.mlp([4], 3, activation="tanh")
    own = drawn(net, X.shape, np.random.default_rng(2))
    classes = np.arange(8) % 3
    step = sc.critical_lr(net.apply, own, X, classes, "cross_entropy")
    flat = np.linalg.eigvalsh(sc.gauss_newton(net.apply, own, X, classes, "cross_entropy").dense())[-1]
    assert step.ntk == pytest.approx(2 / flat, rel=1e-8)


def test_descent_falls_below_the_exact_value_and_rises_above_it():
    """On a quadratic the border is exact: a linear model and half the sum of squares."""
    w = np.random.default_rng(2).normal(size=3)

    def f(w, x):
        return x @ w

    step = sc.critical_lr(f, w, X, Y, "half_sum")
    assert step.ratio == pytest.approx(1, rel=1e-8)
    best = np.linalg.lstsq(X, Y, rcond=None)[0]
    for factor, falls in ((0.99, True), (1.01, False)):
        at = w.copy()
        for _ in range(1_000):
            at = at - factor * step.exact * X.T @ (X @ at - Y)
        assert (np.linalg.norm(at - best) < np.linalg.norm(w - best)) == falls


def descend(rule, step, momentum, steps=4_000):
    """The size of one coordinate of unit curvature after many steps."""
    at, velocity = 1.0, 0.0
    for _ in range(steps):
        if rule == "heavy ball":  # v <- beta v + g, theta <- theta - eta v
            velocity = momentum * velocity + at
            at -= step * velocity
        elif rule == "Nesterov":  # the gradient is taken ahead, at theta + beta * (theta - its last value)
            ahead = at + momentum * velocity
            moved = ahead - step * ahead
            at, velocity = moved, moved - at
        else:  # the form of Optax and PyTorch: v <- beta v + g, theta <- theta - eta (g + beta v)
            velocity = momentum * velocity + at
            at -= step * (at + momentum * velocity)
        if abs(at) > 1e6:
            break
    return abs(at)


@given(st.floats(0, 0.95))
@settings(max_examples=15, deadline=None)
def test_momentum_moves_the_border_to_where_the_rule_turns_unstable(momentum):
    for rule in ("heavy ball", "Nesterov", "Nesterov as Optax has it"):
        border = stability_factor(momentum, nesterov=rule != "heavy ball")
        assert descend(rule, 0.99 * border, momentum) < 1e-2, rule
        assert descend(rule, 1.01 * border, momentum) > 1e2, rule


def test_momentum_enters_both_values(params):
    plain = sc.critical_lr(NET.apply, params, X, Y, "half_sum")
    heavy = sc.critical_lr(NET.apply, params, X, Y, "half_sum", momentum=0.9)
    ahead = sc.critical_lr(NET.apply, params, X, Y, "half_sum", momentum=0.9, nesterov=True)
    assert heavy.exact / plain.exact == pytest.approx(1.9)
    assert heavy.ntk / plain.ntk == pytest.approx(1.9)
    assert ahead.exact / plain.exact == pytest.approx(1.9 / 2.8)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_momentum_must_be_a_fraction(params, momentum):
    with pytest.raises(ValueError, match=r"`momentum` must be at least 0 and below 1, got"):
        sc.critical_lr(NET.apply, params, X, Y, "half_sum", momentum=momentum)


def test_without_upward_curvature_every_step_is_stable():
    step = sc.critical_lr(lambda w, x: x @ w, np.ones(3), X, Y, lambda o, y: jnp.sum(o * y))
    assert step.exact == step.ntk == np.inf
    down = sc.critical_lr(lambda w, x: x @ w, np.ones(3), X, Y, lambda o, y: -jnp.sum(o**2))
    assert down.exact == np.inf
    assert down.sharpness < 0


def test_parameters_that_are_not_finite_are_an_error(params):
    broken = jax.tree.map(lambda leaf: leaf * np.inf, params)
    with pytest.raises(FloatingPointError, match=r"hessian\.top: a product is not finite"):
        sc.critical_lr(NET.apply, broken, X, Y, "half_sum")
    with pytest.raises(FloatingPointError, match="batch_critical_lr: the result is not finite"):
        sc.batch_critical_lr(NET.apply, broken, X, Y, "half_sum", [[0, 1]])


@pytest.mark.parametrize(("outputs", "loss", "known"), [(1, "half_sum", False), (2, "mean_mse", True)])
def test_batches_have_the_critical_step_of_their_own_kernel(outputs, loss, known, drawn):
    net = sc.nets.mlp([4], outputs, activation="tanh")
    own = drawn(net, X.shape, np.random.default_rng(2))
    f = net.apply if known else (lambda p, x: net.apply(p, x))
    y = np.zeros((8, 2)) if outputs == 2 else Y
    batches = np.array([[0, 1, 2], [5, 5, 7], [7, 3, 0]])
    steps = np.asarray(sc.batch_critical_lr(f, own, X, y, loss, batches))
    for rows, found in zip(batches, steps, strict=True):
        curvature = sc.losses.get(loss).curvature(y[rows])
        largest = np.linalg.eigvalsh(sc.ntk(net.apply, own, X[rows]).dense())[-1]
        assert found == pytest.approx(2 / (curvature * largest), rel=1e-10)
    heavy = sc.batch_critical_lr(f, own, X, y, loss, batches, momentum=0.5)
    np.testing.assert_allclose(heavy, 1.5 * steps, rtol=1e-12)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([[0, 8]], "`batches` names samples from 0 to 8, and `x` has samples 0 to 7"),
        ([[-1, 2]], "`batches` names samples from -1 to 2"),
        ([0, 1], r"integers of shape \(batches, samples\), got int64 of shape \(2,\)"),
        (np.zeros((0, 2), int), r"got int64 of shape \(0, 2\)"),
        ([[0.0, 1.0]], "got float64 of shape"),
    ],
)
def test_batches_must_name_samples(params, batches, message):
    with pytest.raises(ValueError, match=f"batch_critical_lr: `batches` .*{message.removeprefix('`batches` ')}"):
        sc.batch_critical_lr(NET.apply, params, X, Y, "half_sum", batches)


def test_batches_need_a_squared_loss_and_matching_targets(params):
    with pytest.raises(ValueError, match=r"`loss` must be one of the squared losses .*half_sum.*, got cross_entropy"):
        sc.batch_critical_lr(NET.apply, params, X, Y, "cross_entropy", [[0]])
    with pytest.raises(ValueError, match=r"batch_critical_lr: `y` has 3 samples and `x` has 8"):
        sc.batch_critical_lr(NET.apply, params, X, Y[:3], "half_sum", [[0]])


def test_by_the_kernel_in_a_loop_it_is_that_of_the_gauss_newton_matrix(drawn):
    """For several outputs and another curvature of the loss too, and batched."""
    net = sc.nets.mlp([12], outputs=3, activation="tanh")
    x = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    y = np.zeros((40, 3), np.float32)
    starts = [drawn(net, x.shape, np.random.default_rng(seed)) for seed in range(2)]
    starts = jax.tree.map(lambda leaf: leaf.astype(np.float32), starts)
    for loss in (sc.losses.entry_mean, sc.losses.half_sum):
        critical = sc.curvature.kernel_critical_lr(net.apply, loss)
        found = jax.jit(jax.vmap(critical, (0, None)))(jax.tree.map(lambda *leaves: np.stack(leaves), *starts), x)
        expected = [np.linalg.eigvalsh(sc.gauss_newton(net.apply, p, x, y, loss).dense())[-1] for p in starts]
        np.testing.assert_allclose(found, 2 / np.array(expected), rtol=1e-4)


@pytest.mark.parametrize(
    ("step", "marks", "words"),
    [
        (CriticalStep(0.1, 0.06, 20.0, 0.0), [0.1, 0.06], ["$2/", "= 0.06"]),
        (CriticalStep(0.19, 0.2, 20.0, 0.0), [0.19, 0.1, 0.2], ["$3.8/", "without momentum = 0.1", "= 0.2"]),
        (CriticalStep(np.inf, 0.06, -1.0, 0.0), [0.06], ["no direction curves upwards", "= 0.06"]),
        (CriticalStep(1e-5, np.inf, 2e5, 0.0), [1e-5], [r"= $10^{-5}$"]),
        (CriticalStep(np.inf, np.inf, 0.0, 0.0), [], ["no direction curves upwards"]),
    ],
)
def test_step_sizes_are_drawn_on_a_ruler(step, marks, words):
    ax = step.plot()
    ax.figure.canvas.draw()
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx(marks)
    shown = [text.get_text() for text in ax.texts]
    for word in words:
        assert any(word in text for text in shown), (word, shown)
    # The stable part ends at the border, and no two words stand on each other.
    assert ax.patches[0].get_width() == pytest.approx(min(step.exact, ax.get_xlim()[1]))
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert step.plot(pyplot.subplots()[1], look="dark").figure is not ax.figure
    pyplot.close("all")
