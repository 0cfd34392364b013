"""The empirical tangent kernel by neural-tangents, with each of its implementations.

Its automatic choice picks one of the three by counting, which takes minutes for convolutions, and then runs as that one
does; it is tried with the option `auto` only. Options: `architecture` (mlp, cnn or resnet), `repetitions`, `auto`.
"""

from __future__ import annotations

import contextlib
import io

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from exchange import Exchange, say, timed
from neural_tangents import stax

IMPLEMENTATIONS = {
    "jacobian contraction": nt.NtkImplementation.JACOBIAN_CONTRACTION,
    "NTK-vector products": nt.NtkImplementation.NTK_VECTOR_PRODUCTS,
    "structured derivatives": nt.NtkImplementation.STRUCTURED_DERIVATIVES,
    "auto": nt.NtkImplementation.AUTO,
}


def dense(width: int) -> tuple:
    return stax.Dense(width, W_std=1.0, b_std=None, parameterization="ntk")


def convolution(channels: int, window: int = 3, stride: int = 1) -> tuple:
    shape = {"filter_shape": (window, window), "strides": (stride, stride), "padding": "SAME"}
    return stax.Conv(channels, **shape, W_std=1.0, b_std=None, parameterization="ntk")


def residual(channels: int, halves: bool) -> tuple:
    stride = 2 if halves else 1
    branch = stax.serial(stax.Relu(), convolution(channels, stride=stride), stax.Relu(), convolution(channels))
    shortcut = convolution(channels, window=1, stride=stride) if halves else stax.Identity()
    return stax.serial(stax.FanOut(2), stax.parallel(branch, shortcut), stax.FanInSum())


def network(architecture: str, weights: list[np.ndarray]) -> tuple:
    """The layers that the weights belong to."""
    widths = [weight.shape[-1] for weight in weights]
    if architecture == "resnet":
        stages = sorted(set(widths[:-1]))
        blocks = [residual(width, halves=index > 0) for index, width in enumerate(stages)]
        tail = (stax.Relu(), stax.GlobalAvgPool(), dense(widths[-1]))
        return stax.serial(convolution(widths[0]), *blocks, *tail)
    hidden, bridge = {"mlp": (dense, ()), "cnn": (convolution, (stax.Flatten(),))}[architecture]
    layers = [layer for width in widths[:-1] for layer in (hidden(width), stax.Relu())]
    return stax.serial(*layers, *bridge, dense(widths[-1]))


def _number(name: str) -> tuple[str, int]:
    return name[0], int(name[1:] or 0)


def main() -> None:
    exchange = Exchange(("neural-tangents", "jax", "jaxlib", "numpy"))
    architecture = exchange.options["architecture"]
    x = jnp.asarray(exchange.arrays["x"])
    weights = [exchange.arrays[name] for name in sorted(exchange.arrays, key=_number) if name.startswith("w")]
    init, apply, _ = network(architecture, weights)
    blank = init(jax.random.PRNGKey(0), x.shape)[1]
    params = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(blank), [jnp.asarray(w) for w in weights])
    shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(blank)]
    assert shapes == [weight.shape for weight in weights], f"weights do not fit the layers: {shapes}"

    say(f"{architecture}, {len(x)} samples, full outputs, {len(jax.devices())} {jax.devices()[0].platform} device")
    kernels: dict[str, np.ndarray] = {}
    for name, implementation in IMPLEMENTATIONS.items():
        if name == "auto" and not exchange.options.get("auto"):
            continue
        try:
            kernel = jax.jit(
                nt.empirical_ntk_fn(apply, trace_axes=(), vmap_axes=0, implementation=implementation),
                static_argnums=(1,),
            )

            def work(_: int, kernel=kernel) -> jax.Array:
                return kernel(x, None, params).block_until_ready()

            with contextlib.redirect_stdout(io.StringIO()):  # the automatic choice prints what it counts
                seconds, results = timed(work, int(exchange.options.get("repetitions", 5)))
        except Exception as error:  # a broken implementation is part of the report
            exchange.fail(name, error)
            continue
        kernels[name] = np.asarray(results[-1])
        exchange.method(name, seconds)
    # All implementations must agree before any of them counts.
    reference = next(iter(kernels.values()))
    spread = max(float(np.abs(kernel - reference).max()) for kernel in kernels.values()) / float(
        np.abs(reference).max()
    )
    assert spread < 1e-4, f"the implementations disagree: {spread:.1e}"
    exchange.values = {"architecture": architecture, "spread": spread, "shape": list(reference.shape)}
    exchange.results["kernel"] = reference
    exchange.close()


if __name__ == "__main__":
    main()
