r"""The largest Euclidean margin of separable data, by an active set of few samples at a time.

On a few samples the problem is one of non-negative least squares. Take the $u \ge 0$ whose $(Z^\top u, c\sum_iu_i)$ is
nearest to $(0, c)$: the multipliers are $a = u/(c^2(1 - \sum_iu_i))$. If the distance is zero, $Z^\top u = 0$ and
nothing separates the samples. With a bias, a heavy row keeps $\sum_iu_iy_i$ near zero. The solution tells which samples
carry the margin, and one linear system then gives their multipliers to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

ROUNDING = 1e-10
"""A margin of 1 may fall short by this much, which is rounding."""


class Few(NamedTuple):
    """The largest margin on a few samples: who carries it, weights, bias, multipliers, and whether it exists."""

    kept: np.ndarray
    w: np.ndarray
    b: float
    a: np.ndarray
    solved: bool


def euclidean(Z: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, bias and multipliers; for data that nothing separates, the multipliers show it.

    A sample joins the set when it violates the margin, and leaves when it does not carry the margin.
    """
    margins, taken = Z @ Z.sum(0), np.zeros(0, int)
    rows, gram, kept = Z[:0], np.zeros((0, 0)), np.zeros(0, int)
    norm2, found = 0.0, Few(kept, Z[0], 0.0, np.zeros(0), False)
    for _ in range(10 * len(Z)):
        wanted = np.flatnonzero(margins < 1 - ROUNDING) if len(taken) else np.arange(len(Z))
        wanted = np.setdiff1d(wanted, taken[kept], assume_unique=True)
        if not len(wanted):
            break
        many = max(30, len(kept))
        new = wanted[np.argpartition(margins[wanted], many)[:many]] if len(wanted) > many else wanted
        if labels is not None and not len(taken):  # begin with samples of both labels
            new = np.union1d(new, [int(np.argmax(labels)), int(np.argmin(labels))])
        fresh, old = Z[new], rows[kept]
        cross = fresh @ old.T
        gram = np.block([[gram[np.ix_(kept, kept)], cross.T], [cross, fresh @ fresh.T]])
        rows, taken = np.concatenate([old, fresh]), np.concatenate([taken[kept], new])
        found = _on(rows, gram, None if labels is None else labels[taken], norm2)
        if not found.solved:  # nothing separates even these few
            break
        margins = Z @ found.w if labels is None else Z @ found.w + labels * found.b
        grown = float(found.w @ found.w)
        # If only rounding has moved, no sample leaves: the set then grows until it holds all samples that matter.
        kept = found.kept if grown > norm2 * (1 + 1e-13) else np.arange(len(taken))
        norm2 = max(norm2, grown)
    a = np.zeros(len(Z))
    a[taken] = found.a
    return found.w, found.b, a


def _on(rows: np.ndarray, gram: np.ndarray, labels: np.ndarray | None, norm2: float) -> Few:
    """The margin on these rows: first by a factor of the Gram matrix, then by the rows, slower and more accurate."""
    top = float(gram.diagonal().max()) or 1.0
    c = 1 / math.sqrt(norm2) if norm2 > 0 else math.sqrt(top)  # the best c is the margin itself
    u = np.full(len(rows), 1 / len(rows))
    for heavy in (0.0,) if labels is None else (1e2, 1e4, 1e6):
        tilt = np.zeros(len(rows)) if labels is None else heavy * math.sqrt(top) * labels
        for exact in (False, True):
            try:
                if exact:
                    tall = np.vstack([rows.T, np.full(len(rows), c), tilt])
                    aim = c * np.eye(1, len(tall), len(tall) - 2)[0]
                else:
                    tall = scipy.linalg.cholesky(gram + c**2 + np.outer(tilt, tilt), check_finite=False)
                    aim = scipy.linalg.solve_triangular(tall, np.full(len(rows), c**2), trans=1, check_finite=False)
                u = scipy.optimize.nnls(tall, aim)[0]
            except (scipy.linalg.LinAlgError, RuntimeError):
                continue
            kept = np.flatnonzero(u > 0)
            for w, b, a in _candidates(rows, gram, labels, kept, u):
                reached = rows @ w if labels is None else rows @ w + labels * b
                if a.min() >= 0 and reached.min() >= 1 - ROUNDING:
                    all_of_them = np.zeros(len(rows))
                    all_of_them[kept] = a
                    return Few(kept, w, b, all_of_them, True)
    return Few(np.arange(len(rows)), np.zeros(rows.shape[1]), 0.0, u, False)


def _candidates(
    rows: np.ndarray, gram: np.ndarray, labels: np.ndarray | None, kept: np.ndarray, u: np.ndarray
) -> Iterator[tuple[np.ndarray, float, np.ndarray]]:
    """Three candidates for weights, bias and multipliers of the samples that carry the margin.

    1. All their margins are made 1, by the Gram matrix.
    2. The least-squares solution is scaled.
    3. All their margins are made 1, by a factor of the samples. Rounding loses the square of a very small margin over
       the size of the samples, but not the margin itself.
    """
    n, own = len(kept), gram[np.ix_(kept, kept)]
    if not n:
        return
    sides = np.ones((n, 1)) if labels is None else labels[kept, None]
    table = own if labels is None else np.block([[own, sides], [sides.T, np.zeros((1, 1))]])
    try:
        solved = np.linalg.solve(table, np.concatenate([np.ones(n), np.zeros(len(table) - n)]))
        if np.all(np.isfinite(solved)):
            yield solved[:n] @ rows[kept], float(solved[-1]) if labels is not None else 0.0, solved[:n]
    except np.linalg.LinAlgError:
        pass
    columns = (own @ u[kept])[:, None] if labels is None else np.column_stack([own @ u[kept], sides])
    scale, *rest = np.linalg.lstsq(columns, np.ones(n))[0]
    yield (u[kept] * scale) @ rows[kept], float(rest[0]) if rest else 0.0, u[kept] * scale
    if n > rows.shape[1]:
        return
    basis, factor = np.linalg.qr(rows[kept].T)
    size = np.abs(factor.diagonal())
    if size.min() <= 1e-13 * size.max():
        return
    # Weights are Q R^-T(1 - b y), where b makes the multipliers R^-1 R^-T(1 - b y) orthogonal to the labels.
    up = scipy.linalg.solve_triangular(factor, np.column_stack([np.ones(n), sides]), trans=1, check_finite=False)
    b = 0.0 if labels is None else float(up[:, 0] @ up[:, 1] / (up[:, 1] @ up[:, 1]))
    inner = up[:, 0] - b * up[:, 1]
    yield basis @ inner, b, scipy.linalg.solve_triangular(factor, inner, check_finite=False)
