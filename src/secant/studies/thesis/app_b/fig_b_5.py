"""Figures B.5 to B.7: best test accuracy against step size, of the runs of figure 3.4."""

import xarray as xr

from secant.lab import Figure, Findings, reuse, study
from secant.studies.shared.panels import PANELS
from secant.studies.shared.step_sizes.sizes import PanelsConfig
from secant.studies.shared.step_sizes.statements import accuracy_findings, draw_panels
from secant.studies.thesis.ch3.fig_3_4 import run as figure_3_4


class Config(PanelsConfig):
    """Panels and the sweep."""


@study("thesis/fig-B.5", section="B.14", title="Best test accuracy against step size", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Best test accuracy during training, in the runs of figure 3.4 (figures B.5, B.6 and B.7). Below
    $\eta_{\mathrm{crit}}$ network, quadratic and linear model have nearly the same accuracy. Beyond it the first two
    have a higher one than at any sub-critical step, and the linear model diverges. The thesis has 2,000 test samples;
    fewer, as at smoke scale, show only large differences.
    """
    return reuse(figure_3_4, config)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        one = data.sel(panel=name)
        width = config.channels if PANELS[name].images else config.width
        yield from accuracy_findings(one, int(one.tests), width, PANELS[name].title, name)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    titles = {name: PANELS[name].title for name in config.panels}
    draw_panels(data, figure, "best_accuracy", "best test accuracy", titles)
