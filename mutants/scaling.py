"""Errors in the test of the scaling rule, and in the exact losses beside it."""

from __future__ import annotations

from mutants.mutant import Mutant

TESTS = ("optim/test_scaling.py",)
EXACT = ("theory/test_mean_square.py",)
STUDY = ("book/end-of-scaling",)

SCALING = [
    Mutant("optim/scaling.py", "(k, between // k, None)", "(k, between, None)", TESTS),
    Mutant("optim/scaling.py", "factor * lr, number", "lr, number", TESTS),
    Mutant("optim/scaling.py", "_system(problem, factor * batches.size,", "_system(problem, batches.size,", TESTS),
    Mutant("optim/scaling.py", "means[1] / means[0], shares[0] + shares[1]", "means[1] / means[0], shares[0]", TESTS),
    Mutant("theory/mean_square.py", "(1 - amplify) * law.single**2", "(1 - amplify) * law.single", EXACT),
    Mutant("theory/mean_square.py", "step / n * (moved", "step / (2 * n) * (moved", EXACT, STUDY),
    Mutant("theory/mean_square.py", "(step / batch) ** 2 * (K @", "(step / batch) * (K @", EXACT, STUDY),
]
