"""A kernel on disk is the kernel, whatever interrupts it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import secant as sc
from secant import nets
from secant.kernels import on_disk, stored_kernel

NET = nets.mlp([8], activation="relu", bias=True)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(7, 3))


def test_an_interrupted_kernel_is_finished(x, tmp_path, monkeypatch):
    calls = []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return sc.kernel(*arguments, **options)

    monkeypatch.setattr(on_disk, "kernel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stored_kernel(NET, x, tmp_path / "k", block=3)
    found = stored_kernel(NET, x, tmp_path / "k", block=3)
    assert len(calls) == 3 + 4  # six blocks, two of which were done
    assert_allclose(found, sc.kernel(NET, x).ntk, rtol=1e-12)
    assert not found.flags.writeable
    stored_kernel(NET, x, tmp_path / "k", block=3)
    assert len(calls) == 7


def test_what_is_there_is_never_overwritten(x, tmp_path):
    first = np.array(stored_kernel(NET, x, tmp_path / "k", only="nngp", block=4))
    for other in ((NET, x + 1), (nets.mlp([9], activation="relu", bias=True), x)):
        with pytest.raises(ValueError, match="another network or other samples"):
            stored_kernel(*other, tmp_path / "k", only="nngp", block=4)
    assert_allclose(np.load(tmp_path / "k" / "kernel.npy"), first, rtol=0)
    (tmp_path / "k" / "about.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        stored_kernel(NET, x, tmp_path / "k", only="nngp", block=4)


def test_a_folder_is_recognised_by_another_process(x, tmp_path):
    """The same network built anew, as it is after a kill."""
    code = """
import sys
import numpy as np
import secant as sc
from secant.kernels import on_disk
net = sc.nets.mlp([8], activation=sc.nets.activations.leaky(0.1), bias=True)
print(on_disk._digest(net, np.ones((2, 3)), "ntk"))
"""
    other = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=other)
    net = nets.mlp([8], activation=nets.activations.leaky(0.1), bias=True)
    assert told.stdout.strip() == str(on_disk._digest(net, np.ones((2, 3)), "ntk"))
