r"""Stochastic gradient descent near an interpolating solution: when its second moments stay bounded.

With a squared loss $\frac1{2B}\sum_{i\in b}(f_i - y_i)^2$ over a batch $b$ and the tangent kernel $K$ held fixed, a
step takes the residual to $r' = (I - \frac\eta B KS)\,r$. The diagonal matrix $S$ counts how often each sample is
drawn. The second moments $M = E\,rr^\top$ obey

$$M' = M - \tfrac\eta n(KM + MK) + \tfrac{\eta^2}{B^2}\,K\,E[SMS]\,K, \qquad
  E[SMS] = a\,M + b\operatorname{diag}M,$$

with $a = ES_iS_j$ for two samples and $a + b = ES_i^2$, by the law of the batches. Let $CM = (KM + MK)/n$ and
$DM = KE[SMS]K/B^2$. The map keeps positive matrices positive, so it reaches spectral radius 1 where $\eta D M = C M$
first has a positive solution: the critical step is $1/\lambda_{\max}(C^{-1}D)$. In the eigenbasis of $K$ both $C$ and
$K\otimes K$ are diagonal. With $F_{ij} = n\lambda_i\lambda_j/(\lambda_i + \lambda_j)$ the operator is similar to the
symmetric $F^{1/2}E[S\cdot S]F^{1/2}/B^2$, and Lanczos' method finds its largest eigenvalue with $n \times n$ matrices.

Bounded mean squares are a stronger demand than convergence of almost every run. $r$ goes to zero with probability one
if the Lyapunov exponent $\lim\frac1t\log|r_t|$ is negative. By Jensen's inequality this holds below the critical step.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from secant.core.arguments import positive, whole

Sampling = str
"""`fixed`, `iid` or `bernoulli`: a number of different samples, draws with replacement, or a coin for every sample."""

Matrix = np.ndarray
"""An array of shape `(n, n)`."""


class Pairs(NamedTuple):
    """Moments of how often samples are drawn.

    Attributes:
        single: $E S_i$.
        together: $E S_iS_j$ for two different samples.
        twice: $E S_i^2$.
    """

    single: float
    together: float
    twice: float


def pairs(n: int, batch: int, sampling: Sampling = "fixed") -> Pairs:
    r"""How often samples are drawn into a batch, alone and together.

    | batches | $E S_iS_j$ | $E S_i^2$ |
    |---|---|---|
    | `fixed`: $B$ different samples | $\frac{B(B - 1)}{n(n - 1)}$ | $\frac Bn$ |
    | `iid`: $B$ draws with replacement | $\frac{B(B - 1)}{n^2}$ | $\frac Bn + \frac{B(B - 1)}{n^2}$ |
    | `bernoulli`: every sample with probability $B/n$ | $\frac{B^2}{n^2}$ | $\frac Bn$ |

    Args:
        n: samples.
        batch: $B$, from 1 to $n$.
        sampling: the law.

    Example:
        ```python
        from secant.theory.noise.mean_square import pairs

        print(pairs(4, 2), pairs(4, 4).together)
        ```
        ```text
        Pairs(single=0.5, together=0.16666666666666666, twice=0.5) 1.0
        ```
    """
    whole("mean_square", "n", n, 1)
    whole("mean_square", "batch", batch, 1)
    if batch > n:
        raise ValueError(f"mean_square: a `batch` of {batch} is larger than the data, {n} samples. Use at most {n}.")
    single = batch / n
    if sampling == "fixed":
        return Pairs(single, batch * (batch - 1) / (n * (n - 1)) if n > 1 else 0.0, single)
    if sampling == "iid":
        both = batch * (batch - 1) / n**2
        return Pairs(single, both, single + both)
    if sampling == "bernoulli":
        return Pairs(single, single**2, single)
    raise ValueError(f"mean_square: `sampling` must be 'fixed', 'iid' or 'bernoulli', got {sampling!r}.")


class MeanSquareStep(NamedTuple):
    r"""The mean-square critical step.

    Attributes:
        step: $\eta$ at which second moments stop shrinking; infinite for a zero kernel.
        full: $2n/\lambda_{\max}(K)$, the critical step of full batches; no smaller batch exceeds it.
        error: estimated relative error of `step`.
        products: number of products with the operator.
    """

    step: float
    full: float
    error: float
    products: int

    @property
    def ratio(self) -> float:
        """The critical step over the critical step of full batches, from 0 to 1."""
        return self.step / self.full if math.isfinite(self.full) else 1.0


def critical_step(
    kernel: Matrix,
    batch: int,
    *,
    outputs: int = 1,
    sampling: Sampling = "fixed",
    tol: float = 1e-8,
    max_products: int = 500,
) -> MeanSquareStep:
    r"""The step size of SGD beyond which second moments of the residuals grow, for the loss $\frac1{2B}\sum$.

    Args:
        kernel: tangent kernel, a row for every sample and output, outputs running fastest.
        batch: $B$, samples per batch.
        outputs: number of outputs per sample.
        sampling: the law of the batches.
        tol: relative error of the result.
        max_products: the largest number of matrix products; `error` then tells the accuracy reached.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.mean_square import critical_step

        kernel = np.array([[2.0, 1.0], [1.0, 2.0]])
        print(*(round(critical_step(kernel, batch).step, 6) for batch in (1, 2)))
        ```
        ```text
        1.0 1.333333
        ```
    """
    K, n = _kernel(kernel, outputs)
    law = pairs(n, batch, sampling)
    positive("mean_square", "tol", tol)
    whole("mean_square", "max_products", max_products, 1)
    values, U = np.linalg.eigh(K)
    if values[0] < -1e-6 * max(abs(values[-1]), abs(values[0])):
        raise ValueError(
            f"mean_square: `kernel` must have no negative eigenvalue, but its least is {values[0]:.3g} and its largest "
            f"{values[-1]:.3g}."
        )
    values = np.maximum(values, 0.0)
    if values[-1] == 0:
        return MeanSquareStep(math.inf, math.inf, 0.0, 0)
    unit = values / values[-1]
    total = unit[:, None] + unit[None, :]
    F = unit[:, None] * unit[None, :] / np.where(total > 0, total, 1.0)
    root = np.sqrt(F)
    rest = law.twice - law.together
    blocks = np.ascontiguousarray(U.reshape(n, outputs, -1))

    def product(M: Matrix) -> Matrix:
        """Root of F, then E[S . S] in the basis of samples, then the root again."""
        inside = root * M
        if outputs == 1:
            drawn = U.T @ (np.einsum("ij,ij->i", U @ inside, U)[:, None] * U)
        else:
            own = np.einsum("iaj,ibj->iab", (U @ inside).reshape(blocks.shape), blocks)
            drawn = U.T @ np.einsum("iab,ibj->iaj", own, blocks).reshape(U.shape)
        return root * (law.together * inside + rest * drawn)

    # A positive start overlaps with every positive matrix, such as the leading eigenvector: no random start is needed.
    top, error, used = _largest(product, root * np.eye(len(K)), tol, max_products)
    scale = values[-1] * n / batch**2
    return MeanSquareStep(float(1 / (scale * top)), float(2 * n / values[-1]), error, used)


def mean_losses(
    kernel: Matrix,
    residual: np.ndarray,
    lr: np.ndarray | float | int,
    batch: int,
    steps: int,
    *,
    amplify: float | int = 1,
    sampling: Sampling = "iid",
) -> np.ndarray:
    r"""Mean losses $\frac1{2n}E|r_t|^2$ of SGD on independent batches, exactly, by the recursion of second moments.

    With noise amplified by $\ell$ a step is $\frac\eta\ell(aS_1 + bS_2)$ with $a + b = 1$ and $a^2 + b^2 = \ell$. Then
    $E[SMS]$ becomes $\ell E[SMS] + (1 - \ell)(ES)M(ES)$.

    Args:
        kernel: $K$, `(n, n)`.
        residual: $r_0$, `(n,)`.
        lr: step sizes of the loss $\frac1{2B}\sum$, one or several.
        batch: $B$.
        steps: number of steps.
        amplify: $\ell$, at least 1; $\ell$ steps take the time of one step of SGD.
        sampling: the law of the batches.

    Returns:
        `(..., steps + 1)`, for every step size; infinite where moments overflow.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.mean_square import critical_step, mean_losses

        kernel = np.array([[2.0, 1.0], [1.0, 2.0]])
        edge = critical_step(kernel, 1).step
        below, above = mean_losses(kernel, np.ones(2), edge * np.array([0.9, 1.1]), 1, 200, sampling="fixed")
        print(below[-1] < 1e-6, above[-1] > 1e2)
        ```
        ```text
        True True
        ```
    """
    K, n = _kernel(kernel, 1)
    law = pairs(n, batch, sampling)
    whole("mean_losses", "steps", steps, 0)
    if np.shape(residual) != (n,):
        raise ValueError(
            f"mean_losses: `residual` must have {n} entries, one per row of the kernel, got {np.shape(residual)}."
        )
    if not amplify >= 1:
        raise ValueError(f"mean_losses: `amplify` must be at least 1, got {amplify!r}.")
    rates = np.asarray(lr, float)
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"mean_losses: `lr` must be finite numbers above 0, got {lr!r}.")
    step, diagonal = rates.reshape(-1, 1, 1) / amplify, np.arange(n)
    M = np.broadcast_to(np.outer(residual, residual), (step.size, n, n))
    found = []
    with np.errstate(all="ignore"):
        for _ in range(steps + 1):
            found.append(np.trace(M, axis1=1, axis2=2) / (2 * n))
            drawn = (amplify * law.together + (1 - amplify) * law.single**2) * M
            drawn[:, diagonal, diagonal] += amplify * (law.twice - law.together) * M[:, diagonal, diagonal]
            moved = K @ M
            M = M - step / n * (moved + moved.swapaxes(1, 2)) + (step / batch) ** 2 * (K @ drawn @ K)
    table = np.nan_to_num(np.array(found).T, nan=np.inf)
    return table.reshape(*rates.shape, steps + 1)


def _largest(product: object, start: Matrix, tol: float, limit: int) -> tuple[float, float, int]:
    """Largest eigenvalue of a symmetric operator by Lanczos' recurrence, its relative error, and products used."""
    import scipy.linalg

    alphas: list[float] = []
    betas: list[float] = []
    before, now = np.zeros_like(start), start / np.linalg.norm(start)
    top, error = 0.0, math.inf
    for used in range(1, limit + 1):
        image = product(now)  # type: ignore[operator]
        if betas:
            image -= betas[-1] * before
        alphas.append(float(np.vdot(now, image)))
        image -= alphas[-1] * now
        betas.append(float(np.linalg.norm(image)))
        ritz, vectors = scipy.linalg.eigh_tridiagonal(alphas, betas[:-1])
        top = float(ritz[-1])
        residual = betas[-1] * abs(float(vectors[-1, -1]))
        gap = top - float(ritz[-2]) if used > 1 else 0.0
        # The error is the squared residual over the gap if the residual is small; copies of the top have no gap.
        error = (residual**2 / gap if residual < gap / 4 else residual) / top
        if error <= tol or betas[-1] <= 1e-14 * top:
            return top, min(error, residual / top), used
        before, now = now, image / betas[-1]
    return top, error, limit


def _kernel(kernel: Matrix, outputs: int) -> tuple[Matrix, int]:
    K = np.asarray(kernel, float)
    whole("mean_square", "outputs", outputs, 1)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise ValueError(f"mean_square: `kernel` must be a square matrix, got shape {K.shape}.")
    if not np.isfinite(K).all() or not np.allclose(K, K.T, rtol=1e-4, atol=1e-5 * np.abs(K).max()):
        raise ValueError("mean_square: `kernel` must be finite and symmetric.")
    if len(K) % outputs:
        raise ValueError(f"mean_square: `kernel` has {len(K)} rows, not a multiple of `outputs`, which is {outputs}.")
    return (K + K.T) / 2, len(K) // outputs


def batches_of(n: int, batch: int, sampling: Sampling = "fixed") -> tuple[Float[np.ndarray, "m n"], np.ndarray]:
    """All batches as rows of counts, and their probabilities; only for few samples.

    Args:
        n: samples.
        batch: samples per batch.
        sampling: the law of the batches.

    Example:
        ```python
        from secant.theory.noise.mean_square import batches_of

        counts, chances = batches_of(3, 2)
        print(counts.tolist(), chances)
        ```
        ```text
        [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]] [0.33333333 0.33333333 0.33333333]
        ```
    """
    pairs(n, batch, sampling)
    number = {"fixed": math.comb(n, batch), "iid": n**batch, "bernoulli": 2**n}[sampling]
    if number > 2**16:
        raise ValueError(f"mean_square: there are {number:,} batches, too many to list. Use fewer samples, `n`.")
    if sampling == "bernoulli":
        counts = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
        p = batch / n
        return counts, np.prod(np.where(counts > 0, p, 1 - p), axis=1)
    counts = np.zeros((number, n))
    all_of = itertools.product(range(n), repeat=batch) if sampling == "iid" else itertools.combinations(range(n), batch)
    for row, drawn in zip(counts, all_of, strict=True):
        np.add.at(row, list(drawn), 1)
    return counts, np.full(number, 1 / number)


def dense_map(
    kernel: Matrix, lr: float, batch: int, *, outputs: int = 1, sampling: Sampling = "fixed"
) -> Float[np.ndarray, "n2 n2"]:
    r"""The map $M \mapsto M'$ over all batches, written out as a matrix of $n^2 \times n^2$; only for few samples.

    Args:
        kernel: tangent kernel.
        lr: $\eta$.
        batch: samples per batch.
        outputs: number of outputs per sample.
        sampling: law of the batches.
    """
    K, n = _kernel(kernel, outputs)
    counts, chances = batches_of(n, batch, sampling)
    result = np.zeros((len(K) ** 2,) * 2)
    for row, chance in zip(counts, chances, strict=True):
        step = np.eye(len(K)) - lr / batch * K * np.repeat(row, outputs)
        result += chance * np.kron(step, step)
    return result


class Growth(NamedTuple):
    r"""A Lyapunov exponent.

    Attributes:
        value: $\frac1t\log|r_t|$, mean over runs.
        error: its standard error.
    """

    value: float
    error: float


def lyapunov_exponent(
    kernel: Matrix, lr: float, batch: int, *, steps: int = 1_000, runs: int = 16, seed: int = 0
) -> Growth:
    r"""The growth rate per step of a typical residual under SGD, by simulation with `fixed` batches.

    The simulation follows only the part of a residual that the kernel can change, the range of $K$. Before counting it
    takes a tenth as many steps, so that the direction has settled.

    Args:
        kernel: tangent kernel, one output per sample.
        lr: $\eta$ for the loss $\frac1{2B}\sum$.
        batch: samples per batch.
        steps: number of counted steps.
        runs: number of independent runs, which give the standard error.
        seed: of the draws.

    Example:
        ```python
        import numpy as np
        from secant.theory.noise.mean_square import lyapunov_exponent

        growth = lyapunov_exponent(np.eye(4), 0.5, 4)
        print(round(growth.value, 6), round(float(np.log(1 - 0.5 / 4)), 6))
        ```
        ```text
        -0.133531 -0.133531
        ```
    """
    K, n = _kernel(kernel, 1)
    pairs(n, batch)
    positive("mean_square", "lr", lr)
    whole("mean_square", "steps", steps, 1)
    whole("mean_square", "runs", runs, 2)
    random = np.random.default_rng(seed)
    r = random.normal(size=(runs, n)) @ K
    total = np.zeros(runs)
    before = steps // 10
    at = np.arange(runs)[:, None]
    for step in range(before + steps):
        rows = random.random((runs, n)).argpartition(batch - 1, axis=1)[:, :batch]
        r = r - lr / batch * np.einsum("rb,rbn->rn", r[at, rows], K[rows])
        length = np.linalg.norm(r, axis=1, keepdims=True)
        r = r / np.maximum(length, np.finfo(float).tiny)
        if step >= before:
            total += np.log(np.maximum(length[:, 0], np.finfo(float).tiny))
    rates = total / steps
    return Growth(float(rates.mean()), float(rates.std(ddof=1) / math.sqrt(runs)))
