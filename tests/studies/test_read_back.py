"""Data of runs are read as xarray reads them, whatever a study may keep."""

import numpy as np
import pytest
import xarray as xr

from secant.lab import netcdf

EVERYTHING = xr.Dataset(
    {
        "numbers": (("row", "column"), np.array([[1.0, np.nan, np.inf], [0.0, -0.0, 1e-310]]), {"long_name": "of all"}),
        "single": ("column", np.arange(3, dtype=np.float32), {"units": "", "scale": 0.5, "limits": [1.0, 2.0]}),
        "square": (("row", "row_2"), np.eye(2)),
        "flags": ("row", [True, False]),
        "counts": ("column", np.array([1, -2, 2**62])),
        "small": ("column", np.array([1, 2, 255], np.uint8)),
        "names": ("row", ["eins", "zwei"]),
        "one": 1.5,
        "word": "größer",
        "no_names": ("empty", np.zeros(0, "<U3")),
        "nothing": ("empty", np.zeros(0)),
        "late": ("step", np.arange(2.0), {"texts": ["a", "b"], "single": ["c"]}),
    },
    coords={"column": [0.1, 0.2, 0.3], "row": ["a", "b"], "beside": ("row", [1, 2]), "seed": 3},
    attrs={"title": "all kinds", "count": 3, "share": 0.25, "nothing": ""},
)


def same(path):
    found, expected = netcdf.read(path), xr.load_dataset(path, engine="h5netcdf")
    xr.testing.assert_identical(found, expected)
    assert list(found.data_vars) == list(expected.data_vars)
    assert {name: values.dtype for name, values in found.variables.items()} == {
        name: values.dtype for name, values in expected.variables.items()
    }
    return found


def test_every_kind_of_data_is_read_as_xarray_reads_it(tmp_path):
    EVERYTHING.to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    found = same(tmp_path / "data.nc")
    np.testing.assert_array_equal(found.numbers, EVERYTHING.numbers)
    assert found["names"].values.tolist() == ["eins", "zwei"]


@pytest.mark.parametrize("id", ["quadreg/fig-1", "book/sec-2.2", "book/fig-7.1"])
def test_runs_of_studies_are_read_as_xarray_reads_them(id, outcome, runs_of_studies):
    outcome(id)
    (path,) = runs_of_studies.glob(f"runs/{id}/*/data.nc")
    same(path)


def test_another_kind_of_file_is_left_to_xarray(tmp_path):
    path = tmp_path / "data.nc"
    EVERYTHING[["numbers"]].to_netcdf(path, engine="h5netcdf")
    EVERYTHING[["single"]].to_netcdf(path, engine="h5netcdf", mode="a", group="inner")
    same(path)
    path.write_bytes(b"none")
    with pytest.raises(OSError, match="file signature not found"):
        netcdf.read(path)
