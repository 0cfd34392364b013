"""The result of a run: records with names, dimensions and units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from secant.dynamics.axes import Axes
from secant.dynamics.drawing import draw
from secant.dynamics.probes import Probe
from secant.dynamics.stop import Outcome

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Trajectory:
    """What a run recorded, and where it ended.

    Attributes:
        dataset: one variable for each probe over `(*axes, step)`, with `outcome` and `stopped_at` over the axes.
        state: the final state, or the part of it that the Map shows, its leaves batched over the axes.
    """

    dataset: xr.Dataset
    state: Any

    def __getitem__(self, name: str) -> xr.DataArray:
        """The records of one probe."""
        return self.dataset[name]

    def plot(self, *names: str, ax: Any = None, look: str = "light") -> list[Any]:
        """Draws the records, each in a panel of its own, with one line for each trajectory.

        Colours show the first axis of the run, with a legend for a few values and a scale for many. Line styles show a
        short second axis. Positive records that span more than two decades are drawn on a logarithmic axis. A line ends
        where its trajectory stopped, with a cross if it diverged.

        Args:
            names: the records to draw; by default all but the records of another record's accuracy, such as
                `sharpness_error`.
            ax: the matplotlib axes to draw a single record in; by default a new figure.
            look: `light` or `dark`.

        Returns:
            The axes, one for each record; `plot()[0].figure` is the figure.

        Example:
            ```python
            import jax.numpy as jnp
            import secant as sc

            descent = lambda lr: sc.gradient_descent(lambda x: x**2 / 2, lr)
            over = {"lr": jnp.array([0.5, 1.5, 2.1])}
            run = sc.simulate(descent, 1.0, 30, over=over, probes={"x": lambda x: x, "loss": lambda x: x**2 / 2})
            print(len(run.plot()), run.plot("loss")[0].get_yscale())
            ```
            ```text
            2 log
            ```
        """
        return draw(self.dataset, names, ax, look)


def outcome_variables(axes: Axes, outcome: np.ndarray, stopped_at: np.ndarray, unit: str) -> dict[str, Any]:
    """The two variables that every run has, `outcome` and `stopped_at`."""
    flags = {
        "flag_values": np.array([o.value for o in Outcome], np.int8),
        "flag_meanings": " ".join(o.name.lower() for o in Outcome),
    }
    return {
        "outcome": (
            axes.names,
            outcome.reshape(axes.shape),
            {"long_name": "how the trajectory ended", **flags},
        ),
        "stopped_at": (
            axes.names,
            stopped_at.reshape(axes.shape),
            {"long_name": f"{unit} at which the trajectory ended", "units": unit},
        ),
    }


def record_variable(
    name: str, probe: Probe, records: np.ndarray, axes: Axes, along: str
) -> tuple[tuple[str, ...], np.ndarray, dict[str, str]]:
    """One probe's time-major records `(times, batch, ...)` as a variable over `(*axes, along, ...)`.

    Only strides change; no number is moved.
    """
    own = records.ndim - 1 - (1 if axes.names else 0)
    if len(probe.dims) < own and probe.dims:
        raise ValueError(f"probe {name!r} names {len(probe.dims)} dimensions in `dims` but its value has {own}.")
    dims = probe.dims[:own] or tuple(f"{name}_{k}" for k in range(own))
    if axes.names:
        records = records.reshape(records.shape[0], *axes.shape, *records.shape[2:])
    values = np.moveaxis(records, 0, len(axes.names))
    return (*axes.names, along, *dims), values, {"long_name": probe.label or name, "units": probe.units}
