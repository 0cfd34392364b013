"""Figures of studies: one look, light and dark, as SVG and PNG."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.lab.study import Study
from secant.look import theme

if TYPE_CHECKING:
    import xarray as xr

FIGURE_FILES = ("figure.svg", "figure-dark.svg", "figure.png")


@contextlib.contextmanager
def drawn(study: Study, data: xr.Dataset, config: Any, look: str = "light") -> Iterator[Any]:
    """The study's figure in one look, ready to be saved."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(theme(look)):
        figure = Figure(figsize=(9, 4), layout="constrained")
        study.draw(data, figure, config)
        yield figure


def save_figures(study: Study, data: xr.Dataset, config: Any, directory: Path) -> None:
    """Writes the study's figure beside its data, each file whole or not at all."""
    for look in ("light", "dark"):
        with drawn(study, data, config, look) as figure:
            _save(figure, directory / ("figure.svg" if look == "light" else "figure-dark.svg"), transparent=True)
            if look == "light":
                _save(figure, directory / "figure.png", dpi=160)


def _save(figure: Any, path: Path, **options: Any) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    try:
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(name, metadata=metadata, **options)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
