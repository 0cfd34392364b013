r"""What to measure along a training run. Each function here makes a measurement for [`train`][secant.optim.train].

Eigenvalues are followed: each measurement starts from the eigenvectors of the last one and stops by a residual
tolerance. After small steps a few products are therefore enough. Beside the eigenvalues a measurement records

- `_residual`, a distance within which there is sure to be an eigenvalue;
- `_error`, the estimated error;
- `_products`, the cost.
"""

from secant.measure import events
from secant.measure.batch import batch_critical_lr, batch_loss
from secant.measure.course import distance, gradient_norm, loss
from secant.measure.effective_lr import effective_lr, group_names
from secant.measure.features import alignment
from secant.measure.kernel import kernel_drift, kernel_top, loss_within
from secant.measure.landscape import landscape
from secant.measure.margin import kkt, margin
from secant.measure.noise import batch_sharpness, gradient_noise
from secant.measure.one_mode import leading_mode
from secant.measure.spectrum import preconditioned_sharpness, sharpness
from secant.optim.measurement import Measurement

__all__ = [
    "Measurement",
    "alignment",
    "batch_critical_lr",
    "batch_loss",
    "batch_sharpness",
    "distance",
    "effective_lr",
    "events",
    "gradient_noise",
    "gradient_norm",
    "group_names",
    "kernel_drift",
    "kernel_top",
    "kkt",
    "landscape",
    "leading_mode",
    "loss",
    "loss_within",
    "margin",
    "preconditioned_sharpness",
    "sharpness",
]
