"""What layers are tested with: one program for a layer, and a convolution by loops."""

import itertools

import jax
import numpy as np


def draw(net, shape, seed=0):
    """Inputs, parameters and outputs, by one compiled program."""
    x = np.random.default_rng(seed).normal(size=shape)
    params = jax.tree.map(np.asarray, net.init(jax.random.key(seed), shape))
    return x, params, np.asarray(jax.jit(net.apply)(params, x))


def convolve(x, weight, strides, padding):
    """A convolution by loops over positions and window."""
    *window, _, out = weight.shape
    sizes = x.shape[1:-1]
    if padding != "VALID":
        places = [-(-size // strides) for size in sizes]
        total = [max((p - 1) * strides + w - size, 0) for p, w, size in zip(places, window, sizes, strict=True)]
        around = [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)]
        x = np.pad(x, around, mode="wrap" if padding == "CIRCULAR" else "constant")
    else:
        places = [-(-(size - w + 1) // strides) for size, w in zip(sizes, window, strict=True)]
    z = np.zeros((len(x), *places, out))
    for place in itertools.product(*map(range, places)):
        for delta in itertools.product(*map(range, window)):
            read = tuple(strides * p + d for p, d in zip(place, delta, strict=True))
            z[(slice(None), *place)] += x[(slice(None), *read)] @ weight[delta]
    return z
