"""Splits an axis that runs over combinations into one dimension for each option."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import xarray as xr


def unfold(data: xr.Dataset, axis: str, **coords: Iterable[Any]) -> xr.Dataset:
    """Splits an axis that runs over all combinations of some values into one dimension for each option.

    Args:
        data: the table.
        axis: the axis to unfold. Along it the last of `coords` changes fastest.
        coords: the values of each new dimension, by name.

    Example:
        ```python
        import numpy as np
        import xarray as xr
        from secant.lab import unfold

        table = xr.Dataset({"loss": ("network", np.arange(6.0))})
        unfold(table, "network", width=(10, 100), seed=range(3)).loss.sel(width=100, seed=1)  # 4.0
        ```

    Raises:
        ValueError: the length of the axis is not the number of combinations.
    """
    values = {name: list(entries) for name, entries in coords.items()}
    shape = [len(entries) for entries in values.values()]
    places = 1
    for size in shape:
        places *= size
    if data.sizes.get(axis) != places:
        sizes = " x ".join(map(str, shape))
        raise ValueError(
            f"unfold: `{axis}` has {data.sizes.get(axis)} places, the combinations are {sizes} = {places}."
        )

    def one(variable: xr.DataArray) -> tuple[Any, ...]:
        where = variable.dims.index(axis)
        dims = (*variable.dims[:where], *values, *variable.dims[where + 1 :])
        sizes = (*variable.shape[:where], *shape, *variable.shape[where + 1 :])
        return dims, variable.values.reshape(sizes), variable.attrs

    kept = {name: one(v) if axis in v.dims else v for name, v in data.data_vars.items()}
    beside = {name: one(v) if axis in v.dims else v for name, v in data.coords.items() if name != axis}
    return xr.Dataset(kept, {**beside, **values}, data.attrs)
