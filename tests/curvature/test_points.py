"""Minimum, maximum, saddle, or one of which the Hessian does not tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant.curvature import critical_point, is_sosp
from secant.theory.landscape import rank_one


def pieces(w):
    """Another function around every whole number, so that one program serves for all of them."""
    near = jnp.round(w)
    t = w - near
    return jnp.stack([t**2, -(t**2), t**4, -(t**4), t**3, t + t**2])[near.astype(int)]


@pytest.mark.parametrize(
    ("at", "kind"),
    list(enumerate(["minimum", "maximum", "degenerate", "degenerate", "degenerate", "not critical"])),
    ids=["w^2", "-w^2", "w^4", "-w^4", "w^3", "w + w^2"],
)
def test_functions_of_one_number(at, kind):
    assert critical_point(pieces, float(at)).kind == kind


def valleys(w):
    """A valley along the second axis, and from 1/2 on a ridge."""
    return jnp.where(w[1] < 0.5, 1.0, -1.0) * w[0] ** 2


@pytest.mark.parametrize("along", [0.0, 1.0])
def test_a_flat_direction_makes_a_point_degenerate(along):
    assert critical_point(valleys, np.array([0.0, along])).kind == "degenerate"


def form(w):
    M = jnp.asarray([[2.0, 1.0, 0.0], [1.0, -1.0, 0.5], [0.0, 0.5, 3.0]])
    x = jnp.concatenate([w["a"], w["b"].ravel()])
    return x @ M @ x / 2


def test_a_saddle_of_a_tree_of_parameters_and_its_way_out():
    with jax.enable_x64(True):
        params = {"a": np.zeros(2), "b": np.zeros((1, 1))}
        found = critical_point(form, params)
        values, vectors = np.linalg.eigh(np.array([[2.0, 1, 0], [1, -1, 0.5], [0, 0.5, 3]]))
        assert found.kind == "saddle"
        assert found.smallest == pytest.approx(values[0], abs=1e-14)
        assert found.largest == pytest.approx(values[-1], abs=1e-14)
        assert found.direction["b"].shape == (1, 1)
        way = np.concatenate([np.ravel(found.direction[name]) for name in ("a", "b")])
        assert abs(way @ vectors[:, 0]) == pytest.approx(1)
        assert is_sosp(form, params, eps=0.0, gamma=-values[0] + 1e-9)
        assert not is_sosp(form, params, eps=0.0, gamma=-values[0] - 1e-9)


BEND = np.linspace(1, 10, 300)


ODD = np.array([-0.3, 0.4, 0.0])


def many(w):
    """The odd parameter bends in another way around every whole number."""
    near = jnp.round(w["odd"])
    return jnp.sum(BEND * w["rest"] ** 2) / 2 + jnp.asarray(ODD)[near.astype(int)] * (w["odd"] - near) ** 2 / 2


@pytest.mark.parametrize(("at", "kind"), list(enumerate(["saddle", "minimum", "degenerate"])))
def test_many_parameters_one_of_which_bends_another_way(at, kind):
    bend = ODD[at]
    with jax.enable_x64(True):
        found = critical_point(many, {"rest": np.zeros(300), "odd": np.asarray(float(at))})
    assert found.kind == kind
    assert found.smallest == pytest.approx(bend, abs=found.smallest_error)
    assert found.largest == pytest.approx(10, abs=found.largest_error)
    assert abs(float(found.direction["odd"])) == pytest.approx(1, abs=1e-5)


def test_the_eigenvector_objective_has_the_saddles_it_should():
    M = np.diag([3.0, 2.0, 1.0])
    known = rank_one.critical_points(M)

    def objective(x):
        return rank_one.objective(jnp.asarray(M), x)

    with jax.enable_x64(True):
        found = [critical_point(objective, p) for p in known.points]
    assert [point.kind for point in found] == ["minimum", "saddle", "saddle", "maximum"]
    np.testing.assert_allclose([point.smallest for point in found], known.spectra.min(1), atol=1e-12)
    np.testing.assert_allclose([point.largest for point in found], known.spectra.max(1), atol=1e-12)


def test_a_network_on_its_data():
    task = sc.data.load("digits", classes=(0, 1), samples=20)
    net = sc.nets.mlp([4], activation="tanh")
    params = net.init(jax.random.key(0), task.train.x.shape)
    found = critical_point(net.apply, params, *task.train, "mse")
    dense = np.linalg.eigvalsh(sc.hessian(net.apply, params, *task.train, "mse").dense())
    assert found.kind == "not critical"
    assert found.smallest == pytest.approx(dense[0], abs=found.smallest_error + 1e-5)
    assert found.largest == pytest.approx(dense[-1], abs=found.largest_error + 1e-5)
    assert critical_point(net.apply, params, *task.train, "mse", eps=10.0).kind == "saddle"
    assert not is_sosp(net, params, *task.train, loss="mse", eps=10.0, gamma=0.0)
    assert is_sosp(net, params, *task.train, loss="mse", eps=10.0, gamma=10.0)


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(TypeError, match="`x` alone"):
        critical_point(lambda w, x: x @ w, jnp.zeros(2), jnp.ones((1, 2)))
    with pytest.raises(TypeError, match="one real number"):
        critical_point(lambda w: w, jnp.zeros(2))
    with pytest.raises(ValueError, match="`gamma`"):
        is_sosp(lambda w: w**2, 0.0, eps=0.1, gamma=-1.0)
    with pytest.raises(TypeError, match="floating-point"):
        critical_point(lambda w: w**2, 1)
    with pytest.raises(FloatingPointError):
        critical_point(lambda w: jnp.log(w), jnp.asarray(0.0))
