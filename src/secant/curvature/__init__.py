"""Curvature without matrices: tangent kernels, Hessians, their spectra, and the step sizes they allow."""

from secant.curvature.critical import CriticalStep, batch_critical_lr, critical_lr, kernel_critical_lr, stability_factor
from secant.curvature.loss_split import Convergence, LossSplit, convergence, kernel_drift, loss_split
from secant.curvature.operators import gauss_newton, hessian, jacobian, output_hessian, second_derivative
from secant.curvature.points import CriticalPoint, critical_point, is_sosp
from secant.curvature.tangent_kernel import kernel_matrix, ntk, ntk_per_parameter

__all__ = [
    "Convergence",
    "CriticalPoint",
    "CriticalStep",
    "LossSplit",
    "batch_critical_lr",
    "convergence",
    "critical_lr",
    "critical_point",
    "gauss_newton",
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
]
