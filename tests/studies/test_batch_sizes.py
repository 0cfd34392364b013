"""Runs on batches of several sizes and with raised step sizes: what is kept of them, against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import secant as sc
from secant import lab
from secant.dynamics import Batches, Outcome
from secant.studies.thesis import _batch_sizes as sizes
from secant.studies.thesis._feature_tasks import Sizes, feature_task
from secant.studies.thesis._raises import catapults, raised


def test_what_is_kept_is_from_the_look_with_the_smallest_validation_loss():
    task, setting = feature_task("rank-2", Sizes(12, 20, 30, 6)), sizes.Setting(goal=1e-9, epochs=5, steps=40)
    found = sizes.batch_sizes(task, setting, (4, 20), range(2), shares=(0.8,)).isel(share=0)
    net, draw, lr = task.net, task.draw(1), float(found.lr[1])
    critical = sc.critical_lr(net.apply, draw.start, draw.x, draw.y, sc.losses.mean_mse).ntk
    assert lr == pytest.approx(0.8 * critical, rel=1e-3)

    params, looks, over = draw.start, [], []
    for step in range(26):
        if step % 5 == 0:
            valid = float(sc.losses.mean_mse(net.apply(params, draw.x_valid), draw.y_valid))
            looks.append((valid, params, sum(over)))
        rows = Batches(4, seed=1).indices(20, step)
        own = sc.batch_critical_lr(net.apply, params, draw.x, draw.y, sc.losses.mean_mse, np.asarray([rows]))
        over.append(bool(own[0] < lr))
        x, y = draw.x[rows], jnp.asarray(draw.y)[rows]
        params = sc.gradient_descent(lambda p, x=x, y=y: sc.losses.mean_mse(net.apply(p, x), y), lr).step(params)
    _, best, count = min(looks, key=lambda look: look[0])
    kept = found.sel(batch=4, seed=1)
    assert float(kept.test) == pytest.approx(
        float(sc.losses.mean_mse(net.apply(best, draw.x_test), draw.y_test)), rel=1e-4
    )
    truth = sc.data.TARGETS["rank-2"].egop(6)
    assert float(kept.aligned) == pytest.approx(float(sc.alignment(sc.agop(net.apply, best, draw.x), truth)), rel=1e-4)
    assert int(kept.catapults) == count
    np.testing.assert_array_equal(kept["at"][:6], np.arange(0, 26, 5))
    np.testing.assert_allclose(kept.curve[:6], [look[0] for look in looks], rtol=1e-4)
    assert (found.catapults.sel(batch=20) == 0).all()


def test_a_step_size_may_be_given_itself_and_weights_be_those_of_pytorch():
    task = feature_task("rank-2", Sizes(12, 20, 30, 6, parametrization="pytorch"))
    found = sizes.batch_sizes(task, sizes.Setting(1e-9, 1, 10), (4, 10), range(2), shares=(0.5,), lr=0.01)
    assert (found.lr == np.float32(0.01)).all()
    draw = task.draw(1)
    critical = sc.critical_lr(task.net.apply, draw.start, draw.x, draw.y, sc.losses.mean_mse).ntk
    assert float(found.critical.sel(seed=1)) == pytest.approx(critical, rel=1e-3)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draw.start)]
    assert sorted(leaf.shape for leaf in leaves) == [(1,), (6, 12), (12,), (12, 1)]
    bound = {6: 6**-0.5, 12: 12**-0.5}
    assert all(np.abs(leaf).max() <= max(bound.values()) for leaf in leaves)


def test_batches_larger_than_the_data_are_refused():
    study = lab.get("thesis/table-4.1")
    with pytest.raises(ValueError, match="larger than the data, 200 samples"):
        study(study.config("smoke", batches=(4, 201)))
    with pytest.raises(ValueError, match="at least two sizes, rising"):
        study(study.config("smoke", batches=(10, 4)))


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
    before = sc.critical_lr(net.apply, draw.start, draw.x, draw.y, sc.losses.mean_mse).ntk
    assert float(found.before.sel(raises=0, seed=1)) == pytest.approx(before, rel=1e-3)
    assert set(found.aligned.dims) == {"seed", "raises", "look"}
    assert found.block.sizes["row"] == found.block.sizes["column"] == 5


def test_a_run_that_diverges_between_two_looks_is_recorded_and_the_others_go_on():
    """No look falls between the two raises, and by the second the first has no finite weights left."""
    task = feature_task("full-rank", Sizes(10, 15, 5, 5))
    found = raised(task, lr=1.0, raises=((4, 1e9), (19, 0.5)), steps=40, every=20, seeds=range(2))
    assert (found.outcome.sel(raises=0) != Outcome.DIVERGED).all()
    assert (found.outcome.sel(raises=[1, 2]) == Outcome.DIVERGED).all()
    assert np.isnan(found.before.sel(raises=2)).all()
    assert np.isfinite(found.before.sel(raises=[0, 1])).all()


def branches(losses, before, critical):
    """Records of one seed, made up."""
    return xr.Dataset(
        {
            "loss": (("raises", "seed", "step"), np.array(losses, float)[:, None]),
            "before": (("raises", "seed"), np.array(before, float)[:, None]),
            "critical": (("raises", "seed"), np.array(critical, float)[:, None]),
        },
        coords={"raises": np.arange(len(losses))},
    )


def test_a_catapult_rises_falls_and_leaves_a_larger_critical_step():
    rise, fall = [1, 5, 0.1], [1, 0.5, 0.1]
    found = catapults(branches([rise, rise, fall, rise, [1, 5, 5]], [1, 1, 2, 2, 3], [1, 2, 3, 1.5, 4]))
    # No raise is no catapult; nor is a loss that falls, a smaller critical step, or a loss that stays up.
    assert found.values[:, 0].tolist() == [0, 1, 1, 1, 1]


def test_steps_up_to_the_goal_are_the_same_whatever_the_share():
    """One compiled training for several step sizes gives what one of its own gives."""
    task, setting = feature_task("rank-2", Sizes(12, 20, 30, 6)), sizes.Setting(goal=1e-9, epochs=4, steps=8, pause=2)
    both = sizes.batch_sizes(task, setting, (4,), range(2), shares=(0.5, 0.1), count=False)
    alone = sizes.batch_sizes(task, setting, (4,), range(2), shares=(0.1,), count=False)
    np.testing.assert_allclose(both.test.sel(share=0.1), alone.test.sel(share=0.1), rtol=1e-5)
    assert not both.catapults.any()


def test_schedules_of_raises_that_cannot_be_followed_are_refused():
    study = lab.get("thesis/fig-C.17")
    with pytest.raises(ValueError, match="as many entries"):
        study(study.config("smoke", at=(30, 60)))
    with pytest.raises(ValueError, match="before the last step"):
        study(study.config("smoke", at=(30, 60, 90, 10_000)))
