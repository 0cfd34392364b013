"""Rows of gradient noise: its largest eigenvalues, its trace, and the step size that second moments bear."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from bench import environments, problems
from bench.curvature.hessian import cifar_network
from bench.curvature.tangent_kernel import with_weights
from bench.row import Row, alternate, processor_seconds, row
from secant import gradient_noise, losses
from secant.core.device import jit
from secant.theory.noise.mean_square import critical_step, pairs

FEW, MANY = 250, 1000
"""Samples of the two rows that BackPACK runs."""


def _peer() -> tuple[dict[str, np.ndarray], environments.Report]:
    problem = problems.cifar_tanh(MANY)
    return problem, environments.run("backpack", "pytorch/backpack_noise", problem, few=FEW, many=MANY, threads=1)


def _ours(problem: dict[str, np.ndarray], samples: int) -> tuple[Any, ...]:
    net = cifar_network()
    x, y = (jnp.asarray(problem[name][:samples]) for name in "xy")
    return net.apply, with_weights(net, x.shape, problem), x, y, losses.mean_mse


@row
def noise_top() -> Row:
    problem, report = _peer()
    method = report.methods["BatchGrad and its Gram matrix"]
    given = _ours(problem, FEW)

    def ours() -> Any:
        return np.asarray(gradient_noise(*given).top(5, vectors=False).values)

    error = np.abs(ours() / np.asarray(method.values["answer"]) - 1).max()
    assert error < 1e-3, f"our eigenvalues and BackPACK's differ by {error:.1e}"
    work = (
        f"five largest eigenvalues of the gradient noise, CIFAR-10, {FEW} samples, 3072-200-200-10; processor seconds"
    )
    peer = "BackPACK 1.7.1, BatchGrad and its Gram matrix"
    return Row("noise_top", work, peer, method.median, processor_seconds(ours, 9), 30, "at least")


@row
def noise_trace() -> Row:
    problem, report = _peer()
    ways = {name: report.methods[name] for name in ("BatchL2Grad", "Variance") if name in report.methods}
    best = min(ways, key=lambda name: ways[name].median)
    given = _ours(problem, MANY)
    f, params, x, y, loss = given

    def ours() -> float:
        return gradient_noise(*given).trace().value

    error = abs(ours() / float(np.ravel(ways[best].values["answer"])[0]) - 1)
    assert error < 1e-3, f"our trace and BackPACK's differ by {error:.1e}"
    slope = jit(lambda p: jax.grad(lambda p: loss(f(p, x), y))(p))
    mine, gradient = processor_seconds(ours, 9), processor_seconds(lambda: jax.block_until_ready(slope(params)), 9)
    cost = f"processor seconds, {mine / gradient:.2f} gradients"
    work = f"trace of the gradient noise, CIFAR-10, {MANY:,} samples, 3072-200-200-10; {cost}"
    peer = (
        f"BackPACK 1.7.1, {best}, the faster of {', '.join(f'{name} {way.median:.3f} s' for name, way in ways.items())}"
    )
    return Row("noise_trace", work, peer, ways[best].median, mine, 1.1, "at least")


@row
def noise_cost() -> Row:
    given = _ours(problems.cifar_tanh(MANY), MANY)
    f, params, x, y, loss = given
    slope = jit(lambda p: jax.grad(lambda p: loss(f(p, x), y))(p))
    noise = gradient_noise(*given)
    # Loose ends of a millisecond, for checks and the sum on the host, are in ours.
    mine, gradient = alternate(
        lambda: [noise.trace() for _ in range(5)],
        lambda: [jax.block_until_ready(slope(params)) for _ in range(5)],
    )
    memory = environments.run(environments.OURS, "memory/noise_memory", samples=1500, width=200)
    grown, written = (float(memory.values[name]) for name in ("grown_mib", "written_out_mib"))
    assert grown < written / 4, f"memory grew by {grown:.0f} MiB, gradients written out take {written:.0f} MiB"
    work = f"trace and lengths of {MANY:,} gradients; five eigenvalues of 1,500 in {grown:.0f} of {written:,.0f} MiB"
    return Row("noise_cost", work, "one gradient of ours", gradient / 5, mine / 5, 1.3)


def _relu_kernel(n: int, d: int = 10) -> np.ndarray:
    """Of an infinitely wide ReLU network with one hidden layer, on unit inputs."""
    x = np.random.default_rng(0).normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosine = np.clip(x @ x.T, -1, 1)
    np.fill_diagonal(cosine, 1.0)
    return (np.sqrt(1 - cosine**2) + 2 * cosine * (np.pi - np.arccos(cosine))) / (2 * np.pi)


def _by_powers(K: np.ndarray, batch: int, accuracy: float, exact: float) -> tuple[float, int]:
    """The critical step by power iteration on C^-1 D, until it is as accurate as is asked for."""
    n, law = len(K), pairs(len(K), batch)
    values, U = np.linalg.eigh(K)
    total = (values[:, None] + values[None, :]) / n
    M = np.eye(n)
    for used in range(1, 2000):
        drawn = law.together * M + (law.twice - law.together) * np.diag(np.diag(M))
        image = U.T @ (K @ drawn @ K) @ U / batch**2
        image = U @ (image / total) @ U.T
        top = float(np.vdot(M, image) / np.vdot(M, M))
        M = image / np.linalg.norm(image)
        if abs(1 / top / exact - 1) < accuracy:
            return 1 / top, used
    raise RuntimeError("power iteration does not come as close")


@row
def mean_square() -> Row:
    n, batch, accuracy = 512, 32, 1e-6
    K = _relu_kernel(n)
    exact = critical_step(K, batch, tol=1e-12).step
    products = []

    def peer() -> None:
        products.append(_by_powers(K, batch, accuracy, exact)[1])

    def ours() -> float:
        return critical_step(K, batch, tol=accuracy).step

    error = abs(ours() / exact - 1)
    assert error < accuracy, f"our step is off by {error:.1e}"
    used = critical_step(K, batch, tol=accuracy).products
    with threadpool_limits(1):  # two threads of BLAS that wait for each other would both count
        mine, theirs = processor_seconds(ours), processor_seconds(peer, 3)
    cost = f"{used} products; processor seconds"
    work = f"mean-square critical step to 1e-6, ReLU kernel of {n} samples, batches of {batch}; {cost}"
    return Row("mean_square", work, f"power iteration, {products[-1]} products", theirs, mine, 4, "at least")
