"""The options of the studies of best test loss and accuracy against step size."""

from __future__ import annotations

import numpy as np

from secant import nets
from secant.lab import Options, fits_memory, option, options, scaled
from secant.studies.shared.panels import PANELS, known_panel


class Sizes(Options):
    """The options of an experiment, apart from its data, depth and activation.

    At smoke scale widths and samples are a quarter of the laptop's, with twice the draws.
    """

    width: int = options.width(64, 256, 5_000, at_least=8)
    channels: int = scaled(smoke=8, laptop=32, paper=1_000, at_least=2, help="channels, convolutional")
    side: int = scaled(
        smoke=8, laptop=14, paper=32, at_least=2, help="largest side of an image, convolutional: larger ones are shrunk"
    )
    images: int = scaled(
        smoke=16, laptop=64, paper=256, at_least=4, help="training samples, convolutional, or the thesis's if fewer"
    )
    samples: int = options.samples(32, 128, 256, at_least=4)
    held_out: int = scaled(smoke=300, laptop=500, paper=2_000, at_least=20, help="test samples, or all if fewer")
    ratios: tuple[float, ...] = options.ratios(
        (0.6, 0.9, 1.1, 1.3, 1.5, 1.8, 2.4),
        (0.3, 0.6, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9, 2.2, 2.6, 3.2, 3.8),
        tuple(np.round(np.arange(0.2, 3.9, 0.2), 1).tolist()),
        at_least=0.01,
        at_most=10,
        shortest=2,
        ascending=True,
    )
    together: int = scaled(smoke=7, laptop=3, paper=19, at_least=1, at_most=1_000, help="step sizes run at once")
    steps: int = options.steps(500, 2_500, 20_000, at_least=50)
    every: int = scaled(smoke=5, laptop=10, at_least=1, help="steps between two looks at the losses")
    # Labels are signs, so a network that knows nothing has a loss of one.
    goal: float = scaled(smoke=1e-2, laptop=1e-3, above=0, at_most=0.5, help="training loss at which a run ends")
    image_goal: float = scaled(
        smoke=1e-2, laptop=1e-2, paper=1e-3, above=0, at_most=0.5, help="the same, convolutional"
    )
    draws: int = options.draws(10, 5, at_least=2, at_most=10_000)
    seed: int = options.seed(0, at_most=2**31)

    def check(self) -> None:
        """Raises an error for step sizes without a comparison, looks that never come, and sizes beyond memory."""
        if self.ratios[0] >= 1 or self.ratios[-1] <= 1.1:
            raise ValueError(f"ratios: some must be below 1 and some above 1.1, to compare; got {self.ratios!r}.")
        if self.every > self.steps:
            raise ValueError(f"every: must be at most the number of steps, {self.steps}, got {self.every}.")
        weights = self.together * (self.width * self.samples + self.channels * self.side**2 * self.images)
        fits_memory(40.0 * weights + 4.0 * self.samples * self.held_out, "width, channels, samples or together")


class PanelConfig(Sizes):
    """One panel."""

    panel: str = scaled(smoke="digits", laptop="mnist", help=f"one of {', '.join(PANELS)}")
    layers: int = options.layers(2, at_least=2, at_most=3)
    activation: str = option("relu", help="activation of the network")

    def check(self) -> None:
        """Raises an error for unknown panels and activations."""
        super().check()
        if PANELS[known_panel(self.panel)].images and self.layers != 2:
            raise ValueError(f"layers: convolutional networks here have 2, got {self.layers}. Take another panel.")
        known_activation("activation", self.activation)


class PanelsConfig(Sizes):
    """Several panels."""

    panels: tuple[str, ...] = scaled(
        smoke=("digits",),
        laptop=("mnist", "cifar-2-sgd", "spoken-digits", "fashion-mnist-cnn", "cifar-2-cnn"),
        distinct=True,
        help=f"some of {', '.join(PANELS)}",
    )

    def check(self) -> None:
        """Raises an error for unknown panels."""
        super().check()
        for name in self.panels:
            known_panel(name, "panels")


def known_activation(field: str, name: str) -> None:
    """Raises an error for an unknown activation."""
    if name not in nets.ACTIVATIONS:
        raise ValueError(f"{field}: there is no {name!r}. Activations: {', '.join(nets.ACTIVATIONS)}.")
