"""Runs of gradient descent with catapults: against a plain loop, and what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant import lab
from secant.lab.registry.config import configure
from secant.optim import Batches
from secant.studies.shared.catapults import panels
from secant.studies.shared.catapults.runs import Looks, descend
from secant.studies.thesis.ch4.table_4_2 import rates

CONFIG = configure(panels.Networks, "smoke", samples=12, width=16)


def test_a_run_on_batches_is_that_of_a_plain_loop():
    start = panels.start_of("shallow", CONFIG, 0)
    sizes = np.array([0.5, 1.5]) * start.critical
    run = descend([start], sizes[None], steps=2, looks=Looks(split=(1, 3), batch=True), batch=4, seeds=[7]).isel(run=0)
    f, params = start.net.apply, start.params
    x, y = jnp.asarray(start.x), jnp.asarray(start.y)

    @jax.jit
    def at(params, rows):
        def loss(p, rows=slice(None)):
            return sc.losses.mean_mse(f(p, x[rows]), y[rows])

        return loss(params), jax.value_and_grad(loss)(params, rows), f(params, x) - y

    for step, lr in enumerate(sizes):
        rows = Batches(4, seed=7).indices(12, step)
        whole, (before, gradient), residual = at(params, rows)
        kernel = np.asarray(sc.ntk(f, params, x).dense())
        values, vectors = np.linalg.eigh(kernel)
        parts = np.cumsum((vectors.T @ np.asarray(residual))[::-1] ** 2) / 12
        assert float(run.loss[step]) == pytest.approx(float(whole), rel=1e-4)
        np.testing.assert_allclose(run.within[step], parts[[0, 2]], rtol=2e-3, atol=1e-5)
        np.testing.assert_allclose(run.beyond[step], parts[-1] - parts[[0, 2]], rtol=2e-3, atol=1e-5)
        assert float(run.critical[step]) == pytest.approx(12 / values[-1], rel=1e-3)
        own = np.linalg.eigvalsh(kernel[np.ix_(rows, rows)])[-1]
        assert float(run.own[step]) == pytest.approx(4 / own, rel=1e-3)
        assert float(run.before[step]) == pytest.approx(float(before), rel=1e-4)
        params = jax.tree.map(lambda p, g, lr=lr: p - lr * g, params, gradient)
        assert float(run.after[step]) == pytest.approx(float(at(params, rows)[1][0]), rel=1e-3)


@pytest.mark.parametrize("name", panels.PANELS)
def test_every_panel_has_biases_with_the_weights_of_pytorch(name):
    counts = []
    for rule in ("ntk", "pytorch"):
        config = configure(panels.Networks, "smoke", samples=4, width=4, channels=2, features=4, parametrization=rule)
        panel = panels.PANELS[name]
        shape = (4, 16) if panel.network in panels.DENSE else (4, 4, 4, 1)
        init = functools.partial(panels.network(panel, config).init, shape=shape)
        counts.append(len(jax.tree.leaves(jax.eval_shape(init, jax.random.key(0)))))
    assert counts[1] > counts[0]


def test_images_have_the_length_of_standardised_ones():
    for name, shape in (("fcn", (12, 12)), ("cnn", (12, 4, 4, 1))):
        x = panels.start_of(name, CONFIG, 0).x
        assert x.shape == shape
        # Rotated into the span of the data, inputs keep their mean square an input of the first layer.
        np.testing.assert_allclose((np.asarray(x) ** 2).reshape(12, -1).mean(axis=1), 1.0, rtol=1e-3)


def test_rates_are_those_of_the_definition():
    """Three steps, of which two raise the loss, one of them above the critical step of its batch."""
    import xarray as xr

    rows = {"loss": [1.0, 2.5, 2.0, 2.1], "own": [0.4, 0.3, 0.6, 1.0], "lr": [0.5] * 4}
    rows |= {"before": [1.0] * 4, "after": [2.0, 0.5, 0.5, 2.0]}
    data = xr.Dataset(
        {key: (("case", "run", "step"), np.array(value)[None, None]) for key, value in rows.items()},
        coords={"case": ["a"], "step": np.arange(4)},
    ).assign(outcome=(("case", "run"), [[0]]), stopped_at=(("case", "run"), [[0]]))
    found = rates(data).isel(case=0, run=0)
    assert float(found.foretold) == 0.5
    assert float(found.followed) == 0.5
    assert float(found.doubled) == 1.0
    assert float(found.itself) == 1.0
    assert float(found.missed) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("thesis/fig-4.3", {"panels": ("svhn",)}, "there is no 'svhn'"),
        ("thesis/fig-4.4", {"panels": ("vit",)}, "some of fcn, cnn"),
        ("thesis/fig-4.4", {"top": 40}, "top: must be below the number of samples, 32"),
        ("thesis/fig-4.7", {"low": 3.0}, "from low up to high"),
        ("thesis/fig-4.7", {"batch": 33}, "batch: must be at most the number of samples, 32"),
        ("thesis/fig-4.7", {"data": "letters"}, "data: must be one of"),
        ("thesis/table-4.2", {"networks": ("vit",)}, "some of shallow, fcn, cnn"),
        ("thesis/fig-4.5", {"lr": 0.4}, "lr: must be above the critical step of the longer sample, 0.5"),
    ],
)
def test_what_is_not_there_is_refused(id, options, message):
    with pytest.raises(ValueError, match=message):
        lab.get(id).config("smoke", **options)
