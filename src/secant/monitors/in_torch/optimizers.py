r"""What a monitor must know of an optimiser of `torch.optim`: its step size, its threshold, and its divisor.

Take a quadratic with Hessian $H$, a fixed diagonal $P$, and a rule that moves by $-\eta P^{-1}(ag + cm)$ with
$m \leftarrow \beta m + (1 - \beta)g$. The rule is stable while the largest eigenvalue of $P^{-1/2}HP^{-1/2}$ is below

$$\frac{2(1 + \beta)}{\eta(a(1 + \beta) + c(1 - \beta))}.$$

Adam has $a = 0$ and $c = 1$, and NAdam has the two numbers of its schedule. For the others the numbers are those of
[`secant.optimisers`][secant.optim.optimisers]. Parameter groups with other step sizes or thresholds enter $P$, so that
one number is compared with one threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from secant.curvature.critical_steps.full_batch import stability_factor
from secant.monitors.optimizers import BLIND

ADAMS = ("Adam", "AdamW", "SparseAdam", "NAdam", "RAdam", "Adamax")
KNOWN = ("SGD", "RMSprop", "Adagrad", *ADAMS)
"""Known classes of `torch.optim`; a subclass counts as its base only if it keeps the `step` of the base."""


class Reading(NamedTuple):
    """An optimiser as it is before its next step.

    Attributes:
        name: the name of its class.
        lr: the largest step size of its groups.
        threshold: the largest stable curvature in its own measure; None where it is not known.
        divisor: $P$ for every parameter, a number or a tensor; None where it is not known.
        decay: what weight decay adds to the curvature, or takes from the threshold.
        missing: a sentence on what is not known; empty if all is known.
    """

    name: str
    lr: float | None
    threshold: float | None
    divisor: list[Tensor | float] | None
    decay: float
    missing: str

    def critical_lr(self, sharpness: float) -> float | None:
        """The step size at which a sharpness is at the threshold."""
        if self.threshold is None or self.lr is None:
            return None
        bent = sharpness + self.decay
        return (self.threshold + self.decay) * self.lr / bent if bent > 0 else math.inf


def kind_of(optimiser: Any) -> str:
    """The known name of an optimiser of `torch.optim`, or the name of its class."""
    own = type(unwrapped(optimiser))
    for kind in own.__mro__:
        if kind.__name__ in KNOWN and getattr(torch.optim, kind.__name__) is kind:
            return kind.__name__ if _code(own.step) is _code(kind.step) else own.__name__
    return own.__name__


def _code(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "__code__", function)


def unwrapped(optimiser: Any) -> Any:
    """The optimiser of `torch.optim` inside the wrapper of a library."""
    while not isinstance(optimiser, torch.optim.Optimizer) and hasattr(optimiser, "optimizer"):
        optimiser = optimiser.optimizer
    return optimiser


def read(optimiser: Any, params: Sequence[Tensor], gradient: Sequence[Tensor] | None = None) -> Reading:
    r"""The step size, threshold and divisor of the next step.

    Args:
        optimiser: an optimiser of `torch.optim`.
        params: the parameters whose divisor is needed.
        gradient: the gradient of the next step, or its shard of this process, one tensor for each parameter. It enters
            the mean squares before they divide. None takes the mean squares as they are.

    Example:
        ```python
        import torch
        from secant.monitors.in_torch.optimizers import read

        weight = torch.nn.Parameter(torch.ones(2))
        print(round(read(torch.optim.SGD([weight], lr=0.1, momentum=0.9), [weight]).threshold))
        adam = torch.optim.Adam([weight], lr=1e-3)
        print(round(read(adam, [weight]).threshold))
        ```
        ```text
        38
        38000
        ```
    """
    optimiser = unwrapped(optimiser)
    name = kind_of(optimiser)
    groups = [group for group in optimiser.param_groups if group["params"]]
    lr = max((float(group["lr"]) for group in groups if "lr" in group), default=None)
    if name not in KNOWN:
        return Reading(name, lr, None, None, 0.0, f"{name} is not known: {BLIND}.")
    if any(group.get("maximize") for group in groups):
        return Reading(name, lr, None, None, 0.0, f"{name} maximises the loss: {BLIND}.")
    own = {id(p): (group, p) for group in groups for p in group["params"]}
    leading = max(groups, key=lambda group: float(group["lr"]))
    where = optimiser.state
    edge = _edge(name, leading, _any_state(where, leading))
    if edge is None or lr is None or not lr > 0:
        return Reading(name, lr, None, None, 0.0, f"the step size of {name} is not above 0: there is no threshold.")
    divisor: list[Tensor | float] = []
    for number, p in enumerate(params):
        group, _ = own.get(id(p), (None, None))
        other = None if group is None else _edge(name, group, where.get(p, {}))
        if group is None or other is None:
            divisor.append(math.inf)  # this parameter does not move
            continue
        slope = None if gradient is None else gradient[number]
        memory = {key: _local(value) for key, value in where.get(p, {}).items()}
        by = _divisor(name, group, memory, _local(p.detach()), slope)
        divisor.append(by if other == edge else by * (other / edge))
    decay, missing = float(leading.get("weight_decay", 0.0)), ""
    if name == "SGD":
        return Reading(name, lr, edge - decay, divisor, decay, missing)
    if _decoupled(name, leading):
        shrink = decay * lr / 2 * edge  # (1 - lr w / 2) edge
        return Reading(name, lr, edge - shrink, divisor, shrink, missing)
    if decay:
        missing = f"the threshold of {name} leaves out the weight decay in its gradient."
    return Reading(name, lr, edge, divisor, 0.0, missing)


def _local(value: Any) -> Any:
    """The shard of this process if a value is in shards; else the value."""
    return value.to_local() if hasattr(value, "to_local") else value


def _decoupled(name: str, group: Mapping[str, Any]) -> bool:
    return name == "AdamW" or bool(group.get("decoupled_weight_decay"))


def _any_state(where: Mapping[Any, Any], group: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((where[p] for p in group["params"] if where.get(p)), {})


def _edge(name: str, group: Mapping[str, Any], state: Mapping[str, Any]) -> float | None:
    """The threshold without weight decay; None if the step size is not above 0."""
    lr = float(group["lr"])
    if not lr > 0:
        return None
    if name == "SGD":
        momentum = float(group["momentum"])
        nesterov = bool(group["nesterov"])
        # Dampening scales the gradient that enters the velocity; Nesterov's own step requires no dampening.
        return stability_factor(momentum, nesterov) / (lr * (1 - float(group["dampening"])))
    if name == "RMSprop":
        return stability_factor(float(group["momentum"])) / lr
    if name == "Adagrad":
        return stability_factor() * (1 + _count(state) * float(group["lr_decay"])) / lr
    beta = float(group["betas"][0])
    if name == "NAdam":
        now = _count(state) + 1
        mu, following = (_nesterov(beta, float(group["momentum_decay"]), step) for step in (now, now + 1))
        product = float(state.get("mu_product", 1.0)) * mu
        a, c = (1 - mu) / (1 - product), following / (1 - product * following)
        return 2 * (1 + beta) / (lr * (a * (1 + beta) + c * (1 - beta)))
    return stability_factor(beta) / ((1 - beta) * lr)


def _nesterov(beta: float, decay: float, step: float) -> float:
    return beta * (1 - 0.5 * 0.96 ** (step * decay))


def _count(state: Mapping[str, Any]) -> float:
    return float(state.get("step", 0.0))


def _divisor(
    name: str, group: Mapping[str, Any], state: Mapping[str, Any], p: Tensor, gradient: Tensor | None
) -> Tensor | float:
    """$P$ of the next step for one parameter; without a gradient, $P$ of the last step, or 1 before the first."""
    if name == "SGD":
        return 1.0
    now = _count(state) + (gradient is not None)
    if now < 1:
        return 1.0
    eps = float(group["eps"])
    if name == "Adagrad":
        total = state["sum"] if "sum" in state else torch.full_like(p, float(group["initial_accumulator_value"]))
        return (total if gradient is None else total + gradient**2).sqrt() + eps
    if name == "RMSprop":
        square = _mean(state, "square_avg", float(group["alpha"]), gradient, 2, p)
        if group["centered"]:
            square = square - _mean(state, "grad_avg", float(group["alpha"]), gradient, 1, p) ** 2
        return square.clamp(min=0).sqrt() + eps
    b1, b2 = (float(beta) for beta in group["betas"])
    first = 1.0 if name == "NAdam" else 1 - b1**now
    if name == "Adamax":
        norm = state["exp_inf"] if "exp_inf" in state else torch.zeros_like(p)
        return first * (norm if gradient is None else torch.maximum(b2 * norm, gradient.abs() + eps))
    square = _mean(state, "exp_avg_sq", b2, gradient, 2, p)
    if group.get("amsgrad") and "max_exp_avg_sq" in state:
        square = torch.maximum(state["max_exp_avg_sq"], square)
    correction = 1 - b2**now
    if name == "RAdam":
        limit = 2 / (1 - b2) - 1
        rho = limit - 2 * now * b2**now / correction
        if rho <= 5:
            return first
        rectified = math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
        return first * (square.sqrt() + eps) / (math.sqrt(correction) * rectified)
    return first * ((square / correction).sqrt() + eps)


def _mean(state: Mapping[str, Any], name: str, decay: float, gradient: Tensor | None, power: int, p: Tensor) -> Tensor:
    before = state[name] if name in state else torch.zeros_like(p)
    return before if gradient is None else decay * before + (1 - decay) * gradient**power
