"""Models as people have them: of Flax, of Equinox, or any function, with their parameters."""

from secant.models.application import Application
from secant.models.entrance import takes_models
from secant.models.model import Model, model

__all__ = ["Application", "Model", "model", "takes_models"]
