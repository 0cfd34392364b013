r"""The plane of variances: with which of them signals of a deep network become alike, drift apart, or blow up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from secant.kernels.criticality import susceptibilities, variance_map
from secant.look import COLOURS, panels
from secant.nets.activations import Function, named

SMALLEST, LARGEST = 1e-12, 1e8
"""Variances between which signals are followed: below they have faded, beyond they have blown up."""


@dataclass(frozen=True, eq=False)
class PhaseDiagram:
    r"""Where the signals of an activation end in a deep network, for variances of weights and biases.

    Attributes:
        activation: its name.
        weights: $C_w$, shape `(w,)`.
        biases: $C_b$, shape `(b,)`.
        variance: $K^*$, at which variances of signals end from the start given, shape `(b, w)`; infinity where they
            grow for ever.
        parallel: $\chi_\parallel$ there, by which a layer multiplies a small difference in size; NaN where $K^*$ is
            infinite.
        perpendicular: $\chi_\perp$ there, of a small difference in direction.
    """

    activation: str
    weights: Float[np.ndarray, " w"]
    biases: Float[np.ndarray, " b"]
    variance: Float[np.ndarray, "b w"]
    parallel: Float[np.ndarray, "b w"]
    perpendicular: Float[np.ndarray, "b w"]

    @property
    def phase(self) -> np.ndarray:
        r"""`ordered` where different inputs become alike ($\chi_\perp < 1$), `chaotic` where nearly equal ones drift
        apart ($\chi_\perp > 1$), `critical` between, `growing` where signals blow up; shape `(b, w)`."""
        names = np.where(self.perpendicular < 1, "ordered", "chaotic")
        names = np.where(np.abs(self.perpendicular - 1) < 1e-9, "critical", names)
        return np.where(np.isinf(self.variance), "growing", names)

    @property
    def depth(self) -> np.ndarray:
        r"""$\xi = 1/|\log\chi_\perp|$: layers over which a small difference between inputs changes by a factor $e$."""
        with np.errstate(divide="ignore"):
            return 1 / np.abs(np.log(self.perpendicular))

    def plot(self, ax: Any = None, *, look: str = "light") -> Any:
        r"""Draws the depth that signals reach, and the line $\chi_\perp = 1$ between order and chaos.

        Args:
            ax: the axes of matplotlib to draw in; by default those of a new figure.
            look: `light` or `dark`.

        Returns:
            The axes.
        """
        with panels(ax, look) as (axes,):
            reached = np.where(np.isinf(self.variance), np.nan, np.minimum(self.depth, 100.0))
            mesh = axes.pcolormesh(self.weights, self.biases, np.log10(reached), shading="nearest", rasterized=True)
            bar = axes.figure.colorbar(mesh, ax=axes, label="layers that a small difference lasts")
            ticks = [t for t in (0.3, 1, 3, 10, 30, 100) if np.nanmin(reached) <= t <= np.nanmax(reached)]
            bar.set_ticks(np.log10(ticks), labels=[f"{t:g}" for t in ticks])
            inside = np.where(np.isinf(self.variance), np.nan, self.perpendicular)
            if np.nanmin(inside) < 1 < np.nanmax(inside):
                axes.contour(self.weights, self.biases, inside, [1.0], colors=[COLOURS[look][1]], linewidths=2)
            for name in ("ordered", "chaotic", "growing"):
                rows, columns = np.nonzero(self.phase == name)
                if len(rows) > 0.02 * self.variance.size:
                    place = self.weights[int(np.median(columns))], self.biases[int(np.median(rows))]
                    box = {"boxstyle": "round", "facecolor": axes.get_facecolor(), "edgecolor": "none", "alpha": 0.8}
                    axes.text(*place, name, ha="center", va="center", bbox=box)
            axes.set(xlabel=r"variance of weights $C_w$", ylabel=r"variance of biases $C_b$")
            axes.set_title(f"Signals of {self.activation}")
            return axes


def phase_diagram(
    activation: str | Function, weights: ArrayLike, biases: ArrayLike, *, start: float = 1.0
) -> PhaseDiagram:
    r"""Where variances of signals end in a deep network, and what becomes of small differences there.

    From layer to layer $K \mapsto C_b + C_w\,\mathbb E\,\sigma(z)^2$, $z \sim N(0, K)$. The fixed point is the first
    one in the direction in which the variance moves from `start`.

    Args:
        activation: name, [`Nonlinearity`][secant.nets.Nonlinearity] or any function of an array.
        weights: variances $C_w$ above 0.
        biases: variances $C_b$ of at least 0.
        start: variance of the signals of the first layer.

    Example:
        ```python
        import numpy as np
        from secant.kernels import phase_diagram

        found = phase_diagram("tanh", np.linspace(0.5, 3, 6), np.array([0.0, 0.5]))
        for biases, row in zip(found.biases, found.phase):
            print(biases, *row)
        ```
        ```text
        0.0 ordered critical chaotic chaotic chaotic chaotic
        0.5 ordered ordered ordered chaotic chaotic chaotic
        ```
    """
    name, function = named(activation)
    parts = []
    for what, given, least in (("weights", weights, SMALLEST), ("biases", biases, 0.0)):
        values = np.asarray(given, float)
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < least).any():
            kind = "above 0" if what == "weights" else "of at least 0"
            raise ValueError(f"phase_diagram: `{what}` must be a list of numbers {kind}, got {given!r}.")
        parts.append(values)
    if not SMALLEST < start < LARGEST:
        raise ValueError(f"phase_diagram: `start` must be a variance between {SMALLEST} and {LARGEST}, got {start}.")
    b, w = np.meshgrid(parts[1], parts[0], indexing="ij")
    variance = _end(variance_map(function), w.ravel(), b.ravel(), start).reshape(w.shape)
    chi = susceptibilities(function, np.where(np.isinf(variance), 1.0, np.maximum(variance, SMALLEST)), w)
    parallel, perpendicular = (np.where(np.isinf(variance), np.nan, np.asarray(part)) for part in chi)
    return PhaseDiagram(name, *parts, variance, parallel, perpendicular)


def _end(square: Any, w: np.ndarray, b: np.ndarray, start: float) -> np.ndarray:
    """The first fixed point in the direction in which variances move, one for each pair of variances."""

    def moves(K: np.ndarray) -> np.ndarray:
        return b + w * square(K) - K

    first = moves(np.full(len(w), start))
    still = np.abs(first) <= 1e-13 * start
    up = first > 0
    # Along a ladder of variances away from the start until the motion turns, or the ladder ends.
    rungs = np.geomspace(1.0, np.where(up, LARGEST / start, SMALLEST / start), 241)
    near, far, open_ = np.full(len(w), start), np.full(len(w), start), ~still
    for rung in rungs[1:] * start:
        turned = open_ & ((moves(rung) > 0) != up)
        far = np.where(open_, rung, far)
        open_ &= ~turned
        near = np.where(open_, rung, near)
        if not open_.any():
            break
    for _ in range(60):
        middle = (near + far) / 2
        same = (moves(middle) > 0) == up
        near, far = np.where(same, middle, near), np.where(same, far, middle)
    end = np.where(still, start, near)
    return np.where(open_, np.where(up, np.inf, 0.0), end)
