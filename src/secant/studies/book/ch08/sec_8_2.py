"""Book, section 8.2, matrix factorisation, which the book leaves empty: depth lets singular values in one by one."""

from collections.abc import Callable
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from secant.lab import Figure, Findings, Seeded, claim, option, sheet, study
from secant.theory.bias import deep_linear

TIGHT: dict[str, Any] = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-13}


class Config(Seeded):
    size: int = option(4, at_least=2, at_most=8, help="rows and columns of the target")
    depths: tuple[int, ...] = option((1, 2, 3), at_least=1, at_most=4, help="layers")
    start: float = option(0.01, at_least=1e-3, at_most=0.1, help="singular values at the start")

    def check(self) -> None:
        """Each depth once."""
        if len(set(self.depths)) < len(self.depths):
            raise ValueError(f"depths must differ from each other, got {self.depths}")


def product(layers: np.ndarray) -> np.ndarray:
    """The product of layers of shape (L, k, k); the first layer reads the inputs."""
    return reduce(lambda whole, layer: layer @ whole, layers)


def flow(layers: np.ndarray, target: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Gradient flow of all layers on half the squared distance to the target: layers at the times, and at any time."""
    shape, one = layers.shape, np.eye(layers.shape[1])

    def field(_: float, state: np.ndarray) -> np.ndarray:
        W = state.reshape(shape)
        before = list(accumulate(W[:-1], lambda whole, layer: layer @ whole, initial=one))
        after = list(accumulate(W[:0:-1], np.matmul, initial=one))
        left = target - after[-1] @ W[0]
        return np.stack([after[-1 - k].T @ left @ before[k].T for k in range(shape[0])]).ravel()

    done = solve_ivp(field, (0, times[-1]), layers.ravel(), t_eval=times, dense_output=True, **TIGHT)
    return done.y.T.reshape(-1, *shape), lambda t: done.sol(t).reshape(shape)


@study("book/sec-8.2", section="8.2", title="Depth lets singular values in one by one")
def run(config: Config) -> xr.Dataset:
    r"""The book announces the section and leaves it empty. For $W = W_L\cdots W_1$ gradient flow on $\frac12\|W -
    M\|^2$ keeps $W_{l+1}^\top W_{l+1} - W_lW_l^\top$. From a balanced start the product obeys $\dot W =
    -\sum_l(WW^\top)^{(L-l)/L}\,\nabla L\,(W^\top W)^{(l-1)/L}$. Along the singular vectors of $M$ this is $\dot s =
    L\,s^{2-2/L}(\sigma - s)$. One layer learns all singular values at once. Two or more layers learn the large values
    while the small ones still wait.
    """
    rng, k = np.random.default_rng(config.seed), config.size
    left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0] for _ in range(2))
    sigma = 2.0 ** -np.arange(k) * 2
    target = (left * sigma) @ right.T
    aligned = config.start * left @ right.T
    loose = 0.3 * rng.normal(size=(k, k))
    kept, moved, half, known, seen, closed = [], [], [], [], [], []
    for depth in config.depths:
        until = float(deep_linear.time_to(0.9 * sigma[-1], sigma[-1], config.start, depth))
        times = np.linspace(0, until, 60)
        # Any start keeps its imbalance; a balanced one obeys the equation of the product.
        anyhow = 0.5 * rng.normal(size=(depth, k, k))
        first, last = (deep_linear.imbalance(list(layers)) for layers in flow(anyhow, target, np.array([0.0, 1.0]))[0])
        kept.append(max((np.abs(b - a).max() for a, b in zip(first, last, strict=True)), default=0.0))
        layers = np.stack(deep_linear.balanced(loose, depth))

        def field(_: float, w: np.ndarray, depth: int = depth) -> np.ndarray:
            return deep_linear.product_rate(w.reshape(k, k), w.reshape(k, k) - target, depth).ravel()

        along = solve_ivp(field, (0, 1.0), loose.ravel(), **TIGHT).y[:, -1].reshape(k, k)
        moved.append(np.abs(product(flow(layers, target, np.array([0.0, 1.0]))[0][-1]) - along).max())
        path, dense = flow(np.stack(deep_linear.balanced(aligned, depth)), target, times)
        modes = np.stack([np.diag(left.T @ product(layers) @ right) for layers in path])
        at = lambda t, i, dense=dense: (left.T @ product(dense(t)) @ right)[i, i] - sigma[i] / 2  # noqa: E731
        half.append([brentq(at, 0, until, args=(i,), xtol=1e-13) for i in range(k)])
        known.append([float(deep_linear.time_to(s / 2, s, config.start, depth)) for s in sigma])
        seen.append(modes)
        closed.append((at(known[-1][0], 1) + sigma[1] / 2) / sigma[1])
    return xr.Dataset(
        {
            "kept": ("depth", kept),
            "moved": ("depth", moved),
            "half": (("depth", "mode"), half),
            "known": (("depth", "mode"), known),
            "value": (("depth", "time", "mode"), np.stack(seen)),
            "next": ("depth", closed),
            "sigma": ("mode", sigma),
        },
        coords={"depth": list(config.depths), "time": np.linspace(0, 1, 60)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    solver = "tolerance of the integrations"
    second = float(data.sigma[1])
    for depth in config.depths:
        one = data.sel(depth=depth)
        if depth > 1:
            yield claim(
                f"imbalance-{depth}", f"depth {depth}: largest change of the imbalance of a random start in a time of 1"
            ).zero(one.kept, 1e-8, solver)
        yield claim(
            f"product-{depth}", f"depth {depth}, balanced: the product at time 1, less the end of its own equation"
        ).zero(one.moved, 1e-8, solver)
        yield claim(
            f"half-times-{depth}",
            f"depth {depth}: times at which singular values are half in, over the closed form, less 1: largest",
        ).zero(np.abs(one.half / one.known - 1).max(), 1e-8, solver)
        # In time the closed form is exact: how much of the second value is in when the first is half in.
        rate = lambda _, s, depth=depth: deep_linear.mode_rate(s, second, depth)  # noqa: E731
        s = solve_ivp(rate, (0, float(one.known[0])), [config.start], **TIGHT).y[0, -1]
        yield claim(f"second-{depth}", f"depth {depth}: share of the second value when the first is half in").equal(
            s / second, float(one.next), 1e-8, solver
        )
    several, change = len(config.depths) > 1, data.next.sortby("depth").diff("depth")
    name = "largest change of the share of the second value, from one depth to the next"
    yield claim("second-by-depth", name, given=several, otherwise="one depth only").at_most(
        0.0, change.max() if several else np.nan, "deeper networks wait longer with small values"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = np.atleast_1d(sheet.panels(figure, (3.6 * len(config.depths) + 1, 3.8), len(config.depths), sharey=True))
    for axes, depth in zip(panels, config.depths, strict=True):
        for i, (sigma, value) in enumerate(zip(data.sigma.values, data.value.sel(depth=depth).values.T, strict=True)):
            axes.plot(data.time, value / sigma, color=f"C{i % 10}", label=rf"$\sigma = {sigma:g}$")
        sheet.label(axes, f"{depth} layer{'s' if depth > 1 else ''}", "time over that of the last", None)
    panels[0].set_ylabel("singular value over its end")
    panels[-1].legend(loc="lower right")
