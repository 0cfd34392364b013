"""Draws the figures of the pages again: `python docs/figures.py`, or with ids of studies, `results`, `watched`.

Each is light and dark, as it was drawn and with its panels below one another for a narrow window: as SVG, or as PNG
where it has so many points that an SVG would be large even with these as an image.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.collections import Collection
from matplotlib.lines import Line2D
from PIL import Image

import secant as sc
from secant import atlas
from secant.kernels import phase_diagram
from secant.lab import drawn, get
from secant.lab.drawing import panels

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
    "thesis/fig-4.9",
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
    "book/fig-2.4",
    "book/fig-6.1",
    "book/fig-7.1",
    "book/fig-8.1",
    "book/large-steps",
    "book/sec-8.2",
    "lectures/11-09-rich-and-kernel",
    "lectures/11-14-late-time",
)
FOLDER = Path(__file__).parent / "figures"
LARGEST = 150_000  # bytes of an SVG
MANY = 250  # points of an artist


LOOKS = (("light", ""), ("dark", "-dark"))


def main(ids: list[str]) -> None:
    """Runs each study at laptop scale, or reads it back, and saves its figure."""
    for id in ids or (*STUDIES, "results", "watched"):
        if id in ("results", "watched"):
            {"results": results, "watched": watched}[id]()
            continue
        study, record = get(id), sc.run(id, scale="laptop", figure=False)
        for look, ending in LOOKS:
            with drawn(study, record.data(), study.config("laptop"), look) as figure:
                save(figure, f"{id.replace('/', '-')}{ending}")
                panels.stack(figure)
                save(figure, f"{id.replace('/', '-')}-narrow{ending}")


def results() -> None:
    """The results of the guide, as they draw themselves."""
    task = sc.data.load("digits", classes=(0, 1), samples=50)
    net = sc.nets.mlp([128], activation="tanh")
    model = sc.model(net, net.init(jax.random.key(0), task.train.x.shape))
    edge = sc.critical_lr(model, *task.train, "mse")
    run = sc.train(
        sc.Problem(model, *task.train, "mse"),
        steps=100,
        over={"lr": edge.exact * jnp.array([0.5, 0.95, 1.5, 8.0])},
        probes={"loss": sc.measure.loss(), "sharpness": sc.measure.sharpness(every=5)},
    )
    density = sc.hessian(model, *task.train, "mse").density(degree=40)
    heavy = sc.critical_lr(model, *task.train, "mse", momentum=0.9)
    phases = phase_diagram("tanh", np.linspace(0.2, 4, 120), np.linspace(0, 1, 80))
    for look, ending in LOOKS:
        save(run.plot(look=look)[0].figure, f"guide-run{ending}")
        save(density.plot(look=look).figure, f"guide-density{ending}")
        save(heavy.plot(look=look).figure, f"guide-ruler{ending}")
        save(phases.plot(look=look).figure, f"guide-phases{ending}")


def watched() -> None:
    """The page of a watched run, as a browser shows it: that of the guide, whose code makes the record."""
    from playwright.sync_api import sync_playwright

    guide = (Path(__file__).parent / "guide" / "watching.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        os.environ["SECANT_HOME"] = home
        exec(code[0], {"__name__": "__example__"})
        page = atlas.watched_page("catapult", Path(home) / "page")
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for look, ending in LOOKS:
            window = browser.new_context(viewport={"width": 1040, "height": 860}, color_scheme=look).new_page()
            window.goto(page.as_uri())
            window.locator(".chart .field").nth(1).hover(position={"x": 150, "y": 40})
            window.screenshot(path=FOLDER / f"guide-watched{ending}.png")
        browser.close()


def save(figure: Any, name: str) -> None:
    """Writes one figure as SVG if that is small, else with its many points as an image, else as PNG alone."""
    vector, image = FOLDER / f"{name}.svg", FOLDER / f"{name}.png"
    options = {"transparent": True, "metadata": {"Date": None}, "dpi": 120}
    figure.savefig(vector, **options)
    kept = vector
    if vector.stat().st_size > LARGEST:
        for artist in figure.findobj(crowded):
            artist.set_rasterized(True)
        figure.savefig(vector, **options)
    if vector.stat().st_size > LARGEST:
        figure.savefig(image, dpi=90, transparent="dark" in name)
        if image.stat().st_size > LARGEST:  # a palette is a third of the size, though it may lose a colour
            Image.open(image).quantize(256, method=Image.Quantize.FASTOCTREE).save(image, optimize=True)
        kept = image
    (image if kept is vector else vector).unlink(missing_ok=True)
    print(f"{kept.name}: {kept.stat().st_size // 1000} kB")


def crowded(artist: Any) -> bool:
    """Whether an artist has so many points that an image of them is smaller."""
    if isinstance(artist, Line2D):
        return len(artist.get_xdata()) > MANY and artist.get_marker() not in ("None", "", None)
    if isinstance(artist, Collection):
        return len(artist.get_offsets()) > MANY or sum(len(path.vertices) for path in artist.get_paths()) > MANY
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
