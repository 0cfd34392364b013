r"""Stochastic gradient descent on quadratics, and its differential equations: all moments exactly.

The samples have gradients $g_i(x) = H_ix - h_i$, and each step draws one of them by its chance. A step is then a random
affine map $x \leftarrow A_ix + b_i$. With $z = (1, x)$ the step is linear, $z \leftarrow M_iz$, so moments of order $r$
obey

$$\mathbb E z^{\otimes r} \leftarrow \Bigl(\mathbb E M_i^{\otimes r}\Bigr)\,\mathbb E z^{\otimes r},$$

a linear recursion of $(d + 1)^r$ numbers. For $dX = (KX + k)\,dt + \sum_j(N_jX + n_j)\,dW_j$ the moments obey a linear
differential equation, by Ito's formula. Means, covariances and third cumulants are thus known without sampling, also
those of the stationary law.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from secant.core.arguments import at_least_zero, positive, whole
from secant.core.types import Real


class Moments(NamedTuple):
    r"""Mean, covariance and, on request, third cumulants.

    Attributes:
        mean: $\mathbb Ex$.
        covariance: $\mathbb E(x - \mathbb Ex)(x - \mathbb Ex)^\top$.
        third: $\mathbb E(x - \mathbb Ex)^{\otimes3}$, or None.
        reason: why the moments of a stationary law are infinite; empty if they are finite.
    """

    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    third: Any = None
    reason: str = ""


@dataclass(frozen=True)
class RandomSteps:
    r"""Random affine steps, $x \leftarrow A_ix + b_i$ with chance $p_i$, independent of all earlier steps.

    Attributes:
        matrices: $A_i$.
        shifts: $b_i$.
        chances: $p_i$, which sum to 1.
    """

    matrices: Float[np.ndarray, "m d d"]
    shifts: Float[np.ndarray, "m d"]
    chances: Float[np.ndarray, " m"]

    def lifted(self, order: int = 2) -> np.ndarray:
        r"""The matrix of one step for the moments of order $r$ of $(1, x)$, $\mathbb EM_i^{\otimes r}$."""
        maps = _with_one(self.matrices, self.shifts, 1.0)
        return sum(p * _power(M, order) for p, M in zip(self.chances, maps, strict=True))

    def moments(self, start: ArrayLike, steps: int, order: int = 2) -> Moments:
        """Moments after some steps from a point.

        Args:
            start: where all runs begin.
            steps: number of steps.
            order: 2, or 3 to get third cumulants too.
        """
        steps, order = whole("RandomSteps.moments", "steps", steps, 0), _order("RandomSteps.moments", order)
        point = _one_and(start, self.shifts.shape[1])
        return _central(np.linalg.matrix_power(self.lifted(order), steps) @ _power(point, order), order)

    def stationary(self, order: int = 2) -> Moments:
        r"""Moments of the law that a step keeps; infinite, with a reason, if they grow without end.

        Args:
            order: 2, or 3 to get third cumulants too.
        """
        order = _order("RandomSteps.stationary", order)
        A, b = np.tensordot(self.chances, self.matrices, 1), self.chances @ self.shifts
        d = len(b)
        radius = _radius(self.lifted(order)[1:, 1:])
        if not radius < 1:
            return _infinite(d, order, f"moments of order {order} grow by {radius:.4g} a step: a smaller step size")
        mean = np.linalg.solve(np.eye(d) - A, b)
        centred = RandomSteps(self.matrices, self.matrices @ mean + self.shifts - mean, self.chances).lifted(order)
        rest = np.linalg.solve(np.eye(len(centred) - 1) - centred[1:, 1:], centred[1:, 0])
        found = _central(np.append(1.0, rest), order)
        return Moments(mean, found.covariance, found.third)

    def characteristic(self, frequency: ArrayLike, start: ArrayLike, steps: int) -> complex:
        r"""The characteristic function $\mathbb Ee^{i\omega\cdot x}$ after some steps, if only the shifts are random.

        Args:
            frequency: $\omega$.
            start: where all runs begin.
            steps: number of steps.
        """
        A = self.matrices[0]
        if not np.allclose(self.matrices, A, rtol=0, atol=1e-14):
            raise ValueError("characteristic: `matrices` must all be the same; only then a closed form exists.")
        omega, found = np.atleast_1d(np.asarray(frequency, float)), 1.0 + 0j
        for _ in range(whole("characteristic", "steps", steps, 0)):
            found *= self.chances @ np.exp(1j * self.shifts @ omega)
            omega = A.T @ omega
        return complex(found * np.exp(1j * omega @ np.atleast_1d(np.asarray(start, float))))


@dataclass(frozen=True)
class LinearDiffusion:
    r"""A linear diffusion, $dX = (KX + k)\,dt + \sum_j(N_jX + n_j)\,dW_j$ in the sense of Ito.

    With $N_j = 0$ it is an Ornstein-Uhlenbeck process.

    Attributes:
        matrix: $K$.
        shift: $k$.
        noise_matrices: $N_j$.
        noise_shifts: $n_j$.
    """

    matrix: Float[np.ndarray, "d d"]
    shift: Float[np.ndarray, " d"]
    noise_matrices: Float[np.ndarray, "m d d"]
    noise_shifts: Float[np.ndarray, "m d"]

    def generator(self, order: int = 2) -> np.ndarray:
        r"""The matrix $G$ with $\frac d{dt}\mathbb Ez^{\otimes r} = G\,\mathbb Ez^{\otimes r}$ for $z = (1, X)$.

        By Ito's formula the drift acts on every factor of $z^{\otimes r}$, and the noise on every pair of factors.
        """
        drift = _with_one(self.matrix[None], self.shift[None], 0.0)[0]
        noise = _with_one(self.noise_matrices, self.noise_shifts, 0.0)
        one = np.eye(len(drift))
        found: Any = sum(_at({place: drift}, one, order) for place in range(order))
        for pair in itertools.combinations(range(order), 2):
            found = found + sum(_at(dict.fromkeys(pair, N), one, order) for N in noise)
        return np.asarray(found)

    def lifted(self, time: Real, order: int = 2) -> np.ndarray:
        """The matrix that takes the moments of order $r$ of $(1, X)$ forward by a time."""
        from scipy.linalg import expm

        return expm(at_least_zero("LinearDiffusion.lifted", "time", time) * self.generator(order))

    def moments(self, start: ArrayLike, time: Real, order: int = 2) -> Moments:
        """Moments after some time from a point.

        Args:
            start: where all paths begin.
            time: the length of time.
            order: 2, or 3 to get third cumulants too.
        """
        order = _order("LinearDiffusion.moments", order)
        return _central(self.lifted(time, order) @ _power(_one_and(start, len(self.shift)), order), order)

    def stationary(self, order: int = 2) -> Moments:
        """Moments of the law that does not change; infinite, with a reason, if they grow without end.

        Args:
            order: 2, or 3 to get third cumulants too.
        """
        order, d = _order("LinearDiffusion.stationary", order), len(self.shift)
        growth = float(np.linalg.eigvals(self.generator(order)[1:, 1:]).real.max())
        if not growth < 0:
            return _infinite(d, order, f"moments of order {order} grow at the rate {growth:.4g}: less noise")
        mean = -np.linalg.solve(self.matrix, self.shift)
        centred = LinearDiffusion(
            self.matrix, np.zeros(d), self.noise_matrices, self.noise_matrices @ mean + self.noise_shifts
        ).generator(order)
        found = _central(np.append(1.0, np.linalg.solve(centred[1:, 1:], -centred[1:, 0])), order)
        return Moments(mean, found.covariance, found.third)

    def faster(self, factor: Real) -> LinearDiffusion:
        r"""The same paths in the time $\tau = t/a$: drift times $a$, noise times $\sqrt a$.

        Args:
            factor: $a$, above 0.
        """
        a = positive("LinearDiffusion.faster", "factor", factor)
        root = math.sqrt(a)
        return LinearDiffusion(a * self.matrix, a * self.shift, root * self.noise_matrices, root * self.noise_shifts)


@dataclass(frozen=True)
class NoisyQuadratic:
    r"""Samples with gradients $g_i(x) = H_ix - h_i$, each drawn with its chance.

    Attributes:
        hessians: $H_i$, shape `(n, d, d)`.
        offsets: $h_i$, shape `(n, d)`.
        chances: $p_i$; equal by default.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.linear_noise import NoisyQuadratic

        # Of (x - 3)^2, (x + 3)^2 and x^2 + 9, from 3 up to the time 1.
        three = NoisyQuadratic(2 * np.ones((3, 1, 1)), np.array([[6.0], [-6.0], [0.0]]))
        sgd, sde = three.sgd(0.1).moments([3.0], 10), three.diffusion(0.1).moments([3.0], 1.0)
        print(round(sgd.mean.item(), 7), round(sgd.covariance.item(), 7))
        print(round(sde.mean.item(), 7), round(sde.covariance.item(), 7))
        ```
        ```text
        0.3221225 0.6589805
        0.4060058 0.5890106
        ```
    """

    hessians: np.ndarray
    offsets: np.ndarray
    chances: np.ndarray | None = None

    def __post_init__(self) -> None:
        H, h = np.asarray(self.hessians, float), np.asarray(self.offsets, float)
        if H.ndim != 3 or h.ndim != 2 or H.shape != (*h.shape, h.shape[1]):
            raise ValueError(
                f"NoisyQuadratic: `hessians` and `offsets` must have shapes (n, d, d) and (n, d), got {H.shape} and "
                f"{h.shape}."
            )
        p = np.full(len(h), 1 / len(h)) if self.chances is None else np.asarray(self.chances, float)
        if p.shape != (len(h),) or (p < 0).any() or not math.isclose(p.sum(), 1, rel_tol=1e-12):
            raise ValueError("NoisyQuadratic: `chances` must be one number of at least 0 per sample, with sum 1.")
        for name, value in (("hessians", H), ("offsets", h), ("chances", p)):
            object.__setattr__(self, name, value)

    @property
    def mean_hessian(self) -> np.ndarray:
        r"""The mean Hessian $\bar H$."""
        return np.tensordot(self._p, self.hessians, 1)

    @property
    def mean_offset(self) -> np.ndarray:
        r"""The mean offset $\bar h$."""
        return self._p @ self.offsets

    def gradient(self, x: ArrayLike) -> np.ndarray:
        """The mean gradient at some points `(..., d)`."""
        return np.asarray(x, float) @ self.mean_hessian.T - self.mean_offset

    def covariance(self, x: ArrayLike) -> np.ndarray:
        r"""$\Sigma(x)$, the covariance of the gradient at a point."""
        each = self.hessians @ np.asarray(x, float) - self.offsets
        each = each - self._p @ each
        return (each.T * self._p) @ each

    def sgd(self, lr: Real, scale: Real = 1.0) -> RandomSteps:
        r"""Steps of SGD, $x \leftarrow x - \eta\bigl(\bar g(x) + \sigma(g_i(x) - \bar g(x))\bigr)$.

        Args:
            lr: $\eta$.
            scale: $\sigma$; with $1/\sqrt B$ the noise has the covariance of a mean over $B$ independent samples.
        """
        return self.svag(lr, 1.0, scale)

    def svag(self, lr: Real, amplify: Real, scale: Real = 1.0) -> RandomSteps:
        r"""Steps of SVAG, $x \leftarrow x - \frac\eta\ell(a\,g_i + b\,g_j)$, $a, b = \frac{1 \pm \sqrt{2\ell - 1}}2$.

        Args:
            lr: $\eta$.
            amplify: $\ell$, at least 1; with 1 the steps are those of SGD.
            scale: $\sigma$, as in `sgd`.
        """
        lr, scale = positive("NoisyQuadratic", "lr", lr), at_least_zero("NoisyQuadratic", "scale", scale)
        if not positive("NoisyQuadratic", "amplify", amplify) >= 1:
            raise ValueError(f"NoisyQuadratic: `amplify` must be at least 1, got {amplify!r}.")
        root = math.sqrt(2 * amplify - 1)
        a, b, step = (1 + root) / 2, (1 - root) / 2, lr / amplify
        H, h = self._noise(scale)
        if amplify > 1:
            H, h = (a * np.repeat(part, len(part), 0) + b * np.concatenate([part] * len(part)) for part in (H, h))
            chances = np.outer(self._p, self._p).ravel()
        else:
            chances = self._p
        H, h = H + self.mean_hessian, h + self.mean_offset
        return RandomSteps(np.eye(h.shape[1]) - step * H, step * h, chances)

    def diffusion(self, lr: Real, scale: Real = 1.0) -> LinearDiffusion:
        r"""The diffusion for SGD, $dX = -\bar g(X)\,dt + \sqrt\eta\,\sigma\,\Sigma(X)^{1/2}dW$.

        Time 1 is $1/\eta$ steps. The columns $\sqrt{p_i}(g_i - \bar g)$, one per sample, replace the root
        $\Sigma^{1/2}$; the law is the same.

        Args:
            lr: $\eta$.
            scale: $\sigma$.
        """
        lr, scale = at_least_zero("NoisyQuadratic", "lr", lr), at_least_zero("NoisyQuadratic", "scale", scale)
        H, h = self._noise(scale)
        root = np.sqrt(lr * self._p)
        return LinearDiffusion(-self.mean_hessian, self.mean_offset, -root[:, None, None] * H, root[:, None] * h)

    def _noise(self, scale: Real) -> tuple[np.ndarray, np.ndarray]:
        return scale * (self.hessians - self.mean_hessian), scale * (self.offsets - self.mean_offset)

    @property
    def _p(self) -> np.ndarray:
        assert self.chances is not None
        return self.chances


def _with_one(matrices: np.ndarray, shifts: np.ndarray, corner: float) -> np.ndarray:
    """The matrices that act on (1, x)."""
    m, d = shifts.shape
    found = np.zeros((m, d + 1, d + 1))
    found[:, 0, 0], found[:, 1:, 0], found[:, 1:, 1:] = corner, shifts, matrices
    return found


def _power(matrix: np.ndarray, order: int) -> np.ndarray:
    return functools.reduce(np.kron, [matrix] * order)


def _at(places: dict[int, np.ndarray], one: np.ndarray, order: int) -> np.ndarray:
    return functools.reduce(np.kron, [places.get(place, one) for place in range(order)])


def _one_and(start: ArrayLike, d: int) -> np.ndarray:
    point = np.atleast_1d(np.asarray(start, float))
    if point.shape != (d,) or not np.isfinite(point).all():
        raise ValueError(f"moments: `start` must be {d} finite numbers, got {np.shape(start)}.")
    return np.append(1.0, point)


def _order(caller: str, order: Any) -> int:
    if order not in (2, 3):
        raise ValueError(f"{caller}: `order` must be 2 or 3, got {order!r}.")
    return int(order)


def _central(vector: np.ndarray, order: int) -> Moments:
    """Central moments from the raw moments of (1, x)."""
    raw = vector.reshape((round(len(vector) ** (1 / order)),) * order)
    if order == 2:
        mean, second = raw[0, 1:], raw[1:, 1:]
        return Moments(mean, second - np.outer(mean, mean))
    mean, second, third = raw[0, 0, 1:], raw[0, 1:, 1:], raw[1:, 1:, 1:]
    covariance = second - np.outer(mean, mean)
    mixed = sum(np.einsum(f"i,jk->{places}", mean, covariance) for places in ("ijk", "jik", "jki"))
    return Moments(mean, covariance, third - mixed - np.einsum("i,j,k->ijk", mean, mean, mean))


def _radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def _infinite(d: int, order: int, reason: str) -> Moments:
    third = np.full((d, d, d), np.inf) if order == 3 else None
    return Moments(np.full(d, np.nan), np.full((d, d), np.inf), third, reason)
