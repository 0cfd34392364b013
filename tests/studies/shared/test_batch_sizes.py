"""Runs on batches of several sizes and with raised step sizes: what is kept of them, against plain loops."""

import jax
import numpy as np
import pytest
import xarray as xr

import secant as sc
from secant import lab
from secant.dynamics import Outcome
from secant.optim import Batches
from secant.studies.shared.catapults.raises import catapults, raised
from secant.studies.shared.features import batch_sizes as sizes
from secant.studies.shared.features.batch_claims import order_findings
from secant.studies.shared.features.tasks import Sizes, feature_task


def critical_step(net):
    """Parameters and inputs -> two over the largest curvature of the mean square, by NumPy from the slopes."""

    @jax.jit
    def slopes(params, x):
        one = lambda row: jax.grad(lambda p: net.apply(p, row[None])[0])(params)  # noqa: E731
        return jax.tree.leaves(jax.vmap(one)(x))

    def critical(params, x):
        J = np.concatenate([np.asarray(leaf, float).reshape(len(x), -1) for leaf in slopes(params, x)], axis=1)
        return len(x) / np.linalg.eigvalsh(J @ J.T)[-1]

    return critical


def test_what_is_kept_is_from_the_look_with_the_smallest_validation_loss():
    task, setting = feature_task("rank-2", Sizes(12, 20, 30, 6)), sizes.Setting(goal=1e-9, epochs=5, steps=40)
    found = sizes.batch_sizes(task, setting, (4, 20), range(2), shares=(0.8,)).isel(share=0)
    net, draw, lr = task.net, task.draw(1), float(found.lr[1])
    xs, ys, critical = np.asarray(draw.x), np.asarray(draw.y), critical_step(net)
    assert lr == pytest.approx(0.8 * critical(draw.start, xs), rel=1e-3)

    loss = jax.jit(lambda p, x, y: sc.losses.mean_mse(net.apply(p, x), y))
    descend = jax.jit(lambda p, x, y: sc.gradient_descent(lambda q: sc.losses.mean_mse(net.apply(q, x), y), lr).step(p))
    drawn = jax.jit(lambda step: Batches(4, seed=1).indices(20, step))
    params, looks, over = draw.start, [], []
    for step in range(26):
        if step % 5 == 0:
            looks.append((float(loss(params, draw.x_valid, draw.y_valid)), params, sum(over)))
        rows = np.asarray(drawn(step))
        over.append(bool(critical(params, xs[rows]) < lr))
        params = descend(params, xs[rows], ys[rows])
    _, best, count = min(looks, key=lambda look: look[0])
    kept = found.sel(batch=4, seed=1)
    assert float(kept.test) == pytest.approx(float(loss(best, draw.x_test, draw.y_test)), rel=1e-4)
    truth = sc.data.TARGETS["rank-2"].egop(6)
    assert float(kept.aligned) == pytest.approx(float(sc.alignment(sc.agop(net.apply, best, draw.x), truth)), rel=1e-4)
    assert int(kept.catapults) == count
    np.testing.assert_array_equal(kept["at"][:6], np.arange(0, 26, 5))
    np.testing.assert_allclose(kept.curve[:6], [look[0] for look in looks], rtol=1e-4)
    assert (found.catapults.sel(batch=20) == 0).all()


def test_a_step_size_may_be_given_itself_and_weights_be_those_of_pytorch():
    task = feature_task("rank-2", Sizes(12, 20, 30, 6, parametrization="pytorch"))
    found = sizes.batch_sizes(task, sizes.Setting(1e-9, 1, 10), (4,), range(2), shares=(0.5,), lr=0.01)
    assert (found.lr == np.float32(0.01)).all()
    draw = task.draw(1)
    critical = critical_step(task.net)(draw.start, np.asarray(draw.x))
    assert float(found.critical.sel(seed=1)) == pytest.approx(critical, rel=1e-3)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draw.start)]
    assert sorted(leaf.shape for leaf in leaves) == [(1,), (6, 12), (12,), (12, 1)]
    bound = {6: 6**-0.5, 12: 12**-0.5}
    assert all(np.abs(leaf).max() <= max(bound.values()) for leaf in leaves)


def test_batches_larger_than_the_data_are_refused():
    study = lab.get("thesis/table-4.1")
    with pytest.raises(ValueError, match="batches: must be at most the number of samples, 200, got 201"):
        study.config("smoke", batches=(4, 201))
    with pytest.raises(ValueError, match="larger than the one before"):
        study.config("smoke", batches=(10, 4))


def test_raises_are_those_of_a_schedule():
    """Every branch of the tree against a run of its own: with all raises, with one, and with a constant step."""
    task, raises, every = feature_task("full-rank", Sizes(10, 15, 5, 5)), ((4, 1.5), (9, 0.5)), 3
    found = raised(task, lr=1.0, raises=raises, steps=12, every=every, seeds=range(2))
    net, draw = task.net, task.draw(1)
    problem = sc.Problem(net.apply, draw.x, draw.y, sc.losses.mean_mse)
    for number in range(3):
        rule = sc.optimisers.gd(sc.schedules.piecewise({0: 1.0} | dict(raises[:number])))
        run = sc.train(problem, draw.start, rule=rule, steps=12, probes={"loss": sc.measure.loss()}, reduce=False)
        one = found.sel(raises=number, seed=1)
        begin = int(one.begin)
        np.testing.assert_allclose(one.loss[: 13 - begin], run["loss"].values[begin:], rtol=1e-4)
        assert begin == (0, 4, 9)[number]
        assert int(one.ended) == (12, 13, 12)[number]  # looks come every three steps, counted from the raise
    before = critical_step(net)(draw.start, np.asarray(draw.x))
    assert float(found.before.sel(raises=0, seed=1)) == pytest.approx(before, rel=1e-3)
    assert set(found.aligned.dims) == {"seed", "raises", "look"}
    # On the way the critical step is looked at as well; the first look is at the start.
    np.testing.assert_allclose(found.critical_along.isel(look=0), found.before, rtol=1e-4)
    assert found.block.sizes["row"] == found.block.sizes["column"] == 5


def test_a_run_that_diverges_between_two_looks_is_recorded_and_the_others_go_on():
    """No look falls between the two raises, and by the second the first has no finite weights left."""
    task = feature_task("full-rank", Sizes(10, 15, 5, 5))
    found = raised(task, lr=1.0, raises=((4, 1e9), (19, 0.5)), steps=40, every=20, seeds=range(2))
    assert (found.outcome.sel(raises=0) != Outcome.DIVERGED).all()
    assert (found.outcome.sel(raises=[1, 2]) == Outcome.DIVERGED).all()
    assert np.isnan(found.before.sel(raises=2)).all()
    assert np.isfinite(found.before.sel(raises=[0, 1])).all()


def test_a_run_that_is_trained_before_its_last_raise_still_shows_what_that_does():
    """The goal is reached at once, and yet the branch goes on for as long as there is between raises."""
    task = feature_task("full-rank", Sizes(10, 15, 5, 5))
    found = raised(task, lr=0.1, raises=((4, 0.2), (10, 0.3)), steps=40, every=2, seeds=range(2), goal=1e9)
    assert found.ended.transpose("seed", "raises").values.tolist() == [[6, 12, 16]] * 2
    assert (found.outcome == Outcome.CONVERGED).all()


def test_a_catapult_is_a_loss_that_rises_and_falls_again():
    rise, fall = [1, 5, 0.1], [1, 0.5, 0.1]
    losses = np.array([rise, rise, fall, rise, [1, 5, 5]], float)
    data = xr.Dataset({"loss": (("raises", "seed", "step"), losses[:, None])}, coords={"raises": np.arange(5)})
    # No raise is no catapult; nor is a loss that falls, or one that stays up.
    assert catapults(data).values[:, 0].tolist() == [0, 1, 1, 2, 2]


def made_up(aligned, reached):
    """Two batch sizes, of which the test loss is minus the alignment."""
    dims = ("batch", "seed")
    return xr.Dataset(
        {
            "aligned": (dims, np.array(aligned)),
            "test": (dims, -np.array(aligned)),
            "over": (dims, np.array([[0.5, 0.4, 0.6, 0.5], [0.0] * 4])),
            "catapults": (dims, np.array([[50, 40, 60, 50], [0] * 4])),
            "outcome": (dims, np.where(reached, Outcome.CONVERGED, Outcome.DIVERGED)),
        },
        coords={"batch": [4, 40], "seed": np.arange(4)},
    )


def test_batch_sizes_are_compared_draw_by_draw():
    """The draws differ by more than the batch sizes: only their differences tell."""
    large = np.array([0.1, 0.4, 0.7, 0.9])
    reached = np.ones((2, 4), bool)
    verdicts = [str(finding.verdict) for finding in order_findings(made_up([large + 0.05, large], reached))]
    assert verdicts == ["holds"] * 4
    gained = np.array([0.05, -0.06, 0.07, -0.05])
    assert [str(f.verdict) for f in order_findings(made_up([large + gained, large], reached))][1:3] == [
        "inconclusive"
    ] * 2
    beyond, aligned, test, goal = order_findings(made_up([large - 0.05, large + 1e-4 * large], reached))
    assert [str(f.verdict) for f in (beyond, aligned, test, goal)] == ["holds", "fails", "fails", "holds"]


def test_runs_that_are_not_trained_are_left_out():
    large = np.array([0.1, 0.4, 0.7, 0.9])
    data = made_up([large + np.array([0.05, 0.05, 0.05, -9.0]), large], np.array([[1, 1, 1, 0], [1] * 4], bool))
    _, aligned, _, goal = order_findings(data)
    assert aligned.measured.value == pytest.approx(0.05)
    assert goal.measured.value == pytest.approx(7 / 8)


def test_the_step_is_halved_in_each_draw_until_small_batches_train():
    task, setting = feature_task("rank-2", Sizes(12, 20, 30, 6)), sizes.Setting(goal=0.5, epochs=40, steps=20)
    found = sizes.largest_that_trains(task, setting, (4, 20), range(3), share=2.0, halvings=6)
    assert (sizes.ended_well(found.sel(batch=4))).all()
    assert set(np.log2(2.0 / found.taken.values)) <= set(range(7))
    assert found.trained.values[-1] == 3
    assert (np.diff(found.trained) >= 0).all()
    np.testing.assert_allclose(found.lr, found.taken * found.critical)
    # With twice the step of any draw that was halved, that draw does not train.
    halved = np.flatnonzero(found.taken < 2.0)
    assert len(halved)
    doubled = 2 * found.taken.values[halved]
    again = sizes.batch_sizes(task, setting, (4,), range(3), shares=sorted(set(doubled.tolist()))).sel(batch=4)
    for seed, share in zip(halved, doubled, strict=True):
        assert not sizes.ended_well(again.sel(seed=seed, share=share))


def test_steps_up_to_the_goal_are_the_same_whatever_the_share():
    """One compiled training for several step sizes gives what one of its own gives."""
    task, setting = feature_task("rank-2", Sizes(12, 20, 30, 6)), sizes.Setting(goal=1e-9, epochs=4, steps=8, pause=2)
    both = sizes.batch_sizes(task, setting, (4,), range(2), shares=(0.5, 0.1), count=False)
    alone = sizes.batch_sizes(task, setting, (4,), range(2), shares=(0.1,), count=False)
    np.testing.assert_allclose(both.test.sel(share=0.1), alone.test.sel(share=0.1), rtol=1e-5)
    assert not both.catapults.any()


def test_schedules_of_raises_that_cannot_be_followed_are_refused():
    study = lab.get("thesis/fig-C.17")
    with pytest.raises(ValueError, match="to: must have as many entries as at, 2, got 4"):
        study.config("smoke", at=(30, 60))
    with pytest.raises(ValueError, match="steps: must be more than the step of the last raise, 10000"):
        study.config("smoke", at=(30, 60, 90, 10_000))
