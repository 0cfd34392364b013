"""Options of the compiler for each device, `jit` with these options, and transfers to the device."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@functools.lru_cache(maxsize=8)
def compiler_options(quick: bool = False, long: bool = False, alone: bool = False) -> dict[str, Any] | None:
    """Options for `jax.jit` on the default device.

    On NVIDIA GPUs matrix products go to the vendor's library. For the tall, narrow products of full-batch training and
    of Hessians, the library was 1.2 times faster on an H200 than the compiler's own kernels.

    On ARM processors matrix products and convolutions go to Eigen. On a Neoverse N1 the library that the compiler
    prefers ran convolutions of 32 and more channels 1.6 to 2 times slower, and products 1.1 to 1.2 times.

    Args:
        quick: for code that runs once, on few numbers. On a CPU the compiler then hardly optimises. The first critical
            step size of a small network took 12 seconds of compiling, and now takes 3.
        long: for loops of many steps. On a CPU the compiler then optimises even if the environment asks it not to, as
            the tests do. A phase plane took 12 seconds there, and now takes 4.
        alone: for code that runs in several threads at once. On a CPU each thread then keeps to one core.
    """
    if jax.default_backend() == "gpu":
        return {"xla_gpu_enable_triton_gemm": False}
    wanted: list[dict[str, Any]] = []
    if jax.default_backend() == "cpu" and platform.machine() in ("aarch64", "arm64"):
        wanted.append({"xla_cpu_experimental_ynn_fusion_type": ""})
    if jax.default_backend() == "cpu" and quick:
        # Code this small is not worth splitting between cores.
        wanted += [{"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False}]
        wanted += [{"xla_cpu_parallel_codegen_split_count": 1}]
    if jax.default_backend() == "cpu" and long:
        wanted.append({"xla_backend_optimization_level": 3})  # the compiler's own, unless the environment lowers it
    if jax.default_backend() == "cpu" and alone:
        wanted.append({"xla_cpu_multi_thread_eigen": False})
    found: dict[str, Any] = {}
    for options in wanted:
        found |= _known(options) or {}
    return found or None


def _known(options: dict[str, Any]) -> dict[str, Any] | None:
    """The options if this version of the compiler has them."""
    try:
        jax.jit(lambda a: a, compiler_options=options).lower(0).compile()
    except jax.errors.JaxRuntimeError:
        return None
    return options


def jit(
    function: Callable[..., Any], *, quick: bool = False, long: bool = False, alone: bool = False, **options: Any
) -> Any:
    """`jax.jit` with the options of the device, which are looked up at the first call and not before.

    - `quick`: for code that runs once on few numbers and would take far longer to compile than to run.
    - `long`: for loops of many steps, which take far longer to run than to compile.
    - `alone`: for code that several threads run at once.
    """
    return _Jitted(function, options, (quick, long, alone))


def to_device(leaf: Any) -> Any:
    """`jnp.asarray` without compiling: arrays of the host are copied, where `jnp.asarray` compiles for every shape.

    Inside a traced function it is `jnp.asarray`.
    """
    if isinstance(leaf, np.ndarray) and not is_tracing():
        return jax.device_put(np.array(leaf))  # a copy, so that writing to the array later changes nothing here
    return jnp.asarray(leaf)


def all_finite(leaf: Any) -> bool:
    """Whether all numbers of an array are finite, tested on the array's own device."""
    return bool(_all_finite(leaf))


def available_bytes() -> int | None:
    """Bytes of free memory on the default device; None if the system does not tell."""
    facts = jax.devices()[0].memory_stats()
    if facts and "bytes_limit" in facts:
        return int(facts["bytes_limit"] - facts.get("bytes_in_use", 0))
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


class _Jitted:
    """A compiled function that may also be called while another one is traced; the outer options then hold for both."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], told: tuple[bool, bool, bool]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options, self.told = function, options, told
        self.within = jax.jit(function, **options)

    @functools.cached_property
    def alone(self) -> Any:
        told = compiler_options(*self.told)
        return self.within if told is None else jax.jit(self.function, compiler_options=told, **self.options)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.alone is self.within or is_tracing(arguments, named):
            return self.within(*arguments, **named)
        return self.alone(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.alone, name)


def is_tracing(*arguments: Any) -> bool:
    """Whether a call is part of a larger computation: a derivative, a batch, or a trace for the compiler."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
        return True
    return isinstance(lax.stop_gradient(_ZERO), jax.core.Tracer)  # known numbers are recorded too


_ZERO = np.zeros((), np.float32)
_all_finite = jit(lambda leaf: jnp.all(jnp.isfinite(leaf)), quick=True)
