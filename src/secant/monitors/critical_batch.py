r"""The critical batch $\mathrm{tr}\,\Sigma/|g|^2$, from looks that are mostly noise one by one.

A look gives unbiased estimates of $\mathrm{tr}\,\Sigma$ and of $|g|^2$, but their ratio is not an unbiased estimate of
the ratio. Both are therefore averaged over looks before they are divided. Gradients shrink by orders of magnitude along
a run, so a plain average would be that of the first looks. Each look therefore counts in units of recent squared
gradients, an average over a few looks. An earlier look then weighs less because it is older, and its larger gradients
give it no more weight.
"""

from __future__ import annotations

import math

KEPT = 0.9
"""The share of the averages that is kept from one look to the next."""

LATE = 0.5
"""The share of the unit that is kept from one look to the next."""


class Noise:
    """Averages of the noise along a run.

    Example:
        ```python
        from secant.monitors.critical_batch import Noise

        noise = Noise()
        for look in range(60):
            size = 0.5**look  # squared gradients and their noise fall together
            found = noise.add(trace=30 * size, square=size, samples=8)
        print(round(found, 6))
        ```
        ```text
        30.0
        ```
    """

    def __init__(self) -> None:
        self._means: tuple[float, float] | None = None
        self._unit = 0.0

    def add(self, trace: float, square: float, samples: float) -> float:
        r"""Adds a look; returns the critical batch, infinite if no gradient is seen behind the noise.

        Args:
            trace: estimate of $\mathrm{tr}\,\Sigma$ of one sample.
            square: estimate of $|g|^2$.
            samples: the batch size $B$; the squared gradient of a half is $|g|^2 + 2\,\mathrm{tr}\,\Sigma/B$.
        """
        size = square + 2 * trace / samples
        if not (math.isfinite(trace) and math.isfinite(square)) or size < 0:
            return math.nan
        if self._means is None:
            self._unit = size
        kept = 0.0 if self._means is None else KEPT
        self._unit = LATE * self._unit + (1 - LATE) * size
        if self._unit > 0:
            old = self._means or (0.0, 0.0)
            now = trace / self._unit, square / self._unit
            self._means = kept * old[0] + (1 - kept) * now[0], kept * old[1] + (1 - kept) * now[1]
        if self._means is None:
            return math.nan
        above, below = max(self._means[0], 0.0), self._means[1]
        return above / below if below > 0 else math.inf
