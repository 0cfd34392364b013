"""The table of all columns of a record: monitors write these names; readers, pages and sinks know them."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A quantity along a run.

    Attributes:
        label: its name on an axis.
        meaning: its meaning in a sentence.
        price: the cost of one look, in gradients of a batch; 0 for a number that comes for free.
        needs: `f` if the look needs the model's outputs sample by sample, else empty.
    """

    label: str
    meaning: str
    price: float = 0.0
    needs: str = ""


COLUMNS = {
    "loss": Column("loss", "The loss of the batch, as the loop has it, or by a forward pass at a look."),
    "gradient_norm": Column(r"$|g|$", "Length of the gradient of the batch."),
    "update_norm": Column(r"$|\Delta\theta|$", "Length of the last update of the parameters."),
    "parameter_norm": Column(r"$|\theta|$", "Length of the parameters."),
    "lr": Column(r"$\eta$", "The step size that the optimiser used last."),
    "batch": Column("samples", "Samples in the loop's batch; the plan says how many of them a look uses."),
    "batch_sharpness": Column(
        r"$g_b^\top H_bg_b/|g_b|^2$",
        "Curvature of a batch along its own gradient; SGD's edge is at 2/eta.",
        2.0,
    ),
    "update_curvature": Column(
        r"$u^\top H_bu/|u|^2$", "Curvature of the batch along the last update of the optimiser.", 1.0
    ),
    "stable_multiple": Column(
        r"$-2\,g^\top u/u^\top H_bu$",
        "Factor up to which the update could be longer and still lower the batch's loss, to second order.",
        1.0,
    ),
    "sharpness": Column(
        r"$\lambda_{\max}(P^{-1/2}HP^{-1/2})$",
        "Largest curvature as the optimiser meets it: divided by what the optimiser divides its steps by.",
        7.0,
    ),
    "sharpness_error": Column("error", "An eigenvalue lies within this distance of the sharpness."),
    "sharpest_share": Column(
        r"$(g^\top v)^2/|g|^2$",
        "Share of the squared gradient along the direction of the sharpness: near 1, that direction carries the loss.",
    ),
    "threshold": Column(
        "edge", "The curvature, in the optimiser's own measure, at which it becomes unstable: 2/eta for SGD."
    ),
    "critical_lr": Column(r"$\eta_{\mathrm{crit}}$", "The step size at which the sharpness is at the threshold."),
    "kernel_critical_lr": Column(
        r"$2/\lambda_{\max}(K)$", "The critical step of the linearised network, from its tangent kernel.", 7.0, "f"
    ),
    "noise_scale": Column(
        r"$\mathrm{tr}\,\Sigma/|g|^2$", "The batch size at which noise and gradient are equal: the critical batch.", 1.0
    ),
    "kernel_drift": Column("drift of the kernel", "How far the tangent kernel has moved, over its length.", 4.0, "f"),
    "agop_change": Column("change of features", "How far the average gradient outer product has moved.", 2.0, "f"),
    "dead_units": Column(
        "dead units",
        "Share of units whose bias and scale have a gradient of exactly zero on the batch; layers without either are "
        "not counted.",
    ),
    "scaler": Column("loss scale", "The factor by which a scaler of mixed precision multiplies the loss."),
    "look_seconds": Column("seconds", "The time of the look."),
    "share": Column("share", "Time of all looks so far over the time of the run so far."),
}
"""Name -> column."""
