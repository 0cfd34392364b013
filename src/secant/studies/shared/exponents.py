"""Exponents as measurements: how something grows or falls with a size, and how well that is known."""

from __future__ import annotations

import xarray as xr

from secant.lab import Estimate
from secant.theory.power_law import fit_power_law


def exponent(values: xr.DataArray, along: str = "width") -> Estimate:
    """The exponent of a table's values in the sizes along one axis, from the scatter of its repeats along the other.

    By [`fit_power_law`][secant.theory.power_law.fit_power_law]: at least two sizes, two repeats, and values above zero.
    """
    found = fit_power_law(values[along], values.transpose(along, ...))
    return Estimate(found.exponent, found.error, found.freedom)
