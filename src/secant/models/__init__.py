"""Models as people have them: of Flax, of Equinox, or any function, with their parameters."""

from secant.models.application import Application
from secant.models.bundle import Model, model
from secant.models.entrance import takes_models

__all__ = ["Application", "Model", "model", "takes_models"]
