"""`flow` integrates what `simulate` iterates, with the same probes."""

import jax.numpy as jnp
import numpy as np
import pytest

from secant.dynamics import Outcome, flow, simulate
from secant.optim import gradient_descent, gradient_field


def test_linear_decay_has_its_closed_form():
    run = flow(
        lambda x, rate: -rate * x, 2.0, until=3.0, probes={"x": lambda x: x}, over={"rate": np.array([0.5, 2.0])}
    )
    expected = 2 * np.exp(-run["x"].rate * run["x"].time)
    np.testing.assert_allclose(run["x"], expected, rtol=1e-7)
    np.testing.assert_allclose(run.state, expected.isel(time=-1), rtol=1e-7)


def test_gradient_descent_tends_to_gradient_flow_at_first_order():
    def loss(p):
        return jnp.sum((p["u"] * p["v"] - 1.0) ** 2) / 2

    start = {"u": jnp.array([0.5, 1.5]), "v": jnp.array([0.2, -0.3])}
    exact = flow(gradient_field(loss), start, until=1.0).state["u"]
    errors = [
        float(jnp.abs(simulate(gradient_descent(loss, lr), start, round(1 / lr)).state["u"] - exact).max())
        for lr in (0.02, 0.01)
    ]
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)


def test_blow_up_is_an_outcome():
    run = flow(
        lambda x: x**2,
        lambda a: a,
        until=2.0,
        probes={"x": lambda x: x},
        over={"a": np.array([0.1, 1.0])},
        max_steps=500,
    )
    assert run["outcome"].values.tolist() == [Outcome.UNFINISHED, Outcome.DIVERGED]


@pytest.mark.parametrize("until", [0.0, -1.0, np.nan, np.inf])
def test_the_last_time_is_positive(until):
    with pytest.raises(ValueError, match="`until` must be a positive number"):
        flow(lambda x: -x, 1.0, until=until)


def test_samples_are_increasing_times():
    with pytest.raises(ValueError, match="increasing times"):
        flow(lambda x: -x, 1.0, until=1.0, samples=np.array([0.5, 0.2]))
