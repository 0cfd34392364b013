"""The data of a run, read from its netCDF file.

Xarray asks h5netcdf for every variable a hundred times, and h5netcdf the file: small files take it a tenth of a second.
Here each is asked once, and what stands in the file is decoded by xarray as it would be.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

OF_DIMENSIONS = frozenset(
    {
        "CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
        "_NCProperties", "_nc3_strict",
    }
)  # fmt: skip
"""Attributes by which netCDF tells its dimensions."""

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def read(path: Path) -> xr.Dataset:
    """All of a file, as `xarray.load_dataset` gives it; files of another kind than those of runs are left to that."""
    import h5py  # type: ignore[import-untyped]
    import xarray as xr

    with h5py.File(path, "r") as file:
        parts = {name: file[name] for name in file}
        if not all(_is_usual(part) for part in parts.values()):
            return xr.load_dataset(path, engine="h5netcdf")
        variables = {}
        for name, part in parts.items():
            told = dict(part.attrs.items())
            if told.get("NAME", b"").startswith(NO_VARIABLE):
                continue
            if "DIMENSION_LIST" in told:
                dims = [file[scale].name.removeprefix("/") for (scale, *_) in told["DIMENSION_LIST"]]
            else:
                dims = [name] * part.ndim
            values = np.asarray(part.asstr()[...], str) if part.dtype.kind == "O" else part[...]
            variables[name] = xr.Variable(dims, values, _attributes(told))
        whole = xr.Dataset(variables, attrs=_attributes(dict(file.attrs.items())))
    return xr.decode_cf(whole)


def _is_usual(part: Any) -> bool:
    """Whether it is an array of numbers or of texts, with dimensions that have names."""
    import h5py

    if not isinstance(part, h5py.Dataset) or part.shape is None:
        return False
    named = part.ndim == 0 or "DIMENSION_LIST" in part.attrs or (part.ndim == 1 and "CLASS" in part.attrs)
    kind = part.dtype.kind
    text = kind == "O" and h5py.check_string_dtype(part.dtype) is not None
    return named and (text or (kind in "fiu" and h5py.check_enum_dtype(part.dtype) is None))


def _attributes(told: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in told.items() if name not in OF_DIMENSIONS}


def _plain(value: Any) -> Any:
    """Texts as such, and lists of one entry as that entry."""
    import h5py

    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray):
        entries = [_plain(entry) for entry in value.ravel()] if value.dtype.kind in "SO" else value
        return entries[0] if value.shape == (1,) else entries
    return value
