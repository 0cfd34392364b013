"""Best test loss against step size: what the runs are made of, and how the claims about them are tested."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from secant import data, lab
from secant.expansion import expand
from secant.lab.registry.config import configure
from secant.lab.verdicts.significance import falling_trend
from secant.losses import mean_mse
from secant.optim import Batches, gradient_descent
from secant.studies.shared import panels
from secant.studies.shared.step_sizes import generalization as steps
from secant.studies.shared.step_sizes.statements import accuracy_findings, falls_beyond, gain_beyond, loss_findings
from secant.theory.catapult import scaling as cs


def small(**options):
    return configure(steps.PanelConfig, "smoke", **({"samples": 12, "width": 10, "held_out": 20} | options))


def table(rows, ratios):
    return xr.DataArray(np.asarray(rows, float), dims=("seed", "ratio"), coords={"ratio": list(ratios)})


@pytest.mark.parametrize("layers", [2, 3])
def test_in_the_span_of_the_data_test_outputs_are_the_networks(layers):
    config = small(layers=layers)
    net = panels.network(panels.PANELS["digits"], config)
    split = panels.draw(panels.PANELS["digits"], config, 0)[1]
    trial, _ = steps._trial(net, split, 0)
    params = net.init(jax.random.key(0), split[0].shape)

    def after(f, start, x):
        step = jax.jit(gradient_descent(lambda p: mean_mse(f(p, x), jnp.asarray(split[1])), 0.5).step)
        return step(step(start))

    whole, small_ = after(net.apply, params, split[0]), after(net.apply, trial.start, trial.x)
    ours = steps._on_test(net)(small_, trial.x_test)
    np.testing.assert_allclose(ours, net.apply(whole, split[2]), rtol=1e-4, atol=1e-5)  # the data is in float32
    assert np.abs(ours - net.apply(params, split[2])).max() > 1e-2


def test_the_linear_model_in_the_span_of_its_gradients_is_the_expansion():
    config = small(activation="tanh")
    net = panels.network(panels.PANELS["digits"], config)
    x, y, x_test, _ = split = panels.draw(panels.PANELS["digits"], config, 0)[1]
    _, span = steps._trial(net, split, 0)
    params = net.init(jax.random.key(0), x.shape)
    model, a = expand(net.apply, params, 1), np.zeros(len(y))
    state = params
    for _ in range(3):
        state = gradient_descent(lambda p: mean_mse(model(p, x), jnp.asarray(y)), 0.5).step(state)
        a = a + 2 * 0.5 / len(y) * (span.outputs - span.kernel @ a - y)
    np.testing.assert_allclose(span.outputs - span.kernel @ a, model(state, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(span.outputs_test - span.cross @ a, model(state, x_test), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", steps.MODELS)
def test_on_batches_each_model_takes_the_steps_of_its_expansion(kind):
    """Two steps of the study's own run, from its records, against plain steps on the same batches."""
    panel, config = panels.PANELS["digits"]._replace(batch=5), replace(small(activation="tanh", every=1), steps=2)
    net = panels.network(panel, config)
    x, y, x_test, y_test = split = panels.draw(panel, config, 3)[1]
    trial, span = steps._trial(net, split, 3)
    found = steps._runner(net, kind, panel, config)(span if kind == "linear" else trial, np.array([0.3]), 10.0)
    params = net.init(jax.random.key(3), x.shape)
    model = net.apply if kind == "network" else expand(net.apply, params, 1 if kind == "linear" else 2)
    loss = jax.jit(lambda p, x, y: mean_mse(model(p, x), y))
    descend = jax.jit(lambda p, x, y: gradient_descent(lambda q: mean_mse(model(q, x), y), 0.3).step(p))
    x, y = np.asarray(x), np.asarray(y)
    tests = [float(loss(params, x_test, y_test))]
    for step in range(2):
        index = np.asarray(Batches(5, seed=3).indices(len(y), step))
        params = descend(params, x[index], y[index])
        tests.append(float(loss(params, x_test, y_test)))
    assert float(found.best_loss[0]) == pytest.approx(min(tests), rel=1e-4)
    assert float(found.final[0]) == pytest.approx(float(loss(params, x, y)), rel=1e-4)


def test_patches_make_a_dense_layer_a_convolution():
    images = np.random.default_rng(0).normal(size=(2, 5, 4, 3))
    kernel = np.random.default_rng(1).normal(size=(3, 3, 3, 6))
    numbers = ("NHWC", "HWIO", "NHWC")
    ours = panels.patches(images) @ kernel.transpose(2, 0, 1, 3).reshape(-1, 6)
    theirs = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=numbers)
    np.testing.assert_allclose(ours, theirs.reshape(2, 20, 6), rtol=1e-10)
    np.testing.assert_allclose(panels.shrunk(images, 2)[:, 0, 0], images[:, :2, :2].mean(axis=(1, 2)))


def test_the_three_models_have_their_regimes(outcome):
    found = outcome("thesis/fig-3.2b")[0]
    regime = found.regime.transpose("model", "ratio", "seed")
    assert (regime.sel(model="linear", ratio=regime.ratio > 1) == cs.DIVERGENT).all()
    assert (regime.sel(ratio=0.6) == cs.MONOTONE).all()
    assert (regime.sel(model=["network", "quadratic"], ratio=[1.5, 1.8]) == cs.CATAPULT).all()
    assert (found.largest.sel(model="linear") == 0.9).all()
    assert (found.largest.sel(model="quadratic") == 1.8).all()  # 2, by the theory of one sample
    # Nothing that ended early is below the goal by luck: it was trained.
    converged = found.outcome == 1
    assert (found.final.where(converged, 0) < 1e-2).all()


def test_the_figures_share_their_runs(outcome):
    one, all_, accuracy = (outcome(f"thesis/fig-{name}")[0] for name in ("3.2b", "3.4", "B.5"))
    xr.testing.assert_equal(one.best_loss.drop_attrs(), all_.best_loss.sel(panel="digits", drop=True).drop_attrs())
    xr.testing.assert_equal(all_.best_accuracy, accuracy.best_accuracy)


def test_a_gain_is_tested_on_seeds_that_did_not_choose_it():
    ratios = (0.5, 0.9, 1.2, 1.6)
    clear = gain_beyond(table([[1.0, 1.1, 0.8, 0.5], [2.0, 2.1, 1.8, 1.6], [3.0, 3.1, 2.8, 2.5]], ratios))
    assert clear.mean == pytest.approx(-1.4 / 3)
    assert clear.ratio == 1.6
    assert clear.p < 0.01
    # Noise whose smallest value is always beyond: every seed has its own, which the others do not choose.
    noise = np.random.default_rng(0).normal(size=(200, 8, 12))
    found = [gain_beyond(table(one, np.linspace(0.1, 3.4, 12))).p < 0.05 for one in noise]
    assert np.mean(found) < 0.05
    assert gain_beyond(table([[1.0, np.nan], [1.0, np.nan]], (0.5, 1.5))).p == 1
    assert gain_beyond(table([[1.0, 1.0], [1.0, 1.0]], (0.5, 1.5))).p == 1


def test_a_trend_counts_within_seeds_only():
    falling = table([[3.0, 2.0, 1.0, 0.0], [30.0, 20.0, 10.0, 5.0]], (1, 2, 3, 4))
    rho, p = falling_trend(falling)
    assert rho == pytest.approx(-1)
    assert p == pytest.approx(1 / 24**2, abs=2e-3)
    rho, p = falling_trend(table([[0.0, 1.0, 2.0], [-9.0, -8.0, -7.0]], (1, 2, 3)))
    assert rho == pytest.approx(1)
    assert p > 0.9
    assert np.isnan(falling_trend(table([[1.0, np.nan, np.nan]], (1, 2, 3)))).all()


def test_the_range_of_a_trend_is_chosen_by_other_seeds():
    ratios = (0.5, 0.9, 1.2, 1.4, 1.6, 2.0)
    turn = [[2.0, 1.5, 1.2, 1.0, 0.8, 3.0], [3.0, 2.5, 2.2, 2.0, 1.8, 4.0], [4.0, 3.5, 3.2, 3.0, 2.8, 5.0]]
    rho, p = falls_beyond(table(turn, ratios))
    assert rho == pytest.approx(-1)  # the last step, after the turn, is no part of it
    assert p < 0.01
    # Noise has no range over which it falls: its lowest step is another for the other seeds.
    noise = np.random.default_rng(1).normal(size=(100, 8, 12))
    found = [falls_beyond(table(one, np.linspace(0.1, 3.4, 12)))[1] < 0.05 for one in noise]
    assert np.mean(found) < 0.12
    assert np.isnan(falls_beyond(table([[1.0, np.nan], [1.0, np.nan]], (0.5, 1.5)))[0])


@pytest.mark.parametrize("ratios", [(), (0.9, 0.5, 1.5), (0.5, 0.5, 1.5), (1.2, 1.5), (0.5, 0.9)])
def test_grids_that_compare_nothing_are_refused(ratios):
    with pytest.raises(ValueError, match="ratios: "):
        steps.sweep_steps(small(ratios=ratios))


def test_where_every_run_diverges_nothing_is_decided(outcome):
    data = outcome("thesis/fig-3.2b")[0]
    bare = data.assign(regime=xr.full_like(data.regime, cs.DIVERGENT))
    verdicts = [finding.verdict for finding in [*loss_findings(bare, 64), *accuracy_findings(bare, 300, 64)]]
    assert verdicts.count("inconclusive") == len(verdicts) - 2  # that linear models diverge is decided, twice
    assert "fails" not in verdicts


def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"there is no 'ag-news'.*AG News of the thesis is not available"):
        steps.sweep_steps(small(panel="ag-news"))
    with pytest.raises(ValueError, match="convolutional networks here have 2, got 3"):
        steps.sweep_steps(small(panel="cifar-2-cnn", layers=3))
    monkeypatch.setenv("SECANT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(data.MissingDataError, match="nowhere"):
        steps.sweep_steps(small(panel="mnist"))
    with pytest.raises(ValueError, match="panels: "):
        lab.get("thesis/fig-3.4")(lab.get("thesis/fig-3.4").config("smoke", panels=()))
