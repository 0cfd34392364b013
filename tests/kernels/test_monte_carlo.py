"""Wide random networks, built from the same object, have the kernel that is computed for them."""

import os

import numpy as np
import pytest
from architectures import random_network, sampled

import secant as sc

WIDTH, DRAWS = 128, 40
COUNT = int(os.environ.get("SECANT_ARCHITECTURES", "8"))


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_architecture_has_its_kernel(seed):
    """`SECANT_ARCHITECTURES=200` for more of them."""
    net, shape = random_network(seed, WIDTH)
    x = np.random.default_rng(seed).normal(size=(2, *shape))
    for nodes in (80, 320, 1280):
        found = sc.kernel(net, x, nodes=nodes)
        if float(found.error) < 1e-3:
            break
    for name, samples in zip(("nngp", "ntk"), map(np.asarray, sampled(net, x.astype(np.float32), DRAWS)), strict=True):
        exact = np.asarray(getattr(found, name))
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        deviation = np.abs(np.mean(samples, 0) - exact)
        error = np.std(samples, 0, ddof=1) / np.sqrt(DRAWS)
        # Five standard errors, and what is left at a finite width: some layers over the width.
        assert (deviation <= 5 * error + 12 / WIDTH * scale).all(), (net, name, deviation / scale, error / scale)
