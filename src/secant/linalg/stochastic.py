"""Traces, norms and spectral densities from random vectors: a thin layer over matfree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from matfree import decomp, stochtrace

from secant.linalg.spaces import images
from secant.look import COLOURS, number, panels

Product = Callable[[Array], Array]

MASS = 1e-10
"""A quadrature node of less weight comes from rounding."""


class Estimate(NamedTuple):
    """A number and its standard error.

    Attributes:
        value: the estimate.
        error: its standard error; 0 for an exact number, infinite for a single random vector, which shows no spread.
    """

    value: float
    error: float


class Density(NamedTuple):
    r"""A spectral density on a grid, and the quadrature behind it.

    Attributes:
        grid: $t$.
        values: $\rho(t)$, which integrates to 1.
        nodes: Gauss nodes of every Lanczos run.
        weights: their weights, which sum to 1 over each run.
    """

    grid: Float[np.ndarray, " points"]
    values: Float[np.ndarray, " points"]
    nodes: Float[np.ndarray, "probes degree"]
    weights: Float[np.ndarray, "probes degree"]

    @property
    def width(self) -> float:
        r"""$\sigma$ of the smoothing."""
        return float(self.nodes.min() - self.grid[0]) / 5

    def largest(self, k: int = 3) -> list[float]:
        """Up to `k` of the largest eigenvalues, as far as all random vectors agree on them within the width.

        The largest nodes of a Lanczos run converge to the largest eigenvalues first. The list ends at the first
        eigenvalue on which the runs differ.
        """
        found: list[float] = []
        rows = [np.sort(at[mass > MASS])[::-1] for at, mass in zip(self.nodes, self.weights, strict=True)]
        for place in range(min(k, *(len(row) for row in rows))):
            seen = np.array([row[place] for row in rows])
            if np.ptp(seen) > self.width:
                break
            found.append(float(seen.mean()))
        return found

    def plot(self, ax: Any = None, *, k: int = 3, look: str = "light") -> Any:
        """Draws the density on a logarithmic axis, with the largest eigenvalues.

        Args:
            ax: the matplotlib axes to draw in; by default those of a new figure.
            k: how many eigenvalues are marked, as far as [`largest`][secant.linalg.Density.largest] gives them.
            look: `light` or `dark`.

        Returns:
            The axes.
        """
        with panels(ax, look) as (ax,):
            (line,) = ax.semilogy(self.grid, self.values, color=COLOURS[look][0])
            at_nodes = np.interp(self.nodes[self.weights > MASS], self.grid, self.values)
            floor = max(0.3 * float(at_nodes.min()), 1e-8 * float(self.values.max()))
            ax.fill_between(self.grid, floor, np.maximum(self.values, floor), alpha=0.15, color=line.get_color(), lw=0)
            top = self.largest(k)
            for index, value in enumerate(top):
                names = f"largest: {', '.join(map(number, top))}"
                ax.axvline(value, color="0.5", lw=1.0, ls=(0, (4, 2)), label=None if index else names, zorder=1)
            ax.set(xlabel="eigenvalue", ylabel="spectral density", ylim=(floor, 3 * float(self.values.max())))
            if top:
                ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        return ax


def hutchinson(
    what: Literal["trace", "frobenius"], product: Product, like: Array, key: PRNGKeyArray, *, probes: int, exact: bool
) -> tuple[Array, Array]:
    r"""The trace or the Frobenius norm, with its standard error, by Hutchinson's estimator.

    $\mathrm{tr} A = E[v^\top A v]$ and $\|A\|_F^2 = E\|Av\|^2$ for random signs $v$. With `exact` the mean runs over
    all basis vectors instead, which costs one product a column and has no error.
    """
    if exact:
        columns = images(product, like.size, like.dtype)
        value = jnp.trace(columns) if what == "trace" else jnp.linalg.norm(columns)
        return value, jnp.zeros_like(value)
    integrand = stochtrace.monte_carlo_trace() if what == "trace" else stochtrace.monte_carlo_frobeniusnorm_squared()
    sampler = stochtrace.sampler_signs(like, num=probes)
    mean, error = stochtrace.estimator_monte_carlo_mean_and_sem(integrand, sampler)(product, key)
    # The mean is estimated from the same draws, so that one draw tells nothing about its error.
    error = error * math.sqrt(probes / (probes - 1)) if probes > 1 else jnp.full_like(error, jnp.inf)
    if what == "trace":
        return mean, error
    root = jnp.sqrt(jnp.maximum(mean, 0.0))
    return root, error / (2 * jnp.maximum(root, jnp.finfo(root.dtype).tiny))


def quadrature(product: Product, like: Array, key: PRNGKeyArray, *, degree: int, probes: int) -> tuple[Array, Array]:
    r"""Gauss nodes and weights of the spectral measures of `probes` random vectors, `degree` nodes for each."""

    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        return spectral_measure(product, jax.random.rademacher(key, like.shape, like.dtype), degree)

    return jax.lax.map(one, jax.random.split(key, probes))


def spectral_measure(product: Product, start: Float[Array, " p"], degree: int) -> tuple[Array, Array]:
    r"""Gauss nodes and weights, of sum one, of $\sum_i (e_i\cdot v)^2\,\delta_{\omega_i}/|v|^2$ for one vector $v$.

    They share the first $2 \cdot$ `degree` moments of this measure, $v^\top A^kv/|v|^2$, and cost `degree` products.

    Args:
        product: $v \mapsto Av$, symmetric.
        start: $v$.
        degree: number of nodes, at most the number of entries.
    """
    lanczos = decomp.tridiag_sym(degree, reortho="full", custom_vjp=False)
    nodes, vectors = jnp.linalg.eigh(_until_the_end(lanczos(product, start).J_small))
    return nodes, vectors[0] ** 2


def _until_the_end(projected: Array) -> Array:
    """The tridiagonal matrix of a Lanczos run, cut where the Krylov space ends.

    Beyond the end all vectors are rounding, or 0/0. Their entries get no weight, and the place of the first Rayleigh
    quotient, which lies inside the spectrum.
    """
    diagonal, beside = jnp.diag(projected), jnp.diag(projected, 1)
    largest = jax.lax.cummax(jnp.maximum(jnp.abs(diagonal[:-1]), jnp.abs(beside)))
    goes_on = jnp.cumprod(beside > 10 * jnp.finfo(beside.dtype).eps * largest, dtype=bool)
    diagonal = jnp.concatenate([diagonal[:1], jnp.where(goes_on, diagonal[1:], diagonal[0])])
    beside = jnp.where(goes_on, beside, 0.0)
    return jnp.diag(diagonal) + jnp.diag(beside, 1) + jnp.diag(beside, -1)


def gaussian_density(nodes: Array, weights: Array, points: int = 512, width: float | None = None) -> Density:
    r"""The quadrature smoothed with Gaussians of standard deviation `width`, on a grid that holds all of it."""
    at, mass = np.asarray(nodes, float), np.asarray(weights, float)
    low, high = float(at.min()), float(at.max())
    # A single eigenvalue still has an extent: its rounding.
    extent = max(high - low, 1e-6 * max(abs(low), abs(high))) or 1.0
    width = extent / 100 if width is None else width
    if not width > 0:
        raise ValueError(f"density: `width` must be positive, got {width}.")
    needed = math.ceil((high - low) / width) + 11
    if points < needed:
        raise ValueError(
            f"density: {points} `points` are too few for a `width` of {width:g} on a spectrum from {low:g} to "
            f"{high:g}. Pass points={needed} or more, or a larger width."
        )
    grid = np.linspace(low - 5 * width, high + 5 * width, points)
    bumps = np.exp(-0.5 * ((grid[:, None] - at.ravel()) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return Density(grid, bumps @ mass.ravel() / len(at), at, mass)
