"""Figures of studies: one look, light and dark, as SVG and PNG."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.core.files import replacing
from secant.lab.drawing import panels
from secant.lab.registry.study import Study
from secant.look import theme

if TYPE_CHECKING:
    import xarray as xr

FIGURE_FILES = (
    "figure.png",
    *(f"{name}{ending}.svg" for name in ("figure", "figure-narrow", "thumbnail") for ending in ("", "-dark")),
)
_MANY = 250  # marks


@contextlib.contextmanager
def drawn(study: Study, data: xr.Dataset, config: Any, look: str = "light") -> Iterator[Any]:
    """The study's figure in one look, ready to be saved."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(theme(look)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Data has no positive values")  # the panel of a run without numbers is empty
        figure = Figure(figsize=(9, 4), layout="constrained")
        study.draw(data, figure, config)
        _lighten(figure)
        yield figure


def save_figures(study: Study, data: xr.Dataset, config: Any, directory: Path) -> None:
    """Writes the study's figure beside its data, each file whole or not at all.

    It has three forms: as drawn, with the panels below one another for a narrow window, and one panel as a thumbnail.
    """
    for look, ending in (("light", ""), ("dark", "-dark")):
        with drawn(study, data, config, look) as figure:
            panels.settle(figure)
            _save(figure, directory / f"figure{ending}.svg", transparent=True, dpi=160)
            if look == "light":
                _save(figure, directory / "figure.png", dpi=160)
            panels.stack(figure)
            _save(figure, directory / f"figure-narrow{ending}.svg", transparent=True, dpi=160)
            panels.single(figure)
            _save(figure, directory / f"thumbnail{ending}.svg", transparent=True, dpi=160)


def _lighten(figure: Any) -> None:
    """Draws very many marks as an image, so that an SVG stays small."""
    for axes in figure.axes:
        for line in axes.lines:
            marked = line.get_marker() not in ("None", "none", "", " ", None)
            line.set_rasterized(line.get_rasterized() or (marked and len(line.get_xdata()) > _MANY))
        for collection in axes.collections:
            collection.set_rasterized(collection.get_rasterized() or len(collection.get_offsets()) > _MANY)


def _save(figure: Any, path: Path, **options: Any) -> None:
    with replacing(path) as partial:
        figure.savefig(partial, metadata={"Date": None} if path.suffix == ".svg" else {}, **options)
