"""Lays the panels of a figure out again: below one another for a narrow window, or one panel as a thumbnail."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

# Names for types of matplotlib, which is imported only when something is drawn.
Axes: TypeAlias = Any
Figure: TypeAlias = Any
Part: TypeAlias = Any  # a figure, or a subfigure of one
Legend: TypeAlias = Any
Text: TypeAlias = Any

NARROW = 4.6  # inches, with which ten points are ten pixels on a phone
THUMBNAIL = (2.5, 1.6)
_LOWEST, _TALLEST, _TILE = 2.6, 3.5, 1.6
_LABELS = 0.45  # what ticks and a label take below a panel
_ROOM = 0.1  # above and below a panel


@dataclass
class Panel:
    """A cell of a figure's grid, with all its axes. Twin axes count as two."""

    row: int
    column: int
    height: float
    axes: list[Axes] = field(default_factory=list)

    @property
    def main(self) -> Axes:
        """The axes drawn first."""
        return self.axes[0]

    @property
    def tile(self) -> bool:
        """Whether the panel is a picture without scales, which stays legible at half the width."""
        return not self.main.axison or not (len(self.main.get_xticks()) or len(self.main.get_yticks()))


def stack(figure: Figure) -> None:
    """Lays the panels out below one another, and pictures without scales in pairs.

    Panels may have shared numbers at ticks, a label, or a title above a column. Each panel now gets its own. Colour
    bars stay with their panels. A legend without room in or beside its panel goes below the panel.
    """
    figure.set_layout_engine("constrained", h_pad=_ROOM)
    parts = figure.subfigs or [figure]
    rows = [_place(part) for part in parts]
    figure.set_figwidth(NARROW)
    more = sum(_fit_legend(part, legend) for part in {figure, *parts} for legend in list(part.legends))
    legends = [legend for axes in figure.axes if (legend := axes.get_legend()) is not None]
    for legend in legends:
        legend.set_in_layout(False)  # otherwise a wide legend squeezes its panel
    _resize(figure, rows, more)
    for legend in legends:
        legend.set_in_layout(True)
    _legends_below(rows)
    for part in {figure, *parts}:
        _wrap_titles(part)
    _resize(figure, rows, more)
    figure.set_layout_engine("none")


def settle(figure: Figure) -> None:
    """Lays the figure out once, for all files that are saved."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")


def single(figure: Figure) -> None:
    """Keeps only the first panel of the figure, without words."""
    figure.set_layout_engine("constrained")
    part = (figure.subfigs or [figure])[0]
    first = _panels(part)[0]
    for axes in first.axes:
        for artist in [*axes.images, *axes.collections]:
            if artist.colorbar is not None:
                artist.colorbar.remove()
    for axes in set(figure.axes) - set(first.axes):
        axes.remove()
    for any_part in {figure, *figure.subfigs}:
        for words in [*any_part.legends, *any_part.texts]:
            words.remove()
    for axes in first.axes:
        axes.set_subplotspec(_grid(part, [1.0], 1)[0])
        axes.set(xlabel="", ylabel="")
        axes.tick_params(which="both", labelbottom=False, labelleft=False, labelright=False, labeltop=False)
        for words in [axes.get_legend(), *_titles(axes), *axes.texts]:
            if words is not None:
                words.set_visible(False)
    if figure.subfigs:
        _share(figure, [1.0] + [1e-6] * (len(figure.subfigs) - 1))
    figure.set_size_inches(THUMBNAIL)
    settle(figure)


@dataclass
class Row:
    """Panels side by side in the new layout: their height, and the extra height of legends below them."""

    panels: list[Panel]
    height: float
    extra: float = 0.0


def _panels(part: Part) -> list[Panel]:
    """The cells of a figure's grid that have axes, in reading order."""
    found: dict[tuple[int, int], Panel] = {}
    for axes in part.axes:
        spec = axes.get_subplotspec()
        if spec is None or axes.get_figure(root=False) is not part:
            continue
        row, column = spec.rowspan.start, spec.colspan.start
        height = spec.get_position(part).height * part.bbox.height / part.get_figure(root=True).dpi
        found.setdefault((row, column), Panel(row, column, height)).axes.append(axes)
    panels = sorted(found.values(), key=lambda panel: (panel.row, panel.column))
    if any(panel.row for panel in panels) and not any(_title(panel.main) for panel in panels if panel.row):
        panels.sort(key=lambda panel: panel.column)  # the titles belong to the columns
    return panels


def _place(part: Part) -> list[Row]:
    """Puts the panels of a figure or a subfigure into rows."""
    panels = _panels(part)
    for panel in panels:
        _complete(panel, panels)
    tiles = len(panels) > 1 and all(panel.tile for panel in panels)
    if tiles:
        return [Row(panels[k : k + 2], _TILE) for k in range(0, len(panels), 2)]
    return [Row([panel], min(max(panel.height, _LOWEST), _TALLEST)) for panel in panels]


def _resize(figure: Figure, rows: list[list[Row]], more: float) -> None:
    """Lays the rows out at their heights, with extra height for the legends of the whole figure."""
    heights = [[row.height + row.extra for row in part] for part in rows]
    for part, own, tall in zip(figure.subfigs or [figure], rows, heights, strict=True):
        grid = _grid(part, tall, max(len(row.panels) for row in own))
        for k, row in enumerate(own):
            for column, panel in enumerate(row.panels):
                for axes in panel.axes:
                    axes.set_subplotspec(grid[k, column])
    if figure.subfigs:
        _share(figure, [sum(tall) for tall in heights])
    figure.set_size_inches(NARROW, sum(map(sum, heights)) + more)
    figure.get_layout_engine().execute(figure)


def _share(figure: Figure, heights: list[float]) -> None:
    """Gives the parts of a figure their heights."""
    figure.subfigs[0]._subplotspec.get_gridspec().set_height_ratios(heights)  # it has no public name


def _grid(part: Part, heights: list[float], columns: int) -> Any:
    from matplotlib.gridspec import GridSpec

    return GridSpec(len(heights), columns, figure=part, height_ratios=heights)


def _complete(panel: Panel, panels: list[Panel]) -> None:
    """Gives a panel the ticks, labels and title that it shared with other panels."""
    axes = panel.main
    below = [p.main for p in panels if p.column == panel.column and p.row > panel.row]
    above = [p.main for p in panels if p.column == panel.column and p.row < panel.row]
    beside = [p.main for p in panels if p.row == panel.row and p.column < panel.column and _alike(p.main, axes)]
    if any(axes.get_shared_x_axes().joined(axes, other) for other in below):
        axes.tick_params(axis="x", which="both", labelbottom=True)
    if any(axes.get_shared_y_axes().joined(axes, other) for other in beside):
        axes.tick_params(axis="y", which="both", labelleft=True)
    if below:
        axes.set_xlabel(axes.get_xlabel() or below[-1].get_xlabel())
    if beside:
        axes.set_ylabel(axes.get_ylabel() or beside[0].get_ylabel())
    if above and not _title(axes):
        axes.set_title(_title(above[0]))


def _alike(one: Axes, other: Axes) -> bool:
    """Whether two panels have the same vertical axis. A panel with another quantity names it in its title."""
    shared = one.get_shared_y_axes().joined(one, other)
    return shared or (one.get_ylim() == other.get_ylim() and one.get_yscale() == other.get_yscale())


def _legends_below(rows: list[list[Row]]) -> None:
    """Moves every legend that is larger than its panel below the panel."""
    for row in (row for part in rows for row in part):
        for axes in (axes for panel in row.panels for axes in panel.axes):
            legend, inside = axes.get_legend(), axes.bbox
            if legend is None:
                continue
            box = legend.get_window_extent()
            if box.x0 < inside.x0 - 1 or box.x1 > inside.x1 + 1 or box.y1 < inside.y0:
                row.extra = max(row.extra, _below(axes, legend))


def _below(axes: Axes, legend: Legend) -> float:
    """Redraws the legend below its panel, in as many columns as fit, and returns its height in inches."""
    from matplotlib.transforms import ScaledTranslation

    down = axes.transAxes + ScaledTranslation(0, -_LABELS, axes.get_figure(root=True).dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": down, "borderaxespad": 0}
    return _columns(lambda **same: axes.legend(**same, **place), _same(legend), axes.bbox.width)


def _fit_legend(part: Part, legend: Legend) -> float:
    """Puts the legend of a whole figure below it, in as many columns as fit, and returns its height in inches."""
    same = _same(legend)
    legend.remove()
    return _columns(lambda **same: part.legend(**same, loc="outside lower center"), same, part.bbox.width)


def _columns(make: Callable[..., Legend], same: dict[str, Any], width: float) -> float:
    for columns in (3, 2, 1):
        legend = make(**same, ncols=columns)
        box = legend.get_window_extent()
        if box.width <= width or columns == 1:
            break
        legend.remove()
    return float(box.height / legend.get_figure(root=True).dpi)


def _same(legend: Legend) -> dict[str, Any]:
    """The entries and the style of a legend, to draw the legend again."""
    texts = legend.get_texts()
    labels = [text.get_text() for text in texts]
    owner = [legend.axes] if legend.axes is not None else legend.get_figure(root=True).axes
    # The legend itself keeps less than was drawn: an error bar, for example, without its marker.
    drawn = {label: handle for axes in owner for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return {
        "handles": [drawn.get(k, v) for k, v in zip(labels, legend.legend_handles, strict=True)],
        "labels": labels,
        "fontsize": texts[0].get_fontsize(),
        "title": legend.get_title().get_text() or None,
        "title_fontsize": texts[0].get_fontsize(),
        "columnspacing": 1.0,
    }


def _titles(axes: Axes) -> list[Text]:
    return [axes.title, axes._left_title, axes._right_title]  # there is no public name for the other two


def _title(axes: Axes) -> str:
    return next((title.get_text() for title in _titles(axes) if title.get_text()), "")


def _wrap_titles(part: Part) -> None:
    """Wraps titles that are wider than the figure."""
    edge = part.bbox.x1
    for axes in part.axes:
        for title in _titles(axes):
            _wrap(title, edge - axes.bbox.x0)
    for text in part.texts:
        if text.get_text() == part.get_suptitle():
            _wrap(text, part.bbox.width)


def _wrap(text: Text, width: float) -> None:
    """Wraps a text at spaces outside formulas, until the text fits into the width."""
    words = text.get_text()
    whole = "$".join(piece.replace(" ", "\0") if k % 2 else piece for k, piece in enumerate(words.split("$")))
    for letters in range(len(words), 12, -2):
        if text.get_window_extent().width < 0.98 * width:
            return
        lines = [textwrap.fill(line, letters, break_long_words=False) for line in whole.splitlines()]
        text.set_text("\n".join(lines).replace("\0", " "))
