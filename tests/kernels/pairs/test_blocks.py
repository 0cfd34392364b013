"""Pairs in blocks, and divided between devices, are the pairs of one program."""

import os
import subprocess
import sys

import jax
import numpy as np
from numpy.testing import assert_allclose

import secant as sc
from secant import nets


def test_blocks_and_halves_do_not_show():
    x = np.random.default_rng(0).normal(size=(7, 4, 3, 2))
    for net in (nets.cnn([8], bias=True), nets.cnn([8], pool="average"), nets.mlp([8], activation="erf")):
        x_ = x if net.name == "cnn" else x.reshape(7, -1)
        whole = jax.tree.map(np.asarray, sc.kernel(net, x_))
        pooled = net.name == "cnn" and net.parts[-3].name == "global_average_pool"
        pair = 12 ** (2 if pooled else 1) * 8 if net.name == "cnn" else 8
        found = sc.kernel(net, x_, memory=10 * 9 * pair)
        assert_allclose(found.nngp, whole.nngp, rtol=1e-12)
        assert_allclose(found.ntk, whole.ntk, rtol=1e-12)
        part = sc.kernel(net, x_[:2], x_[3:])
        assert_allclose(part.nngp, whole.nngp[:2, 3:], rtol=1e-12)
        assert_allclose(part.ntk, whole.ntk[:2, 3:], rtol=1e-12)
        if net.name == "cnn" and not pooled:
            continue
        alone = sc.kernel(net, x_, only="nngp")
        assert alone.ntk is None
        assert_allclose(alone.nngp, whole.nngp, rtol=1e-12)
        alone = sc.kernel(net, x_, only="ntk")
        assert alone.nngp is None
        assert_allclose(alone.ntk, whole.ntk, rtol=1e-12)


SHARED = """
import jax, numpy as np
import secant as sc
from secant import nets

assert len(jax.devices()) == 3
x = np.random.default_rng(0).normal(size=(8, 3, 3, 2)).astype(np.float32)
rows = x.reshape(8, -1)
images, vectors = nets.cnn([8], pool="average"), nets.mlp([8], activation="relu", bias=True)
for net, pair in ((images, (x,)), (vectors, (rows,)), (vectors, (rows[:5], rows))):
    one, many = sc.kernel(net, *pair), sc.kernel(net, *pair, devices=jax.devices())
    for which in ("nngp", "ntk"):
        found = getattr(many, which)
        np.testing.assert_allclose(found, getattr(one, which), rtol=2e-6)
assert sc.kernel(vectors, rows, devices=jax.devices(), only="nngp").ntk is None
"""


def test_many_devices_share_the_work():
    told = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3 " + os.environ.get("XLA_FLAGS", "")}
    subprocess.run([sys.executable, "-c", SHARED], env=os.environ | told, check=True)
