"""The figure of a run: one panel for each record, one line for each trajectory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from secant.dynamics.stop import Outcome
from secant.look import COLOURS, number, panels

if TYPE_CHECKING:
    import xarray as xr

FEW = 8
"""Up to this many values have a colour each and a legend; more values share a colour scale."""

DECADES = 2.0
"""Positive records that span more than this are drawn on a logarithmic axis."""

_BESIDE = ("_residual", "_error", "_products")
_STYLES = ("-", "--", ":", "-.")


def draw(dataset: xr.Dataset, names: tuple[str, ...], ax: Any = None, look: str = "light") -> list[Any]:
    """Draws records of a run.

    Args:
        dataset: the dataset of a [`Trajectory`][secant.dynamics.Trajectory].
        names: the records to draw; by default all but the records of another record's accuracy.
        ax: the axes for a single record; by default in a new figure.
        look: `light` or `dark`.

    Returns:
        The axes, one for each record.
    """
    known = [str(name) for name in dataset.data_vars if _along(dataset[name]) is not None]
    beside = {f"{name}{ending}" for name in known for ending in _BESIDE}
    chosen = names or tuple(name for name in known if name not in beside)
    for name in chosen:
        if name not in known:
            raise ValueError(f"plot: the run has no record {name!r}. Records: {', '.join(known) or 'none'}.")
    if not chosen:
        raise ValueError("plot: the run recorded nothing. Give it `probes`.")
    if ax is not None and len(chosen) > 1:
        raise ValueError(f"plot: `ax` is for one record, and there are {len(chosen)}: {', '.join(chosen)}. Name one.")
    with panels(ax, look, len(chosen), (4.6, 3.4) if len(chosen) > 1 else (6.0, 3.6)) as axes:
        drawn = [_Panel.of(dataset, name, look) for name in chosen]
        labels = [panel.labels[1] for panel in drawn]
        for one, panel, label in zip(axes, drawn, labels, strict=True):
            panel.draw(one)
            if labels.count(label) > 1:
                one.set_ylabel(f"{label} ({panel.name})")
        _explain(axes, drawn, alone=ax is not None)
    return axes


class _Line(NamedTuple):
    """One trajectory: its place along every dimension, and its points up to where it ended."""

    place: dict[str, int]
    x: np.ndarray
    y: np.ndarray
    diverged: bool


class _Key(NamedTuple):
    """The look of one dimension: its values, and the colour or style of each; a colour scale for many values."""

    dim: str
    values: np.ndarray
    looks: list[Any]
    styles: bool = False
    scale: Any = None

    def entries(self, name: str) -> Iterator[tuple[Any, str]]:
        """A line and a text for each value, for a legend."""
        from matplotlib.lines import Line2D

        short = self.dim.removeprefix(f"{name}_")
        for value, look in zip(self.values, self.looks, strict=True):
            line = Line2D([], [], ls=look, color="0.5") if self.styles else Line2D([], [], color=look)
            text = number(float(value)) if isinstance(value, (float, np.floating)) else str(value)
            yield line, f"{name}[{text}]" if short.isdigit() else f"{short} = {text}"


@dataclass(frozen=True)
class _Panel:
    """One record: its lines, and the keys to their looks."""

    name: str
    labels: tuple[str, str]
    lines: list[_Line]
    axes: tuple[str, ...]
    keys: list[_Key]
    colour: str

    @classmethod
    def of(cls, dataset: xr.Dataset, name: str, look: str) -> _Panel:
        record, along = dataset[name], _along(dataset[name])
        assert along is not None
        free = [str(dim) for dim in record.dims if dim != along and record.sizes[dim] > 1]
        keys = [_coloured(record, free[0], look)] if free else []
        styled = next((dim for dim in free[1:] if record.sizes[dim] <= len(_STYLES)), None)
        if styled is not None:
            keys.append(_Key(styled, _values(record, styled), list(_STYLES[: record.sizes[styled]]), styles=True))
        labels = _label(dataset[along], along.split("_")[0]), _label(record, name)
        axes = tuple(str(dim) for dim in dataset["outcome"].dims)
        return cls(name, labels, list(_lines(dataset, record, along)), axes, keys, COLOURS[look][0])

    @property
    def diverged(self) -> bool:
        return any(line.diverged for line in self.lines)

    def draw(self, ax: Any) -> None:
        """Draws the lines, with a cross where a trajectory diverged."""
        from matplotlib.collections import LineCollection

        low, high = _limits(self.lines)
        colours = [self._look(line, styles=False) for line in self.lines]
        styles = [self._look(line, styles=True) for line in self.lines]
        logarithmic = low > 0 and np.log10(high / low) > DECADES
        if logarithmic:
            ax.set_yscale("log")
        points = [np.column_stack([line.x, line.y]) for line in self.lines]
        width, alpha = (0.8, 0.7) if len(points) > 4 * FEW else (1.6, 1.0)
        ax.add_collection(LineCollection(points, colors=colours, linestyles=styles, linewidths=width, alpha=alpha))
        ax.autoscale_view()
        if self.diverged:
            margin = max((high / low) ** 0.05, 1.01) if logarithmic else 0.05 * (high - low) or 1.0
            low, high = (low / margin, high * margin) if logarithmic else (low - margin, high + margin)
            ax.set_ylim(low, high)
            lost = [(line, colour) for line, colour in zip(self.lines, colours, strict=True) if line.diverged]
            ends = [_end(line, low, high, logarithmic) for line, _ in lost]
            looks: Any = {"marker": "x", "s": 45, "linewidths": 2, "clip_on": False, "zorder": 3}
            ax.scatter(*np.transpose(ends), color=[colour for _, colour in lost], **looks)
        ax.set(xlabel=self.labels[0], ylabel=self.labels[1])

    def _look(self, line: _Line, *, styles: bool) -> Any:
        for key in self.keys:
            if key.styles == styles:
                return key.looks[line.place[key.dim]]
        return "-" if styles else self.colour


def _along(record: xr.DataArray) -> str | None:
    """The dimension that runs with the steps or with time."""
    return next((str(dim) for dim in record.dims if re.fullmatch(r"step(_\d+)?|time", str(dim))), None)


def _lines(dataset: xr.Dataset, record: xr.DataArray, along: str) -> Iterator[_Line]:
    steps = np.asarray(dataset[along].values, float)
    others = [str(dim) for dim in record.dims if dim != along]
    values = np.asarray(record.transpose(*others, along).values, float)
    outcome, ended = dataset["outcome"], dataset["stopped_at"]
    for index in np.ndindex(values.shape[:-1]):
        place = dict(zip(others, index, strict=True))
        run = tuple(place[str(dim)] for dim in outcome.dims)
        how = int(outcome.values[run])
        # After the end of a trajectory its last value is repeated.
        until = np.inf if how == Outcome.UNFINISHED else float(ended.values[run])
        kept = np.isfinite(values[index]) & (steps <= until)
        yield _Line(place, steps[kept], values[index][kept], how == Outcome.DIVERGED)


def _limits(lines: list[_Line]) -> tuple[float, float]:
    """The range to show: all values of lines that did not diverge, and as much again for lines that did."""
    steady = [line.y for line in lines if len(line.y) and not line.diverged]
    lost = [line.y for line in lines if len(line.y) and line.diverged]
    shown = np.concatenate(steady or lost or [np.zeros(1)])
    low, high = float(shown.min()), float(shown.max())
    if not steady or not lost:
        return low, high
    bottom, top = float(np.concatenate(lost).min()), float(np.concatenate(lost).max())
    if low > 0 and 2 * np.log10(high / low) > DECADES:
        return low, max(high, min(top, high * (high / low)))
    return min(low, max(bottom, 2 * low - high)), max(high, min(top, 2 * high - low))


def _end(line: _Line, low: float, high: float, logarithmic: bool) -> tuple[float, float]:
    """The place of the cross: the last point of a trajectory, or the edge of the panel where it left for good."""
    inside = np.flatnonzero((line.y >= low) & (line.y <= high))
    if not len(inside):
        return np.nan, np.nan
    last = int(inside[-1])
    if last + 1 == len(line.y):
        return line.x[last], line.y[last]
    edge = high if line.y[last + 1] > high else low
    scaled = np.log(np.maximum([line.y[last], edge, line.y[last + 1]], 1e-300)) if logarithmic else None
    start, middle, stop = (line.y[last], edge, line.y[last + 1]) if scaled is None else scaled
    return line.x[last] + (middle - start) / (stop - start) * (line.x[last + 1] - line.x[last]), edge


def _values(record: xr.DataArray, dim: str) -> np.ndarray:
    return np.asarray(record[dim].values) if dim in record.coords else np.arange(record.sizes[dim])


def _coloured(record: xr.DataArray, dim: str, look: str) -> _Key:
    """The colours of a dimension's values: from a list for a few values, from a scale for many."""
    values = _values(record, dim)
    if len(values) <= FEW:
        return _Key(dim, values, COLOURS[look][: len(values)])
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm, Normalize

    wide = values.min() > 0 and np.log10(values.max() / values.min()) > DECADES
    # One end of the map cannot be seen on white, the other not on black.
    seen = (0.0, 0.92) if look == "light" else (0.2, 1.0)
    colours = ListedColormap(colormaps["viridis"](np.linspace(*seen, 256)))
    scale = ScalarMappable((LogNorm if wide else Normalize)(values.min(), values.max()), colours)
    return _Key(dim, values, list(scale.to_rgba(values)), scale=scale)


def _label(record: xr.DataArray, name: str) -> str:
    text, units = record.attrs.get("long_name", name), record.attrs.get("units", "")
    return f"{text} [{units}]" if units and units != text else text


def _explain(axes: list[Any], drawn: list[_Panel], alone: bool) -> None:
    """Draws the legends: axes of the run once above all panels, a record's own above its panel; inside a lone panel."""
    from matplotlib.lines import Line2D

    shared: dict[str, Any] = {}
    for ax, panel in zip(axes, drawn, strict=True):
        own: list[tuple[Any, str]] = []
        for key in panel.keys:
            if key.scale is not None:
                if key.dim not in panel.axes or key.dim not in shared:
                    ax.figure.colorbar(key.scale, ax=axes if key.dim in panel.axes else ax, label=key.dim)
                shared[key.dim] = []
            elif key.dim in panel.axes or alone:
                shared[key.dim] = list(key.entries(panel.name))
            else:
                own += key.entries(panel.name)
        if own:
            ax.legend(*zip(*own, strict=True), loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    entries = [entry for part in shared.values() for entry in part]
    if any(panel.diverged for panel in drawn):
        entries.append((Line2D([], [], ls="", marker="x", color="0.5", ms=7, mew=2), "diverged"))
    if entries and alone:
        axes[0].legend(*zip(*entries, strict=True))
    elif entries:
        figure = axes[0].figure
        across = max(2, int(figure.get_figwidth() / 1.3))
        figure.legend(*zip(*entries, strict=True), loc="outside upper left", ncols=across)
