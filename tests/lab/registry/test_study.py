"""A study: how it computes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import pytest
import xarray as xr

from secant.lab import option, study


def precise(name, **options):
    @dataclass(frozen=True)
    class Config:
        size: int = option(2, at_least=1, help="of the matrix")

    @study(f"demo/{name}", section="1", title="T", statement="S", **options)
    def run(config: Config) -> xr.Dataset:
        square = jnp.ones((config.size, config.size))
        text = str(jax.make_jaxpr(lambda a: a @ a)(square))
        return xr.Dataset({"bytes": square.dtype.itemsize}, attrs={"jaxpr": text})

    return run


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("float64", 8)])
def test_a_study_computes_in_its_precision_whatever_is_set_around_it(precision, size):
    run = precise(f"bytes-{size}", precision=precision)
    with jax.enable_x64(size == 4):
        assert int(run(run.config("smoke"))["bytes"]) == size


def test_matrices_are_multiplied_with_all_their_bits_on_every_device():
    # A GPU keeps ten of the 23 bits of a float32 unless it is told otherwise.
    run = precise("bits", precision="float32")
    assert "precision=(Precision.HIGHEST, Precision.HIGHEST)" in run(run.config("smoke")).attrs["jaxpr"].replace(
        "\n", ""
    )
    assert "HIGHEST" not in str(jax.make_jaxpr(lambda a: a @ a)(jnp.ones((2, 2))))
