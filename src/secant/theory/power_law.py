r"""Exponents from scattered measurements: how a quantity grows or falls with a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class PowerLaw(NamedTuple):
    r"""A fitted law, $q \approx c\, s^{\alpha}$.

    Attributes:
        exponent: $\alpha$.
        error: its standard error, from the scatter of the repeats.
        factor: $c$.
        freedom: degrees of freedom of the standard error: repeats minus one, summed over the sizes.
    """

    exponent: float
    error: float
    factor: float
    freedom: float

    def __call__(self, sizes: ArrayLike) -> np.ndarray:
        """The law at some sizes."""
        return self.factor * np.asarray(sizes, float) ** self.exponent


def fit_power_law(sizes: ArrayLike | Sequence[int | float], values: ArrayLike) -> PowerLaw:
    r"""The exponent of a quantity that was measured several times at each of several sizes.

    Weighted least squares of the mean logarithm against $\log s$, with the inverse squared standard errors of the
    means as weights,

    $$\alpha = \frac{\sum_j w_j (x_j - \bar x)\, \overline{\log q}_j}{\sum_j w_j (x_j - \bar x)^2}, \qquad
    \operatorname{se}(\alpha) = \Big(\sum_j w_j (x_j - \bar x)^2\Big)^{-1/2}, \qquad x_j = \log s_j.$$

    A few repeats determine the scatter at one size poorly, so it is averaged with the mean scatter of all sizes. Runs
    on the host, in NumPy.

    Args:
        sizes: $s_j$, at least two different ones.
        values: positive, shape `(sizes, repeats)` with at least two repeats.

    Example:
        ```python
        import numpy as np
        from secant.theory.power_law import fit_power_law

        noise = np.random.default_rng(0).normal(size=(5, 20))
        sizes = np.array([64, 128, 256, 512, 1024])
        law = fit_power_law(sizes, 3 * sizes[:, None] ** -0.5 * np.exp(0.1 * noise))
        abs(law.exponent + 0.5) < 3 * law.error
        ```
    """
    s, q = np.asarray(sizes, float), np.asarray(values, float)
    if q.ndim != 2 or q.shape[0] != len(s) or q.shape[1] < 2:
        raise ValueError(
            f"fit_power_law: `values` must have shape ({len(s)}, repeats) with at least two repeats, got {q.shape}."
        )
    if not (np.all(q > 0) and np.all(s > 0) and np.ptp(s) > 0):
        raise ValueError("fit_power_law: `sizes` and `values` must be positive, and two `sizes` must differ.")
    x, logs = np.log(s), np.log(q)
    scatter = logs.var(axis=1, ddof=1)
    scatter = (scatter + scatter.mean()) / 2
    weights = q.shape[1] / np.maximum(scatter, np.finfo(float).eps ** 2)  # equal repeats agree only to rounding
    weights, scale = weights / weights.sum(), weights.sum()
    centred, means = x - weights @ x, logs.mean(axis=1)
    spread = weights @ centred**2
    exponent = float(weights @ (centred * means) / spread)
    factor = float(np.exp(weights @ (means - exponent * x)))
    return PowerLaw(exponent, float((scale * spread) ** -0.5), factor, float(len(s) * (q.shape[1] - 1)))
