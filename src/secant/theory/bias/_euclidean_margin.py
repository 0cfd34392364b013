r"""The largest Euclidean margin by an active set, on few samples at a time.

On some samples it is non-negative least squares: of all $u \ge 0$ the one whose $(Z^\top u, c\sum_iu_i)$ is nearest to
$(0, c)$ has $a = u/(c^2(1 - \sum_iu_i))$, and where it comes all the way, $Z^\top u = 0$, nothing separates them. A
heavy row keeps $\sum_iu_iy_i$ near zero if there is a bias. Which samples carry the margin is then known, and one
linear system gives their multipliers to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

ROUNDING = 1e-10
"""By how much a margin of 1 may be missed by rounding."""


class Few(NamedTuple):
    """The largest margin on a few samples: who carries it, weights, bias, multipliers, and whether that is so."""

    kept: np.ndarray
    w: np.ndarray
    b: float
    a: np.ndarray
    solved: bool


def euclidean(Z: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights, bias and multipliers; where nothing separates the data, multipliers of which it can be read.

    Samples join where they violate the margin and leave where they do not carry it.
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
        if labels is not None and not len(taken):  # of both kinds
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
        # Where nothing but rounding has moved, nobody leaves: the samples taken grow until they are all that matter.
        kept = found.kept if grown > norm2 * (1 + 1e-13) else np.arange(len(taken))
        norm2 = max(norm2, grown)
    a = np.zeros(len(Z))
    a[taken] = found.a
    return found.w, found.b, a


def _on(rows: np.ndarray, gram: np.ndarray, labels: np.ndarray | None, norm2: float) -> Few:
    """Tried on a factor of the Gram matrix, then on the samples themselves, which is slower and more accurate."""
    top = float(gram.diagonal().max()) or 1.0
    c = 1 / math.sqrt(norm2) if norm2 > 0 else math.sqrt(top)  # best is the margin itself
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
    """Weights, bias and multipliers of those that carry the margin: what makes all their margins 1, by the Gram matrix;
    what least squares found, scaled; and the first again by a factor of the samples, for margins so small that the
    square of their share of the samples is lost in rounding."""
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
    # Weights are Q R^-T(1 - b y), with the b for which the multipliers R^-1 R^-T(1 - b y) and labels are orthogonal.
    up = scipy.linalg.solve_triangular(factor, np.column_stack([np.ones(n), sides]), trans=1, check_finite=False)
    b = 0.0 if labels is None else float(up[:, 0] @ up[:, 1] / (up[:, 1] @ up[:, 1]))
    inner = up[:, 0] - b * up[:, 1]
    yield basis @ inner, b, scipy.linalg.solve_triangular(factor, inner, check_finite=False)
