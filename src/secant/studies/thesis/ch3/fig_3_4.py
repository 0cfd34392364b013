"""Figure 3.4: best test loss against step size, on several data sets and networks."""

import xarray as xr

from secant.lab import Figure, Findings, study
from secant.studies.shared.panels import PANELS, known_panel
from secant.studies.shared.step_sizes.generalization import sweep_panels
from secant.studies.shared.step_sizes.sizes import PanelsConfig
from secant.studies.shared.step_sizes.statements import draw_panels, loss_findings
from secant.studies.thesis.ch3.fig_3_2b import run as one_panel


@study("thesis/fig-3.4", section="3.4", title="Best test loss against step size", precision="float32")
def run(config: PanelsConfig) -> xr.Dataset:
    r"""Two-layer ReLU networks $f$, fully connected and convolutional, and their models $f_{\mathrm{lin}}$ and
    $f_{\mathrm{quad}}$ train with a constant step. Below $\eta_{\mathrm{crit}}$ the best test losses of the three
    during training are nearly the same. Beyond it $f$ and $f_{\mathrm{quad}}$ have a smaller best test loss than at any
    sub-critical step. Over a range this loss decreases with the step. $f_{\mathrm{lin}}$ diverges.

    Every panel is a run of `thesis/fig-3.2b`. The fully connected network learns CIFAR-2 on batches of 32, the others
    learn on all samples. Classes 0 and 2 of Fashion-MNIST stand for digits 0 and 2 of SVHN. AG News is not available.
    The study subtracts the mean from Fashion-MNIST and from the log-spectrograms of spoken digits, and shrinks images
    for convolutional networks. Steps are in units of $\eta_{\mathrm{crit}} = n/\lambda_{\max}(K)$ of the start, which
    the three models share. Below the critical step only runs that converge are compared. The smoke run takes digits of
    8 by 8 pixels in place of MNIST, the first panel.
    """
    return sweep_panels(one_panel, config, {name: {"panel": known_panel(name)} for name in config.panels})


@run.findings
def check(data: xr.Dataset, config: PanelsConfig) -> Findings:
    for name in config.panels:
        width = config.channels if PANELS[name].images else config.width
        yield from loss_findings(data.sel(panel=name), width, PANELS[name].title)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: PanelsConfig) -> None:
    titles = {name: PANELS[name].title for name in config.panels}
    draw_panels(data, figure, "best_loss", "best test loss", titles)
