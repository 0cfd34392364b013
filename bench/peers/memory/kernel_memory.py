"""Peak memory of a large tangent kernel, in a process that does nothing else."""

from __future__ import annotations

import resource

import jax
from exchange import Exchange, timed

from secant import nets
from secant.curvature import kernel_matrix


def main() -> None:
    exchange = Exchange(("jax",))
    net = nets.mlp([1024] * 4)
    x = jax.random.normal(jax.random.key(0), (2000, 3072))
    params = net.init(jax.random.key(1), x.shape, x.dtype)
    seconds, kernels = timed(lambda _: kernel_matrix(net.apply, params, x).block_until_ready(), 1, warm=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    exchange.method("ours", seconds, shape=list(kernels[0].shape))
    exchange.values = {"peak_gib": peak}
    exchange.close()


if __name__ == "__main__":
    main()
