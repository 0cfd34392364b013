"""Errors in the test of the scaling rule, and in the exact losses beside it."""

from __future__ import annotations

from mutants.mutant import planted

SCALING = [
    *planted(
        "optim/scaling",
        ("(k, between // k, None)", "(k, between, None)", ""),
        ("factor * lr, number", "lr, number", ""),
        ("_system(problem, factor * batches.size,", "_system(problem, batches.size,", ""),
        ("means[1] / means[0], shares[0] + shares[1]", "means[1] / means[0], shares[0]", ""),
    ),
    *planted(
        "theory/noise/mean_square",
        ("(1 - amplify) * law.single**2", "(1 - amplify) * law.single", ""),
        ("step / n * (moved", "step / (2 * n) * (moved", "book/end-of-scaling"),
        ("(step / batch) ** 2 * (K @", "(step / batch) * (K @", "book/end-of-scaling"),
    ),
]
