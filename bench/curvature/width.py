"""Row of wide networks: what the norm of a Hessian needs beside the parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bench.row import Row, row
from secant import nets
from secant.curvature import output_hessian
from secant.linalg.norm import spectral_norm

WIDTH, FEATURES = 4_096, 64


@row
def dag_hessian_memory() -> Row:
    """Bytes that the compiled program holds at once; the row's seconds are gigabytes."""
    full = nets.graphs.densenet(FEATURES, [WIDTH, WIDTH], concat_input=False)
    net = nets.dag(nets.graphs.drop_edges(full, jax.random.key(0)), "tanh")
    x = jax.ShapeDtypeStruct((1, FEATURES), jnp.float32)
    params = jax.eval_shape(lambda key: net.init(key, x.shape), jax.random.key(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))

    def norm(params: nets.network.Params, x: jax.Array, start: jax.Array) -> jax.Array:
        return spectral_norm(output_hessian(net.apply, params, x).flat_product(), start, 32).value

    # Counted by the compiler: nothing is computed.
    memory = jax.jit(norm).lower(params, x, jax.ShapeDtypeStruct((count,), jnp.float32)).compile().memory_analysis()
    used = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    work = f"memory (GB) of the Hessian norm of a DenseNet of width {WIDTH:,} with half of its edges, {count:,} numbers"
    return Row("dag_hessian_memory", work, "one copy of its parameters", 4 * count / 1e9, used / 1e9, 10)
