"""Schedules: what they say at every step, and that rules follow them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.optim import schedules


def test_what_they_say():
    told = {
        schedules.piecewise({0: 5.0, 2: 8.0, 3: 1.0}): [5, 5, 8, 1, 1, 1],
        schedules.cyclical(1.0, 3.0, 4): [1, 2, 3, 2, 1, 2],
        schedules.decayed(4.0, 0.5, 2): [4, 4, 2, 2, 1, 1],
        schedules.warm_up(2.0, 4): [0.5, 1, 1.5, 2, 2, 2],
        schedules.cosine(2.0, 4, 1.0): [2, 1.5 + 0.5**1.5, 1.5, 1.5 - 0.5**1.5, 1, 1],
        schedules.constant(0.3): [0.3] * 6,
    }
    with jax.enable_x64(True):
        said = jax.jit(lambda steps: [jax.vmap(schedule)(steps) for schedule in told])(np.arange(6))
    for values, expected in zip(said, told.values(), strict=True):
        np.testing.assert_allclose(values, expected)


@pytest.mark.parametrize("make", [sc.optimisers.gd, sc.optimisers.momentum, sc.optimisers.adam, sc.optimisers.adadelta])
def test_rules_follow_them(make):
    """A run with a change is a run with the first step size, and one with the second from where it ended."""
    with jax.enable_x64(True):

        def loss(x):
            return jnp.sum(jnp.cosh(x))

        start = np.array([1.0, -0.5])

        @jax.jit
        def step(lr, inner, x):
            updates, inner = make(lr).transformation.update(jax.grad(loss)(x), inner, x)
            return inner, x + updates

        whole = sc.simulate(make(schedules.piecewise({0: 0.2, 3: 0.05}))(loss), start, steps=5, probes={})
        first = sc.simulate(make(0.2)(loss), start, steps=3, probes={})
        # The state of a rule with a schedule also counts steps: compare what a hand-made loop gives.
        inner, x = jax.jit(make(0.2).transformation.init)(start), start
        for number in range(5):
            inner, x = step(0.2 if number < 3 else 0.05, inner, x)
            if number == 2:
                np.testing.assert_allclose(first.state, x, rtol=1e-6)
        np.testing.assert_allclose(whole.state, x, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: schedules.piecewise({}), "`sizes`"),
        (lambda: schedules.piecewise({1: 1.0}), "begin at step 0"),
        (lambda: schedules.piecewise({0: 1.0, 5: 2.0, 3: 1.0}), "rise"),
        (lambda: schedules.piecewise({0: 1.0, 5: 0.0}), "positive"),
        (lambda: schedules.piecewise({0: 1.0, 5: -1.0}), "positive"),
        (lambda: schedules.cyclical(0.0, 1.0, 4), "positive"),
        (lambda: schedules.cyclical(1.0, float("nan"), 4), "positive"),
        (lambda: schedules.cyclical(1.0, 2.0, 1), "`period`"),
        (lambda: schedules.decayed(1.0, 0.0, 4), "`factor`"),
        (lambda: schedules.warm_up(1.0, 0), "`steps`"),
        (lambda: schedules.cosine(1.0, 4, 2.0), "`end`"),
        (lambda: sc.optimisers.gd(0.0), "above 0"),
    ],
)
def test_schedules_that_fall_to_zero_or_below_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_a_schedule_has_no_one_threshold():
    with pytest.raises(ValueError, match="`threshold` is not known"):
        _ = sc.optimisers.gd(schedules.constant(0.1)).threshold
