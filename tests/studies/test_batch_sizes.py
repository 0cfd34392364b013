"""Runs on batches of several sizes: what is kept of them, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant import lab, nets
from secant.dynamics import Batches
from secant.studies.thesis import _batch_sizes as sizes
from secant.studies.thesis._raises import catapults, raised


def test_what_is_kept_is_from_the_look_with_the_smallest_validation_loss():
    net = nets.mlp([12])
    setting = sizes.Setting("rank-2", 20, 30, 6, share=0.8, goal=1e-9, epochs=5, steps=40)
    found = sizes.batch_sizes(net, setting, (4, 20), range(2))
    draw = sizes.draw_of(net, setting, 1)
    critical = sc.critical_lr(net.apply, draw.start, draw.x, draw.y, sc.losses.mean_mse).ntk
    assert float(found.lr[1]) == pytest.approx(0.8 * critical, rel=1e-3)

    params, looks, over = draw.start, [], []
    for step in range(26):
        if step % 5 == 0:
            valid = float(sc.losses.mean_mse(net.apply(params, draw.x_valid), draw.y_valid))
            looks.append((valid, params, sum(over)))
        rows = Batches(4, seed=1).indices(20, step)
        own = sc.batch_critical_lr(net.apply, params, draw.x, draw.y, sc.losses.mean_mse, np.asarray([rows]))
        over.append(bool(own[0] < draw.lr))
        x, y = draw.x[rows], jnp.asarray(draw.y)[rows]
        params = sc.gradient_descent(lambda p, x=x, y=y: sc.losses.mean_mse(net.apply(p, x), y), draw.lr).step(params)
    _, best, count = min(looks, key=lambda look: look[0])
    kept = found.sel(batch=4, seed=1)
    assert float(kept.test) == pytest.approx(
        float(sc.losses.mean_mse(net.apply(best, draw.x_test), draw.y_test)), rel=1e-4
    )
    truth = sc.data.TARGETS["rank-2"].egop(6)
    assert float(kept.aligned) == pytest.approx(float(sc.alignment(sc.agop(net.apply, best, draw.x), truth)), rel=1e-4)
    assert int(kept.catapults) == count
    assert (found.catapults.sel(batch=20) == 0).all()


def test_batches_larger_than_the_data_are_refused():
    study = lab.get("thesis/table-4.1")
    with pytest.raises(ValueError, match="larger than the data, 300 samples"):
        study(study.config("smoke", batches=(4, 301)))
    with pytest.raises(ValueError, match="at least two sizes, rising"):
        study(study.config("smoke", batches=(10, 4)))


def test_raises_are_those_of_a_schedule():
    """The run with all raises against one with the schedule; with none, against a constant step."""
    net, raises = nets.mlp([10]), ((4, 1.5), (8, 0.5))
    found = raised(
        net, "full-rank", samples=15, tests=5, dim=5, lr=1.0, raises=raises, steps=12, every=4, seeds=range(1)
    )
    of_data, of_net = jax.random.split(jax.random.key(0))
    task = sc.data.regression("full-rank", of_data, samples=15, test_samples=5, dim=5)
    problem, start = sc.Problem(net.apply, *task.train, sc.losses.mean_mse), net.init(of_net, (15, 5))
    for number, schedule in ((2, sc.schedules.piecewise({0: 1.0} | dict(raises))), (0, sc.schedules.constant(1.0))):
        rule, probes = sc.optimisers.gd(schedule), {"loss": sc.measure.loss()}
        run = sc.train(problem, start, rule=rule, steps=12, probes=probes, reduce=False)
        np.testing.assert_allclose(found.loss.sel(raises=number, seed=0), run["loss"], rtol=1e-4)
    assert set(found.aligned.dims) == {"seed", "raises", "look"}
    assert catapults(found, raises).shape == (1, 3)
    assert not catapults(found, raises).sel(raises=0).any()


def test_schedules_of_raises_that_cannot_be_followed_are_refused():
    study = lab.get("thesis/fig-C.17")
    with pytest.raises(ValueError, match="as many entries"):
        study(study.config("smoke", at=(30, 60)))
    with pytest.raises(ValueError, match="before the last step"):
        study(study.config("smoke", at=(30, 60, 90, 10_000)))
