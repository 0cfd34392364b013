"""Figures B.10 to B.13: best test loss against step size with smooth activations."""

import xarray as xr

from secant.lab import Figure, Findings, options, scaled, study
from secant.studies.shared.panels import PANELS, known_panel
from secant.studies.shared.step_sizes.generalization import sweep_panels
from secant.studies.shared.step_sizes.sizes import Sizes, known_activation
from secant.studies.shared.step_sizes.statements import draw_panels, loss_findings
from secant.studies.thesis.ch3.fig_3_2b import run as one_panel


class Config(Sizes):
    width: int = options.width(64, 128, 5_000, at_least=8)
    panel: str = scaled(smoke="digits", laptop="mnist", paper="spoken-digits", help=f"one of {', '.join(PANELS)}")
    activations: tuple[str, ...] = scaled(
        smoke=("swish",), laptop=("swish", "tanh"), distinct=True, help="smooth activations"
    )

    def check(self) -> None:
        """Refuses unknown panels and activations."""
        super().check()
        known_panel(self.panel)
        for name in self.activations:
            known_activation("activations", name)


@study("thesis/fig-B.10", section="B.14", title="Best test loss with smooth activations", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""As figure 3.4, with swish and with tanh in place of ReLU (figures B.10 to B.13): below $\eta_{\mathrm{crit}}$
    the three models have nearly the same best test loss. Beyond it $f$ and $f_{\mathrm{quad}}$ have a smaller one,
    which falls with the step over a range, and $f_{\mathrm{lin}}$ diverges. Figure B.10 itself is on AG News, which is
    not available. Spoken digits are figure B.11; the panels `cifar-2-cnn` and `fashion-mnist-cnn` stand for B.12 and,
    in place of SVHN, B.13. On a laptop the default is MNIST, which trains fastest; the smoke run is on digits of 8 by 8
    pixels with the first of the two activations.
    """
    panel = known_panel(config.panel)
    return sweep_panels(one_panel, config, {name: {"panel": panel, "activation": name} for name in config.activations})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    width = config.channels if PANELS[config.panel].images else config.width
    for name in config.activations:
        yield from loss_findings(data.sel(panel=name), width, name)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    titles = {name: f"{PANELS[config.panel].title}, {name}" for name in config.activations}
    draw_panels(data, figure, "best_loss", "best test loss", titles)
