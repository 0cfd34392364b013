"""Two-layer networks on patches, their remainders along the top direction, and their Taylor models at large width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secant import nets
from secant.lab import get
from secant.studies.shared.panels import patches, shrunk
from secant.studies.shared.two_layer.remainders import Layers, draw_trial, gates, outputs, spanned, tangent_kernel
from secant.studies.thesis.app_b.fig_b_2 import is_large


def network(params, x):
    return outputs(params, gates(params, x), x)


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(5, 4, 6, 3))


def test_a_network_on_patches_is_a_convolutional_network(images):
    net = nets.cnn([7])
    weights = net.init(jax.random.key(0), images.shape, images.dtype)
    inner, outer = (layer["weight"] for layer in weights if layer)
    # Windows of a patch run slowest over the channels, as sliding windows stack them.
    params = Layers(inner.transpose(2, 0, 1, 3).reshape(27, 7), outer.reshape(24, 7))
    np.testing.assert_allclose(network(params, patches(images)), net.apply(weights, images), rtol=1e-6)


def test_images_shrink_to_means_of_squares(images):
    middles = patches(shrunk(images, 2)).reshape(5, 6, 3, 9)[..., 4]
    means = images.reshape(5, 2, 2, 3, 2, 3).mean(axis=(2, 4)).reshape(5, 6, 3)
    np.testing.assert_allclose(middles, means)


@pytest.mark.parametrize("shape", [(6, 1, 4), (6, 5, 4)])
def test_the_kernel_is_the_product_of_jacobians(shape):
    with jax.enable_x64(True):
        random = np.random.default_rng(1)
        trial = draw_trial(random.normal(size=shape), np.ones(6), width=9, ratio=1.0, random=random)
        jacobian = jax.jacobian(lambda p: network(p, trial.x))(jax.tree.map(jnp.asarray, trial.start))
        rows = np.concatenate([np.asarray(leaf).reshape(6, -1) for leaf in jacobian], axis=1)
        kernel = tangent_kernel(trial.start, gates(trial.start, trial.x), trial.x)
    np.testing.assert_allclose(kernel, rows @ rows.T, rtol=1e-10)
    assert float(trial.lr) == pytest.approx(2 / np.linalg.eigvalsh(kernel)[-1])


def test_the_span_of_the_data_keeps_its_products():
    x = np.random.default_rng(2).normal(size=(4, 50))
    small = spanned(x)[:, 0]
    np.testing.assert_allclose(small @ small.T / 4, x @ x.T / 50, rtol=1e-10)


def test_the_followed_direction_stays_the_same_while_the_loss_is_large(outcome):
    data, _, _ = outcome("thesis/fig-B.2")
    large = is_large(data)
    assert float(data.overlap.where(large & (data.step > 0)).min()) > 0.9
    assert int(large.sum("step").min()) >= 5
    assert float((data.loss.max("step") / data.loss.isel(step=0)).min()) > 5


def test_panels_that_there_are_not_are_refused():
    study = get("thesis/fig-B.2")
    with pytest.raises(ValueError, match="panels: there is no svhn"):
        study(study.config("smoke", panels=("svhn",)))
    study = get("thesis/fig-B.4b")
    with pytest.raises(ValueError, match=r"lr: 2\.5 is not one of `lrs`"):
        study(study.config("smoke", lr=2.5))


def test_where_all_neurons_move_alike_the_second_order_is_known(outcome):
    data, config, _ = outcome("thesis/eq-3.4")
    bend = data["apart"].sel(way="together", pair="quadratic - linear").isel(width=-1).mean("network")
    scale = config.radius**2 * config.size / np.sqrt(config.widths[-1])
    assert float(bend.sel(activation="relu")) == pytest.approx(scale / 4, rel=0.02)  # half of all neurons are on
    assert float(bend.sel(activation="tanh")) == pytest.approx(scale / 2 * 0.6057, rel=0.02)  # E[1 / cosh^2]


def test_the_peak_of_a_wide_network_is_proportional_to_its_width(outcome):
    data, config, _ = outcome("thesis/fig-B.4b")
    over = data.loss.max("step").sel(lr=config.lr) / data.width
    assert float(over.mean("trial").max() / over.mean("trial").min()) < 1.3
