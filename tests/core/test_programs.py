"""Programs are forgotten after so many, and made again when they are asked for."""

import subprocess
import sys

import jax
import numpy as np

from secant.core.programs import forget_programs


def test_they_are_forgotten_after_so_many_and_not_before():
    forget_programs(-1)
    traced = []

    @jax.jit
    def double(x):
        traced.append(len(x))
        return 2 * x

    for size in (1, 2, 3):
        double(np.ones(size))
    assert not forget_programs(3)
    double(np.ones(2))
    assert traced == [1, 2, 3]
    double(np.ones(4))
    assert forget_programs(3)
    assert not forget_programs(3)
    np.testing.assert_array_equal(double(np.ones(2)), [2, 2])
    assert traced == [1, 2, 3, 4, 2]


def test_a_process_without_jax_has_none_and_needs_none():
    code = "import sys; from secant.core.programs import *; print(forget_programs(-1), 'jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
