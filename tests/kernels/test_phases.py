"""Phase diagrams: fixed points by iteration, phases that are known, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from secant.kernels import next_variance, phase_diagram, susceptibilities
from secant.nets import activations


@pytest.mark.parametrize("activation", ["tanh", "gelu", "cos", activations.leaky(0.3)])
def test_variances_end_where_iterating_ends(activation):
    weights, biases = np.array([0.4, 0.9, 1.6]), np.array([0.0, 0.05, 0.6])
    found = phase_diagram(activation, weights, biases, start=1.3)
    w, b = np.meshgrid(weights, biases)

    def layer(_, K):
        return jnp.minimum(next_variance(activation, K, weights=w, biases=b), 1e9)

    K = jax.jit(lambda K: jax.lax.fori_loop(0, 1_000, layer, K))(np.full(w.shape, 1.3))
    assert_allclose(np.where(np.isinf(found.variance), 1e9, found.variance), K, rtol=1e-6, atol=1e-3)
    inside = np.isfinite(found.variance) & (found.variance > 1e-6)
    assert inside.sum() >= 4
    parallel, perpendicular = susceptibilities(activation, found.variance[inside], w[inside])
    assert_allclose(found.parallel[inside], parallel, rtol=1e-10)
    assert_allclose(found.perpendicular[inside], perpendicular, rtol=1e-10)


def test_relu_is_critical_at_two_and_blows_up_beyond():
    found = phase_diagram("relu", [1.0, 2.0, 3.0], [0.0, 0.3])
    assert found.phase.tolist() == [["ordered", "critical", "growing"], ["ordered", "growing", "growing"]]
    assert_allclose(found.variance, [[0, 1, np.inf], [0.6, np.inf, np.inf]], atol=1e-11)
    assert np.isnan(found.perpendicular[found.phase == "growing"]).all()
    assert found.depth[0, 1] > 1e9
    assert_allclose(found.depth[0, 0], 1 / np.log(2))


def test_a_diagram_draws(tmp_path):
    for look in ("light", "dark"):
        axes = phase_diagram("tanh", np.linspace(0.5, 3, 9), np.linspace(0, 0.5, 7)).plot(look=look)
        assert {text.get_text() for text in axes.texts} == {"ordered", "chaotic"}
        axes.figure.savefig(tmp_path / f"{look}.svg")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`weights` must be a list of numbers above 0"):
        phase_diagram("tanh", [0.0, 1.0], [0.1])
    with pytest.raises(ValueError, match="`biases` must be a list of numbers of at least 0"):
        phase_diagram("tanh", [1.0], [-0.1])
    with pytest.raises(ValueError, match="`start` must be a variance between"):
        phase_diagram("tanh", [1.0], [0.1], start=0.0)
