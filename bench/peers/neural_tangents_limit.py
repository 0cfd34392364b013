"""Kernels of networks of infinite width by neural-tangents, both at once.

Options: `architecture` (relu, erf, gap or flatten), `repetitions`. Arrays: `x`, and `y` for two sets of inputs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from exchange import Exchange, say, timed
from neural_tangents import stax

GAIN = 2**0.5


def network(architecture: str) -> tuple:
    dense = {"W_std": GAIN, "b_std": None, "parameterization": "ntk"}
    if architecture in ("relu", "erf"):
        activation = {"relu": stax.Relu, "erf": stax.Erf}[architecture]
        layers = [layer for _ in range(5) for layer in (stax.Dense(1, **dense), activation())]
        return stax.serial(*layers, stax.Dense(1, **dense))
    conv = {"filter_shape": (3, 3), "padding": "SAME", **dense}
    layers = [layer for _ in range(3) for layer in (stax.Conv(1, **conv), stax.Relu())]
    last = {"gap": stax.GlobalAvgPool, "flatten": stax.Flatten}[architecture]()
    return stax.serial(*layers, last, stax.Dense(1, **dense))


def main() -> None:
    exchange = Exchange(("neural-tangents", "jax", "jaxlib", "numpy"))
    architecture = exchange.options["architecture"]
    x = jnp.asarray(exchange.arrays["x"])
    y = jnp.asarray(exchange.arrays["y"]) if "y" in exchange.arrays else None
    kernel = network(architecture)[2]
    both = jax.jit(lambda x, y: kernel(x, y, ("nngp", "ntk")))

    def work(_: int) -> jax.Array:
        return jax.block_until_ready(both(x, y))

    say(f"{architecture}, {len(x)} samples")
    seconds, results = timed(work, int(exchange.options.get("repetitions", 7)))
    exchange.method("kernel_fn", seconds)
    exchange.results["nngp"], exchange.results["ntk"] = map(np.asarray, results[-1])
    exchange.close()


if __name__ == "__main__":
    main()
