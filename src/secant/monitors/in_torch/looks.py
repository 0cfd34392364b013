r"""Looks at a PyTorch module: loss, gradient, $v^\top Hv$ and $Hv$ of a batch, by one ladder.

| rung | $v^\top Hv$ | $Hv$ |
|---|---|---|
| `forward over forward` | a second derivative along $v$, without a graph | |
| `double backward` | the gradient of $v^\top g$ | the same |
| `difference of gradients` | $v^\top(g(\theta + \epsilon v) - g(\theta - \epsilon v))/2\epsilon$ | the same |

The first rung that works and is right is taken for the whole run. The rungs are compared with each other, because some
kernels of PyTorch have second derivatives that are silently wrong. After every look the module, its buffers, `.grad`
and all random states are as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from secant.monitors.in_torch.ranks import Ranks
from secant.monitors.in_torch.snapshot import LOW, Spelled, aside, bare, mapped, seed

FORWARD, BACKWARD, DIFFERENCE = "forward over forward", "double backward", "difference of gradients"

AGREE = 1e-3
"""Relative difference up to which two rungs agree."""

FAR = 0.05
"""Relative difference from a difference of gradients, which is less exact, beyond which a rung is wrong."""

ROUNDING = 1e-5
"""Rounding of $v^\\top Hv$, as a share of $|v||Hv|$."""

Loss = Callable[[Any, Any], Any]


class LookError(RuntimeError):
    """A look is not possible. The text says why, and what works."""


class Wrapped(nn.Module):
    """`loss(model, batch)` as a module, so that it can be called with other parameters."""

    def __init__(self, loss: Loss, model: nn.Module) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Any) -> Any:
        """The loss of a batch."""
        return self.loss(self.model, batch)


class Looks:
    """Derivatives of `loss(model, batch)` by the trainable parameters; vectors are flat, in the module's order.

    Curvature is computed in single precision if the parameters have lower precision.

    Args:
        loss: `loss(model, batch) -> scalar tensor`.
        model: the module; compiled and parallel ones are unwrapped.
        among: the parameters that the optimiser moves; by default all that require a gradient.

    Attributes:
        taken: `along` or `product` -> the method that computes it, once the methods have been tried.
        refused: method -> why the look does not use it.

    Example:
        ```python
        import torch
        from secant.monitors.in_torch.looks import Looks

        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1, bias=False)
        looks = Looks(lambda model, x: (model(x) ** 2).mean() / 2, model)
        x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])  # its Hessian is diag(1/2, 2)
        v = torch.tensor([1.0, 1.0])
        print(looks.along(v, x), looks.product(v, x), looks.taken["along"])
        ```
        ```text
        2.5 tensor([0.5000, 2.0000]) forward over forward
        ```
    """

    def __init__(self, loss: Loss, model: nn.Module, among: Sequence[Tensor] | None = None) -> None:
        self.model = bare(model)
        self.loss = loss
        self.wrapped = Wrapped(loss, self.model)
        kept = None if among is None else {id(p) for p in among}
        self.names: list[str] = []
        self.others: list[str] = []
        for name, p in self.wrapped.named_parameters():
            if isinstance(p, nn.parameter.UninitializedParameter):
                raise ValueError("monitor: `model` has parameters without a shape. Run one batch through it first.")
            moves = p.requires_grad and p.is_floating_point() and (kept is None or id(p) in kept)
            (self.names if moves else self.others).append(name)
        if not self.names:
            raise ValueError(
                "monitor: `model` has no parameters that train. Set `requires_grad` on its parameters, and give an "
                "`optimiser` made from them."
            )
        self.number = 0
        self.taken: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters that train, as the module has them."""
        return [self.wrapped.get_parameter(name) for name in self.names]

    @property
    def size(self) -> int:
        """The number of entries of the parameters that train."""
        return sum(p.numel() for p in self.parameters)

    def flat(self, tensors: Sequence[Tensor | None] | None = None) -> Tensor:
        """Tensors as one vector, a copy; by default the parameters themselves. None stands for zeros."""
        own = self.parameters
        given = own if tensors is None else tensors
        kind, place = self._kind, own[0].device
        parts = [
            torch.zeros(p.numel(), dtype=kind, device=place) if t is None else t.detach().reshape(-1).to(place, kind)
            for p, t in zip(own, given, strict=True)
        ]
        return torch.cat(parts)

    spans = 1
    """How many processes one gradient covers; more than one if parameters are in shards."""

    missing = ""
    """A sentence on what is not measured for this module; empty if everything is."""

    def averaged(self, ranks: Ranks, local: Callable[[], Tensor], like: Tensor) -> Tensor:
        """The mean over processes of a tensor that each process computes from its own batch."""
        return ranks.mean(local, like)

    def dot(self, a: Tensor, b: Tensor) -> float:
        """The inner product of two vectors."""
        return float(a @ b)

    def pieces(self, v: Tensor) -> list[Tensor]:
        """A vector as tensors of the parameters' shapes, on the device of the vector."""
        own = self.parameters
        return [piece.reshape(p.shape) for piece, p in zip(v.split([p.numel() for p in own]), own, strict=True)]

    def spread(self, numbers: Sequence[Tensor | float]) -> Tensor:
        """A number or a tensor for every parameter, as a vector."""
        like = self.flat()
        own = self.parameters
        return torch.cat(
            [
                one.detach().reshape(-1).to(like) if isinstance(one, Tensor) else torch.full((p.numel(),), one).to(like)
                for one, p in zip(numbers, own, strict=True)
            ]
        )

    def off(self, v: Tensor) -> Tensor:
        """Whether a vector is zero at bias and scale of each unit, `(units,)`; layers with neither are left out."""
        layers: dict[tuple[str, int], Tensor] = {}
        for name, p, piece in zip(self.names, self.parameters, self.pieces(v), strict=True):
            if p.ndim == 1 and p.numel():
                layer = name.rpartition(".")[0] if name.endswith((".weight", ".bias")) else name
                layers[layer, len(p)] = (piece == 0) & layers.get((layer, len(p)), torch.ones_like(piece == 0))
        return torch.cat([*layers.values(), (v[:0] == 0)])

    def value(self, batch: Any) -> float:
        """The loss of a batch."""
        with aside(self.model), torch.no_grad():
            return float(self._loss(self.here(), single(batch)))

    def gradient(self, batch: Any, at: Tensor | None = None) -> tuple[float, Tensor]:
        """The loss of a batch and its gradient, `(parameters,)`.

        Args:
            batch: a batch as the loss takes it.
            at: a vector of parameters, in place of the module's own.
        """
        with aside(self.model):
            return self._gradient(self.here(at), single(batch))

    def along(self, v: Tensor, batch: Any, at: Tensor | None = None) -> float:
        r"""$v^\top Hv$ of a batch."""
        with aside(self.model):
            batch = single(batch)
            self._choose(v, batch, at)
            if self.taken.get("along") == FORWARD:
                return self._forward(v, batch, at)
            return float(v @ self._product(v, batch, at))

    def product(self, v: Tensor, batch: Any, at: Tensor | None = None) -> Tensor:
        r"""$Hv$ of a batch, `(parameters,)`."""
        with aside(self.model):
            batch = single(batch)
            self._choose(v, batch, at)
            return self._product(v, batch, at)

    def _product(self, v: Tensor, batch: Any, at: Tensor | None) -> Tensor:
        rung = self.taken.get("product", BACKWARD)
        return self._backward(v, batch, at) if rung == BACKWARD else self._difference(v, batch, at)

    def _choose(self, v: Tensor, batch: Any, at: Tensor | None) -> None:
        """Tries the rungs at the first look. If two disagree, or only one works, the third judges."""
        if "product" in self.taken:
            return
        self.refused.clear()
        forward = self._try(FORWARD, lambda: self._forward(v, batch, at))
        image = self._try(BACKWARD, lambda: self._backward(v, batch, at))
        double = None if image is None else float(v @ image)
        slack = 0.0 if image is None else ROUNDING * float(v.norm() * image.norm())
        if any(number is not None and not math.isfinite(number) for number in (forward, double)):
            return  # a run that has blown up says nothing about rungs; the next look tries again
        if forward is None or double is None or abs(forward - double) > AGREE * abs(double) + slack:
            judge = self._judge(v, batch, at)
            for rung, found in ((FORWARD, forward), (BACKWARD, double)):
                if found is not None and judge is not None and abs(found - judge) > FAR * abs(judge) + 10 * slack:
                    self.refused[rung] = f"it gives {found:.6g} where the difference of gradients is {judge:.6g}"
            if forward is not None and double is not None and not self.refused:  # one of them is wrong
                self.refused[FORWARD] = f"it gives {forward:.6g} where the double backward gives {double:.6g}"
        if {FORWARD, BACKWARD} <= self.refused.keys() and self._try(
            DIFFERENCE, lambda: self._difference(v, batch, at)
        ) is None:
            raise LookError(f"the curvature of `model` cannot be measured: {self.refused[DIFFERENCE]}")
        self.taken["product"] = BACKWARD if BACKWARD not in self.refused else DIFFERENCE
        self.taken["along"] = FORWARD if FORWARD not in self.refused else self.taken["product"]

    def _judge(self, v: Tensor, batch: Any, at: Tensor | None) -> float | None:
        """$v^\\top Hv$ by a difference of gradients; None if it depends on the size of the step."""
        try:
            one, two = (float(v @ self._difference(v, batch, at, factor)) for factor in (1.0, 0.5))
        except Exception:
            return None
        return two if math.isfinite(two) and abs(one - two) <= FAR / 2 * abs(two) else None

    def _try(self, rung: str, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except LookError:
            raise
        except torch.OutOfMemoryError:
            self.refused[rung] = "there was not enough memory"
        except Exception as error:  # any error of an operation without such a derivative
            self.refused[rung] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return None

    def _forward(self, v: Tensor, batch: Any, at: Tensor | None) -> float:
        point, direction = tuple(self.here(at)), tuple(self._parts(v))

        def slope(*params: Tensor) -> Tensor:
            return jvp(lambda *p: self._loss(p, batch), params, direction)[1]

        with torch.no_grad(), Spelled():
            return float(jvp(slope, point, direction)[1])

    def _backward(self, v: Tensor, batch: Any, at: Tensor | None) -> Tensor:
        leaves = [p.requires_grad_() for p in self.here(at)]
        with Spelled():
            slopes = self._differentiated(self._loss(leaves, batch), leaves, create_graph=True)
        pairs = [(g, d) for g, d in zip(slopes, self._parts(v), strict=True) if g is not None and g.requires_grad]
        if not pairs:
            return torch.zeros_like(v)
        bent = torch.autograd.grad([g for g, _ in pairs], leaves, [d for _, d in pairs], allow_unused=True)
        return self.flat(bent)

    def _difference(self, v: Tensor, batch: Any, at: Tensor | None, factor: float = 1.0) -> Tensor:
        length = float(v.norm())
        if length == 0:
            return torch.zeros_like(v)
        here = self.flat() if at is None else at
        step = factor * torch.finfo(v.dtype).eps ** (1 / 3) * (1 + float(here.norm())) / length
        ends = [self._gradient(self._parts(here + sign * step * v), batch)[1] for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2 * step)

    def _gradient(self, params: Sequence[Tensor], batch: Any) -> tuple[float, Tensor]:
        leaves = [p.detach().requires_grad_() for p in params]
        loss = self._loss(leaves, batch)
        return float(loss.detach()), self.flat(self._differentiated(loss, leaves))

    def _differentiated(self, loss: Tensor, leaves: list[Tensor], create_graph: bool = False) -> Any:
        if not loss.requires_grad:
            raise LookError(
                "the loss does not depend on the parameters of `model`. `loss(model, batch)` must call the model that "
                "it is given."
            )
        slopes = torch.autograd.grad(loss, leaves, create_graph=create_graph, allow_unused=True)
        if all(slope is None for slope in slopes):
            raise LookError(
                "the loss does not depend on the parameters that train. `loss(model, batch)` must call the model that "
                "it is given."
            )
        return slopes

    @property
    def _kind(self) -> torch.dtype:
        kinds = {torch.float32 if p.dtype in LOW else p.dtype for p in self.parameters}
        return torch.float64 if torch.float64 in kinds else torch.float32

    def here(self, at: Tensor | None = None) -> list[Tensor]:
        """The parameters, or those of a vector, as tensors without a graph."""
        return [wide(p.detach()) for p in self.parameters] if at is None else self._parts(at)

    def _parts(self, v: Tensor) -> list[Tensor]:
        """A vector as tensors of the parameters' shapes, on the devices of the parameters."""
        return [
            piece.to(p.device, torch.float32 if p.dtype in LOW else p.dtype)
            for piece, p in zip(self.pieces(v), self.parameters, strict=True)
        ]

    def _loss(self, params: Sequence[Tensor], batch: Any) -> Tensor:
        """The loss at other parameters, with the dropout masks of this look; buffers are copies."""
        values = dict(zip(self.names, params, strict=True))
        values |= {name: wide(self.wrapped.get_parameter(name).detach()) for name in self.others}
        values |= {name: wide(buffer.detach().clone()) for name, buffer in self.wrapped.named_buffers()}
        seed(self.number, sorted({p.device for p in params}, key=str))
        loss = functional_call(self.wrapped, values, (batch,))
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise LookError(f"`loss(model, batch)` must return a scalar tensor, got {got}. Return its mean.")
        return loss.reshape(())


def wide(tensor: Tensor) -> Tensor:
    """A tensor, raised to single precision if it has less."""
    return tensor.float() if tensor.dtype in LOW else tensor


def single(batch: Any) -> Any:
    """A batch whose tensors are raised to single precision if they have less; autocast is off during a look."""
    return mapped(lambda leaf: wide(leaf.detach()), batch)
