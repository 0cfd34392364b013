"""Functions of arrays, such as those of the theory, on tables whose axes go by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr

from secant.core.device import jit


def on_tables(function: Callable[..., Any], *tables: Any) -> Any:
    """What a function of arrays that broadcast says of tables, entry by entry.

    Args:
        function: of arrays, to an array or a tuple of such; compiled as a whole, unless it is already.
        tables: as many as it takes, or numbers; axes of the same name are the same axis.

    Returns:
        A table with all axes, in the order in which they come first, or a tuple of such.

    Example:
        ```python
        import xarray as xr
        from secant.studies.shared.tables import on_tables
        from secant.theory.catapult.one_sample import step

        residual = xr.DataArray([0.1, 0.2], dims="start")
        on_tables(step, residual, 2 + xr.DataArray([0.5, 1.0], dims="excess"), 0.0).v.sizes  # 2 starts, 2 excesses
        ```
    """
    whole = xr.broadcast(*(table for table in tables if isinstance(table, xr.DataArray)))[0]

    def plain(table: Any) -> Any:
        if not isinstance(table, xr.DataArray):
            return table
        return table.expand_dims([axis for axis in whole.dims if axis not in table.dims]).transpose(*whole.dims).values

    def named(values: Any) -> xr.DataArray:
        return xr.DataArray(np.broadcast_to(values, whole.shape), whole.coords, whole.dims)

    compiled = function if hasattr(function, "lower") else jit(function, quick=True)
    return jax.tree.map(named, compiled(*map(plain, tables)))
