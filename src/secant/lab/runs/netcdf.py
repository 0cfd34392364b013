"""Labelled data as netCDF, in memory and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

ENGINE = "netcdf4"
"""The library that xarray reads with. The C library is much faster than those in Python."""


def content(data: xr.Dataset) -> bytes:
    """The bytes of a netCDF file with this data.

    The file is made in memory, because the HDF5 library can end the whole process when a disk fills up.
    """
    import netCDF4
    import xarray as xr

    file = netCDF4.Dataset("data.nc", "w", memory=1)  # the name is never opened, and the size grows
    try:
        data.dump_to_store(xr.backends.NetCDF4DataStore(file))
    except BaseException:
        file.close()
        raise
    return bytes(file.close())


def read(path: Path) -> xr.Dataset:
    """The data of a file."""
    import xarray as xr

    return xr.load_dataset(path, engine=ENGINE)


def attributes(path: Path) -> dict[str, Any]:
    """The attributes of the data in a file. A file that is not netCDF has none."""
    import xarray as xr

    try:
        with xr.open_dataset(path, engine=ENGINE) as data:
            return dict(data.attrs)
    except (OSError, ValueError, KeyError):
        return {}
