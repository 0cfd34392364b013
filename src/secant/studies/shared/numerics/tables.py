"""Functions of arrays, such as those of the theory, applied to tables with named axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import xarray as xr

from secant.core.device import jit


def on_tables(function: Callable[..., Any], *tables: Any) -> Any:
    """Applies a function of arrays to tables, entry by entry, with broadcasting by the names of axes.

    Args:
        function: arrays -> an array or a tuple of arrays; compiled as a whole, unless it is compiled already.
        tables: the arguments, tables or numbers. Axes of the same name are the same axis.

    Returns:
        A table, or a tuple of tables, with all axes in the order of their first appearance.

    Example:
        ```python
        import xarray as xr
        from secant.studies.shared.numerics.tables import on_tables
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
