"""Options for the compiler reach what is compiled alone, and stand in nobody's way."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from secant.core import device as _device


@pytest.fixture
def double():
    if _device.compiler_options() is None:
        pytest.skip("this device needs no options")
    return _device.jit(lambda x: 2 * x)


def test_a_compiled_function_may_be_part_of_another(double):
    assert double(3.0) == 6
    assert jax.jit(lambda x: double(x) + 1)(3.0) == 7
    assert jax.jit(lambda: double(3.0))() == 6
    assert jax.grad(double)(1.0) == 2
    assert jax.vmap(double)(jnp.ones(2)).tolist() == [2, 2]
    assert lax.fori_loop(0, 3, lambda _, x: double(x), 1.0) == 8
    assert double.eval_shape(1.0).shape == ()


def test_options_that_the_compiler_does_not_know_are_left_out():
    assert _device._known({"xla_no_such_option": True}) is None
    assert _device._known({}) == {}


def test_free_memory_is_a_number_of_bytes_or_unknown():
    free = _device.available_bytes()
    assert free is None or free > 2**20


def test_numbers_that_are_not_finite_are_seen():
    assert _device.all_finite(jnp.ones((2, 3)))
    assert not _device.all_finite(jnp.array([1.0, jnp.inf]))
    assert not _device.all_finite(jnp.array([[1.0], [jnp.nan]]))
