"""Training: problems, batches, update rules, optimisers, schedules, control of the step size, and the largest step."""

from secant.optim import control, schedules
from secant.optim.batches import Batches
from secant.optim.coordinates import Coordinate, CoordinateCheck, coordinate_check
from secant.optim.largest_step import Border, BorderEstimate, estimate_max_lr, find_max_lr
from secant.optim.measurement import Measurement, Pair
from secant.optim.optimizers import catalog as optimisers
from secant.optim.problem import Problem
from secant.optim.rules import noises
from secant.optim.rules.descent import gradient_descent, gradient_field
from secant.optim.rules.mirror import mirror_descent
from secant.optim.rules.newton import newton
from secant.optim.rules.noisy import amplifiers, noisy, svag
from secant.optim.rules.perturbed import perturbed
from secant.optim.rules.steepest import steepest_descent
from secant.optim.scaling import Comparison, ScalingTest, scaling_test
from secant.optim.training import train

__all__ = [
    "Batches",
    "Border",
    "BorderEstimate",
    "Comparison",
    "Coordinate",
    "CoordinateCheck",
    "Measurement",
    "Pair",
    "Problem",
    "ScalingTest",
    "amplifiers",
    "control",
    "coordinate_check",
    "estimate_max_lr",
    "find_max_lr",
    "gradient_descent",
    "gradient_field",
    "mirror_descent",
    "newton",
    "noises",
    "noisy",
    "optimisers",
    "perturbed",
    "scaling_test",
    "schedules",
    "steepest_descent",
    "svag",
    "train",
]
