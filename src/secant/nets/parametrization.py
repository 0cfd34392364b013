"""Parametrisations: how a weight is drawn, and what fixed number multiplies its product."""

from __future__ import annotations

import difflib
import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

NAMES = ("ntk", "standard", "pytorch", "mean-field", "mup", "near-zero")
"""The parametrisations, by name."""

FEW = 1 << 16
"""Up to so many numbers are drawn at once, then cut and scaled on the host, which compiles nothing."""


@functools.partial(jax.jit, static_argnums=2)
def _cut(drawn: Array, spread: Any, shape: tuple[int, ...]) -> Array:
    return (spread * drawn[: math.prod(shape)]).reshape(shape)


@dataclass(frozen=True)
class Draw:
    r"""How a parameter starts and what multiplies it: $z = s \sum_i a_i w_i$ with independent $w_i$.

    Attributes:
        law: `normal`, or `uniform` between plus and minus `spread`, or `sign`: one of the two, each half the time.
        spread: see `law`; for `normal` the standard deviation.
        scale: $s$, which is not trained.
    """

    law: Literal["normal", "uniform", "sign"]
    spread: float
    scale: float = 1.0

    @property
    def variance(self) -> float:
        r"""$s^2 \operatorname{Var}(w)$."""
        return self.scale**2 * self.spread**2 / (3 if self.law == "uniform" else 1)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Array:
        """Draws the parameter: the numbers that `jax.random` draws for this key and shape."""
        size = math.prod(shape)
        if not isinstance(key, jax.core.Tracer):
            # A generator is compiled anew for every size, which takes longer than drawing and evaluating most networks.
            # So only a few sizes are drawn, and their first numbers are taken.
            exponent = max(8, (size - 1).bit_length())
            size = 1 << (exponent + exponent % 2 if exponent < 16 else exponent)
        if self.law == "normal":
            drawn = jax.random.normal(key, (size,), dtype)
        elif self.law == "uniform":
            drawn = jax.random.uniform(key, (size,), dtype, -1, 1)
        else:
            drawn = jax.random.rademacher(key, (size,), dtype)
        if size > FEW or isinstance(drawn, jax.core.Tracer) or len(drawn.devices()) > 1:
            return _cut(drawn, self.spread, shape)
        own = np.asarray(drawn)[: math.prod(shape)] * np.asarray(self.spread, drawn.dtype)
        return jax.device_put(own.reshape(shape), drawn.sharding if drawn.committed else None)


@dataclass(frozen=True)
class Parametrization:
    r"""How weights and biases are drawn and scaled in $z = s\, a^\top w + s_b\, b$, for $m$ incoming edges.

    | name | $w$ | $s$ | $b$ | $s_b$ |
    |---|---|---|---|---|
    | `ntk` | $N(0, 1)$ | $g/\sqrt m$ | $N(0, 1)$ | $g_b$ |
    | `standard` | $N(0, g^2/m)$ | $1$ | $N(0, g_b^2)$ | $1$ |
    | `pytorch` | $U(\pm 1/\sqrt m)$ | $1$ | $U(\pm 1/\sqrt m)$ | $1$ |
    | `mean-field` | $N(0, 1)$ | $g/\sqrt m$; last layer $g/m$ | $N(0, 1)$ | $g_b$ |
    | `mup`, `sgd` | $N(0, 1/k)$ | $g\sqrt{k/m}$ | $N(0, 1/k)$ | $g_b\sqrt k$ |
    | its last layer | $N(0, 1/m)$ | $g/\sqrt m$ | $N(0, 1)$ | $g_b$ |
    | `mup`, `adam` | $N(0, m)$ | $g/m$ | $N(0, 1)$ | $g_b$ |
    | its last layer | $N(0, 1)$ | $g/m$ | $N(0, 1)$ | $g_b$ |
    | `near-zero` | $N(0, \epsilon^2)$ | $1$ | $N(0, \epsilon^2)$ | $1$ |

    The first two give the same function at the start but train differently: in `ntk` a step of gradient descent moves a
    weight's product $m$ times less, so that one step size suits all widths.

    `mup` is the maximal-update parametrisation, for layers of $k$ neurons. A step moves the signals of every layer by
    an amount that does not depend on the width. So features are learnt in the limit too, and the best step size at a
    small width is also the best at a large one.

    `mup` asks for products $sw$ of variance $1/m$, in the last layer $1/m^2$, and for steps that change $sw$ by $k/m$
    times its gradient (SGD) or by $1/m$ an entry (Adam). A step of SGD on $w$ changes $sw$ by $s^2$ times its gradient,
    and a step of Adam changes $sw$ by $s$ an entry. With $s^2 = k/m$ and $s = 1/m$, one step size serves all tensors;
    the spread of $w$ makes up for these scales at the start. Take `sgd` for momentum too. Take `adam` for RMSprop,
    Adagrad and all optimisers that divide gradients by their size, with an `eps` below the gradients, which are of
    order $1/m^2$. Outputs at the start vanish with the width, and so does their covariance, as for `mean-field`.

    Attributes:
        name: one of the above.
        gain: $g$; $\sqrt2$ keeps the size of signals through ReLU layers.
        bias_gain: $g_b$.
        spread: $\epsilon$ of `near-zero`.
        optimizer: the optimiser that `mup` is made for, `"sgd"` or `"adam"`; the other parametrisations ask for none.
        output_signs: the weights of the last layer start at plus or minus their standard deviation, each with
            probability one half, instead of as above.

    Example:
        ```python
        import secant as sc

        critical = sc.nets.Parametrization("standard", gain=2**0.5)
        net = sc.nets.mlp([128, 128], activation="relu", parametrization=critical)
        ```
    """

    name: str = "ntk"
    gain: float = 1.0
    bias_gain: float = 1.0
    spread: float = 0.01
    output_signs: bool = False
    optimizer: Literal["sgd", "adam"] = "sgd"

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            close = difflib.get_close_matches(str(self.name), NAMES, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known parametrisations: {', '.join(NAMES)}."
            raise ValueError(f"unknown parametrization {self.name!r}. {hint}")
        if not (math.isfinite(self.spread) and self.spread > 0):
            raise ValueError(f"Parametrization: `spread` must be a positive number, got {self.spread}.")
        for option in ("gain", "bias_gain"):
            value = getattr(self, option)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Parametrization: `{option}` must be a number of at least 0, got {value}.")
        if self.name in ("pytorch", "near-zero") and (self.gain, self.bias_gain) != (1.0, 1.0):
            raise ValueError(
                f"Parametrization: {self.name!r} has no gain, got gain={self.gain} and bias_gain={self.bias_gain}. "
                "Use 'ntk', 'standard', 'mean-field' or 'mup'."
            )
        if self.optimizer not in ("sgd", "adam"):
            raise ValueError(f"Parametrization: `optimizer` must be 'sgd' or 'adam', got {self.optimizer!r}.")
        if self.optimizer != "sgd" and self.name != "mup":
            raise ValueError(f"Parametrization: {self.name!r} is the same for every optimizer. Use 'mup'.")

    @property
    def scaled(self) -> bool:
        """Whether gains are in the scales, which are not trained, and not in the draws."""
        return self.name in ("ntk", "mean-field", "mup")

    @property
    def vanishing(self) -> bool:
        """Whether outputs at the start vanish in the limit of infinite width."""
        return self.name in ("mean-field", "mup")

    def weight(self, fan_in: int, fan_out: int | None = None, *, last: bool = False) -> Draw:
        """The draw of a weight.

        Args:
            fan_in: incoming edges of a neuron.
            fan_out: neurons, or channels, of the layer, which `mup` for SGD has to know.
            last: whether the layer gives the outputs.
        """
        root = math.sqrt(fan_in)
        if self.name == "mup" and self.optimizer == "sgd":
            draw = Draw("normal", 1 / root, self.gain / root)
            if not last:
                out = math.sqrt(self._known(fan_out))
                draw = Draw("normal", 1 / out, self.gain * out / root)
        else:
            draw = {
                "ntk": Draw("normal", 1.0, self.gain / root),
                "standard": Draw("normal", self.gain / root),
                "pytorch": Draw("uniform", 1 / root),
                "mean-field": Draw("normal", 1.0, self.gain / (fan_in if last else root)),
                "mup": Draw("normal", 1.0 if last else root, self.gain / fan_in),
                "near-zero": Draw("normal", self.spread),
            }[self.name]
        if last and self.output_signs:
            spread = math.sqrt(draw.variance) / draw.scale if draw.scale else 1.0
            return Draw("sign", spread, draw.scale)
        return draw

    def bias(self, fan_in: int, fan_out: int | None = None, *, last: bool = False) -> Draw:
        """The draw of a bias beside a weight; arguments are those of `weight`."""
        if self.name == "mup" and self.optimizer == "sgd" and not last:
            out = math.sqrt(self._known(fan_out))
            return Draw("normal", 1 / out, self.bias_gain * out)
        return {
            "ntk": Draw("normal", 1.0, self.bias_gain),
            "standard": Draw("normal", self.bias_gain),
            "pytorch": Draw("uniform", 1 / math.sqrt(fan_in)),
            "mean-field": Draw("normal", 1.0, self.bias_gain),
            "mup": Draw("normal", 1.0, self.bias_gain),
            "near-zero": Draw("normal", self.spread),
        }[self.name]

    def _known(self, fan_out: int | None) -> int:
        if fan_out is None:
            raise ValueError("Parametrization: 'mup' for SGD depends on the neurons of a layer. Pass `fan_out`.")
        return fan_out


def parametrized(parametrization: str | Parametrization) -> Parametrization:
    """A parametrisation by its name; a `Parametrization` is passed through."""
    return parametrization if isinstance(parametrization, Parametrization) else Parametrization(parametrization)
