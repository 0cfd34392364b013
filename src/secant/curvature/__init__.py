"""Curvature without matrices: tangent kernels, Hessians, their spectra, and the step sizes they allow."""

from secant.curvature.critical_steps.batch_sharpness import batch_sharpness
from secant.curvature.critical_steps.full_batch import (
    CriticalStep,
    batch_critical_lr,
    critical_lr,
    kernel_critical_lr,
    stability_factor,
)
from secant.curvature.critical_steps.mean_square import MeanSquareStep, stochastic_critical_lr
from secant.curvature.loss_split import Convergence, LossSplit, convergence, kernel_drift, loss_split
from secant.curvature.noise import GradientNoise, gradient_noise
from secant.curvature.operators import gauss_newton, hessian, jacobian, output_hessian, second_derivative
from secant.curvature.points import CriticalPoint, critical_point, is_sosp
from secant.curvature.tangent.tangent_kernel import kernel_matrix, ntk, ntk_per_parameter

__all__ = [
    "Convergence",
    "CriticalPoint",
    "CriticalStep",
    "GradientNoise",
    "LossSplit",
    "MeanSquareStep",
    "batch_critical_lr",
    "batch_sharpness",
    "convergence",
    "critical_lr",
    "critical_point",
    "gauss_newton",
    "gradient_noise",
    "hessian",
    "is_sosp",
    "jacobian",
    "kernel_critical_lr",
    "kernel_drift",
    "kernel_matrix",
    "loss_split",
    "ntk",
    "ntk_per_parameter",
    "output_hessian",
    "second_derivative",
    "stability_factor",
    "stochastic_critical_lr",
]
