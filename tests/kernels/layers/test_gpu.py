"""Two layers in one pass: the same kernels as by the rule of each, by a GPU's program that is interpreted."""

import functools

import jax
import numpy as np
import pytest

from secant import nets
from secant.core.device import jit
from secant.kernels import infinite_width, kernel
from secant.kernels.arc_cosine import arc, gap_of
from secant.kernels.layers import gpu
from secant.kernels.layers.gpu import Bend
from secant.kernels.layers.windows import cell_means, window_sums
from secant.kernels.pairs import blocks


def quickly(function, static=()):
    return jit(function, quick=True, static_argnums=static)


RELU, LEAKY = Bend(0.25, 0.25), Bend(0.65**2, 0.35**2)


def test_a_network_has_the_same_kernels(monkeypatch):
    rule = nets.Parametrization("ntk", gain=1.3)
    net = nets.serial(
        nets.conv(4, 3, parametrization=rule, bias=True), nets.activation("relu"),
        nets.conv(4, 3, parametrization=rule, bias=True), nets.activation(nets.activations.leaky(0.3)),
        nets.average_pool((1, 2)), nets.global_average_pool(), nets.dense(1, parametrization=rule),
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(8, 2, 4, 2)).astype(np.float32)
    monkeypatch.setattr(infinite_width, "block_size", lambda *_: 32)
    monkeypatch.setattr(gpu, "STRIP", 2)
    calls, called = [], gpu._called
    monkeypatch.setattr(gpu, "_called", lambda *given: (calls.append(given[0]), called(*given))[1])
    found = []
    for on_gpu in (False, True):
        assert not calls
        monkeypatch.setattr(gpu, "on_gpu", lambda on_gpu=on_gpu: on_gpu)
        blocks.compiled.cache_clear()
        found.append(kernel(net, x))
    blocks.compiled.cache_clear()
    assert len(calls) == 2  # an activation and a convolution, an activation and a pool
    np.testing.assert_allclose(found[1].nngp, found[0].nngp, rtol=2e-6)
    np.testing.assert_allclose(found[1].ntk, found[0].ntk, rtol=1e-5)


def signals(side):
    """Covariances and sizes of 32 pairs of images: the first equal, the second parallel, of the third one black."""
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(2, *side, 3, 32))
    b[..., 0], b[..., 1], b[..., 2] = a[..., 0], 3 * a[..., 1], 0.0
    cov = np.einsum("abcn,decn->abden", a, b) / 3
    sizes = [np.sqrt((x**2).mean(2)) for x in (a, b)]
    ntk = 0.7 * cov + 0.2
    return tuple(x.astype(np.float32) for x in (cov, *sizes, ntk))


@functools.partial(quickly, static=0)
def behind(bend, cov, first, second, ntk):
    """An activation by its rule, in the precision of what it is given."""
    scale = first[:, :, None, None] * second
    gap = gap_of(cov, scale)
    bent, on_both = arc(gap)
    gap = (bend.odd * gap + bend.even * (2 * bent - gap)) / (bend.odd + bend.even)
    return (bend.odd + bend.even) * scale * (1 - gap), ntk * (bend.odd - bend.even + 2 * bend.even * on_both)


@quickly
def sums(x):
    return window_sums(x, 2, True, (3, 3), (1, 1), "SAME")


NUMBERS = np.array([0.3, 0.1, 0.4, 0.5, 0.2, 1.1, 0.05], np.float32)


@pytest.mark.parametrize(
    ("bend", "given", "strip"), [(RELU, "both", 2), (LEAKY, "multiple", 4), (LEAKY, "covariances", 2)]
)
def test_windows(bend, given, strip, monkeypatch):
    """A row of four places in one strip, and in two that are joined."""
    monkeypatch.setattr(gpu, "STRIP", strip)
    cov, first, second, ntk = signals((3, 4))
    passed = ntk if given == "both" else None
    only = given == "covariances"
    found = quickly(gpu.bent_windows, (0, 5))(bend, cov, passed, (first, second), NUMBERS, only)
    tangent = ntk if given == "both" else NUMBERS[5] * cov + NUMBERS[6]
    cov, ntk = behind(bend, cov, first, second, tangent)
    np.testing.assert_allclose(found[0], NUMBERS[0] * sums(cov) + NUMBERS[1], rtol=1e-5, atol=1e-6)
    if given == "covariances":
        assert found[1] is None
    else:
        exact = sums(NUMBERS[2] * ntk + NUMBERS[3] * cov) + NUMBERS[4]
        np.testing.assert_allclose(found[1], exact, rtol=1e-5, atol=1e-6)


def test_cells_where_some_places_fill_none():
    cov, first, second, ntk = signals((3, 4))
    found = quickly(gpu.bent_cells, (0, 1))(LEAKY, (2, 2), cov, ntk, (first, second))
    for one, exact in zip(found, behind(LEAKY, cov, first, second, ntk), strict=True):
        np.testing.assert_allclose(one, cell_means(exact, (2, 2, 2, 2)), rtol=1e-5, atol=1e-6)


def test_slopes():
    """One of every argument at once, along a random direction, where no signals coincide."""
    given = tuple(x[..., 3:31].repeat(8, -1)[..., :32] for x in signals((2, 2)))
    draw = np.random.default_rng(2)
    ways = tuple((0.1 * draw.normal(size=x.shape)).astype(np.float32) for x in given)

    def windows(cov, first, second, ntk):
        return gpu.bent_windows(RELU, cov, ntk, (first, second), NUMBERS)

    def plain(cov, first, second, ntk):
        cov, ntk = behind(RELU, cov, first, second, ntk)
        return NUMBERS[0] * sums(cov) + NUMBERS[1], sums(NUMBERS[2] * ntk + NUMBERS[3] * cov) + NUMBERS[4]

    found = quickly(lambda: [jax.jvp(f, given, ways)[1] for f in (windows, plain)])()
    for one, exact in zip(*found, strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-4, atol=1e-5)
