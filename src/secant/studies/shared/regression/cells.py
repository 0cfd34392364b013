"""Cells of a phase plane whose gradient descent settles at the edge, and fits of how far below it they settle."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr

MARGIN, ENOUGH = 0.05, 0.75
"""How far above 2 the flow of a cell at the edge ends; the share of draws that must converge for a cell to count."""


class Cells(NamedTuple):
    """The cells at the edge, one entry each: what the fits are made of.

    Attributes:
        log_delta: logarithm of the median deviation.
        error: its sampling error.
        excess: how far above 2 the median of the flow ends.
        number: number of the size.
        held_out: whether the cell is kept from the fit.
        residual: scale of the residuals.
        jacobian: square of the scale of the Jacobian.
        ratio: D/P.
    """

    log_delta: np.ndarray
    error: np.ndarray
    excess: np.ndarray
    number: np.ndarray
    held_out: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    ratio: np.ndarray


def cells_by_draws(data: xr.Dataset) -> Callable[[np.ndarray], Cells]:
    """A function of some draws that gives the cells at the edge by these. In NumPy: each resampling calls it once."""
    axes = ("size", "residual", "jacobian")
    flow, converged, curvature = (
        data[name].transpose(*axes, "draw").values for name in ("flow", "converged", "curvature")
    )
    # Deviations of almost nothing, or a curvature just above 2, must not count for everything in a logarithm.
    every = np.log(np.maximum(np.where(converged == 1, 2 - curvature, np.nan), 1e-5))

    def at(draws: np.ndarray) -> Cells:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no draw of a cell has converged
            excess = np.nanmedian(flow[..., draws], -1) - 2
        places = np.nonzero((excess > MARGIN) & (converged[..., draws].mean(-1) >= ENOUGH))
        logs = every[..., draws][places]
        # A median of n draws has the standard error 1.2533 s / sqrt(n); s from the middle half, 1.349 s wide.
        quantile = np.nanquantile if np.isnan(logs).any() else np.quantile
        lower, middle, upper = quantile(logs, [0.25, 0.5, 0.75], axis=-1)
        error = 1.2533 * (upper - lower) / 1.349 / np.sqrt(np.isfinite(logs).sum(-1))
        size, residual, jacobian = places
        scales = data.residual.values[residual], data.jacobian.values[jacobian]
        held_out = (residual + jacobian) % 2 == 1
        return Cells(middle, error, excess[places], size, held_out, *scales, data.ratio.values[size])

    return at


def at_the_edge(data: xr.Dataset) -> xr.Dataset:
    """The cells at the edge by all draws, along `cell`."""
    cells = cells_by_draws(data)(np.arange(data.sizes["draw"]))
    return xr.Dataset({name: ("cell", values) for name, values in cells._asdict().items()})


def law(cells: xr.Dataset | Cells) -> np.ndarray:
    """Columns of the law: its logarithm is linear in its constants."""
    return np.stack([np.ones_like(cells.excess), cells.excess, np.log(1 - cells.ratio)], axis=1)


def scales(cells: xr.Dataset | Cells) -> np.ndarray:
    """Columns that the two scales would add."""
    return np.stack([np.log(cells.residual), np.log(cells.jacobian)], axis=1)


def fitted(cells: xr.Dataset | Cells, columns: np.ndarray, held_out: np.ndarray) -> tuple[np.ndarray, float]:
    """Constants by least squares on what is not held out; root mean square error of the logarithm on the rest."""
    found = np.asarray(cells.log_delta)
    constants, *_ = np.linalg.lstsq(columns[~held_out], found[~held_out], rcond=None)
    missed = (found - columns @ constants)[held_out]
    return constants, float(np.sqrt(np.sum(missed**2) / max(len(missed), 1)))


def over_sampling(cells: Cells, held_out: np.ndarray) -> float:
    """Error of the law on what is held out of its fit, over the sampling error of the medians there."""
    known = float(np.sqrt(np.mean(cells.error[held_out] ** 2)))
    return fitted(cells, law(cells), held_out)[1] / known if known else np.nan


def enough(held_out: np.ndarray) -> bool:
    """Whether there are more cells to fit than constants, at most five, and as many to judge by."""
    return min(np.sum(~held_out), np.sum(held_out)) > 5
