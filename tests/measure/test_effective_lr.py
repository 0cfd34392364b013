"""Lengths, angles and step sizes on the sphere, a group a layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.sin(X[:, 0])
NET = sc.nets.scale_invariant([5, 4], activation="tanh")
LR, DECAY = 0.1, 0.5


@pytest.fixture
def params():
    return NET.init(jax.random.key(0), X.shape)


def decayed(loss):
    gradient = jax.grad(loss)

    def step(params):
        return jax.tree.map(lambda w, g: (1 - LR * DECAY) * w - LR * g, params, gradient(params))

    return sc.Map(lambda params: params, step)


def trained(params, steps=6, **options):
    problem = sc.Problem(NET.apply, X, Y, "half_sum")
    probes = {"pace": sc.measure.effective_lr(LR, **options), "w": lambda p: p[0]["weight"]}
    batches = sc.Batches(4) if options.get("batch") else None
    return sc.train(problem, params, steps=steps, rule=decayed, batches=batches, probes=probes).dataset


@pytest.mark.parametrize("batch", [False, True])
def test_what_is_recorded_is_what_a_run_does(params, batch):
    data = trained(params, batch=batch)
    w = data.w.values.reshape(7, -1)
    length = np.linalg.norm(w, axis=1)
    np.testing.assert_allclose(data.pace_norm[:, 0], length, rtol=1e-12)
    np.testing.assert_allclose(data.pace[:, 0], LR / length**2, rtol=1e-12)
    cosine = (w[1:] * w[:-1]).sum(1) / length[1:] / length[:-1]
    np.testing.assert_allclose(np.cos(data.pace_angle[1:, 0]), cosine, rtol=1e-12)
    assert np.isnan(data.pace_angle[0]).all()
    # Every layer is scale-invariant alone: Pythagoras, and the angle of a step, from the gradient of that step.
    before, after, gradient = data.pace_norm[:-1], data.pace_norm[1:].values, data.pace_gradient[:-1]
    np.testing.assert_allclose(
        after**2, (1 - LR * DECAY) ** 2 * before**2 + LR**2 * gradient**2 / before**2, rtol=1e-12
    )
    np.testing.assert_allclose(np.cos(data.pace_angle[1:].values), (1 - LR * DECAY) * before / after, rtol=1e-12)


def test_groups_have_names(params):
    assert sc.measure.group_names(params) == ["[0]['weight']", "[3]['weight']"]
    assert sc.measure.group_names(params, lambda path: "all") == ["all"]
    only = trained(params, steps=1, groups=lambda path: "second" if "[3]" in path else None)
    assert only.pace.shape == (2, 1)
    length = np.linalg.norm(params[3]["weight"])
    assert float(only.pace_norm[0, 0]) == pytest.approx(length, rel=1e-12)
    look = sc.measure.effective_lr(LR, groups=lambda path: "all").on(sc.Problem(NET.apply, X, Y, "half_sum"))
    record, _ = jax.jit(look.function)(params, look.memory(params))
    assert record["norm"].shape == (1,)
    assert float(record["norm"][0] ** 2) == pytest.approx(length**2 + np.sum(np.square(params[0]["weight"])), rel=1e-12)


def test_weights_that_are_zero_have_no_direction():
    look = sc.measure.effective_lr(LR).on(sc.Problem(lambda w, x: x @ w, X, Y, "half_sum"))
    record, _ = look.function(jnp.zeros(3), look.memory(jnp.zeros(3)))
    assert all(np.isnan(value).all() for value in record.values())


def test_what_has_no_meaning_is_refused_by_name(params):
    with pytest.raises(ValueError, match="`lr`"):
        sc.measure.effective_lr(0.0)
    with pytest.raises(ValueError, match="`every`"):
        sc.measure.effective_lr(0.1, every=0)
    with pytest.raises(ValueError, match="`groups` leaves out every parameter"):
        sc.measure.group_names(params, lambda path: None)
    problem = sc.Problem(NET.apply, X, Y, "half_sum")
    with pytest.raises(ValueError, match="Pass `batches`"):
        sc.train(problem, params, lr=0.1, steps=1, probes={"pace": sc.measure.effective_lr(0.1, batch=True)})
