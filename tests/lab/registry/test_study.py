"""A study: how it computes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import pytest
import xarray as xr

from secant.lab import claim, option, study


def precise(name, **options):
    @dataclass(frozen=True)
    class Config:
        size: int = option(2, at_least=1, help="of the matrix")

    @study(f"demo/{name}", section="1", title="T", **options)
    def run(config: Config) -> xr.Dataset:
        """S."""
        square = jnp.ones((config.size, config.size))
        text = str(jax.make_jaxpr(lambda a: a @ a)(square))
        return xr.Dataset({"bytes": square.dtype.itemsize}, attrs={"jaxpr": text})

    return run


def test_a_study_says_what_it_claims_in_the_docstring_of_its_function():
    assert precise("said").statement == "S."
    with pytest.raises(TypeError, match=r"demo/silent: the study's function has no docstring\. Say there what"):
        study("demo/silent", section="1", title="T")(lambda config: xr.Dataset())


def test_one_claim_at_values_that_read_alike_is_numbered():
    run = precise("alike")

    @run.findings
    def check(data, config):
        for size in (2.0, 2.0 + 1e-9):
            yield claim(f"end-{size:g}", f"end at {size:g}").zero(0, 1, "a test")

    assert [finding.key for finding in run.judge(xr.Dataset(), None)] == ["end-2", "end-2-2"]


def test_two_findings_of_one_key_are_refused_by_name():
    run = precise("twice")

    @run.findings
    def check(data, config):
        yield claim("rise", "it rises").zero(0, 1, "a test")
        yield claim("fall", "it falls").zero(0, 1, "a test")
        yield claim("Rise", "it rises again").zero(0, 1, "a test")

    said = r"demo/twice: several findings have the key 'rise'\. Give each claim a key of its own"
    with pytest.raises(TypeError, match=said):
        run.judge(xr.Dataset(), run.config())


def test_a_study_without_findings_is_refused_by_name():
    run = precise("none")
    with pytest.raises(TypeError, match=r"demo/none: the study has no findings\. Add a function decorated with"):
        run.judge(xr.Dataset(), run.config())
    run.findings(lambda data, config: iter(()))
    with pytest.raises(TypeError, match="demo/none: the study found nothing to judge"):
        run.judge(xr.Dataset(), run.config())


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
