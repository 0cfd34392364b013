"""A recipe is kept with the run."""

import jax
import numpy as np
import pytest
import xarray as xr

from secant.data import load, regression
from secant.lab.runs import netcdf


@pytest.mark.parametrize(
    "make",
    [
        lambda: load("digits", classes=(3, 8), samples=10, validation_samples=5, label_noise=0.1),
        lambda: load("digits", flat=False, seed=3),
        lambda: regression("rank-2", jax.random.key(7), samples=3, test_samples=2),
    ],
    ids=["two classes", "all", "synthetic"],
)
def test_its_attributes_survive_a_file(make, tmp_path):
    task = make()
    attributes = task.attributes()
    assert attributes["data"] == task.recipe["data"]
    assert {name.removeprefix("data_") for name in attributes} == set(task.recipe)
    (tmp_path / "run.nc").write_bytes(netcdf.content(xr.Dataset(attrs=attributes)))
    read = netcdf.read(tmp_path / "run.nc").attrs
    assert set(read) == set(attributes)
    for name, value in attributes.items():
        np.testing.assert_array_equal(read[name], value)
