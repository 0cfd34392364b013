"""Draws the figures of the pages again: `python docs/figures.py`, or with the ids of some studies.

Each is light and dark, as it was drawn and with its panels below one another for a narrow window: as SVG, or as PNG
where it has so many points that an SVG would be large.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

import secant as sc
from secant.lab import drawn, get, panels

STUDIES = (
    "quadreg/fig-1",
    "quadreg/fig-2",
    "quadreg/thm-2.1",
    "quadreg/limit-series",
    "quadreg/lambert-limit",
    "quadreg/skeleton",
    "quadreg/drift-law",
    "quadreg/optimisers",
    "thesis/max-step",
    "thesis/thm-3.3.1",
    "thesis/fig-3.4",
    "thesis/fig-B.2",
    "thesis/fig-B.5",
    "thesis/fig-B.10",
    "thesis/fig-4.8",
    "thesis/fig-4.10",
    "thesis/fig-4.11",
    "thesis/fig-C.14",
    "thesis/fig-C.17",
    "thesis/table-4.1",
    "thesis/fig-4.5",
    "thesis/table-4.2",
    "thesis/fig-4.3",
    "thesis/fig-4.4",
    "thesis/controller",
)
FOLDER = Path(__file__).parent / "figures"
LARGEST = 300_000  # bytes of an SVG


def main(ids: list[str]) -> None:
    """Runs each study at laptop scale, or reads it back, and saves its figure."""
    for id in ids or STUDIES:
        study, record = get(id), sc.run(id, scale="laptop", figure=False)
        for look, ending in (("light", ""), ("dark", "-dark")):
            with drawn(study, record.data(), study.config("laptop"), look) as figure:
                save(figure, f"{id.replace('/', '-')}{ending}")
                panels.stack(figure)
                save(figure, f"{id.replace('/', '-')}-narrow{ending}")


def save(figure: Any, name: str) -> None:
    """Writes one figure as SVG if that is small, else as PNG, and removes the other."""
    vector, image = FOLDER / f"{name}.svg", FOLDER / f"{name}.png"
    figure.savefig(vector, transparent=True, metadata={"Date": None}, dpi=120)
    kept = vector
    if vector.stat().st_size > LARGEST:
        figure.savefig(image, dpi=90, transparent="dark" in name)
        # A palette is enough for a figure, and a third of the size.
        Image.open(image).quantize(256, method=Image.Quantize.FASTOCTREE).save(image, optimize=True)
        kept = image
    (image if kept is vector else vector).unlink(missing_ok=True)
    print(f"{kept.name}: {kept.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
