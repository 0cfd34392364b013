"""Weights of infinite width: what the parametrisations leave of them, and variances in place of their own."""

import functools
import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.core.device import jit
from secant.nets import Parametrization


def test_given_variances_are_those_of_a_network():
    def pair(name, x):
        own = nets.mlp([8], bias=True, activation="erf", parametrization=Parametrization(name, 1.3, 0.4))
        other = nets.mlp([8], bias=True, activation="erf", parametrization=name)
        last = 1.3**2 / 8 if name in ("mean-field", "mup") else 1.3**2  # which vanishes as the width grows
        found = sc.kernel(other, x, variances=[(1.3**2, 0.4**2), (last, 0.4**2)])
        return found.ntk, sc.kernel(own, x).ntk

    names, x = ("ntk", "standard", "mean-field", "mup"), np.random.default_rng(0).normal(size=(3, 4))
    for found, expected in jit(lambda x: [pair(name, x) for name in names], quick=True)(x):
        assert_allclose(found, expected, rtol=1e-12)


def test_limits_of_other_parametrisations():
    x = np.random.default_rng(0).normal(size=(3, 4))
    rules = {name: {"parametrization": name} for name in ("mean-field", "pytorch")}
    rules |= {name: {"parametrization": Parametrization("mup", optimizer=name)} for name in ("sgd", "adam")}
    rules["biased"] = rules["pytorch"] | {"bias": True}

    @functools.partial(jit, quick=True)
    def every(x):
        return {name: sc.kernel(nets.mlp([64], **rule), x)[:2] for name, rule in rules.items()}

    found = jax.tree.map(np.asarray, every(x))
    for name in ("mean-field", "sgd", "adam"):
        assert (found[name][0] == 0).all()
    assert (found["mean-field"][1].diagonal() > 0).all()
    assert (found["biased"][0] > found["pytorch"][0]).all()
    with pytest.raises(ValueError, match="near-zero"):
        sc.kernel(nets.mlp([64], parametrization="near-zero"), x)


def test_given_variances_find_their_layers_behind_branches():
    """Also where the last weights of a branch have sizes that nobody needs, and those of the next branch follow."""
    branches = (
        nets.serial(nets.activation("erf"), nets.dense(4)),
        nets.serial(nets.dense(4), nets.activation("erf"), nets.dense(4)),
    )
    net = nets.serial(nets.dense(4), nets.add(*branches), nets.dense(1, last=True))
    gains = [1.0, 1.2, 1.4, 1.6, 1.8]
    own = nets.with_parametrizations(net, [Parametrization("ntk", gain=gain) for gain in gains])
    x = np.random.default_rng(0).normal(size=(3, 4))
    found, expected = sc.kernel(net, x, variances=[(gain**2, 0.0) for gain in gains]), sc.kernel(own, x)
    assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    assert_allclose(found.ntk, expected.ntk, rtol=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_tangent_kernel_of_mup_at_the_start_is_that_of_wide_networks(optimizer):
    """It stays of order 1 for SGD; for Adam, whose steps know no kernel, the widths of the network stay in it."""
    x = np.random.default_rng(0).normal(size=(3, 4))
    rule = Parametrization("mup", gain=1.2, bias_gain=0.3, optimizer=optimizer)
    errors, draws = [], 40
    for width in (64, 256):
        net = nets.mlp([width, width], activation="erf", bias=True, parametrization=rule)

        @functools.partial(jit, quick=True)
        def every(key, net=net):
            one = lambda key: sc.ntk(net.apply, net.init(key, x.shape), x).dense()  # noqa: E731
            return jax.lax.map(one, jax.random.split(key, draws))

        ratios = np.asarray(every(jax.random.key(1))) / np.asarray(sc.kernel(net, x).ntk)
        spread = ratios.std(0, ddof=1) / math.sqrt(draws)
        # the mean is off by 1/n, which at the larger width is below a tenth
        assert (np.abs(ratios.mean(0) - 1) < 4 * spread + 10 / width).all()
        errors.append(ratios.std(0).max())
    assert errors[1] < 0.75 * errors[0]
