"""The third kernel moves the tangent kernel; the two truncations agree at first order only."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import tangent_hierarchy as nth


def draw(seed, d=3, p=5):
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=(d, p, p))
    Q = (Q + Q.swapaxes(1, 2)) / 2
    return jnp.array(Q), qr.Regression(jnp.array(rng.normal(size=d)), jnp.array(rng.normal(size=(d, p))))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_third_kernel_is_the_velocity_of_the_tangent_kernel(seed):
    Q, state = draw(seed)
    K3 = nth.third_kernel(Q, state.J)
    change = qr.flow_field(Q)(state)
    K_dot = change.J @ state.J.T + state.J @ change.J.T
    np.testing.assert_allclose(K_dot, -K3 @ state.z, atol=1e-12 * (1 + np.abs(K3).max() * 3))
    np.testing.assert_allclose(K3, np.swapaxes(K3, 0, 1), atol=1e-12)
    truncated = nth.hierarchy_flow(K3)(nth.Hierarchy(state.z, state.J @ state.J.T))
    np.testing.assert_allclose(truncated.K, K_dot, atol=1e-11)
    np.testing.assert_allclose(truncated.z, change.z, atol=1e-12)


def test_the_two_truncations_part_at_second_order():
    Q, state = draw(1)
    gaps = []
    for lr in (1e-3, 5e-4):
        a = qr.descent(Q, lr)
        b = nth.hierarchy_descent(nth.third_kernel(Q, state.J), lr)
        s, h = state, nth.Hierarchy(state.z, state.J @ state.J.T)
        for _ in range(2):
            s, h = a.step(s), b.step(h)
        gaps.append(float(jnp.abs(s.J @ s.J.T - h.K).max()))
    assert gaps[0] / gaps[1] == np.clip(gaps[0] / gaps[1], 3.8, 4.2)
