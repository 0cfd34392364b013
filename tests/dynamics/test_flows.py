"""`flow` integrates what `simulate` iterates, with the same probes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.dynamics import Outcome, flow, flows, simulate
from secant.optim import gradient_descent, gradient_field


@pytest.fixture(scope="module")
def run():
    """Two of dx/dt = -rate x from 2, and two of dx/dt = x^2, from 0.1 and from 1, which blows up at a time of 1."""
    cases = {"rate": [0.5, 2.0, 0.0, 0.0], "square": [0.0, 0.0, 1.0, 1.0], "start": [2.0, 2.0, 0.1, 1.0]}
    with jax.enable_x64(True):
        return flow(
            lambda x, case: case["square"] * x**2 - case["rate"] * x,
            lambda case: case["start"],
            until=3.0,
            probes={"x": lambda x: x},
            over={"case": {name: np.array(values) for name, values in cases.items()}},
            max_steps=500,
        )


def test_linear_decay_has_its_closed_form(run):
    expected = 2 * np.exp(-np.array([[0.5], [2.0]]) * run["x"].time.values)
    np.testing.assert_allclose(run["x"][:2], expected, rtol=1e-7)
    np.testing.assert_allclose(run.state[:2], expected[:, -1], rtol=1e-7)


def test_gradient_descent_tends_to_gradient_flow_at_first_order():
    def loss(p):
        return jnp.sum((p["u"] * p["v"] - 1.0) ** 2) / 2

    start = {"u": np.array([0.5, 1.5]), "v": np.array([0.2, -0.3])}
    exact = np.asarray(flow(gradient_field(loss), start, until=1.0).state["u"])
    over, probes = {"lr": np.array([0.02, 0.01])}, {"u": lambda p: p["u"]}
    paths = simulate(lambda lr: gradient_descent(loss, lr), start, 100, probes=probes, over=over)["u"]
    errors = [np.abs(paths.sel(lr=lr, step=round(1 / lr)).values - exact).max() for lr in (0.02, 0.01)]
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)


def test_blow_up_is_an_outcome(run):
    assert run["outcome"].values.tolist() == [*[Outcome.UNFINISHED] * 3, Outcome.DIVERGED]


def test_few_trajectories_go_the_way_that_many_go_together(monkeypatch):
    def pendulum():
        over = {"length": np.array([0.5, 1.0, 2.0]), "angle": np.array([0.1, 3.0])}
        probes = {"x": lambda s: s["angle"], "v": lambda s: s["speed"]}
        field = lambda s, length: {"angle": s["speed"], "speed": -jnp.sin(s["angle"]) / length}  # noqa: E731
        return flow(field, lambda angle: {"angle": angle, "speed": 0.0}, 5.0, probes=probes, over=over)

    few = pendulum()
    monkeypatch.setattr(flows, "FEW", 0)
    many = pendulum()
    assert few.dataset.sizes == many.dataset.sizes == {"length": 3, "angle": 2, "time": 201}
    for name in few.dataset:
        np.testing.assert_allclose(few[name], many[name], rtol=1e-7, atol=1e-9)
    assert few.state["speed"].shape == (3, 2)
    np.testing.assert_allclose(few.state["speed"], few["v"].isel(time=-1), rtol=1e-6)


@pytest.mark.parametrize("until", [0.0, -1.0, np.nan, np.inf])
def test_the_last_time_is_positive(until):
    with pytest.raises(ValueError, match="`until` must be a positive number"):
        flow(lambda x: -x, 1.0, until=until)


def test_samples_are_increasing_times():
    with pytest.raises(ValueError, match="increasing times"):
        flow(lambda x: -x, 1.0, until=1.0, samples=np.array([0.5, 0.2]))
