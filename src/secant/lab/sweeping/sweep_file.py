"""The file of a sweep: netCDF that names its sweep. The data of another sweep does not replace it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.core.files import replace
from secant.lab.runs import netcdf
from secant.lab.runs.store import StoreError, why_not

if TYPE_CHECKING:
    import xarray as xr

_MEANING = {"secant_study": "study", "secant_options": "options", "secant_over": "over", "secant_code": "code version"}


def write(path: Path, data: xr.Dataset, *, force: bool) -> Path:
    """Writes the data of a sweep, whole or not at all."""
    if not force:
        refuse_other(path, data.attrs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, netcdf.content(data))
    except OSError as error:
        reason, advice = why_not(error)
        raise StoreError(
            f"cannot write {path}: {reason}. {advice}, or choose another file. What stood there before is untouched, "
            "and so are the runs."
        ) from error
    return path


def refuse_other(path: Path, identity: Mapping[str, Any]) -> None:
    """Raises `FileExistsError` if `path` exists and is not a file of the sweep with this identity."""
    if not path.exists():
        return
    there = netcdf.attributes(path)
    if not set(_MEANING) <= set(there):
        problem = "is not the file of a sweep"
    else:
        different = [
            f"{meaning} {_difference(there[name], identity[name])}"
            for name, meaning in _MEANING.items()
            if there[name] != identity[name]
        ]
        if not different:
            return
        problem = f"is the file of another sweep: {'; '.join(different)}"
    raise FileExistsError(f"{path} {problem}. Choose another file, or replace it with force=True.")


def _difference(there: str, here: str) -> str:
    """What differs, entry by entry if the texts are mappings."""
    try:
        old, new = json.loads(there), json.loads(here)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    except (ValueError, TypeError):
        return f"{there} there, {here} here"
    return ", ".join(f"{name} {old.get(name, 'not given')} there, {new.get(name, 'not given')} here" for name in names)
