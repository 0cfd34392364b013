r"""Phase diagrams: with which variances signals of a deep network become alike, drift apart, or blow up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from secant.kernels.criticality import means_of
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
        variance: $K^*$, where the variances of signals end from the given start, shape `(b, w)`; infinity where they
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
                    ground, ink = ("white", "black") if look == "light" else ("black", "white")
                    box = {"boxstyle": "round", "facecolor": ground, "edgecolor": "none", "alpha": 0.75}
                    axes.text(*place, name, color=ink, ha="center", va="center", bbox=box)
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
        0.5 ordered ordered ordered ordered ordered chaotic
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
    means = means_of(function)
    ends = _end(means, w.ravel(), b.ravel(), start)
    # Flat, as they are compiled for already.
    _, bends, slopes = map(np.asarray, means(np.where(np.isinf(ends), 1.0, np.maximum(ends, SMALLEST))))
    variance = ends.reshape(w.shape)
    chi = (w * part.reshape(w.shape) for part in (slopes + bends, slopes))
    parallel, perpendicular = (np.where(np.isinf(variance), np.nan, part) for part in chi)
    return PhaseDiagram(name, parts[0], parts[1], variance, parallel, perpendicular)


def _end(means: Any, w: np.ndarray, b: np.ndarray, start: float) -> np.ndarray:
    """The first fixed point in the direction in which variances move, one for each pair of variances."""
    # Means depend on the variance alone: one ladder of variances does for all pairs.
    down, up = (np.geomspace(start, end, 161) for end in (SMALLEST, LARGEST))
    squares = [np.asarray(means(ladder)[0]) for ladder in (down, up)]
    first = b + w * squares[1][0] - start
    still, rises = np.abs(first) <= 1e-13 * start, first > 0
    near, far, ends = np.full(len(w), start), np.full(len(w), start), ~still
    for place in range(1, len(up)):
        K, square = (
            np.where(rises, *parts) for parts in ((up[place], down[place]), (squares[1][place], squares[0][place]))
        )
        far = np.where(ends, K, far)
        ends &= (b + w * square - K > 0) == rises
        near = np.where(ends, K, near)
        if not ends.any():
            break
    # Newton's steps, and where one would leave the two variances between which the fixed point lies, half of them.
    K = (near + far) / 2
    for _ in range(40):
        square, bends, slopes = (np.asarray(part) for part in means(K))
        moves = b + w * square - K
        same = (moves > 0) == rises
        near, far = np.where(same, K, near), np.where(same, far, K)
        slope = w * (bends + slopes) - 1
        newton = K - moves / np.where(slope == 0, 1.0, slope)
        inside = (newton > np.minimum(near, far)) & (newton < np.maximum(near, far)) & (slope != 0)
        following = np.where(inside, newton, (near + far) / 2)
        settled = np.abs(following - K) <= 1e-15 * K
        K = following
        if settled.all():
            break
    return np.where(still, start, np.where(ends, np.where(rises, np.inf, 0.0), K))
