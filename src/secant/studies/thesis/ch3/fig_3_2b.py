"""Figure 3.2b: test loss against step size, of a network and of its linear and quadratic models."""

import xarray as xr

from secant.lab import Figure, Findings, study
from secant.studies.shared.panels import PANELS
from secant.studies.shared.step_sizes.generalization import sweep_steps
from secant.studies.shared.step_sizes.sizes import PanelConfig
from secant.studies.shared.step_sizes.statements import draw_panels, loss_findings


@study("thesis/fig-3.2b", section="3.1", title="Steps beyond the critical one generalise better", precision="float32")
def run(config: PanelConfig) -> xr.Dataset:
    r"""A two-layer ReLU network $f$ and its Taylor models $f_{\mathrm{lin}}$ and $f_{\mathrm{quad}}$ are trained from
    the same start with constant steps. For sub-critical steps, $\eta < \eta_{\mathrm{crit}}$, their test losses are
    almost the same. For super-critical ones $f$ and $f_{\mathrm{quad}}$ have a smaller test loss than for any
    sub-critical step, and $f_{\mathrm{lin}}$ diverges.

    The thesis does not name the data set of the figure. Here it is any panel of figure 3.4, by default the first: two
    digits of MNIST, which the thesis does not name either. The smoke run takes the same two digits at 8 by 8 pixels.
    Each point is the best test loss at any moment of training, with full batch, squared loss and labels $\pm1$.
    """
    return sweep_steps(config)


@run.findings
def check(data: xr.Dataset, config: PanelConfig) -> Findings:
    yield from loss_findings(data, config.channels if PANELS[config.panel].images else config.width)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: PanelConfig) -> None:
    draw_panels(data, figure, "best_loss", "best test loss", {config.panel: PANELS[config.panel].title})
