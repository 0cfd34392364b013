"""Data come back from a file as they were, and what is no such file says so."""

import numpy as np
import pytest
import xarray as xr

from secant.lab.runs import netcdf

DATA = xr.Dataset(
    {
        "reached": ("run", [True, False]),
        "name": ("run", ["Ä", "longer"]),
        "count": ("run", np.array([2**53 + 1, -3])),
        "single": ("run", np.float32([0.1, np.inf])),
        "one": np.nan,
        "nothing": (("run", "none"), np.zeros((2, 0))),
    },
    coords={"run": [0.25, 0.5], "seed": 3},
    attrs={"text": "größer", "numbers": [1.0, 2.0], "whole": 3},
)


def test_data_of_every_kind_come_back(tmp_path):
    path = tmp_path / "data.nc"
    path.write_bytes(netcdf.content(DATA))
    read = netcdf.read(path)
    assert read.identical(DATA)
    assert {name: v.dtype.kind for name, v in read.variables.items()} == {
        name: v.dtype.kind for name, v in DATA.variables.items()
    }
    assert netcdf.attributes(path)["text"] == "größer"
    path.write_bytes(netcdf.content(DATA.isel(run=[0])))  # the file was let go of
    assert netcdf.read(path).identical(DATA.isel(run=[0]))


@pytest.mark.parametrize("kept", [0, 100, 3_000])
def test_half_a_file_has_no_attributes_and_is_an_error_to_read(kept, tmp_path):
    path = tmp_path / "data.nc"
    path.write_bytes(netcdf.content(DATA)[:kept])
    assert netcdf.attributes(path) == {}
    with pytest.raises(OSError, match="NetCDF"):
        netcdf.read(path)


def test_what_cannot_be_written_is_raised_and_the_next_is_written(tmp_path):
    with pytest.raises((TypeError, ValueError)):
        netcdf.content(xr.Dataset(attrs={"function": len}))
    (tmp_path / "data.nc").write_bytes(netcdf.content(DATA))
    assert netcdf.read(tmp_path / "data.nc").identical(DATA)
