r"""What a monitor must know of an optimiser: its step size, its threshold, and the divisor of its steps.

Let $P$ be the diagonal by which a rule divides its step. On a quadratic with Hessian $H$ the rule converges while the
largest eigenvalue of $P^{-1/2}HP^{-1/2}$ is below its threshold:

* $2/\eta - w$ for SGD with weight decay $w$,
* $(2 + 2\beta)/\eta$ for momentum,
* $(2 + 2\beta)/(\eta(1 + 2\beta))$ for Nesterov's momentum,
* $2/\eta$ for RMSProp,
* $(2 + 2\beta_1)(1 - \eta w/2)/((1 - \beta_1)\eta)$ for Adam(W).

Lion, sign descent and Muon do not divide by such a diagonal and have no such threshold. For them the curvature along
the update tells how far the run is from instability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from secant.core.arguments import at_least_zero, fraction
from secant.curvature.critical_steps.full_batch import stability_factor

KINDS = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9},
    "rmsprop": {"b2": 0.99, "eps": 1e-8},
    "adam": {"b1": 0.9, "b2": 0.999, "eps": 1e-8},
    "adamw": {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 1e-2},
    "lion": {"b1": 0.9, "b2": 0.99},
    "sign": {},
    "muon": {"momentum": 0.95},
}
"""Names of optimisers that facts may give, with the default settings of PyTorch."""

SAME = {"gd": "sgd", "sign_sgd": "sign", "signsgd": "sign", "rms": "rmsprop", "signum": "sign"}
"""Other names of the same optimisers."""

BLIND = "there is no threshold; `stable_multiple` tells how much longer an update could be"


@dataclass(frozen=True)
class Facts:
    r"""An optimiser in numbers, the same for JAX and PyTorch.

    Attributes:
        name: one of [`KINDS`][secant.monitors.optimizers.KINDS], or the name of an optimiser that is not known.
        lr: step size $\eta$, or `step -> step size`, or None where it is not known.
        momentum: $\beta$.
        b1: decay of Adam's mean, $\beta_1$.
        b2: decay of the mean square.
        eps: added to the root of the mean square.
        eps_inside: added to the mean square, inside the root.
        weight_decay: $w$; AdamW decouples it from the mean square, others add it to the gradient.
        corrected: whether the mean square is divided by $1 - \beta_2^t$.
        missing: a sentence on what is not known, and why; empty if all is known.
    """

    name: str
    lr: float | Callable[[Any], Any] | None = None
    momentum: float = 0.0
    b1: float = 0.0
    b2: float = 0.0
    eps: float = 0.0
    eps_inside: float = 0.0
    weight_decay: float = 0.0
    corrected: bool = True
    missing: str = field(default="", compare=False)

    @property
    def divides(self) -> bool:
        """Whether the optimiser divides its steps by the root of a mean square."""
        return self.name in ("rmsprop", "adam", "adamw")

    def threshold(self, lr: float | None) -> float | None:
        """The largest stable curvature at this step size, in the optimiser's own measure; None if not known."""
        if lr is None or not lr > 0:
            return None
        match self.name:
            case "sgd":
                return stability_factor() / lr - self.weight_decay
            case "momentum" | "nesterov":
                # Decay enters the velocity as the gradient does, so it adds to the curvature.
                return stability_factor(self.momentum, self.name == "nesterov") / lr - self.weight_decay
            case "rmsprop" if self.momentum == 0:
                return stability_factor() / lr
            case "adam" | "adamw":
                return (1 - lr * self._decoupled / 2) * stability_factor(self.b1) / ((1 - self.b1) * lr)
        return None

    def critical_lr(self, sharpness: float) -> float | None:
        """The step size at which a sharpness is at the threshold; infinite where no direction curves upwards."""
        unit = Facts(self.name, momentum=self.momentum, b1=self.b1).threshold(1.0)
        if unit is None:
            return None
        if self.name in ("sgd", "momentum", "nesterov"):
            sharpness += self.weight_decay
        else:  # unit (1/eta - w/2) = sharpness
            sharpness += unit * self._decoupled / 2
        if math.isnan(sharpness):
            return math.nan
        return unit / sharpness if sharpness > 0 else math.inf

    @property
    def _decoupled(self) -> float:
        return self.weight_decay if self.name == "adamw" else 0.0

    def divisor(self, square: Any, gradient: Any, count: Any, root: Callable[[Any], Any]) -> Any:
        r"""The divisor $P$ of the next step, $(1 - \beta_1^t)(\sqrt{\nu/(1 - \beta_2^t)} + \epsilon)$ for Adam.

        Args:
            square: the mean square $\nu$ so far, one array.
            gradient: the gradient of the next step, which enters $\nu$ before the division.
            count: the number of steps so far.
            root: square root of arrays.
        """
        now = count + 1
        mean = self.b2 * square + (1 - self.b2) * gradient**2
        if self.corrected:
            mean = mean / (1 - self.b2**now)
        by = root(mean + self.eps_inside) + self.eps
        return by if self.name == "rmsprop" else (1 - self.b1**now) * by

    def told(self) -> dict[str, Any]:
        """The facts as a record keeps them."""
        numbers = {
            name: getattr(self, name) for name in ("momentum", "b1", "b2", "eps", "weight_decay") if getattr(self, name)
        }
        lr = {"lr": self.lr} if isinstance(self.lr, int | float) else {"schedule": True} if self.lr else {}
        return {"name": self.name, **lr, **numbers} | ({"missing": self.missing} if self.missing else {})


def from_facts(given: Mapping[str, Any]) -> Facts:
    """Facts about an optimiser from a dictionary, checked.

    Args:
        given: such as `{"name": "adam", "lr": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8}`. Settings that are left out
            have the defaults of PyTorch. `lr` may be `step -> step size`.

    Example:
        ```python
        from secant.monitors.optimizers import from_facts

        adam = from_facts({"name": "adam", "lr": 1e-3})
        print(round(adam.threshold(1e-3)))
        ```
        ```text
        38000
        ```
    """
    facts = dict(given)
    name = str(facts.pop("name", "")).lower()
    name = SAME.get(name, name)
    if name == "sgd" and facts.get("momentum"):
        name = "nesterov" if facts.pop("nesterov", False) else "momentum"
    facts.pop("nesterov", None)
    if name not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"monitor: `optimiser` names {given.get('name')!r}. Use one of {known}.")
    for other, own in (
        ("learning_rate", "lr"),
        ("beta", "momentum"),
        ("decay", "b2"),
        ("beta1", "b1"),
        ("beta2", "b2"),
    ):
        if other in facts:
            facts.setdefault(own, facts.pop(other))
    allowed = {"lr", "weight_decay", *KINDS[name]} | ({"momentum"} if name == "rmsprop" else set())
    if unknown := sorted(set(facts) - allowed):
        has = ", ".join(sorted(allowed))
        raise ValueError(f"monitor: `optimiser` gives {', '.join(unknown)}, but {name} takes only {has}.")
    facts = KINDS[name] | facts
    lr = facts.pop("lr", None)
    if lr is not None and not callable(lr):
        lr = float(at_least_zero("monitor", "optimiser['lr']", lr))
    for one in ("momentum", "b1", "b2"):
        if one in facts:
            facts[one] = float(fraction("monitor", f"optimiser[{one!r}]", facts[one]))
    for one in ("eps", "weight_decay"):
        if one in facts:
            facts[one] = float(at_least_zero("monitor", f"optimiser[{one!r}]", facts[one]))
    return explained(Facts(name, lr, corrected=name != "rmsprop", **facts))


def explained(facts: Facts) -> Facts:
    """The same facts, with a sentence on what is not known."""
    if facts.name in ("lion", "sign", "muon"):
        return replace(facts, missing=f"{facts.name} divides by no mean square: {BLIND}.")
    if facts.name == "rmsprop" and facts.momentum:
        return replace(facts, missing=f"RMSProp has momentum: {BLIND}.")
    if facts.name not in KINDS:
        return replace(facts, missing=f"{facts.name} is not known: {BLIND}.")
    if facts.name in ("rmsprop", "adam") and facts.weight_decay:
        return replace(facts, missing=f"the threshold of {facts.name} leaves out the weight decay in its gradient.")
    if facts.lr is None:
        return replace(
            facts, missing="the optimiser's step size is not known: there is no threshold. Give facts with `lr`."
        )
    return facts
