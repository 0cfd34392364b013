"""Where training ends for any parametrisation whose gradient fields commute, found without running it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.theory.bias.reparametrization import flow_limit

Kind = tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, Any], Any]]
"""Weights in JAX, the same in NumPy, and the transpose of their derivative."""


class Config(Seeded):
    samples: int = options.samples(2, at_most=3)
    dimension: int = option(4, at_least=4, at_most=8, help="weights of the vectors")
    alpha: float = option(0.5, at_least=0.2, at_most=2, help="size of the start")


def flow(
    forward: Callable[[Any], Any], pull: Callable[[Any, Any], Any], X: np.ndarray, y: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Weights at the end of gradient flow on half the sum of squares; `pull` takes gradients back to the parameters."""
    field = lambda _, theta: -pull(theta, X.T @ (X @ forward(theta) - y))  # noqa: E731
    return forward(solve_ivp(field, (0, 1e4), start, method="LSODA", rtol=1e-11, atol=1e-13).y[:, -1])


def power(k: int) -> Kind:
    """$u^k - v^k$, in JAX, and in NumPy with the transpose of its derivative."""
    halves = lambda t: (t[: len(t) // 2], t[len(t) // 2 :])  # noqa: E731

    def forward(t: Any) -> Any:
        u, v = halves(t)
        return u**k - v**k

    def pull(t: Any, g: Any) -> Any:
        u, v = halves(t)
        return np.concatenate([k * u ** (k - 1) * g, -k * v ** (k - 1) * g])

    return forward, forward, pull


def convolution(half: int) -> Kind:
    """Circular convolution of two halves, a linear network of two convolutions, and its transposed derivative."""
    turned = (np.arange(half)[:, None] - np.arange(half)) % half
    forward = lambda t: t[half:][turned] @ t[:half]  # noqa: E731
    return forward, forward, lambda t, g: np.concatenate([g @ t[half:][turned], g @ t[:half][turned]])


def square(size: int) -> Kind:
    """$UU^T$."""
    matrix = lambda t: t.reshape(size, size)  # noqa: E731
    return (
        lambda t: (matrix(t) @ matrix(t).T).ravel(),
        lambda t: (matrix(t) @ matrix(t).T).ravel(),
        lambda t, g: ((matrix(g) + matrix(g).T) @ matrix(t)).ravel(),
    )


@study("book/any-parametrization", section="8.1", title="Where training ends, for your own parametrisation", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Where the gradient fields of the measured outputs $XG(\theta)$ commute, gradient flow ends in the one point of
    $\{\theta(\nu)\}$ with $XG = y$, where $\theta(\nu)$ follows $\sum_k\nu_k\nabla(XG)_k$ for a time of 1. This problem
    has $n$ unknowns, whatever the number of parameters. It gives the end of training without training, for any $G$:
    powers of any order, or matrices under measurements that commute. Brackets do not vanish for $UU^\top$ under other
    measurements, nor for a convolution of two layers. There the way matters, and the end of the flow is missed.
    """
    rng, n, d = np.random.default_rng(config.seed), config.samples, config.dimension
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    y = X @ rng.normal(size=d)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    together = np.stack([(turn * values) @ turn.T for values in rng.normal(size=(n, 3))]).reshape(n, 9)
    apart = rng.normal(size=(n, 3, 3))
    apart = (apart + apart.swapaxes(1, 2)).reshape(n, 9) / 2
    factor = rng.normal(size=(3, 3))
    # The matrix to be found is inside the cone, so that the flow can reach its outputs.
    hidden = (factor @ factor.T + np.eye(3)).ravel()
    both, eye = np.full(2 * d, config.alpha), config.alpha * np.eye(3).ravel()
    uneven = config.alpha * np.concatenate([np.eye(d)[0], np.eye(d)[0] + 0.5])
    product = square(3)
    kinds = {
        "squares": (power(2), X, y, both),
        "cubes": (power(3), X, y, both),
        "matrix, commuting": (product, together, together @ hidden, eye),
        "matrix, any": (product, apart, apart @ hidden, eye),
        "convolution": (convolution(d), X, y, uneven),
    }
    found, ends = {}, {}
    for name, ((G, forward, pull), data, targets, start) in kinds.items():
        found[name] = flow_limit(G, start, data, targets, check=False)
        ends[name] = flow(forward, pull, data, targets, start)
    return xr.Dataset(
        {
            "missed": ("kind", [np.abs(found[k].weights - ends[k]).max() / np.abs(ends[k]).max() for k in kinds]),
            "bracket": ("kind", [found[k].brackets.relative for k in kinds]),
            "detour": ("kind", [found[k].detour for k in kinds]),
            "evaluations": ("kind", [found[k].evaluations for k in kinds]),
            "unfit": ("kind", [found[k].residual for k in kinds]),
        },
        coords={"kind": list(kinds)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    bracket, missed = "relative bracket at the end", "end of the flow less the point found, over the largest weight"
    for kind in ("squares", "cubes", "matrix, commuting"):
        one, short = data.sel(kind=kind), kind.split()[-1]
        yield claim(f"bracket-{short}", f"{kind}: {bracket}").zero(one.bracket, 1e-12, "rounding of float64")
        yield claim(f"end-{short}", f"{kind}: {missed}").zero(one.missed, 1e-7, "tolerance of the flow's integration")
    several = config.samples > 1  # one sample has one field, which commutes with itself
    for kind in ("matrix, any", "convolution"):
        one, short = data.sel(kind=kind), kind.split()[-1]
        for key, words, found, why in (
            ("bracket", bracket, one.bracket, "what counts as a bracket that vanishes"),
            ("end", missed, one.missed, "ten times what is allowed where fields commute"),
        ):
            apart = claim(f"{key}-{short}", f"{kind}: {words}", given=several, otherwise="one sample only")
            yield apart.at_least(1e-6, found, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (9, 4.2))
    rows = np.arange(data.sizes["kind"])
    names = {"bracket": "relative bracket", "detour": "two ways apart", "missed": "end of the flow missed by"}
    for i, (name, words) in enumerate(names.items()):
        axes.plot(np.maximum(data[name], 1e-17), rows + 0.18 * (i - 1), "os^"[i], color=f"C{i}", label=words)
    axes.set_yticks(rows, list(data.kind.values))
    axes.invert_yaxis()
    sheet.mark(axes, x=1e-7, label="tolerance of the flow", ls=":")
    sheet.label(axes, "The end without the run", "relative to the largest weight", None, "center right", xscale="log")
