"""`sde`: random paths with the axes, probes and outcomes of `flow`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant.dynamics import Outcome, sde


def pull(x):
    return -2 * x


def unit(x):
    return 1.0


def test_moments_are_those_of_the_scheme():
    """Euler and Maruyama on a linear equation is an autoregression, whose moments are known at any step."""
    run = sde(pull, unit, 3.0, 1.0, steps=20, paths=20_000, probes={"x": lambda x: x})
    x, k = run["x"].values, np.arange(21)
    rho, d = 0.9, 0.05
    variance = d * (1 - rho ** (2 * k)) / (1 - rho**2)
    np.testing.assert_array_less(np.abs(x.mean(0) - 3 * rho**k), 4 * np.sqrt(variance / 20_000) + 1e-5)
    np.testing.assert_array_less(np.abs(x.var(0) - variance), 4 * variance * np.sqrt(2 / 20_000) + 1e-5)
    assert run["x"].dims == ("path", "time")
    np.testing.assert_allclose(run["x"].time, np.linspace(0, 1, 21))
    np.testing.assert_array_equal(np.asarray(run.state), x[:, -1])


def test_axes_see_the_same_noise_unless_told_otherwise():
    over = {"rate": np.array([0.0, 0.0, 1.0])}
    told = {"over": over, "paths": 5, "steps": 10, "probes": {"x": lambda x: x}}
    same = sde(lambda x, rate: -rate * x, unit, 0.0, 1.0, **told)["x"]
    assert same.sizes == {"rate": 3, "path": 5, "time": 11}
    np.testing.assert_array_equal(same[0], same[1])
    other = sde(lambda x, rate: -rate * x, unit, 0.0, 1.0, **told, seed=lambda rate: jnp.int32(3 * rate) + 1)["x"]
    np.testing.assert_array_equal(other[0], other[1])
    drift_only = sde(lambda x: 0 * x, unit, 0.0, 1.0, paths=5, steps=10, probes={"x": lambda x: x})["x"]
    np.testing.assert_allclose(drift_only, same[0], atol=1e-6)
    assert not np.allclose(other[0], same[0])


def test_noise_as_a_matrix_as_factors_and_as_a_product():
    """Three ways to say the same noise of a tree."""
    start = {"a": jnp.ones(2), "b": jnp.zeros(())}
    factors = {"a": jnp.array([0.5, 2.0]), "b": jnp.array(3.0)}
    matrix = {"a": jnp.array([[0.5, 0, 0], [0, 2.0, 0]]), "b": jnp.array([0, 0, 3.0])}
    still = lambda s: jax.tree.map(jnp.zeros_like, s)  # noqa: E731
    told = {"paths": 4, "steps": 5, "samples": 2}
    first = sde(still, lambda s: factors, start, 1.0, **told).state
    second = sde(still, lambda s: matrix, start, 1.0, **told).state
    third = sde(still, lambda s, z: {"a": factors["a"] * z[:2], "b": 3 * z[2]}, start, 1.0, noise=3, **told).state
    for name in start:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-6)
        np.testing.assert_allclose(first[name], third[name], rtol=1e-6)


def test_a_shared_path_is_the_same_for_every_step_size():
    """Geometric Brownian motion is a function of the last value of the motion, which two steps give exactly."""
    told = {"paths": 32, "samples": 2, "seed": 3}
    motion = np.asarray(sde(lambda x: 0 * x, unit, 0.0, 1.0, steps=2, shared=True, **told).state)
    found = np.asarray(sde(lambda x: 0 * x, lambda x: x, 1.0, 1.0, steps=64, solver="milstein", **told).state)
    # Of the scheme of Euler and Maruyama this would be 0.07.
    assert np.abs(np.log(found) - motion + 0.5).mean() < 0.03


def test_tolerances_choose_the_steps():
    told = {"paths": 400, "samples": 3, "probes": {"x": lambda x: x}, "solver": "additive"}
    run = sde(pull, lambda x: 0.1, 3.0, 1.0, steps=2, rtol=1e-3, atol=1e-4, **told)
    assert run["x"].sizes == {"path": 400, "time": 3}
    assert float(run["x"][:, -1].mean()) == pytest.approx(3 * np.exp(-2), abs=0.01)
    assert float(run["x"][:, -1].var()) == pytest.approx(0.01 * (1 - np.exp(-4)) / 4, rel=0.25)


def test_divergence_is_an_outcome():
    told = {"paths": 3, "steps": 100, "samples": 11, "probes": {"x": lambda x: x}}
    run = sde(lambda x: x**3, lambda x, time: 0.01 * time, lambda path: 0.1 + 3.0 * path, 1.0, **told)
    assert run["outcome"].values.tolist() == [Outcome.UNFINISHED, Outcome.DIVERGED, Outcome.DIVERGED]
    assert run["stopped_at"].values[0] == 1.0
    # At the first record that is not finite.
    good = np.isfinite(run["x"].values)
    assert run["stopped_at"].values[1:].tolist() == [run["x"].time.values[~row][0] for row in good[1:]]
    assert (run["stopped_at"].values[1:] < 1).all()


@pytest.mark.parametrize("count", [1, 7, 50])
def test_both_ends_are_recorded(count):
    times = sde(pull, unit, 1.0, 2.0, steps=50, samples=max(2, count), probes={"x": lambda x: x})["x"].time.values
    assert (times[0], times[-1]) == (0.0, 2.0)
    assert (np.diff(times) > 0).all()


def test_bad_input_is_refused_by_name():
    two = jnp.ones(2)
    bad = {
        "`diffusion` has the wrong shape": lambda: sde(pull, lambda x: jnp.ones((3, 2)), two, 1.0),
        "`drift` must return": lambda: sde(lambda x: x[:1], unit, two, 1.0),
        "`until`": lambda: sde(pull, unit, 1.0, -1.0),
        "`steps`": lambda: sde(pull, unit, 1.0, 1.0, steps=0),
        "`paths`": lambda: sde(pull, unit, 1.0, 1.0, paths=0),
        "`solver`": lambda: sde(pull, unit, 1.0, 1.0, solver="heun"),
        "`rtol`": lambda: sde(pull, unit, 1.0, 1.0, rtol=1e-3),
        "'path'": lambda: sde(pull, unit, 1.0, 1.0, over={"path": np.arange(3)}),
        "does not depend on the state": lambda: sde(pull, lambda x: x, 1.0, 1.0, solver="additive"),
        "entries share": lambda: sde(pull, lambda x: jnp.ones((2, 3)), two, 1.0, solver="milstein"),
        "with `noise`": lambda: sde(pull, lambda x, z: z, two, 1.0, noise=3),
        "no axis provides": lambda: sde(lambda x, rate: x, unit, 1.0, 1.0),
    }
    for message, call in bad.items():
        with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
            call()


def test_seeds_of_an_axis_give_other_paths_in_single_precision_too():
    told = {"steps": 4, "paths": 3, "over": {"s": np.array([0, 1])}}
    same, own = (sde(pull, unit, np.float32(0), 1.0, seed=seed, **told).state for seed in (0, lambda s: s))
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(own[0], same[0])
    assert (own[0] != own[1]).all()
