r"""The exact worst case of a first-order method, with the worst function and a proof.

Over all functions with curvature between $\mu$ and $L$, what is the largest $f(x_N) - f_*$ after $N$ fixed steps? Only
the $N + 1$ points of the run and the minimum matter. Numbers $f_i$, gradients $g_i$ and points $x_i$ belong to a
function of the class exactly if all pairs satisfy

$$f_i \ge f_j + g_j\cdot(x_i - x_j) + \frac1{2(1 - \mu/L)}\Big(\frac{|g_i - g_j|^2}L + \mu|x_i - x_j|^2
- \frac{2\mu}L(g_j - g_i)\cdot(x_j - x_i)\Big),$$

and for $\mu \le 0$ the infimum of the function is the least of $f_i - |g_i|^2/2L$. All of this is linear in the numbers
and in the scalar products of $x_0$ and the gradients, which form a positive matrix. The worst case is therefore a
semidefinite program. Its solution is a worst function. The multipliers of its dual, one for each pair, are a proof: the
pairs' inequalities, added with these weights, give the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive
from secant.theory.descent import step_matrices
from secant.theory.descent.worst_functions import WorstFunction, solver

MEASURES = ("value", "distance", "gradient", "least_gradient", "seen_gradient", "mean_gradient")
"""What can be bounded."""

STARTS = ("distance", "value", "drop", "gradient")
"""What can be known of the start."""


class Replay(NamedTuple):
    """The method run on a function.

    Attributes:
        points: $x_0, \\dots, x_N$.
        values: of the function at the points.
        gradients: of the function at the points.
        measure: the bounded quantity, as this run has it.
    """

    points: Float[np.ndarray, "points d"]
    values: Float[np.ndarray, "points"]
    gradients: Float[np.ndarray, "points d"]
    measure: float


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""A worst case, the function and run that have it, and the multipliers that prove it.

    Attributes:
        value: the worst case, infinite if there is no guarantee.
        steps: the method's matrix.
        multipliers: $\lambda_{ij}$ of the inequality between $f_i$ and $f_j$; the minimum is the last. The multiplier
            of the start is `value` over its `size` (or its square).
        slack: subtract the weighted inequalities from the bound; `slack` is the smallest eigenvalue of the remaining
            form, in units of $L$ and of the start. In a proof it is not below zero, up to rounding.
        points: $x_0, \dots, x_N$ of the worst run.
        values: $f_i$, with $f_* = 0$, or with $f_N = 0$ for `start="drop"`.
        gradients: $g_i$.
        smooth: $L$.
        convex: $\mu$.
        measure: what is bounded.
        start: what is known of the start.
        size: $R$, $M$ or $G$ of the start.
    """

    value: float
    steps: Float[np.ndarray, "steps steps"]
    multipliers: Float[np.ndarray, "n n"]
    slack: float
    points: Float[np.ndarray, "points d"]
    values: Float[np.ndarray, "points"]
    gradients: Float[np.ndarray, "points d"]
    smooth: float
    convex: float
    measure: str
    start: str
    size: float
    _minimum: bool = True

    @property
    def function(self) -> WorstFunction:
        """The worst function itself, with its value and gradient anywhere."""
        if not math.isfinite(self.value):
            raise ValueError(
                f"function: the worst case is infinite, so no function is the worst: start {self.start!r} does not "
                f"bound {self.measure!r}. Use smaller steps, or another `start`."
            )
        points, values, gradients = self.points, self.values, self.gradients
        if self._minimum:
            zero = np.zeros((1, points.shape[1]))
            points, gradients, values = np.vstack([points, zero]), np.vstack([gradients, zero]), np.append(values, 0.0)
        return WorstFunction(points, values, gradients, self.smooth, self.convex)

    def replay(self) -> Replay:
        """Runs the method on the worst function from the worst start, where its measure is `value`."""
        function = self.function
        points, found = [self.points[0]], [function(self.points[0])]
        for row, steps in enumerate(self.steps):
            gradients = np.stack([gradient for _, gradient in found])
            points.append(points[-1] - steps[: row + 1] @ gradients)
            found.append(function(points[-1]))
        values, gradients = np.array([value for value, _ in found]), np.stack([gradient for _, gradient in found])
        squares = (gradients**2).sum(1)
        measured = {
            "value": values[-1],
            "distance": points[-1] @ points[-1],
            "gradient": squares[-1],
            "least_gradient": squares.min(),
            "seen_gradient": squares[:-1].min(),
            "mean_gradient": squares[:-1].mean(),
        }
        return Replay(np.stack(points), values, gradients, float(measured[self.measure]))


def worst_case(
    method: Any,
    steps: int | None = None,
    *,
    smooth: float = 1.0,
    convex: bool | float = True,
    measure: str = "value",
    start: str = "distance",
    size: float = 1.0,
) -> Certificate:
    r"""The exact worst case of a method of fixed steps over all functions of a class.

    Needs the solver Clarabel, `pip install "secant[convex]"`.

    Args:
        method: a matrix of steps, a [`LinearRule`][secant.theory.edge.stability.LinearRule], one of
            [`secant.optimisers`][secant.optim.optimisers] or a transformation of optax: see
            [`step_matrices.of`][secant.theory.descent.step_matrices.of]. Steps that depend on gradients raise an error.
        steps: $N$; by default all steps of a matrix.
        smooth: $L$, the largest curvature.
        convex: true for all convex functions; false for all smooth ones, with curvatures down to $-L$; or a number, the
            smallest curvature $\mu < L$.
        measure: what to bound: `"value"`, $f(x_N) - f_*$; `"distance"`, $|x_N - x_*|^2$; `"gradient"`,
            $|\nabla f(x_N)|^2$; `"least_gradient"`, the least of these over $x_0, \dots, x_N$. The method itself sees
            only the gradients at $x_0, \dots, x_{N-1}$: `"seen_gradient"` is the least over these points,
            `"mean_gradient"` the mean.
        start: what is known of the start: `"distance"`, $|x_0 - x_*| \le R$; `"value"`, $f(x_0) - f_* \le M$; `"drop"`,
            $f(x_0) - f(x_N) \le M$; `"gradient"`, $|\nabla f(x_0)| \le G$.
        size: $R$, $M$ or $G$.

    Example:
        ```python
        import secant as sc
        from secant.theory.descent.certificates import worst_case

        found = worst_case(sc.optimisers.gd(lr=1.0), steps=10)
        print(f"1/{1 / found.value:.4f}, replayed 1/{1 / found.replay().measure:.4f}")
        ```
        ```text
        1/42.0000, replayed 1/42.0000
        ```
    """
    H = step_matrices.of(method, steps)
    smooth, size = positive("worst_case", "smooth", smooth), positive("worst_case", "size", size)
    for name, given, known in (("measure", measure, MEASURES), ("start", start, STARTS)):
        if given not in known:
            raise ValueError(f"worst_case: `{name}` must be one of {', '.join(known)}, got {given!r}.")
    mu = _least_curvature(convex, smooth)
    problem = _Problem(H * smooth, mu / smooth, measure, start)
    # In units where L is 1 and the start's size (or its square) is the number of steps, all gradients are about 1.
    unit = {"distance": size, "gradient": size / smooth}.get(start, math.sqrt(size / smooth)) / math.sqrt(len(H))
    scale = {"value": smooth * unit**2, "distance": unit**2}.get(measure, (smooth * unit) ** 2)
    found = problem.solve()
    return Certificate(
        value=found.value * scale,
        steps=H,
        multipliers=found.multipliers * scale / (smooth * unit**2),
        slack=found.slack,
        points=found.points * unit,
        values=found.values * smooth * unit**2,
        gradients=found.gradients * smooth * unit,
        smooth=smooth,
        convex=mu,
        measure=measure,
        start=start,
        size=size,
        _minimum=problem.star,
    )


def _least_curvature(convex: bool | float, smooth: float) -> float:
    if isinstance(convex, (bool, np.bool_)):
        return 0.0 if convex else -smooth
    try:
        mu = float(convex)
    except (TypeError, ValueError):
        raise TypeError(f"worst_case: `convex` must be true, false or a curvature, got {convex!r}.") from None
    if not math.isfinite(mu) or mu >= smooth:
        raise ValueError(f"worst_case: `convex` must be below `smooth`, which is {smooth:g}, got {convex!r}.")
    return mu


class _Solved(NamedTuple):
    value: float
    multipliers: np.ndarray
    slack: float
    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray


class _Problem:
    """The semidefinite program in units of $L = 1$ and a start of size $N$.

    The unknowns are the numbers $f_i$, the least gradient if it is bounded, and a Gram matrix. The Gram matrix is that
    of the gradients, with $x_0$ if the place of the minimum matters. Every constraint is
    `linear @ f + <form, G> <= 0`.
    """

    def __init__(self, H: np.ndarray, mu: float, measure: str, start: str) -> None:
        self.count = len(H) + 1
        self.star = mu > 0 or "distance" in (measure, start)
        self.lowest = self.star or "value" in (measure, start)  # whether f_* matters
        n, at = self.count, int(self.star)
        self.size = n + at
        self.g = np.eye(n, self.size, at)
        self.x = np.zeros((n, self.size))
        self.x[1:, at:-1] = -np.cumsum(H, 0)
        if self.star:
            self.x[:, 0] = 1.0
        self.linear: list[np.ndarray] = []
        self.forms: list[np.ndarray] = []
        self.least = measure in ("least_gradient", "seen_gradient")
        self._pairs(mu)
        if self.lowest and mu <= 0:
            self._above_the_infimum()
        self._measured(measure)
        self._started(start)

    def _add(self, linear: np.ndarray, forms: np.ndarray) -> None:
        """Adds constraints, one per row: coefficients of the numbers $f_0, \\dots, f_N, f_*, t$, and forms."""
        self.linear.append(linear)
        self.forms.append((forms + forms.transpose(0, 2, 1)) / 2)

    def _pairs(self, mu: float) -> None:
        n = self.count + self.star
        x, g = (np.vstack([a, np.zeros((int(self.star), self.size))]) for a in (self.x, self.g))
        self.pairs = np.nonzero(~np.eye(n, dtype=bool))
        i, j = self.pairs
        d, e = x[i] - x[j], g[i] - g[j]
        outer = lambda a, b: a[:, :, None] * b[:, None, :]  # noqa: E731
        bent = (outer(e, e) + mu * outer(d, d) - 2 * mu * outer(e, d)) / (2 * (1 - mu))
        unit = np.eye(self.count + 2)
        self._add(unit[j] - unit[i], outer(g[j], d) + bent)

    def _above_the_infimum(self) -> None:
        unit = np.eye(self.count + 2)
        self._add(unit[-2] - unit[: self.count], self.g[:, :, None] * self.g[:, None, :] / 2)

    def _measured(self, measure: str) -> None:
        """The objective. For the least gradient it is a number that lies below all squared gradients."""
        unit = np.eye(self.count + 2)
        squares = self.g[:, :, None] * self.g[:, None, :]
        self.objective, self.form = np.zeros(self.count + 2), np.zeros((self.size, self.size))
        if measure == "value":
            self.objective = unit[self.count - 1] - unit[-2]
        elif measure == "distance":
            self.form = np.outer(self.x[-1], self.x[-1])
        elif measure == "gradient":
            self.form = squares[-1]
        elif measure == "mean_gradient":
            self.form = squares[:-1].mean(0)
        else:
            seen = squares if measure == "least_gradient" else squares[:-1]
            self.objective = unit[-1]
            self._add(np.repeat(unit[-1:], len(seen), 0), -seen)

    def _started(self, start: str) -> None:
        unit = np.eye(self.count + 2)
        linear, form = np.zeros(self.count + 2), np.zeros((self.size, self.size))
        if start == "distance":
            form = np.outer(self.x[0], self.x[0])
        elif start == "gradient":
            form = np.outer(self.g[0], self.g[0])
        else:
            linear = unit[0] - unit[-2 if start == "value" else self.count - 1]
        steps = self.count - 1
        self._add(linear[None] / steps, form[None] / steps)  # at most 1; the last constraint

    def solve(self) -> _Solved:
        """Solves the dual by Clarabel: the least multiplier of the start with which the others prove the bound."""
        clarabel, sparse = solver()
        n = self.size
        column, row = np.tril_indices(n)  # the upper triangle, one column after the other
        weight = np.where(row == column, 1.0, math.sqrt(2))
        linear, forms = np.concatenate(self.linear), np.concatenate(self.forms)
        # The numbers are known up to a constant: f_* is set to 0 if it occurs, else the last number f_N.
        kept = [*range(self.count - (not self.lowest)), *([self.count + 1] if self.least else [])]
        A, c = linear[:, kept].T, self.objective[kept]
        B, C = (forms[:, row, column] * weight).T, self.form[row, column] * weight
        unknowns = A.shape[1]
        rows = sparse.vstack([sparse.csc_matrix(A), -sparse.identity(unknowns, format="csc"), -sparse.csc_matrix(B)])
        right = np.concatenate([c, np.zeros(unknowns), -C])
        cost = np.zeros(unknowns)
        cost[-1] = 1.0
        cones = [clarabel.ZeroConeT(len(c)), clarabel.NonnegativeConeT(unknowns), clarabel.PSDTriangleConeT(n)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        nothing = sparse.csc_matrix((unknowns, unknowns))
        found = clarabel.DefaultSolver(nothing, cost, rows.tocsc(), right, cones, settings).solve()
        status = str(found.status)
        if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
            return self._unbounded()
        if status not in ("Solved", "AlmostSolved"):
            raise RuntimeError(f"worst_case: the solver stopped with {status}. Try fewer or smaller steps.")
        multipliers, dual = np.asarray(found.x), np.asarray(found.z)
        numbers = np.zeros(self.count + 2)
        numbers[kept] = -dual[: len(c)]
        gram, left = np.zeros((n, n)), np.zeros((n, n))
        gram[row, column] = gram[column, row] = dual[-len(row) :] / weight
        left[row, column] = left[column, row] = (B @ multipliers - C) / weight
        values, vectors = np.linalg.eigh(gram)
        sized = vectors * np.sqrt(np.maximum(values, 0.0))
        sized = sized[:, values > 1e-12 * max(values[-1], 1e-300)]
        between = np.zeros((self.count + 1, self.count + 1))
        between[self.pairs] = multipliers[: len(self.pairs[0])]
        if self.lowest and len(self.linear) > 1 and not self.star:
            between[: self.count, -1] = multipliers[len(self.pairs[0]) :][: self.count]
        return _Solved(
            value=float(multipliers[-1]),
            multipliers=between,
            slack=float(np.linalg.eigvalsh(left)[0]),
            points=self.x @ sized,
            values=numbers[: self.count],
            gradients=self.g @ sized,
        )

    def _unbounded(self) -> _Solved:
        nothing = np.zeros((self.count, 0))
        return _Solved(
            value=math.inf,
            multipliers=np.full((self.count + 1,) * 2, math.nan),
            slack=math.nan,
            points=nothing,
            values=np.full(self.count, math.nan),
            gradients=nothing,
        )
