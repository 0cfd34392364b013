r"""The largest margin of separable data, in any norm.

With rows $z_i = y_ix_i$ of $Z$, one per sample, the data are separable if some $w$ has $z_i\cdot w > 0$ for all $i$.
The margin in a norm and the weights that reach it are

$$\gamma = \max_{\|w\| \le 1}\min_i z_i\cdot w = \frac1{\|\hat w\|}, \qquad
\hat w = \operatorname{argmin}\ \tfrac12\|w\|^2 \text{ with } z_i\cdot w \ge 1 .$$

The constraints have multipliers $a_i \ge 0$, with $a_i = 0$ where $z_i\cdot\hat w > 1$ and
$\sum_ia_i = \|\hat w\|^2 = 1/\gamma^2$. The vector $v = \sum_ia_iz_i$ has $\|v\|_* = \|\hat w\|$ and
$v\cdot\hat w = \|\hat w\|^2$; for the Euclidean norm $v = \hat w$. Every $p$ of non-negative weights with sum 1 gives a
bound, $\gamma \le \|\sum_ip_iz_i\|_*$, and $p = \gamma^2a$ attains the bound: weights and multipliers together prove an
answer. If nothing separates the data, some such sum is the origin, and its $p$ proves that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used
from jaxtyping import Float, Int

from secant.core.arguments import positive, whole
from secant.core.types import Real
from secant.theory.bias._euclidean_margin import euclidean
from secant.theory.bias._lp_margin import interior_point

TOLERANCE = 1e-6
"""An answer whose relative distance from its own bound is larger than this raises an error."""


TIED = 1e-10
"""Edges that differ by a smaller share than this count as equal, and the first of them is taken."""


class NotSeparableError(ValueError):
    """Data that nothing separates.

    Attributes:
        weights: non-negative, with sum 1, such that `weights @ Z` is the origin. With a bias, `weights @ labels` is 0
            too.
    """

    def __init__(self, message: str, weights: np.ndarray) -> None:
        super().__init__(message)
        self.weights = weights


@dataclass(frozen=True)
class Margin:
    r"""Weights of largest margin, with their proof.

    Attributes:
        margin: $\gamma$, the largest margin of weights of norm 1.
        w: $\hat w$, the least weights with margin 1.
        b: the bias; 0 without one.
        multipliers: $a$, one per sample; their sum is $1/\gamma^2$.
        residual: the largest relative amount by which the true margin can exceed `margin`.
        norm: the norm.
    """

    margin: float
    w: Float[np.ndarray, "dim"]
    b: float
    multipliers: Float[np.ndarray, "samples"]
    residual: float
    norm: float

    def late_share(self, log_time: Real) -> Any:
        r"""The share of the largest Euclidean margin that a run on the exponential loss has late, without the run.

        Gradient flow is $\hat w\log t + \tilde w$ with $z_i\cdot\tilde w = -\log a_i$ on the support, so it has the
        share

        $$\frac{\log t - \max_i\log a_i}{\log t - \gamma^2\sum_ia_i\log a_i}$$

        of the margin, up to $1/\log^2t$. For $T$ steps of descent on $\sum_ie^{-z_i\cdot w}$ with step $\eta$ take
        $\log t = \log\eta T$.

        Args:
            log_time: $\log t$, one or many.
        """
        if self.norm != 2:
            raise ValueError(
                f"late_share: gradient flow has the Euclidean margin, but this one is of the norm {self.norm:g}. Use "
                "`max_margin` with `norm=2`."
            )
        a = self.multipliers[self.support]
        log_time = np.asarray(log_time, float)
        return (log_time - np.log(a.max())) / (log_time - self.margin**2 * float(a @ np.log(a)))

    @property
    def support(self) -> Int[np.ndarray, "support"]:
        """Indices of the samples that carry the margin, which have a positive multiplier."""
        return np.flatnonzero(self.multipliers > 0)


@dataclass(frozen=True)
class Boosting:
    r"""A run of boosting.

    Attributes:
        w: weights of the columns after the last round.
        columns: the column that each round took.
        steps: how far each round moved the weight of its column.
        margins: $\min_i z_i\cdot w/\|w\|_1$ after each round.
        log_loss: $\log\sum_ie^{-z_i\cdot w}$ after each round.
    """

    w: Float[np.ndarray, "columns"]
    columns: Int[np.ndarray, "rounds"]
    steps: Float[np.ndarray, "rounds"]
    margins: Float[np.ndarray, "rounds"]
    log_loss: Float[np.ndarray, "rounds"]


def norm_of(v: Any, norm: Real) -> float:
    r"""The norm $\|v\|_p$ of a vector, for any $p$ from 1 to infinity, without overflow."""
    size = np.abs(np.asarray(v, float))
    top = float(size.max(initial=0.0))
    if top == 0.0 or norm == math.inf:
        return top
    return top * float(np.sum((size / top) ** norm) ** (1 / norm))


def dual(norm: Real) -> float:
    r"""The exponent $q$ of the dual norm, $\frac1p + \frac1q = 1$."""
    return math.inf if norm == 1 else 1.0 if norm == math.inf else float(norm / (norm - 1))


def max_margin(Z: Any, norm: Any = 2.0, *, labels: Any = None) -> Margin:
    r"""The largest margin of separable data in the norm $\ell_p$, with its support, multipliers and a proof.

    * $p = 2$: an active set of few samples at a time, accurate to rounding.
    * $p = 1$ and $p = \infty$: a linear program.
    * Other $p$: an interior point with as many unknowns as samples ($p < 2$) or features ($p > 2$).

    Duplicate samples and useless features do no harm, but the multipliers are then one of several choices.

    Args:
        Z: rows $y_ix_i$, one per sample.
        norm: $p$, from 1 to infinity.
        labels: $y_i$, -1 or 1, for weights with a bias. The margins are then $y_i(w\cdot x_i + b)$, the norm is that of
            $w$ alone, and $\sum_ia_iy_i = 0$.

    Raises:
        NotSeparableError: if nothing separates the data; the error carries the weights that prove it.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import margins

        found = margins.max_margin(np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 3.0]]))
        print(round(found.margin**2, 6), found.support, found.multipliers.round(3))
        ```
        ```text
        4.5 [0 1] [0.111 0.111 0.   ]
        ```
    """
    Z, p, labels, unit = _checked(Z, norm, labels)
    if unit == 0:
        raise NotSeparableError("max_margin: all of `Z` is zero: nothing separates it.", np.eye(1, len(Z))[0])
    if p == 2 and 1e-100 < unit < 1e100:  # no rescaling, so no copy of large data
        unit = 1.0
    else:
        Z = Z / unit
    if p == 2:
        w, b, a = euclidean(Z, labels)
    elif p in (1, math.inf):
        w, b, a = _linear_program(Z, labels, p)
    else:
        w, b, a = _smooth(Z, labels, p)
    found = _proved(Z, labels, p, w, b, a)
    if not found.residual <= TOLERANCE:
        raise ArithmeticError(
            f"max_margin: the margin in the norm {p:g} was found only to a relative accuracy of {found.residual:.1e}. "
            f"Rescale the features, or use `norm={1 if p < 2 else math.inf if p > 2 else 1:g}`, a linear program."
        )
    scale = unit**2
    return Margin(found.margin * unit, found.w / unit, found.b, found.multipliers / scale, found.residual, p)


def _checked(Z: Any, norm: Any, labels: Any) -> tuple[np.ndarray, float, np.ndarray | None, float]:
    """The arguments as numbers, and the largest entry of the data, in one pass over large data."""
    Z = np.asarray(Z, float)
    unit = max(float(Z.max()), -float(Z.min())) if Z.size else 0.0
    if Z.ndim != 2 or 0 in Z.shape or not math.isfinite(unit):
        raise ValueError(f"max_margin: `Z` must be finite numbers of shape (samples, features), got shape {Z.shape}.")
    try:
        p = float(norm)
    except (TypeError, ValueError):
        raise TypeError(f"max_margin: `norm` must be a number from 1 to infinity, got {norm!r}.") from None
    if not p >= 1:
        raise ValueError(f"max_margin: `norm` must be from 1 to infinity, got {norm!r}. Below 1 it is no norm.")
    if labels is None:
        return Z, p, None, unit
    labels = np.asarray(labels, float)
    if labels.shape != Z.shape[:1] or not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError(f"max_margin: `labels` must be -1 or 1, one per sample of {len(Z)}, got shape {labels.shape}.")
    if abs(labels.sum()) == len(labels):
        raise ValueError("max_margin: `labels` are all the same: with a bias the margin is infinite. Leave them out.")
    return Z, p, labels, unit


def _proved(Z: np.ndarray, labels: np.ndarray | None, p: float, w: np.ndarray, b: float, a: np.ndarray) -> Margin:
    """Weights scaled to margin 1, multipliers scaled to their sum, and the gap left between the two."""
    reached = Z @ w if labels is None else Z @ w + labels * b
    least = float(reached.min())
    weights, carried = a / a.sum(), np.flatnonzero(a)
    total = weights[carried] @ Z[carried]
    if not least > 0:
        bound = norm_of(total, dual(p))
        if bound > TOLERANCE * float(np.abs(Z).max()):  # no proof of anything
            raise ArithmeticError(
                f"max_margin: found neither weights that separate the data nor a proof that nothing separates them. "
                f"The margin is at most {bound:.1e}, too small for samples of size {np.abs(Z).max():.1e}. Rescale the "
                "features, or leave out the samples that are nearest to the others."
            )
        raise NotSeparableError(
            f"max_margin: nothing separates the data: a sum of the samples with non-negative weights is "
            f"{'the origin' if bound == 0 else f'within {bound:.1e} of the origin'}. The attribute `weights` of this "
            "error has these weights. Add features, or leave out samples with wrong labels.",
            weights,
        )
    w, b = w / least, b / least
    margin = 1 / norm_of(w, p)
    tilt = 0.0 if labels is None else abs(b * float(weights @ labels)) * margin
    bound = norm_of(total, dual(p)) + tilt
    return Margin(margin, w, float(b), weights / margin**2, max(bound / margin - 1, 0.0), p)


def _linear_program(Z: np.ndarray, labels: np.ndarray | None, p: float) -> tuple[np.ndarray, float, np.ndarray]:
    n, d = Z.shape
    bias = np.zeros((n, 0)) if labels is None else labels[:, None]
    free: list[tuple[int | None, None]] = [(None, None)] * bias.shape[1]
    limits: list[tuple[int | None, None]]
    if p == 1:  # w = w+ - w-
        cost, table, limits = np.ones(2 * d), np.hstack([Z, -Z]), [(0, None)] * (2 * d)
        rest = np.zeros((0, 2 * d + bias.shape[1]))
    else:  # -t <= w <= t
        cost, table, limits = np.eye(1, d + 1, d)[0], np.hstack([Z, np.zeros((n, 1))]), [(None, None)] * d + [(0, None)]
        sides = np.vstack([np.eye(d), -np.eye(d)])
        rest = np.hstack([sides, -np.ones((2 * d, 1)), np.zeros((2 * d, bias.shape[1]))])
    found = scipy.optimize.linprog(
        np.concatenate([cost, np.zeros(bias.shape[1])]),
        np.vstack([-np.hstack([table, bias]), rest]),
        np.concatenate([-np.ones(n), np.zeros(len(rest))]),
        bounds=limits + free,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0:
        w, b, a = euclidean(Z, labels)  # raises the reason if nothing separates
        _proved(Z, labels, 2.0, w, b, a)
        raise ArithmeticError(f"max_margin: the linear program stopped with {found.message!r}. Rescale the features.")
    w = found.x[:d] - found.x[d : 2 * d] if p == 1 else found.x[:d]
    return w, float(found.x[-1]) if labels is not None else 0.0, np.maximum(-found.ineqlin.marginals[:n], 0.0)


def _smooth(Z: np.ndarray, labels: np.ndarray | None, p: float) -> tuple[np.ndarray, float, np.ndarray]:
    w, b, a = euclidean(Z, labels)
    _proved(Z, labels, 2.0, w, b, a)  # raises if nothing separates
    near = 1.0 if p < 2 else math.inf
    # The largest relative difference of the two norms: if it is tiny, the linear program has the answer.
    apart = Z.shape[1] ** (1 - 1 / p if p < 2 else 1 / p) - 1
    if apart < TOLERANCE / 100:
        return _linear_program(Z, labels, near)
    w, b, a = interior_point(Z, labels, p)
    return w, b, np.where(a > 1e-9 * a.max(), a, 0.0)


def boost(Z: Any, rounds: int, step: Real | None = None, *, share: Real = 1.0) -> Boosting:
    r"""Boosting: each round moves the weight of the column with the largest edge $|\sum_ip_iZ_{ij}|$.

    The edges use the weights $p_i \propto e^{-z_i\cdot w}$ of the samples. The columns are weak learners,
    $Z_{ij} = y_ih_j(x_i)$. This is coordinate descent on $\sum_ie^{-z_i\cdot w}$. With `step`, every step has this
    length, and the run reaches the largest $\ell_1$ margin as steps go to 0. Without `step`, each step takes the least
    loss along its coordinate. This is AdaBoost: if learners give $\pm1$, the step at an edge $r$ is
    $\frac12\log\frac{1 + r}{1 - r}$.

    Args:
        Z: outputs of the learners times the label, one row per sample.
        rounds: number of rounds.
        step: the length of a step; by default exact line search.
        share: the share of the exact step to take, scikit-learn's `learning_rate`.

    Example:
        ```python
        import numpy as np
        from secant.theory.bias import margins

        Z = np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
        run = margins.boost(Z, 3_000, step=1e-3)
        print(run.margins[-1].round(3), round(margins.max_margin(Z, 1).margin, 3))
        ```
        ```text
        0.333 0.333
        ```
    """
    Z, *_ = _checked(Z, 1.0, None)
    rounds, share = whole("boost", "rounds", rounds), positive("boost", "share", share)
    length = None if step is None else positive("boost", "step", step)
    w, m = np.zeros(Z.shape[1]), np.zeros(len(Z))
    plain = bool(np.all(np.abs(Z) == 1))
    record = []
    for _ in range(rounds):
        p = np.exp(m.min() - m)
        p /= p.sum()
        edges = p @ Z
        j = int(np.argmax(np.abs(edges) >= (1 - TIED) * np.abs(edges).max()))
        if edges[j] == 0:
            raise NotSeparableError(
                "boost: no column has an edge, so nothing separates the data. The attribute `weights` of this error "
                "proves it. Add learners to `Z`, or leave out samples with wrong labels.",
                p,
            )
        move = math.copysign(length, edges[j]) if length is not None else share * _line(Z[:, j], p, edges[j], plain)
        w[j] += move
        m += move * Z[:, j]
        record.append((j, move, m.min() / np.abs(w).sum(), np.log(np.exp(m.min() - m).sum()) - m.min()))
    columns, steps, reached, loss = zip(*record, strict=True)
    return Boosting(w, np.array(columns), np.array(steps), np.array(reached), np.array(loss))


def _line(column: np.ndarray, p: np.ndarray, edge: float, plain: bool) -> float:
    """Where the loss is least along a column: the root of its derivative."""
    if np.all(column >= 0) or np.all(column <= 0):
        raise ValueError(
            "boost: a column alone makes no mistake, so exact line search has no end. Give a `step`, or leave out the "
            "column."
        )
    if plain:
        return 0.5 * math.log((1 + edge) / (1 - edge))

    def slope(t: float) -> float:
        shifted = -t * column
        return float(np.sum(p * column * np.exp(shifted - shifted.max())))

    end = math.copysign(1.0, edge) / float(np.abs(column).max())
    while slope(end) * edge > 0:
        end *= 2
    return float(scipy.optimize.brentq(slope, 0.0, end, xtol=1e-15, rtol=1e-14))
