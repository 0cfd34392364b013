"""Flows: solutions of ordinary differential equations, with the axes and probes of discrete runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from secant._version import __version__
from secant.core.device import jit
from secant.dynamics.axes import Axes, call_with, is_function
from secant.dynamics.loop import stable_types
from secant.dynamics.probes import Probe, as_probes, look_afresh
from secant.dynamics.stop import Outcome, is_finite
from secant.dynamics.trajectory import Trajectory, outcome_variables, record_variable

FEW = 64
"""Up to this many trajectories are integrated one after the other on a CPU."""


def flow(
    field: Callable[..., Any],
    start: Any,
    until: float,
    *,
    probes: Mapping[str, Probe | Callable[..., Any]] | None = None,
    over: Mapping[str, Any] | None = None,
    samples: int | Float[Array, "samples"] | np.ndarray = 201,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    max_steps: int = 100_000,
) -> Trajectory:
    r"""Integrates $\dot s = F(s)$ from 0 to `until` and records its probes at equally spaced times.

    The solver is adaptive, of Dormand-Prince type (Tsit5 of diffrax), and each trajectory has steps of its own. The
    default tolerances suit float64; in float32 loosen them to about 1e-5.

    Args:
        field: state -> derivative of the state, a pytree of the same structure; may take axis values by name.
        start: the starting point, or a function of axis values that makes one.
        until: the last time.
        probes: what to record, by name; cadences do not apply.
        over: named axes to batch over, as in [`simulate`][secant.dynamics.simulate].
        samples: how many records, both ends included, or the increasing times themselves.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        max_steps: a trajectory that needs more steps is given up. It is recorded as diverged, with NaN as records.

    Example:
        ```python
        import secant as sc

        decay = sc.flow(lambda x: -x, 1.0, until=3.0, probes={"x": lambda x: x}, rtol=1e-5, atol=1e-6)
        decay.dataset.x.isel(time=-1)  # exp(-3)
        ```
    """
    import diffrax
    import xarray as xr

    if not np.isfinite(until) or until <= 0:
        raise ValueError(f"flow: `until` must be a positive number, got {until!r}.")
    times = np.linspace(0.0, until, samples) if isinstance(samples, int) else np.asarray(samples)
    if times.ndim != 1 or len(times) < 2 or (np.diff(times) <= 0).any() or times[0] < 0 or times[-1] > until:
        raise ValueError("flow: `samples` must be a number of at least 2, or increasing times between 0 and `until`.")
    axes = Axes.of(over)
    named = as_probes(probes, axes.names)

    def one(values: dict[str, Any]) -> tuple[dict[str, Any], Any, Any]:
        point = call_with(start, values, role="the start") if is_function(start) else start
        point = stable_types(lambda s: call_with(field, values, s, role="the field"), point)

        def observe(_: Any, state: Any, __: Any) -> dict[str, Any]:
            # The solver may ask for records at any time, in any order.
            return {name: look_afresh(name, probe, values, state) for name, probe in named.items()}

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _, state, __: call_with(field, values, state, role="the field")),
            diffrax.Tsit5(),
            t0=0.0,
            t1=until,
            dt0=None,
            y0=point,
            saveat=diffrax.SaveAt(
                subs=[diffrax.SubSaveAt(ts=jnp.asarray(times), fn=observe), diffrax.SubSaveAt(t1=True)]
            ),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            adjoint=diffrax.ForwardMode(),  # nobody differentiates through it, and the plain loop compiles fastest
            max_steps=max_steps,
            throw=False,
        )
        records, last = solution.ys
        last = jax.tree.map(lambda leaf: leaf[0], last)
        good = (solution.result == diffrax.RESULTS.successful) & is_finite(last)
        return records, last, jnp.where(good, Outcome.UNFINISHED, Outcome.DIVERGED).astype(jnp.int8)

    records, state, outcome = jit(_over(axes, one))(axes.grid())
    variables: dict[str, Any] = {}
    for owner, parts in records.items():
        for name, record in parts.items():
            time_major = np.moveaxis(np.asarray(record), 1 if axes.names else 0, 0)
            variables[name] = record_variable(name, named[owner], time_major, axes, "time")
    outcome = np.asarray(outcome)
    variables |= outcome_variables(axes, outcome, np.full(outcome.shape, until), "time")
    coordinates = {**axes.coordinates(), "time": ("time", times, {"long_name": "time"})}
    attributes = {"rtol": rtol, "atol": atol, "secant": __version__, "jax": jax.__version__}
    dataset = xr.Dataset(variables, coords=coordinates, attrs=attributes)
    return Trajectory(dataset, axes.unflatten(state))


def _over(axes: Axes, one: Callable[..., Any]) -> Callable[..., Any]:
    """`one` for every point of the grid: a few points one after the other on a CPU, otherwise all at once.

    An adaptive solver is a loop in a loop. Compiling a vectorised solver takes longer than compiling the plain one.
    """
    if not axes.names:
        return one
    few = math.prod(axes.shape) <= FEW and jax.default_backend() == "cpu"
    return functools.partial(lax.map, one) if few else jax.vmap(one)
