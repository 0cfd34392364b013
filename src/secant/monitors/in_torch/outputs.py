r"""Looks at a PyTorch model's outputs, sample by sample: its tangent kernel, and which inputs it uses.

Every look is compared with the first look, on the inputs of the first look.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from secant.monitors.base import described
from secant.monitors.in_jax.outputs import ROWS, SAMPLES, inputs_of
from secant.monitors.in_torch.looks import LookError, Looks, Wrapped, single, wide
from secant.monitors.in_torch.snapshot import aside, leaves, rows, samples_of, seed

ENTRIES = 1 << 26
"""Largest number of entries of the Jacobian; looks use fewer samples if it would have more."""


class Outputs:
    """Looks at `f(model, x)`, which returns a row for each sample.

    Args:
        f: the outputs of a model, which must treat each sample alone.
        looks: the looks at the same model.
        batch: the first batch; all looks use its first samples.
        inputs: finds $x$ in a batch.
    """

    def __init__(
        self, f: Callable[[Any, Any], Any], looks: Looks, batch: Any, inputs: Callable[[Any], Any] = inputs_of
    ) -> None:
        self.wrapped, self.looks = Wrapped(f, looks.model), looks
        x = single(inputs(batch))
        size = samples_of(x)
        with aside(looks.model), torch.no_grad():
            outputs = self._outputs(x)
            if size is None or outputs.shape[:1] != (size,):
                shape = tuple(outputs.shape)
                raise LookError(f"`f` must return one row for each sample, got shape {shape} for {size} samples.")
            half = max(1, size // 2)
            alone = self._outputs(rows(x, 0, half))
        slack = 1e-4 * float(outputs.abs().max())
        if not float((alone - outputs[:half]).abs().max()) <= slack:
            raise LookError(
                "`f` mixes samples, as batch norm does in training, or draws random numbers: it has no kernel. Give an "
                "`f` that treats each sample alone."
            )
        each = max(1, math.prod(outputs.shape[1:]))
        few = min(size, SAMPLES, ROWS // each, ENTRIES // (each * looks.size))
        if few < 1:
            raise LookError(
                f"the Jacobian of `f` for one sample has {each} x {looks.size:,} entries, which is too many. Give an "
                "`f` with fewer outputs."
            )
        self.x, self.samples = rows(x, 0, few), few
        self._kernel: Tensor | None = None
        self._uses: Tensor | None = None

    def kernel(self) -> dict[str, float]:
        r"""$2n/\lambda_{\max}(K)$, the critical step of $\frac1{2n}\sum_i|f_i - y_i|^2$, and $\|K - K_0\|/\|K_0\|$."""
        with aside(self.looks.model):
            leaves = [p.requires_grad_() for p in self.looks.here()]
            found = _jacobian(self._outputs(self.x, leaves).reshape(-1), leaves, self.looks.flat)
        kernel = found @ found.T
        first = self._kernel if self._kernel is not None else kernel
        self._kernel = first
        largest, begun = float(torch.linalg.eigvalsh(kernel)[-1]), float(first.norm())
        return {
            "kernel_critical_lr": 2 * self.samples / largest if largest > 0 else math.inf,
            "kernel_drift": float((kernel - first).norm()) / begun if begun > 0 else 0.0,
        }

    def uses(self) -> dict[str, float]:
        r"""How far $G = A^\top A/n$ has moved, $\|G - G_0\|_F/\|G_0\|_F$; rows of $A$ are gradients by the inputs."""
        given = [leaf for leaf in leaves(self.x) if leaf.is_floating_point()]
        if len(given) != 1 or not isinstance(self.x, Tensor):
            raise LookError("`agop_change` needs inputs that are one tensor of real numbers. Give `inputs=`.")
        with aside(self.looks.model):
            x = self.x.detach().requires_grad_()
            outputs = self._outputs(x).reshape(len(x), -1)
            columns = [
                torch.autograd.grad(outputs[:, k].sum(), x, retain_graph=True)[0] for k in range(outputs.shape[1])
            ]
        found = torch.stack(columns, 1).reshape(outputs.numel(), -1)
        first = self._uses if self._uses is not None else found
        self._uses = first
        now, both, then = (float((a @ b.T).square().sum()) for a, b in ((found, found), (found, first), (first, first)))
        change = math.sqrt(max(now - 2 * both + then, 0.0))
        return {"agop_change": change / math.sqrt(then) if then > 0 else 0.0}

    def _outputs(self, x: Any, params: Any = None) -> Tensor:
        """The outputs, with the dropout masks of this look."""
        values = dict(zip(self.looks.names, self.looks.here() if params is None else params, strict=True))
        values |= {name: wide(buffer.detach().clone()) for name, buffer in self.wrapped.named_buffers()}
        seed(self.looks.number, sorted({p.device for p in self.looks.parameters}, key=str))
        try:
            found = functional_call(self.wrapped, values, (x,))
        except Exception as error:
            raise LookError(f"`f(model, x)` failed: {described(error)}") from error
        if not isinstance(found, Tensor):
            raise LookError(f"`f(model, x)` must return a tensor, got {type(found).__name__}.")
        return found


def _jacobian(outputs: Tensor, params: list[Tensor], flat: Callable[..., Tensor]) -> Tensor:
    return torch.stack(
        [flat(torch.autograd.grad(one, params, retain_graph=True, allow_unused=True)) for one in outputs]
    )
