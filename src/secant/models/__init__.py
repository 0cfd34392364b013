"""Models of Flax, of Equinox, or any function, together with their parameters."""

from secant.models.application import Application
from secant.models.bundle import Model, model
from secant.models.entrance import takes_models
from secant.models.lift import Lifted, LiftError, lift

__all__ = ["Application", "LiftError", "Lifted", "Model", "lift", "model", "takes_models"]
