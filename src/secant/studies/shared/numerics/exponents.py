"""Measured exponents: how a quantity grows or falls with a size, with a standard error."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from secant.lab import Estimate
from secant.theory.power_law import fit_power_law


def exponent(values: xr.DataArray, along: str = "width") -> Estimate:
    """The exponent of a table's values in the sizes along one axis, with an error from repeats along the other axis.

    [`fit_power_law`][secant.theory.power_law.fit_power_law] needs at least two sizes, two repeats, and values above
    zero.
    """
    found = fit_power_law(values[along], values.transpose(along, ...))
    return Estimate(found.exponent, found.error, found.freedom)


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """The slope of the straight line through points, by least squares: exact laws, without a sampling error."""
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])


def rate(x: ArrayLike, y: ArrayLike) -> float:
    r"""The exponent $p$ of $y \propto x^p$: the slope of $\ln y$ over $\ln x$."""
    return slope(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)))
