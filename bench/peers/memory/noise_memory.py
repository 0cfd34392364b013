"""Peak memory of the largest eigenvalues of gradient noise, in a process that does nothing else."""

from __future__ import annotations

import resource

import jax
from exchange import Exchange, timed

from secant import gradient_noise, nets


def main() -> None:
    exchange = Exchange(("jax",))
    samples, width = (int(exchange.options[name]) for name in ("samples", "width"))
    net = nets.mlp([width, width], outputs=10)
    x = jax.random.normal(jax.random.key(0), (samples, 3072))
    y = jax.random.normal(jax.random.key(1), (samples, 10))
    params = net.init(jax.random.key(2), x.shape, x.dtype)
    entries = sum(leaf.size for leaf in jax.tree.leaves(params))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    noise = gradient_noise(net.apply, params, x, y, "half_mean")
    seconds, values = timed(lambda _: (noise.top(5, vectors=False).values, noise.trace()), 1, warm=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exchange.method("ours", seconds, values=[float(value) for value in values[0][0]])
    exchange.values = {"grown_mib": (peak - before) / 2**10, "written_out_mib": 4 * samples * entries / 2**20}
    exchange.close()


if __name__ == "__main__":
    main()
