"""Measured exponents: how a quantity grows or falls with a size, with a standard error."""

from __future__ import annotations

import xarray as xr

from secant.lab import Estimate
from secant.theory.power_law import fit_power_law


def exponent(values: xr.DataArray, along: str = "width") -> Estimate:
    """The exponent of a table's values in the sizes along one axis, with an error from repeats along the other axis.

    [`fit_power_law`][secant.theory.power_law.fit_power_law] needs at least two sizes, two repeats, and values above
    zero.
    """
    found = fit_power_law(values[along], values.transpose(along, ...))
    return Estimate(found.exponent, found.error, found.freedom)
