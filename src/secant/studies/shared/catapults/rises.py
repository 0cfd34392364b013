"""Steps on batches at which the loss rises, beside the steps that exceed the critical step of their batch."""

from __future__ import annotations

import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.measure.events import over_edge

DOUBLE = 1.0
"""A rise of the loss by at least this fraction of itself is a spike; smaller ones may be noise."""


def made_steps(data: xr.Dataset) -> xr.Dataset:
    """The steps that a run has `made`, with the relative `rise` of the loss of all samples.

    A step is `over` if it is above the critical one of its batch. The loss of the batch `itself` rises or does not.
    """
    last = data.stopped_at.where(data.outcome != Outcome.UNFINISHED, np.inf)
    later = data.loss.shift(step=-1)
    return xr.Dataset(
        {
            "made": later.notnull() & (data.step < last),
            "rise": (later - data.loss) / data.loss,
            "over": data.lr > data.own,
            "itself": data.after > data.before,
        }
    )


def rates(data: xr.Dataset) -> xr.Dataset:
    """Over `case` and `run`: rises that are foretold, those that double the loss, those of the batch's own loss."""
    steps = made_steps(data)
    made, over, rose = steps.made, steps.over.astype(float), steps.made & (steps.rise > 0)
    edge = over.copy(data=over_edge(data.lr.transpose(*over.dims), data.own.transpose(*over.dims)))
    shares = {
        "foretold": edge.where(rose),
        "followed": rose.astype(float).where(made & (edge > 0)),
        "over": over.where(made),
        "doubled": over.where(made & (steps.rise > DOUBLE)),
        "itself": over.where(made & steps.itself),
        "rises": rose.astype(float).where(made),
    }
    missed = steps.rise.where(rose & ~steps.over).median("step").astype(float)
    return xr.Dataset({name: share.mean("step") for name, share in shares.items()} | {"missed": missed})


def both_criticals(case: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Critical steps of batches, by Hessian and by kernel, of all runs until they end."""
    exact = case.exact.rename(looked="step") if "looked" in case.dims else case.exact
    # A run that ends at once has a look that was never due.
    exact = exact.sel(step=np.intersect1d(exact.step, case.step))
    own = case.own.sel(step=exact.step)
    last = case.stopped_at.where(case.outcome != Outcome.UNFINISHED, np.inf)
    kept = (exact.step <= last) & np.isfinite(exact) & np.isfinite(own)
    found, kernel, kept = (one.transpose("run", "step").values for one in (exact, own, kept))
    return found[kept], kernel[kept]
