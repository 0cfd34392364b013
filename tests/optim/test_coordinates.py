"""Few steps move the signals of every layer by a power of the width, which the parametrisation sets."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secant as sc
from secant import nets
from secant.nets import Parametrization
from secant.optim.coordinates import paired_power_law

WIDTHS = (64, 256)
X = np.random.default_rng(0).normal(size=(2, 5))
Y = np.array([4.0, -3.0])  # far from what random networks say: all draws start at about one residual


def by_width(rule, bias=False):
    return lambda width: nets.mlp([width] * 2, activation="tanh", parametrization=rule, bias=bias)


def next_order(widths=WIDTHS):
    """By how much fluctuations of one over the root of the width change an exponent between these widths."""
    return (widths[0] ** -0.5 - widths[-1] ** -0.5) / math.log(widths[-1] / widths[0])


ADAM = sc.optimisers.adam(1e-6, eps=1e-20)
SHARES = {"standard-adam": 3}
"""Where the last layer's own share of a change falls as so much over the root of the width."""
EXPECTED = {  # exponents of the first layer, the hidden ones and the outputs after one small step
    "mup-sgd": (Parametrization("mup"), {"lr": 1e-2}, (0.0, 0.0, 0.0)),
    "mup-adam": (Parametrization("mup", optimizer="adam"), {"rule": ADAM}, (0.0, 0.0, 0.0)),
    "ntk": (Parametrization("ntk"), {"lr": 1e-2}, (-0.5, -0.5, 0.0)),
    "mean-field": (Parametrization("mean-field"), {"lr": 1e-2}, (-1.0, -1.0, -1.0)),
    "standard-sgd": (Parametrization("standard"), {"lr": 1e-5}, (-0.5, 0.5, 1.0)),
    "standard-adam": (Parametrization("standard"), {"rule": ADAM}, (0.0, 1.0, 1.5)),
}


@pytest.mark.parametrize("case", EXPECTED)
def test_exponents_of_the_first_step_are_those_of_theory(case):
    rule, how, expected = EXPECTED[case]
    found = sc.coordinate_check(by_width(rule), WIDTHS, X, Y, steps=1, draws=12, **how)
    for layer, exponent in zip(("0 dense", "2 dense", "outputs"), expected, strict=True):
        law = found.exponent(layer)
        assert abs(law.exponent - exponent) < 4 * law.error + SHARES.get(case, 1) * next_order(), (layer, law)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_in_mup_all_layers_move_alike_after_several_steps(optimizer):
    rule = Parametrization("mup", optimizer=optimizer)
    how = {"lr": 0.1} if optimizer == "sgd" else {"rule": sc.optimisers.adam(0.05, eps=1e-20)}
    found = sc.coordinate_check(by_width(rule, True), WIDTHS, X, Y, steps=5, draws=12, **how)
    assert found.alike
    assert {name: one.verdict for name, one in found.layers.items()} == dict.fromkeys(
        ["0 dense", "2 dense", "outputs"], "alike"
    )
    for layer in found.layers:
        law = found.exponent(layer)
        assert abs(law.exponent) < 4 * law.error + next_order()
        assert float(found.dataset.change.sel(layer=layer).isel(step=-1).mean()) > 0.05  # features are learnt


def test_verdicts_of_other_parametrisations_name_what_is_wrong():
    standard = sc.coordinate_check(by_width("standard"), WIDTHS, X, Y, lr=1e-5, steps=2, draws=12)
    verdicts = [one.verdict for one in standard.layers.values()]
    assert (verdicts[0], verdicts[2], standard.alike) == ("fades", "grows", False)
    text = str(standard)
    assert "grows: moves more the wider the network" in text
    assert max(map(len, text.splitlines())) <= 120
    wild = sc.coordinate_check(by_width("standard"), (8, 16), X, Y, lr=1e200, steps=3, draws=2)
    assert "diverged" in {one.verdict for one in wild.layers.values()}
    fixed = sc.coordinate_check(by_width("ntk"), (8, 16), X, Y, rule=lambda loss: sc.Map(lambda p: p, lambda p: p))
    assert {one.verdict for one in fixed.layers.values()} == {"still"}


@pytest.fixture(scope="module")
def small():
    """Networks of widths 8 and 16, and a check of them."""
    with jax.enable_x64(True):
        net = by_width("ntk", bias=True)
        return net, sc.coordinate_check(net, (8, 16), X, Y, lr=0.1, steps=2, draws=3, seed=5)


def test_records_are_means_of_signals_and_of_their_changes(small):
    net, found = small
    assert found.dataset.sizes == {"width": 2, "draw": 3, "step": 3, "layer": 3}
    one = net(16)
    params = one.init(jax.random.key(5 + 2), X.shape)
    signals = jax.jit(lambda p: one.pre_activations(p, X))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean((one.apply(p, X) - Y) ** 2)))
    before = jax.tree.map(np.asarray, signals(params))
    for _ in range(2):
        params = jax.tree.map(lambda p, g: np.asarray(p) - 0.1 * np.asarray(g), params, gradient(params))
    after = jax.tree.map(np.asarray, signals(params))
    at = found.dataset.isel(width=1, draw=2)
    np.testing.assert_allclose(at.size.isel(step=0), [np.abs(z).mean() for z in before], rtol=1e-12)
    np.testing.assert_allclose(at.size.isel(step=2), [np.abs(z).mean() for z in after], rtol=1e-12)
    changes = [np.abs(b - a).mean() for a, b in zip(before, after, strict=True)]
    np.testing.assert_allclose(at.change.isel(step=2), changes, rtol=1e-12)
    assert bool((found.dataset.change.isel(step=0) == 0).all())


def test_layers_of_images_and_tokens_have_names_of_their_own():
    x = np.random.default_rng(1).normal(size=(2, 4, 4, 2))
    make = lambda width: nets.vit(blocks=1, patch=2, dim=width, heads=2, parametrization="mup")  # noqa: E731
    found = sc.coordinate_check(make, (4, 8), x, Y, lr=1e-2, steps=1, draws=2)
    names = list(found.layers)
    assert [*names[:3], names[-1]] == ["1 dense", "2 positions", "3.0.0 layer_norm", "outputs"]
    assert {"3.0.1 attention query", "4.0.1 dense"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_best_step_size_of_mup_stays_and_that_of_the_standard_network_falls(optimizer):
    x = np.random.default_rng(2).normal(size=(6, 4))
    y = np.tanh(x[:, 0] * x[:, 1]) * 2
    grids = {"mup": 2.0 ** np.arange(-7, 3), "standard": 2.0 ** np.arange(-14, 1)}
    best = {}
    for name, grid in grids.items():
        rule = Parametrization(name, optimizer=optimizer if name == "mup" else "sgd")
        for width in (8, 64):
            net = by_width(rule)(width)
            starts = [net.init(jax.random.key(draw), x.shape) for draw in range(4)]
            update = lambda loss, lr: (sc.gradient_descent if optimizer == "sgd" else _adam)(loss, lr)  # noqa: E731
            run = sc.train(
                sc.Problem(net.apply, x, y, "mse"),
                lambda draw: draw,
                steps=12,
                rule=update,
                over={"lr": grid, "draw": jax.tree.map(lambda *leaves: np.stack(leaves), *starts)},
                probes={"loss": sc.measure.loss()},
            )
            ends = np.log(np.minimum(run.dataset["loss"].isel(step=-1).fillna(1e6), 1e6)).mean("draw")
            best[name, width] = float(np.log2(grid[int(ends.values.argmin())]))
    # eight times the width; the grid goes by factors of two
    assert abs(best["mup", 64] - best["mup", 8]) <= 1
    assert best["standard", 64] - best["standard", 8] <= -2


def _adam(loss, lr):
    return sc.optimisers.adam(lr, eps=1e-20)(loss)


def test_exponents_of_pairs_use_what_repeats_share():
    noise = np.random.default_rng(0).normal(size=200)
    values = np.exp(3 * noise) * np.array([2.0, 4.0, 8.0])[:, None] ** 0.5
    law = paired_power_law([2, 4, 8], values)
    np.testing.assert_allclose(law[:2], (0.5, 0.0), atol=1e-12)
    assert law.freedom == 199
    jitter = np.exp(0.1 * np.random.default_rng(1).normal(size=(3, 200)))
    law = paired_power_law([2, 4, 8], values * jitter)
    assert abs(law.exponent - 0.5) < 4 * law.error < 0.1
    np.testing.assert_allclose(law.factor, np.exp(3 * noise.mean()), rtol=0.05)


def test_the_plot_has_a_line_a_layer(small):
    axes = small[1].plot()
    assert axes.get_xscale() == "log"
    labels = [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()]
    assert labels == ["0 dense", "2 dense", "outputs"]
    axes.figure.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widths": (8,)}, "`widths` must hold at least two different widths"),
        ({"widths": (8, 8)}, "`widths` must hold at least two different widths"),
        ({"draws": 1}, "`draws` must be a whole number of at least 2"),
        ({"lr": None}, "pass either `lr`"),
        ({"lr": -1.0}, "`lr` must be a finite number above 0"),
        ({"net": lambda width: width}, "must turn a width into a secant.nets.Network, got int"),
        ({"net": lambda width: nets.mlp([8] * (width // 8))}, "must have the same layers"),
    ],
)
def test_what_cannot_be_checked_is_refused(change, message):
    given = {"net": by_width("ntk"), "widths": (8, 16), "x": X, "y": Y, "lr": 0.1} | change
    with pytest.raises((ValueError, TypeError), match=message):
        sc.coordinate_check(given.pop("net"), given.pop("widths"), given.pop("x"), given.pop("y"), **given)


def test_an_unknown_layer_is_refused(small):
    with pytest.raises(ValueError, match=r"there is no layer 'head'\. There are '0 dense'"):
        small[1].exponent("head")
