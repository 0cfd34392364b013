"""Errors in Newton's method, in backpropagation, and in what studies of descent write out by hand."""

from __future__ import annotations

from mutants.mutant import planted

DESCENT = [
    *planted(
        "optim/rules/newton",
        ("restore((flat - lr * move)", "restore((flat + lr * move)", "book/sec-2.4"),
        ("product(v) + ridge * v", "product(v) - ridge * v", ""),
        ("vectors.T @ gradient / jnp.where(kept", "vectors.T @ gradient * jnp.where(kept", "book/sec-2.4"),
        ("~(left > rounding**0.25 * size)", "~(left > 2 * size)", ""),
        ("jnp.abs(values) > gradient.size", "values > gradient.size", ""),
    ),
    *planted(
        "theory/descent/backprop",
        ("at_sums[own] = nodes[own] * slopes[own]", "at_sums[own] = nodes[own]", "book/lem-4.2.1 book/sec-4.4"),
        ("edges[part] = sent * values[wave.source[part]]", "edges[part] = sent", "book/lem-4.2.1 book/sec-4.4"),
        ("pairs[v, : u + 1] += local * pairs[u, : u + 1]", "pairs[v, : u + 1] += pairs[u, : u + 1]", "book/lem-4.2.1"),
        ("operations += 2 * len(sent)", "operations += len(sent)", "book/lem-4.2.1 book/sec-4.4.1"),
        ("bends[own] * sums[own]", "bends[own]", "book/sec-4.4.1"),
        ("two * w[part] + one * direction[part]", "two * w[part]", "book/sec-4.4.1"),
        ("two * values[sources] + one * moved[sources]", "two * values[sources]", "book/sec-4.4.1"),
        ("operations += 5 * len(one)", "operations += 6 * len(one)", "book/sec-4.4.1"),
        ("1 - f**2, -2 * f * (1 - f**2)", "1 - f**2, 2 * f * (1 - f**2)", "book/sec-4.4.1"),
        ("to[source] += of[node]", "to[source] -= of[node]", ""),
        ("np.tile(np.arange(neurons * (inputs", "np.repeat(np.arange(neurons * (inputs", "book/sec-4.4"),
    ),
    *planted(
        "studies/book/ch02/fig_2_4",
        ("- 2 * h * dh * back", "+ 2 * h * dh * back", ""),
        ("residual @ turned(net.V) * (1 - h**2)", "residual @ turned(net.V) * (1 - h)", "book/fig-2.4"),
        tests="studies/sources/test_descent",
    ),
    *planted(
        "studies/book/ch02/fig_2_3",
        ("message = message + message @", "message = message @", ""),
        tests="studies/sources/test_descent",
    ),
]
