"""Gradient flow in the logarithm of time."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from secant.dynamics import late_flow
from secant.theory.bias.margins import max_margin

X = np.array([[2.0, 1.0, 0.0], [1.0, 2.5, 1.0], [-3.0, -3.0, 2.0], [2.0, 4.0, -1.0]])
Y = np.array([1.0, 1.0, -1.0, 1.0])


def linear(w, x):
    return x @ w


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_it_is_the_flow_where_that_can_be_followed(loss):
    start, Z, times = np.array([0.3, -0.2, 0.1]), X * Y[:, None], np.array([1.0, 5.0, 20.0])
    slope = {"exponential": lambda m: np.exp(-m), "logistic": lambda m: 1 / (1 + np.exp(m))}[loss]
    plain = solve_ivp(lambda t, w: slope(Z @ w) @ Z, (0, 20.0), start, t_eval=times, rtol=1e-10, atol=1e-12).y.T
    late = late_flow(linear, start, X, Y, np.log(20.0), loss=loss, samples=np.log(times)).dataset
    np.testing.assert_allclose(late.theta, plain, atol=1e-6)
    np.testing.assert_allclose(late.margins, late.theta.values @ Z.T)
    each = np.exp if loss == "exponential" else lambda minus: np.log1p(np.exp(minus))
    np.testing.assert_allclose(np.exp(late.log_loss), each(-late.margins).sum("sample"), rtol=1e-10)
    np.testing.assert_allclose(late.norm, np.linalg.norm(late.theta, axis=1))


def test_time_times_loss_goes_to_the_inverse_square_of_the_margin():
    run = late_flow(linear, np.zeros(3), X, Y, 3e4)
    exact = max_margin(X * Y[:, None]).margin
    assert run.evaluations < 5_000
    assert run.degree == pytest.approx(1)
    assert np.exp(run.dataset.log_loss + run.dataset.log_time)[-1] == pytest.approx(exact**-2, rel=1e-6)
    assert run.dataset.margin[-1] == pytest.approx(exact, rel=1e-3)
    assert run.dataset.kkt[-1] < 1e-6


def test_parameters_are_a_tree_and_stay_in_float64():
    with jax.enable_x64(False):
        params = {"u": np.ones(3, np.float32), "v": np.full(3, 0.5, np.float32)}
        run = late_flow(lambda p, x: x @ (p["u"] * p["v"]), params, X, Y, 50.0, samples=5)
    assert run.params["u"].dtype == np.float64
    assert run.degree == pytest.approx(2)
    np.testing.assert_allclose(run.dataset.theta[-1], np.concatenate([run.params["u"], run.params["v"]]))
    # A margin is over the norm to the power of the degree.
    np.testing.assert_allclose(run.dataset.margin, run.dataset.margins.min("sample") / run.dataset.norm**2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": np.array([1.0, 0.0, 1.0, 0.0])}, "labels -1 and 1"),
        ({"until_log": -1.0}, "`until_log`"),
        ({"loss": "hinge"}, "exponential, logistic"),
        ({"samples": np.array([1.0, 0.5])}, "`samples` must be"),
        ({"f": lambda w, x: x @ w + 1.0}, "must be homogeneous.*Leave out biases"),
        ({"y": np.array([1.0, -1.0, 1.0, -1.0]), "x": np.ones((4, 3))}, "are not classified"),
        ({"params": np.ones(500), "x": np.ones((4, 500))}, "holds 500 numbers, and at most 400 work"),
    ],
)
def test_what_has_no_late_time_is_refused(options, message):
    arguments = {"f": linear, "params": np.ones(3), "x": X, "y": Y, "until_log": 5.0} | options
    with pytest.raises(ValueError, match=message):
        late_flow(**arguments)
