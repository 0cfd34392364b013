"""Options that many studies share: one name, one meaning, one line of help.

A study states its numbers. One number serves every scale; further numbers are those of `laptop` and of `paper`, which
without a number of its own has that of `laptop`. Bounds are those that the meaning sets, unless a study sets its own.

Example:
    ```python
    from secant.lab import Options, options

    class Config(Options):
        lr: float = options.lr(0.1)
        widths: tuple[int, ...] = options.widths((64, 128), (256, 512, 1_024), longest=8)
        steps: int = options.steps(200, laptop=2_000)

    Config().lr
    ```
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from secant.lab.registry.config import option, scaled


class Shared:
    """Makes the option of a name in every study that has it.

    Attributes:
        help: what the option means, everywhere.
        bounds: its limits, unless a study sets its own.
    """

    def __init__(self, help: str, **bounds: Any) -> None:
        self.help = help
        self.bounds = bounds

    def __call__(self, smoke: Any, laptop: Any = ..., paper: Any = ..., **limits: Any) -> Any:
        """The option with the numbers of a study: for every scale, or for each of them."""
        limits = self.bounds | limits
        if laptop is ... and paper is ...:
            return option(smoke, help=self.help, **limits)
        return scaled(smoke=smoke, laptop=smoke if laptop is ... else laptop, paper=paper, help=self.help, **limits)


steps = Shared("steps of a run", at_least=1)
draws = Shared("independent repeats", at_least=1)
samples = Shared("samples of a data set", at_least=1)
features = Shared("features of a sample", at_least=1)
dim = Shared("dimension of the parameters or inputs", at_least=1)
width = Shared("neurons of a hidden layer", at_least=1)
widths = Shared("neurons of a hidden layer, a network each", at_least=1)
layers = Shared("hidden layers", at_least=1)
batch = Shared("samples of a batch", at_least=1)
batches = Shared("samples of a batch, a run each", at_least=1)
lr = Shared("step size", above=0)
lrs = Shared("step sizes", above=0)
ratio = Shared("step size over the critical one", above=0)
ratios = Shared("step sizes over the critical one", above=0)
eta_lambda = Shared("step size times curvature", above=0)
eta_lambdas = Shared("step sizes times curvature", above=0)
seed = Shared("seed of the first draw", at_least=0, at_most=2**31 - 1)

SHARED = {name: value for name, value in vars().items() if isinstance(value, Shared)}
"""Name -> maker: a study declares none of these names otherwise."""


@typing.dataclass_transform(
    frozen_default=True,
    kw_only_default=True,  # a study may have makers of its own, which have defaults that a type checker sees
    field_specifiers=(
        option,
        scaled,
        steps,
        draws,
        samples,
        features,
        dim,
        width,
        widths,
        layers,
        batch,
        batches,
        lr,
        lrs,
        ratio,
        ratios,
        eta_lambda,
        eta_lambdas,
        seed,
    ),
)
class Options:
    """A study's configuration: whatever inherits from it is a frozen dataclass of its fields.

    Example:
        ```python
        from secant.lab import Options, option, scaled

        class Config(Options):
            width: int = option(64, at_least=1, help="neurons")
            steps: int = scaled(smoke=50, laptop=200, at_least=1, help="gradient-descent steps")

        Config(width=8)
        ```
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclasses.dataclass(frozen=True)(cls)


class Seeded(Options):
    """A configuration with a random seed, its last field."""

    seed: int = seed(0)
