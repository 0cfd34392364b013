"""Separable data, and steepest descent on its exponential loss in the logarithm of the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from secant.studies.shared import real
from secant.theory.bias.margins import dual, max_margin, norm_of
from secant.theory.bias.potentials import steepest

MANY = 16
"""How many norms are descended together."""


class Data(NamedTuple):
    r"""Samples with labels; `z` is $y_ix_i$."""

    x: np.ndarray
    y: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Rows $z_i$; the weights should make all $z_i\\cdot w$ positive."""
        return self.x * self.y[:, None]


def draw(random: np.random.Generator, samples: int, dim: int, gap: float) -> Data:
    r"""Normal samples, labelled by a random plane through the origin and moved away from it by `gap`."""
    x, u = random.normal(size=(samples, dim)), random.normal(size=dim)
    u /= np.linalg.norm(u)
    y = np.where(x @ u > 0, 1.0, -1.0)
    if samples > 1 and abs(y.sum()) == samples:  # labels of both kinds
        x[0], y[0] = -x[0], -y[0]
    return Data(x + gap * y[:, None] * u, y)


def load(
    name: str, classes: tuple[int, int], samples: int, dim: int | None, seed: int, *, constant: bool = True
) -> Data:
    r"""Two classes of real data as 1 and -1, standardised and with a constant feature, of mean length 1.

    The data are given by their first `dim` principal directions, or by all. With as many directions as samples nothing
    Euclidean changes, because Euclidean descent from zero never leaves the span of its samples.
    """
    found = real.two_classes(name, classes, samples, seed)
    x = np.hstack([found.x, np.ones((samples, 1))]) if constant else found.x
    left, sizes, _ = np.linalg.svd(x, full_matrices=False)
    dim = int((sizes > 1e-10 * sizes[0]).sum()) if dim is None else dim
    if dim > len(sizes):
        raise ValueError(f"dim: at most {len(sizes)} for {samples} samples of {name}, got {dim}.")
    x = (left * sizes)[:, :dim]
    return Data(x / np.linalg.norm(x, axis=1).mean(), found.y)


def chosen(config: Any, random: np.random.Generator) -> Data:
    """The data of a configuration with `data`, `classes`, `samples`, `dim`, `gap` and `seed`."""
    if config.data == real.RANDOM:
        return draw(random, config.samples, config.dim, config.gap)
    return load(config.data, config.classes, config.samples, config.dim, config.seed)


def weights(margins: np.ndarray) -> np.ndarray:
    r"""The weights of samples in the gradient, $e^{-m_i}/\sum_je^{-m_j}$, along the last axis."""
    p = np.exp(margins.min(-1, keepdims=True) - margins)
    return p / p.sum(-1, keepdims=True)


def log_loss(margins: np.ndarray) -> np.ndarray:
    r"""The logarithm of the loss, $\log\sum_ie^{-m_i}$, along the last axis."""
    least = margins.min(-1)
    return np.log(np.exp(least[..., None] - margins).sum(-1)) - least


class Descent(NamedTuple):
    r"""Steepest descent in several norms at once, with a row for each norm and a column for each step, the start first.

    With $\eta_t$ the step, it holds `log_loss`, `slope` $\|\nabla L\|_*/L$, `share` $\eta_tL$ (for the steps made),
    `least` $\min_im_i$, `size` $\|w_t\|$, and the weights `w` at the end.
    """

    log_loss: np.ndarray
    slope: np.ndarray
    share: np.ndarray
    least: np.ndarray
    size: np.ndarray
    w: np.ndarray


def descend(Z: np.ndarray, norms: Sequence[float], start: np.ndarray, steps: int, share: Any, cap: Any) -> Descent:
    r"""Descends $L = \sum_ie^{-z_i\cdot w}$ with steps $\eta_t = \min(\text{share}/L, \text{cap})$ for each norm.

    Nothing underflows, because the direction comes from $\nabla L/L$, and the steps are steps on $\log L$.
    """
    W = np.repeat(start[None], len(norms), axis=0)
    limit = np.log(np.asarray(cap))
    ratio = np.log(np.asarray(share))
    shape = (len(norms), steps + 1)
    logs, slopes, shares, least, size = (np.zeros(shape) for _ in range(5))
    duals = [dual(norm) for norm in norms]
    for t in range(steps + 1):
        m = W @ Z.T
        logs[:, t], least[:, t] = log_loss(m), m.min(1)
        g = -weights(m) @ Z
        for k, norm in enumerate(norms):
            slopes[k, t], size[k, t] = _size(g[k], duals[k]), _size(W[k], norm)
        # min(share/L, cap) L, computed without L.
        shares[:, t] = np.exp(np.minimum(ratio, limit + logs[:, t]))
        if t < steps:
            for k, norm in enumerate(norms):
                W[k] += shares[k, t] * steepest(g[k], norm)
    return Descent(logs, slopes, shares[:, :-1], least, size, W)


def _size(v: np.ndarray, p: float) -> float:
    """The norm of a short vector, computed quickly."""
    if p == math.inf:
        return float(np.abs(v).max())
    return float(np.abs(v).sum() if p == 1 else math.sqrt(v @ v) if p == 2 else norm_of(v, p))


def slowest(z: np.ndarray, on: int) -> float:
    r"""The least power of $1/t$ with which gradient flow settles, over the `on` rows that carry the margin and all
    others."""
    own = z[:on]
    a = np.linalg.solve(own @ own.T, np.ones(on))
    return float(min(rates(own, a)[0], (z[on:] @ (a @ own)).min(initial=np.inf) - 1))


def in_order(z: np.ndarray) -> Late:
    """Rows of real data, sorted so that the rows that carry the largest margin come first."""
    on = max_margin(z).support
    return Late(np.concatenate([z[on], np.delete(z, on, axis=0)]), len(on))


class Late(NamedTuple):
    r"""Separable rows with a known margin: the first `support` rows carry it, all others lie further off."""

    z: np.ndarray
    support: int


def rates(z: np.ndarray, a: np.ndarray) -> np.ndarray:
    r"""Eigenvalues of $\sum_ia_iz_iz_i^\top$ on the span of the support, ascending: the powers of
    $1/t$ of its residual.

    One eigenvalue is 1, along $\hat w$ itself: a shift of time.
    """
    root = np.sqrt(a)
    return np.linalg.eigvalsh(root[:, None] * (z @ z.T) * root)


def far_apart(random: np.random.Generator, support: int, others: int, dim: int, far: float) -> Late:
    r"""Separable rows: `support` have $z_i\cdot\hat w = 1$ with positive multipliers, `others` have at least `far`.

    A few points around a common direction are drawn until all carry the margin, and none of them slowly. The others are
    random, moved along $\hat w$.
    """
    while True:
        u = random.normal(size=dim)
        own = 2 * u / np.linalg.norm(u) + random.normal(size=(support, dim))
        a = np.linalg.solve(own @ own.T, np.ones(support))
        if a.min() > 0 and rates(own, a)[0] > 0.4:
            break
    w = a @ own
    rest = random.normal(size=(others, dim))
    reach = far + random.exponential(0.5, size=others)
    rest += ((reach - rest @ w) / (w @ w))[:, None] * w
    return Late(np.concatenate([own, rest]), support)
