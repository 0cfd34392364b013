"""Draws the figures of the pages again: `python docs/figures.py`, or with the ids of some studies."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

import secant as sc
from secant.lab import drawn, get

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


def main(ids: list[str]) -> None:
    """Runs each study at laptop scale, or reads it back, and saves its figure light and dark."""
    for id in ids or STUDIES:
        study, record = get(id), sc.run(id, scale="laptop", figure=False)
        for look, ending in (("light", ""), ("dark", "-dark")):
            with drawn(study, record.data(), study.config("laptop"), look) as figure:
                path = FOLDER / f"{id.replace('/', '-')}{ending}.png"
                figure.savefig(path, dpi=90, transparent=look == "dark")
                # A palette is enough for a figure, and a third of the size.
                Image.open(path).quantize(256, method=Image.Quantize.FASTOCTREE).save(path, optimize=True)
                print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
