"""The training rows on a GPU, beside PyTorch there: `python -m bench.gpu`. Prints one JSON object.

Times one step of gradient descent and one Hessian product at 5,000 samples of the 3072-200-200-10 tanh network, in full
float32 precision (no TF32) on both sides; and both kernels of Myrtle-5 between 256 images of 32 x 32 x 3, for a pair of
them (`kernel_myrtle5`, at most 20 microseconds).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import secant as sc
from bench import problems
from bench.curvature.hessian import cifar_network
from bench.curvature.tangent_kernel import with_weights
from secant.core.device import jit as device_jit

SAMPLES, STEPS, PRODUCTS = 5_000, 2_000, 200


def best(function: Callable[[], Any], count: int, rounds: int = 5) -> float:
    """Milliseconds of one of `count`, the best of several rounds after a warm-up."""
    jax.block_until_ready(function())
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append((time.perf_counter() - began) / count * 1e3)
    return min(times)


def kernel_myrtle5(images: int = 256) -> float:
    """Microseconds of a pair of images, for both kernels of the infinitely wide Myrtle-5."""
    net = sc.nets.myrtle5(parametrization=sc.nets.Parametrization("ntk", gain=2**0.5))
    x = jax.random.normal(jax.random.key(1), (images, 32, 32, 3), jnp.float32)
    return best(lambda: sc.kernel(net, x), images * (images + 1) // 2) * 1e3


def main() -> None:
    key = jax.random.key(0)
    x = jax.random.normal(key, (SAMPLES, problems.WIDTHS[0]), jnp.float32)
    y = jax.nn.one_hot(jax.random.randint(key, (SAMPLES,), 0, problems.CLASSES), problems.CLASSES)
    net = cifar_network()
    params = with_weights(net, x.shape, problems.tanh_weights())
    problem = sc.Problem(net.apply, x, y, sc.losses.mean_mse)
    with jax.default_matmul_precision("highest"):
        step = best(lambda: sc.train(problem, params, lr=1e-3, steps=STEPS, stop=sc.Stop(every=100)).state, STEPS)

        @device_jit
        def products(params: Any, x: Any, y: Any, v: Any) -> Any:
            multiply = sc.hessian(net.apply, params, x, y, sc.losses.mean_mse).flat_product()
            return jax.lax.fori_loop(0, PRODUCTS, lambda _, v: (w := multiply(v)) / jnp.linalg.norm(w), v)

        flat = ravel_pytree(params)[0]
        product = best(lambda: products(params, x, y, flat), PRODUCTS)
    found = {"step_ms": step, "product_ms": product, "kernel_myrtle5_us": kernel_myrtle5()}
    print(json.dumps({"device": jax.devices()[0].device_kind, "jax": jax.__version__, **found}))


if __name__ == "__main__":
    main()
