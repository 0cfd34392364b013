"""A plane of starts that are run together ends as each would alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.dynamics import Outcome
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression.phase_plane import Batch, advance, phase_plane


def draw(seed, D, P, dtype=jnp.float64):
    tensor, start = jax.random.split(jax.random.key(seed))
    Q, unit = qr.random_tensor(tensor, D, P, dtype=jnp.float64), qr.random_start(start, D, P, jnp.float64)
    return Q.astype(dtype), qr.Regression(unit.z.astype(dtype), unit.J.astype(dtype))


@pytest.fixture(scope="module")
def plane():
    with jax.enable_x64(True):
        Q, unit = draw(0, 8, 16)
        return Q, unit, phase_plane(Q, unit, [0.1, 0.4, 0.6, 3.0], [0.05, 0.2, 0.9], max_steps=1700)


@jax.jit
def alone(Q, start, goal):
    """Gradient descent until the squared residual is at its goal or beyond all bounds: the end, and after how many."""
    system = qr.descent(Q)
    size = lambda state: jnp.sum(state.z**2)  # noqa: E731
    go = lambda c: (size(c[0]) > goal) & (size(c[0]) < 1e6) & (c[1] < 1700)  # noqa: E731
    end, steps = jax.lax.while_loop(go, lambda c: (system.step(c[0]), c[1] + 1), (start, 0))
    outcome = jnp.where(size(end) < 1e6, Outcome.UNFINISHED, Outcome.DIVERGED)
    return end, steps, jnp.where(size(end) <= goal, Outcome.CONVERGED, outcome)


def test_every_start_ends_as_it_would_alone(plane):
    Q, unit, ends = plane
    assert ends.sizes == {"residual": 4, "jacobian": 3, "mode": 4}
    z, J = np.asarray(unit.z), np.asarray(unit.J)
    seen = set()
    for a in ends.residual.values:
        for b in ends.jacobian.values:
            sigma = qr.scales(a, b**0.5, 8, 16)
            start = qr.Regression(float(sigma.z) * z, float(sigma.J) * J)
            state, steps, outcome = alone(Q, start, 1e-12 * np.sum(start.z**2))
            end = ends.sel(residual=a, jacobian=b)
            assert int(end.outcome) == int(outcome)
            seen.add(int(outcome))
            if outcome == Outcome.CONVERGED:
                # The plane is looked at every hundred steps. Residuals of a millionth still move the curvature as much.
                kernel = np.asarray(state.J) @ np.asarray(state.J).T
                np.testing.assert_allclose(end.top, np.linalg.eigvalsh(kernel)[::-1][:4], atol=1e-5)
                assert int(end.steps) == int(steps)
                assert float(end.loss) <= 1e-12
            if outcome == Outcome.DIVERGED:
                assert np.isnan(end.top).all()
    assert {Outcome.CONVERGED, Outcome.DIVERGED} <= seen


def test_what_is_dropped_does_not_matter(plane):
    Q, unit, ends = plane
    few = phase_plane(Q, unit, [0.4], [0.05, 0.2], max_steps=1700)
    both = ends.sel(residual=[0.4], jacobian=[0.05, 0.2])
    np.testing.assert_array_equal(few.outcome, both.outcome)
    np.testing.assert_array_equal(few.steps, both.steps)
    np.testing.assert_allclose(few.top, both.top, rtol=1e-9)


def test_single_precision_has_the_same_ends():
    Q, unit = draw(1, 8, 16)
    grid = [0.1, 0.3, 0.5], [0.05, 0.2]
    double = phase_plane(Q, unit, *grid, max_steps=4000)
    single = phase_plane(
        Q.astype(jnp.float32), jax.tree.map(lambda a: a.astype(jnp.float32), unit), *grid, max_steps=4000
    )
    assert (double.outcome == Outcome.CONVERGED).all()
    np.testing.assert_array_equal(single.outcome, double.outcome)
    np.testing.assert_allclose(single.top, double.top, atol=1e-4)


def test_the_initial_eigenvalue_and_what_is_unfinished():
    Q, unit = draw(2, 8, 16)
    ends = phase_plane(Q, unit, [0.3], [0.1], max_steps=7)
    sigma = qr.scales(0.3, 0.1**0.5, 8, 16)
    assert float(ends.initial[0, 0]) == pytest.approx(float(qr.top_pair(sigma.J * unit.J)[0]), rel=1e-12)
    assert int(ends.outcome[0, 0]) == Outcome.UNFINISHED
    assert int(ends.steps[0, 0]) == 7


def test_as_many_residuals_as_parameters_come_to_rest():
    Q, unit = draw(3, 8, 8)
    ends = phase_plane(Q, unit, [0.2], [0.2], max_steps=40_000)
    assert int(ends.outcome[0, 0]) == Outcome.CONVERGED
    assert int(ends.steps[0, 0]) < 40_000


def test_nothing_to_learn_converges_at_once():
    Q, unit = draw(4, 8, 16)
    ends = phase_plane(Q, unit, [0.0], [0.1], max_steps=200)
    assert int(ends.outcome[0, 0]) == Outcome.CONVERGED
    assert int(ends.steps[0, 0]) == 0


def test_bad_grids_are_refused():
    Q, unit = draw(5, 8, 16)
    with pytest.raises(ValueError, match="must not be empty"):
        phase_plane(Q, unit, [], [0.1])
    with pytest.raises(ValueError, match="cannot be negative"):
        phase_plane(Q, unit, [0.1], [-0.1])
    with pytest.raises(ValueError, match="must have shape"):
        phase_plane(Q[:3], unit, [0.1], [0.1])
    with pytest.raises(ValueError, match="max_steps"):
        phase_plane(Q, unit, [0.1], [0.1], max_steps=0)


def test_an_interrupted_plane_goes_on(tmp_path, monkeypatch):
    from secant.theory.regression import phase_plane as module

    Q, unit = draw(6, 8, 16)
    arguments = (Q, unit, [0.2, 0.6, 2.0], [0.1, 0.3])
    whole = phase_plane(*arguments, max_steps=1500)
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)

    class Impatient(sc.dynamics.Silent):
        looks = 0

        def update(self, done, note):
            self.looks += 1
            if self.looks == 3:
                raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            phase_plane(*arguments, max_steps=1500, checkpoint=tmp_path, progress=Impatient())
    resumed = phase_plane(*arguments, max_steps=1500, checkpoint=tmp_path)
    assert resumed.identical(whole)
    assert phase_plane(*arguments, max_steps=1500, checkpoint=tmp_path).identical(whole)
    with pytest.raises(sc.dynamics.CheckpointMismatchError):
        phase_plane(*arguments, max_steps=1400, checkpoint=tmp_path)


@pytest.mark.parametrize(("D", "P"), [(10, 20), (20, 20), (10, 40), (40, 80)])
def test_a_step_costs_one_product_with_the_tensor_and_little_else(D, P):
    starts, numbers = 32, jnp.float32
    batch = Batch(
        z=jax.ShapeDtypeStruct((D, starts), numbers),
        J=jax.ShapeDtypeStruct((D, P, starts), numbers),
        goal=jax.ShapeDtypeStruct((starts,), numbers),
        steps=jax.ShapeDtypeStruct((starts,), jnp.int32),
    )
    # Counted by the compiler, for one step of its loop.
    compiled = advance.lower(jax.ShapeDtypeStruct((D * P, P), numbers), batch, 100, second_order=True).compile()
    jacobian = D * P * starts
    beyond_the_product = compiled.cost_analysis()["flops"] - 2 * jacobian * P
    assert 0 < beyond_the_product < 9 * jacobian
    memory = compiled.memory_analysis()
    assert memory.temp_size_in_bytes < 4 * 3.5 * jacobian
    assert memory.argument_size_in_bytes < 1.05 * 4 * (D * P * P + jacobian)
