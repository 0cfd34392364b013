"""Errors in what says where training ends."""

from __future__ import annotations

from mutants.mutant import planted

BIAS = [
    *planted(
        "theory/bias/reparametrization",
        ("return J @ J.T\n", "return 2 * J @ J.T\n", "book/ex-8.1.3"),
        ("along - along.swapaxes(0, 1)", "along + along.swapaxes(0, 1)", "book/def-8.1.8 book/any-parametrization"),
        ("asked = y - first", "asked = y + first", "book/any-parametrization"),
        ("times = times + _solved(J, y - found)", "times = times - _solved(J, y - found)", ""),
    ),
    *planted(
        "theory/bias/diagonal",
        ("alpha * np.exp(2 * s)), np.asarray", "alpha * np.exp(s)), np.asarray", ""),
        ("depth * (depth - 2) * s", "depth * (depth - 1) * s", ""),
        ("depth**2 * (one ** (2 * depth - 2)", "depth * (one ** (2 * depth - 2)", ""),
        ("/ (2 * depth)).sum(-1))", "/ depth).sum(-1))", ""),
        ("a = 2 * lr * xp.einsum", "a = lr * xp.einsum", ""),
        ("log_minus - log_plus + 2 * a", "log_minus + log_plus + 2 * a", "book/large-steps"),
        ("np.exp(gain / 2)", "np.exp(gain)", "book/large-steps"),
    ),
    *planted(
        "theory/bias/deep_linear",
        ("depth * s ** (2 - 2 / depth)", "depth * s ** (2 - 1 / depth)", "book/sec-8.2"),
        ("/ (start * (sigma - s))) / (2 * sigma)", "/ (start * (sigma - s))) / sigma", "book/sec-8.2"),
        ("x ** (2 / depth - 1)", "x ** (2 / depth)", "book/sec-8.2"),
        ("two.T @ two - one @ one.T for", "two.T @ two + one @ one.T for", "book/sec-8.2"),
    ),
]
