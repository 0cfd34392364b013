"""Rows of training: gradient descent with its curvature followed, one step, and the reduction of inputs."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import secant as sc
from bench import environments, problems
from bench.curvature.hessian import ACCURACY, cifar_network
from bench.curvature.tangent_kernel import with_weights
from bench.row import Row, alternate, row, seconds
from secant.core.device import jit


def cifar_problem() -> tuple[problems.Problem, sc.Problem, Any]:
    arrays = problems.cifar_tanh()
    net = cifar_network()
    problem = sc.Problem(net.apply, arrays["x"], arrays["y"], sc.losses.mean_mse)
    return arrays, problem, with_weights(net, arrays["x"].shape, arrays)


@row
def gd_tracked() -> Row:
    arrays, problem, params = cifar_problem()
    torch = environments.run("torch", "pytorch/torch_gd_tracked", arrays, lr=problems.LEARNING_RATE)
    name, method = torch.best()

    def ours() -> Any:
        return sc.train(
            problem,
            params,
            lr=problems.LEARNING_RATE,
            steps=500,
            probes={"sharpness": sc.measure.sharpness(2, every=10, tol=ACCURACY)},
        )

    mine = ours().dataset.sharpness.values
    theirs = np.asarray(torch.values["sharpness"])[: len(mine)]
    error = np.abs(mine[: len(theirs)] / theirs - 1).max()
    assert error < ACCURACY, f"the eigenvalues along the run differ by {error:.1e}"
    work = "500 steps of gradient descent, 3072-200-200-10 tanh, CIFAR-10, 1,000 samples, top-2 Hessian every 10 steps"
    return Row("gd_tracked", work, f"the same loop in PyTorch, {name}", method.median, seconds(ours, 3), 5, "at least")


@row
def gd_step() -> Row:
    """A step against its matrix products alone, both as compiled loops of many."""
    _, problem, params = cifar_problem()
    count = 50
    x = problem.x
    widths = problems.WIDTHS
    key = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(key, i), pair) for i, pair in enumerate(itertools.pairwise(widths))]
    hidden = [jax.random.normal(jax.random.fold_in(key, 10 + i), (len(x), width)) for i, width in enumerate(widths[1:])]

    @jit
    def products(x: Any, weights: Any, hidden: Any) -> Any:
        """Forward, backward and weight gradients of every layer; each round depends on the last."""

        def body(_: int, carry: Any) -> Any:
            forward = [a @ w for a, w in zip([x, *hidden[:-1]], carry, strict=True)]
            backward = [h @ w.T for h, w in zip(hidden[1:], carry[1:], strict=True)]
            gradients = [a.T @ z for a, z in zip([x, *hidden[:-1]], forward, strict=True)]
            return [
                w + 1e-30 * g + 1e-30 * b[0].sum()
                for w, g, b in zip(carry, gradients, [*backward, hidden[-1]], strict=True)
            ]

        return jax.lax.fori_loop(0, count, body, weights)

    def peer() -> Any:
        return jax.block_until_ready(products(x, weights, hidden))

    def ours() -> Any:
        return sc.train(problem, params, lr=problems.LEARNING_RATE, steps=count, reduce=False).state

    mine, theirs = alternate(lambda: jax.block_until_ready(ours()), peer)
    work = "one step of gradient descent on that network"
    return Row("gd_step", work, "its matrix products alone, compiled", theirs / count, mine / count, target=1.25)


@row
def input_reduction() -> Row:
    samples = 128
    try:
        task = sc.data.load("cifar10", classes=(0, 2), samples=samples, test_samples=1)
        x, y = task.train
    except sc.data.MissingDataError:
        random = np.random.default_rng(0)
        x = random.standard_normal((samples, 3072), dtype=np.float32)
        y = np.sign(random.standard_normal(samples)).astype(np.float32)
    net = sc.nets.mlp([1024] * 4)
    problem = sc.Problem(net.apply, x, y, sc.losses.mean_mse)
    params = net.init(jax.random.key(0), x.shape, jnp.float32)
    lr = 0.5 * sc.critical_lr(net.apply, params, problem.x, problem.y, sc.losses.mean_mse).ntk
    steps = 20

    def run(reduce: bool) -> Any:
        probes = {"kernel": sc.measure.kernel_top(5)}
        return sc.train(problem, params, lr=lr, steps=steps, probes=probes, reduce=reduce)

    small, whole = run(True).dataset.kernel.values, run(False).dataset.kernel.values
    error = np.abs(small - whole).max() / whole.max()  # the tolerance of the eigenvalues is relative to the largest
    assert error < 1e-3, f"the reduced run differs by {error:.1e}"
    mine, theirs = alternate(lambda: run(True), lambda: run(False))
    work = "20 steps on 128 samples of CIFAR-2, 5-layer FCN of width 1024, top 5 of the kernel every step"
    return Row("input_reduction", work, "ours without the reduction", theirs, mine, 1.7, "at least")
