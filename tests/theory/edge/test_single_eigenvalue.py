"""One eigenvalue makes gradient flow a logistic equation."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.edge import quartic
from secant.theory.edge import single_eigenvalue as one


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 3), st.floats(0.01, 1), st.floats(0.1, 2), st.floats(-0.015, 1) | st.just(0.0))
def test_the_closed_form_solves_the_flow(t, z0, omega, E):
    solution = lambda t: one.single_eigenvalue_solution(t, z0, omega, E)  # noqa: E731
    np.testing.assert_allclose(solution(0.0), z0, rtol=1e-12)
    slope = jax.jvp(solution, (jnp.asarray(t),), (jnp.ones(()),))[1]
    np.testing.assert_allclose(slope, one.single_eigenvalue_flow(omega, E)(solution(t)), rtol=1e-7, atol=1e-7)


def test_the_zero_offset_case_is_the_limit():
    near = one.single_eigenvalue_solution(2.0, 0.4, 1.0, 1e-7)
    np.testing.assert_allclose(near, one.single_eigenvalue_solution(2.0, 0.4, 1.0, 0.0), rtol=1e-6)
    np.testing.assert_allclose(one.single_eigenvalue_solution(2.0, 0.4, 1.0, 0.0), 0.4 / (1 + 1.6), rtol=1e-12)


def test_the_curvature_is_fixed_by_the_residual():
    state = quartic.modes(jnp.array([0.8]), jnp.array([0.6]), 1.0, 0.3)
    np.testing.assert_allclose(one.single_eigenvalue_curvature(state.z, 0.6, 0.3), state.J[0] ** 2, rtol=1e-12)
