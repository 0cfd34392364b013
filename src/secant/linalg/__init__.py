"""Linear algebra of operators known only by their products: eigenpairs, traces, norms and spectral densities."""

from secant.linalg.lanczos import block_lanczos
from secant.linalg.operator import Eigenpairs, Operator, Vector
from secant.linalg.ritz import Ritz, Which
from secant.linalg.stochastic import Density, Estimate

__all__ = ["Density", "Eigenpairs", "Estimate", "Operator", "Ritz", "Vector", "Which", "block_lanczos"]
