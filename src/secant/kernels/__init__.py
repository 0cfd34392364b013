"""Networks of infinite width: what their layers do to the covariances of signals."""

from secant.kernels.dual import Dual, dual

__all__ = ["Dual", "dual"]
