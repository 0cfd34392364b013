"""One-dimensional data: exact matrix dynamics, and their reduction to two independent maps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import several_samples as sm
from secant.theory.regression.quadratic_model import TwoLayer, gated_bilinear, gates, two_layer_init

WIDTH, SAMPLES, STEPS = 32, 6, 15


def outputs_of(params, on, x):
    return gated_bilinear(params, on, x[:, None])


@jax.jit
def descend(params, on, x, y, lr):
    """Residuals and tangent kernels along gradient descent by autodiff."""

    def loss(p):
        return jnp.sum((outputs_of(p, on, x) - y) ** 2) / 2

    def step(p, _):
        jacobian = jax.jacobian(outputs_of)(p, on, x)
        flat = jnp.concatenate([jacobian.u[..., 0], jacobian.v], axis=1)
        record = outputs_of(p, on, x) - y, flat @ flat.T
        return jax.tree.map(lambda w, g: w - lr * g, p, jax.grad(loss)(p)), record

    return jax.lax.scan(step, params, length=STEPS)[1]


@jax.jit
def problem(seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.normal(keys[0], (SAMPLES,))
    x = x.at[0].set(0.7).at[1].set(-1.1)
    params = two_layer_init(keys[2], WIDTH, 1)
    return x, jax.random.normal(keys[1], (SAMPLES,)), params, gates(params.u, x[:, None])


@jax.jit
def followed(residuals, kernels, x, y, lr):
    """States and pairs of each step, by their own maps from the first ones, and the pairs seen in the descent."""
    system = sm.samples_catapult(x, y, lr, WIDTH)
    pair, b = sm.reduce_directions(residuals[0], kernels[0], x, y, lr, WIDTH)

    def step(both, seen):
        state, pair = both
        return (system.step(state), ct.step(pair.a, pair.v, b)), (
            state, pair, sm.reduce_directions(*seen, x, y, lr, WIDTH)[0]
        )  # fmt: skip

    return jax.lax.scan(step, (system.init((residuals[0], kernels[0])), pair), (residuals, kernels))[1]


@jax.jit
def beginning(params, x, ratio):
    """Kernel and outputs at the start, from its slopes, and the step size at a ratio to the largest eigenvalue."""
    slopes = sm.slopes_from_weights(params.u[:, 0], params.v, params.u[:, 0])
    split = sm.directions(x)
    lr = ratio / jnp.max(slopes[1] * split.squares)
    return sm.kernel_from_slopes(x, slopes[1]), slopes[0] @ split.vectors, lr


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.3, 3.6))
def test_matrix_dynamics_and_both_reductions_are_exact(seed, ratio):
    x, y, params, on = problem(seed)
    kernel, outputs, lr = beginning(params, x, ratio)
    residuals, kernels = map(np.asarray, descend(params, on, x, y, lr))
    np.testing.assert_allclose(kernel, kernels[0], atol=1e-12)
    np.testing.assert_allclose(outputs - np.asarray(y), residuals[0], atol=1e-12)
    states, pairs, seen = jax.tree.map(np.asarray, followed(residuals, kernels, x, y, lr))
    for t in range(STEPS):
        size = 1e-9 * (1 + np.abs(kernels[t]).max() + np.abs(residuals[t]).max())
        if size > 1e-3:
            break
        np.testing.assert_allclose(states.residual[t], residuals[t], atol=size)
        np.testing.assert_allclose(states.kernel[t], kernels[t], atol=size)
        np.testing.assert_allclose((pairs.a[t], pairs.v[t]), (seen.a[t], seen.v[t]), atol=size)


@pytest.mark.parametrize("seed", range(3))
def test_rank_two_with_fixed_eigenvectors_and_a_conserved_rest(seed):
    x, y, params, on = problem(seed)
    residuals, kernels = map(np.asarray, descend(params, on, x, y, 0.1))
    units = np.asarray(sm.directions(x).units)
    for kernel in kernels:
        spectrum = np.linalg.eigvalsh(kernel)
        assert np.all(np.abs(spectrum[:-2]) < 1e-12 * spectrum[-1])
        for p in units:
            np.testing.assert_allclose(kernel @ p, (p @ kernel @ p) * p, atol=1e-12)
    losses = np.asarray(jax.jit(jax.vmap(sm.projected_losses, (0, None)))(residuals, x))
    np.testing.assert_allclose(losses[:, 2], losses[0, 2], atol=1e-12)
    np.testing.assert_allclose(losses[0].sum(), np.sum(residuals[0] ** 2) / 2)


def test_thresholds_follow_the_loss():
    np.testing.assert_allclose(sm.critical_lrs(jnp.array([4.0, 2.0]), 10), [0.5, 1.0])
    np.testing.assert_allclose(sm.critical_lrs(jnp.array([4.0, 2.0]), 10, "mean"), [2.5, 5.0])
    with pytest.raises((ValueError, TypeError), match="half_sum"):
        sm.half_sum_lr(1.0, 10, "sum")


def test_the_maximal_step_is_the_smaller_of_the_two_directions():
    x, y, params, on = problem(4)
    residuals, kernels = descend(params, on, x, y, 0.1)
    limits = sm.max_lr_samples(residuals[0], kernels[0], x, y, WIDTH)
    worst = float(jnp.min(limits))
    for factor, finite in ((0.999, True), (1.001, False)):
        system = sm.samples_catapult(x, y, factor * worst, WIDTH)
        run = jax.jit(lambda s, step=system.step: jax.lax.fori_loop(0, 400, lambda _, z: step(z), s))
        end = run(system.init((residuals[0], kernels[0])))
        assert bool(jnp.all(jnp.isfinite(end.residual))) is finite
    np.testing.assert_allclose(sm.max_lr_samples(residuals[0], kernels[0], x, y, WIDTH, "mean"), limits * SAMPLES / 2)


def test_one_sign_of_inputs_leaves_one_direction():
    x = jnp.array([0.5, 1.0])
    params = TwoLayer(jnp.ones((4, 1)), jnp.ones(4))
    on = gates(params.u, x[:, None])
    residuals, kernels = descend(params, on, x, jnp.zeros(2), 0.1)
    limits = sm.max_lr_samples(residuals[0], kernels[0], x, jnp.zeros(2), 4)
    assert jnp.isfinite(limits[0])
    assert jnp.isinf(limits[1])
