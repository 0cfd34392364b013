"""Peak memory of the average gradient outer product of a deep network, in a process that does nothing else."""

from __future__ import annotations

import resource

import jax
from exchange import Exchange, timed

from secant import nets
from secant.features import agop


def main() -> None:
    exchange = Exchange(("jax",))
    net = nets.mlp([1024] * 3)
    x = jax.random.normal(jax.random.key(0), (5000, 3072))
    params = net.init(jax.random.key(1), x.shape, x.dtype)
    seconds, found = timed(lambda _: jax.block_until_ready(agop(net.apply, params, x)), 1, warm=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    exchange.method("ours", seconds, shape=list(found[0].shape))
    exchange.values = {"peak_gib": peak}
    exchange.close()


if __name__ == "__main__":
    main()
