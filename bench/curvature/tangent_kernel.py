"""Rows of the tangent kernel: ours against neural-tangents, with the same weights and the same inputs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench import environments, problems
from bench.row import Row, row, seconds
from secant import nets
from secant.curvature import kernel_matrix
from secant.nets import Network


def compare(name: str, work: str, net: Network, problem: problems.Problem, target: float) -> Row:
    """Checks that both kernels agree, then times them one after the other."""
    architecture = name.removeprefix("ntk_")
    report = environments.run("neural-tangents", "neural_tangents_kernel", problem, architecture=architecture)
    best, method = report.best()
    x = jnp.asarray(problem["x"])
    params = with_weights(net, x.shape, problem)

    def ours() -> Any:
        return kernel_matrix(net.apply, params, x).block_until_ready()

    mine = np.asarray(ours())
    # neural-tangents orders the axes (sample, sample, output, output).
    theirs = np.moveaxis(report.arrays["kernel"], 1, 2).reshape(mine.shape)
    error = np.abs(mine - theirs).max() / np.abs(theirs).max()
    assert error < 1e-5, f"the kernels differ by {error:.1e}"
    versions = report.versions
    peer = f"neural-tangents {versions['neural-tangents']} on JAX {versions['jax']}, {best}"
    return Row(name, work, peer, method.median, seconds(ours), target, "at least")


def with_weights(net: Network, shape: tuple[int, ...], problem: problems.Problem) -> Any:
    """Parameters of `net` filled with the weights `w0`, `w1`, ... (and biases `b0`, ...) in order."""
    blank = jax.eval_shape(lambda key: net.init(key, shape, jnp.float32), jax.random.key(0))
    leaves = jax.tree.leaves_with_path(blank)
    used = {"weight": 0, "bias": 0}
    filled = []
    for path, leaf in leaves:
        kind = path[-1].key
        array = problem[("w" if kind == "weight" else "b") + str(used[kind])]
        used[kind] += 1
        assert array.shape == leaf.shape, f"{jax.tree_util.keystr(path)}: {array.shape} is not {leaf.shape}"
        filled.append(jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(blank), filled)


@row
def ntk_mlp() -> Row:
    net = nets.mlp([512] * 3, outputs=10)
    work = "tangent kernel, MLP 784-512-512-512-10, 32 samples, full 10 x 10 outputs, float32"
    return compare("ntk_mlp", work, net, problems.kernel_mlp(), target=20)


@row
def ntk_cnn() -> Row:
    net = nets.cnn([32] * 2, outputs=10)
    work = "tangent kernel, 3-layer CNN of 32 channels, 32 images of 16 x 16 x 3, full outputs"
    return compare("ntk_cnn", work, net, problems.kernel_cnn(), target=5)


@row
def ntk_resnet() -> Row:
    net = nets.resnet(outputs=10)
    work = "tangent kernel, ResNet of 3 blocks of 16, 32 and 64 channels, 32 images of 16 x 16 x 3, full outputs"
    return compare("ntk_resnet", work, net, problems.kernel_resnet(), target=5)


@row
def ntk_memory() -> Row:
    """Peak memory, in a process of its own; the row's seconds are gibibytes."""
    report = environments.run(environments.OURS, "memory/kernel_memory")
    peak = report.values["peak_gib"]
    work = "peak memory (GiB) of the tangent kernel of 2,000 samples, MLP 3072-1024x4-1, float32"
    return Row("ntk_memory", work, "limit of 2 GiB", 2.0, peak, target=1.0)
