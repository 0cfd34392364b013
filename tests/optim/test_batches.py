"""Batches: exact epochs, fair shuffles, and the same run whoever draws them."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import secant as sc


@functools.cache
def four_epochs(samples, size):
    steps = np.arange(-(-4 * samples // size))
    return jax.jit(lambda seed: jax.vmap(lambda step: sc.Batches(size, seed=seed).indices(samples, step))(steps))


@settings(max_examples=20, deadline=None)
@given(sizes=st.sampled_from([(1, 1), (70, 1), (64, 16), (67, 10), (37, 37)]), seed=st.integers(0, 2**31 - 1))
def test_every_epoch_sees_every_sample_once(sizes, seed):
    samples, _ = sizes
    draws = np.asarray(four_epochs(*sizes)(np.uint32(seed))).ravel()
    for epoch in draws[: 4 * samples].reshape(4, samples):
        assert sorted(epoch) == list(range(samples))


def test_all_permutations_are_equally_likely():
    """A chi-squared test: five samples have 120 orders."""
    orders = {order: i for i, order in enumerate(itertools.permutations(range(5)))}
    shuffles = np.asarray(jax.jit(jax.vmap(lambda seed: sc.Batches(5, seed=seed).indices(5, 0)))(jnp.arange(60_000)))
    counts = np.bincount([orders[tuple(row)] for row in shuffles.tolist()], minlength=120)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_pairs_in_a_batch_are_equally_likely():
    pairs = np.asarray(jax.jit(jax.vmap(lambda seed: sc.Batches(2, seed=seed).indices(37, 3)))(jnp.arange(40_000)))
    table = np.zeros((37, 37))
    np.add.at(table, tuple(pairs.T), 1)
    assert not np.diag(table).any()
    assert stats.chisquare(table[~np.eye(37, dtype=bool)]).pvalue > 1e-3


def test_epochs_seeds_and_neighbours_are_unrelated():
    n = 2_000
    draws, other = (np.asarray(four_epochs(n, 50)(np.uint32(seed))).ravel() for seed in (7, 8))
    draws, other = draws[: 2 * n], other[:n]
    order = np.arange(n)
    for a, b in ((draws[:n], draws[n:]), (draws[:n], other), (order, other), (other[1:], other[:-1])):
        assert abs(stats.spearmanr(a, b).statistic) < 4 / np.sqrt(n)


def test_a_long_run_does_not_overflow():
    """Steps are counted in 32 bits; their product with the size is not."""
    batches, per = sc.Batches(1_000, seed=1), 50
    late = 4_000_000_000 // per * per
    epoch = np.asarray(
        jax.jit(jax.vmap(lambda k: batches.indices(50_000, jnp.uint32(late) + k)))(np.arange(per, dtype="uint32"))
    )
    assert sorted(epoch.ravel()) == list(range(50_000))


def test_with_replacement_draws_are_independent():
    batches = sc.Batches(4, seed=3, replace=True)
    draws = np.asarray(jax.jit(jax.vmap(lambda step: batches.indices(20, step)))(np.arange(5_000))).ravel()
    assert stats.chisquare(np.bincount(draws, minlength=20)).pvalue > 1e-3
    repeats = np.mean([len(set(row)) < 4 for row in draws.reshape(-1, 4).tolist()])
    expected = 1 - 19 * 18 * 17 / 20**3
    assert abs(repeats - expected) < 4 * np.sqrt(expected * (1 - expected) / 5_000)


@pytest.mark.parametrize("size", [0, -3, 2.5, True, "8"])
def test_bad_sizes_are_named(size):
    with pytest.raises(ValueError, match="`size`"):
        sc.Batches(size)


@pytest.mark.parametrize("seed", [-1, 0.5, True, None])
def test_bad_seeds_are_named(seed):
    with pytest.raises(ValueError, match="`seed`"):
        sc.Batches(2, seed=seed)


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        net = sc.nets.mlp([6], activation="tanh")
        x = np.random.default_rng(0).normal(size=(8, 12))
        params = net.init(jax.random.key(1), x.shape)
        yield sc.Problem(net.apply, x, np.sin(3 * x[:, 0]), sc.losses.mean_mse), params


@pytest.fixture(scope="module")
def objective(problem):
    return jax.jit(problem[0].objective)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def by_hand(problem, params, transformation, batches, steps):
    """Of a seed, the same run as a plain loop over batches: where it ends, and the loss of every batch."""

    @jax.jit
    def take(seed, number, params, inner):
        index = dataclasses.replace(batches, seed=seed).indices(8, number)
        x, y = problem.x[index], problem.y[index]
        value, gradient = jax.value_and_grad(lambda p: problem.loss(problem.f(p, x), y))(params)
        updates, inner = transformation.update(gradient, inner, params)
        return optax.apply_updates(params, updates), inner, value

    def run(seed):
        at, inner, losses = params, jax.jit(transformation.init)(params), []
        for step in range(steps):
            at, inner, value = take(np.uint32(seed), step, at, inner)
            losses.append(float(value))
        return flat(at), losses

    return run


@pytest.fixture(scope="module")
def plain_loop(problem):
    with jax.enable_x64(True):
        return by_hand(*problem, optax.sgd(0.3), sc.Batches(3), 7)(5)


@pytest.mark.parametrize("reduce", [None, False])
def test_training_on_batches_is_the_plain_loop(problem, objective, plain_loop, reduce):
    """In parameters, in the loss of all samples and in that of the samples of each batch."""
    problem, params = problem
    end, losses = plain_loop
    probes = {"loss": sc.measure.loss(), "own": sc.measure.batch_loss()}
    run = sc.train(problem, params, lr=0.3, steps=7, batches=sc.Batches(3, seed=5), probes=probes, reduce=reduce)
    np.testing.assert_allclose(flat(run.state), end, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(run["loss"][-1], objective(run.state), rtol=1e-10)
    np.testing.assert_allclose(run["own"][:-1], losses, rtol=1e-10)


def test_without_batches_there_is_no_loss_of_a_batch(problem):
    problem, params = problem
    with pytest.raises(ValueError, match=r"measure.batch_loss: this run has no batches\. Pass `batches` to `train`"):
        sc.train(problem, params, lr=0.1, steps=3, probes={"loss": sc.measure.batch_loss()})


def test_any_rule_runs_on_batches(problem):
    problem, params = problem
    rule, batches = optax.adam(optax.linear_schedule(1e-2, 1e-3, 5)), sc.Batches(4, seed=2, replace=True)
    run = sc.train(problem, params, rule=rule, steps=7, batches=batches, probes={"loss": sc.measure.loss()})
    expected, _ = by_hand(problem, params, rule, batches, 7)(2)
    # Counts, and so the corrections of Adam, are single precision in optax.
    np.testing.assert_allclose(flat(run.state), expected, rtol=1e-6, atol=1e-7)


def test_the_curvature_an_optimiser_meets_is_measured_on_batches_too(problem):
    problem, params = problem
    rule = sc.optimisers.adam(1e-2)
    probes = {"curvature": sc.measure.preconditioned_sharpness(rule, every=2)}
    run = sc.train(problem, params, rule=rule, steps=4, batches=sc.Batches(4), probes=probes)
    assert np.isfinite(run["curvature"]).all()


def test_seeds_are_an_axis(problem):
    problem, params = problem
    run = sc.train(
        problem,
        params,
        lr=0.3,
        steps=4,
        batches=lambda draw: sc.Batches(2, seed=draw),
        over={"draw": np.arange(3)},
        probes={"own": sc.measure.batch_loss()},
    )
    assert run["own"].shape == (3, 5)
    alone = by_hand(problem, params, optax.sgd(0.3), sc.Batches(2), 4)
    for draw in range(3):
        end, losses = alone(draw)
        found = np.concatenate([np.ravel(leaf[draw]) for leaf in jax.tree.leaves(run.state)])
        np.testing.assert_allclose(found, end, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(run["own"][draw, :-1], losses, rtol=1e-10)


def test_a_whole_batch_is_gradient_descent(problem):
    problem, params = problem
    probes = {"loss": sc.measure.loss()}
    plain = sc.train(problem, params, lr=0.3, steps=5, probes=probes)
    whole = sc.train(problem, params, lr=0.3, steps=5, probes=probes, batches=sc.Batches(8))
    np.testing.assert_allclose(whole["loss"], plain["loss"], rtol=1e-11)


def test_a_batch_larger_than_the_data_is_refused(problem):
    problem, params = problem
    with pytest.raises(ValueError, match=r"a batch of 9 is larger than the data, 8 samples"):
        sc.train(problem, params, lr=0.3, steps=5, batches=sc.Batches(9))
    with pytest.raises(TypeError, match="`batches`"):
        sc.train(problem, params, lr=0.3, steps=5, batches=32)
