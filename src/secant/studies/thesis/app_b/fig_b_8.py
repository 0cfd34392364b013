"""Figures B.8 and B.9: best test accuracy against step size with three layers."""

import xarray as xr

from secant.lab import Figure, Findings, options, scaled, study
from secant.studies.shared.panels import PANELS, known_panel
from secant.studies.shared.step_sizes.generalization import sweep_panels
from secant.studies.shared.step_sizes.sizes import Sizes
from secant.studies.shared.step_sizes.statements import accuracy_findings, draw_panels
from secant.studies.thesis.ch3.fig_3_2b import run as one_panel


class Config(Sizes):
    width: int = options.width(32, 128, 1_024, at_least=8)
    samples: int = options.samples(25, 100, at_least=4)
    held_out: int = scaled(smoke=300, laptop=500, at_least=20, help="test samples, or all if fewer")
    panels: tuple[str, ...] = scaled(
        smoke=("digits",),
        laptop=("cifar-2", "spoken-digits"),
        distinct=True,
        help=f"some of {', '.join(name for name, panel in PANELS.items() if not panel.images)}",
    )

    def check(self) -> None:
        """Refuses panels that do not exist with three layers."""
        super().check()
        for name in self.panels:
            if PANELS[known_panel(name, "panels")].images:
                raise ValueError(f"panels: {name!r} is convolutional, and those networks have two layers here.")


@study("thesis/fig-B.8", section="B.14", title="Best test accuracy with three layers", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""As figure B.5, for ReLU networks with three layers of weights, 100 training and 500 test samples: CIFAR-2
    (figure B.8a) and spoken digits 1 and 3 (B.9a). SVHN (B.8b) and AG News (B.9b) are not available, and the thesis
    does not state the width. A quadratic model of three layers is no longer the network behind frozen gates. The smoke
    run is on digits of 8 by 8 pixels, with 25 training samples.
    """
    return sweep_panels(one_panel, config, {name: {"panel": known_panel(name), "layers": 3} for name in config.panels})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        one = data.sel(panel=name)
        yield from accuracy_findings(one, int(one.tests), config.width, PANELS[name].title, name)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    titles = {name: f"{PANELS[name].title}, three layers" for name in config.panels}
    draw_panels(data, figure, "best_accuracy", "best test accuracy", titles)
