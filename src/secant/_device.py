"""What the compiler is told about the device."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any

import jax


@functools.lru_cache(maxsize=1)
def compiler_options() -> dict[str, Any] | None:
    """Options for `jax.jit` on the default device.

    On NVIDIA GPUs matrix products go to the vendor's library: for the tall, narrow products of training a network on
    all its data at once, and of its Hessian, that was 1.2 times faster on an H200 than the compiler's own kernels.

    On ARM processors matrix products and convolutions go to Eigen: on a Neoverse N1 the library that the compiler
    prefers ran convolutions of 32 and more channels 1.6 to 2 times slower, and products 1.1 to 1.2 times.
    """
    if jax.default_backend() == "gpu":
        return {"xla_gpu_enable_triton_gemm": False}
    if jax.default_backend() == "cpu" and platform.machine() in ("aarch64", "arm64"):
        return _known({"xla_cpu_experimental_ynn_fusion_type": ""})
    return None


def _known(options: dict[str, Any]) -> dict[str, Any] | None:
    """The options if this version of the compiler has them."""
    try:
        jax.jit(lambda a: a, compiler_options=options)(0)
    except jax.errors.JaxRuntimeError:
        return None
    return options


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit` with the options of the device."""
    return jax.jit(function, compiler_options=compiler_options(), **options)
