"""Book, section 8.2, matrix factorisation, which the book leaves empty: depth lets singular values in one by one."""

from collections.abc import Callable
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
    """Of layers of shape (L, k, k), the first of which reads the inputs."""
    whole = layers[0]
    for layer in layers[1:]:
        whole = layer @ whole
    return whole


def flow(layers: np.ndarray, target: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Gradient flow of all layers on half the squared distance to the target; layers at the times, and at any time."""
    shape = layers.shape

    def field(_: float, state: np.ndarray) -> np.ndarray:
        W = state.reshape(shape)
        before = [np.eye(shape[1])]
        for layer in W[:-1]:
            before.append(layer @ before[-1])
        after = [np.eye(shape[1])]
        for layer in W[:0:-1]:
            after.append(after[-1] @ layer)
        left = target - after[-1] @ W[0]
        return np.stack([after[-1 - k].T @ left @ before[k].T for k in range(shape[0])]).ravel()

    done = solve_ivp(field, (0, times[-1]), layers.ravel(), t_eval=times, dense_output=True, **TIGHT)
    return done.y.T.reshape(-1, *shape), lambda t: done.sol(t).reshape(shape)


@study("book/sec-8.2", section="8.2", title="Depth lets singular values in one by one")
def run(config: Config) -> xr.Dataset:
    r"""The book announces the section and leaves it empty. For $W = W_L\cdots W_1$ gradient flow on $\frac12\|W -
    M\|^2$ keeps $W_{l+1}^\top W_{l+1} - W_lW_l^\top$. From a balanced start the product obeys $\dot W =
    -\sum_l(WW^\top)^{(L-l)/L}\,\nabla L\,(W^\top W)^{(l-1)/L}$. Along the singular vectors of $M$ this is $\dot s =
    L\,s^{2-2/L}(\sigma - s)$: one layer learns all singular values at once, two or more learn the large ones while the
    small ones still wait.
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
        along = (
            solve_ivp(
                lambda _, w, depth=depth: deep_linear.product_rate(
                    w.reshape(k, k), w.reshape(k, k) - target, depth
                ).ravel(),
                (0, 1.0),
                loose.ravel(),
                **TIGHT,
            )
            .y[:, -1]
            .reshape(k, k)
        )
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
    for depth in config.depths:
        one = data.sel(depth=depth)
        if depth > 1:
            yield claim(
                f"depth-{depth}-change-imbalance",
                f"depth {depth}: change of the imbalance of a random start in a time of one, largest",
            ).zero(one.kept, 1e-8, solver)
        yield claim(
            f"depth-{depth}-balanced-their",
            f"depth {depth}, balanced: their product less that of its own equation, after a time of one",
        ).zero(one.moved, 1e-8, solver)
        yield claim(
            f"depth-{depth}-times-which",
            f"depth {depth}: times at which singular values are half in over those of the closed form, less 1, largest",
        ).zero(np.abs(one.half / one.known - 1).max(), 1e-8, solver)
        # In time the closed form is exact: how much of the second is in when the first is half in.
        share, first = float(one.next), float(one.known[0])
        second = float(data.sigma[1])
        s = solve_ivp(
            lambda _, s, depth=depth, end=second: deep_linear.mode_rate(s, end, depth),
            (0, first),
            [config.start],
            **TIGHT,
        ).y[0, -1]
        yield claim(
            f"depth-{depth}-share-second", f"depth {depth}: share of the second value when the first is half in"
        ).equal(s / float(data.sigma[1]), share, 1e-8, solver)
    shares = data.next.sortby("depth")
    yield claim(
        "share-one-depth",
        "that share, from one depth to the next, largest change",
        given=len(config.depths) > 1,
        otherwise="one depth only",
    ).at_most(
        0.0,
        shares.diff("depth").max() if len(config.depths) > 1 else np.nan,
        "deeper networks wait longer with what is small",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = np.atleast_1d(sheet.panels(figure, (3.6 * len(config.depths) + 1, 3.8), len(config.depths), sharey=True))
    for axes, depth in zip(panels, config.depths, strict=True):
        one = data.sel(depth=depth)
        for i in range(data.sizes["mode"]):
            axes.plot(
                data.time,
                one.value[:, i] / data.sigma[i],
                color=f"C{i % 10}",
                label=rf"$\sigma = {float(data.sigma[i]):g}$",
            )
        sheet.label(axes, f"{depth} layer{'s' if depth > 1 else ''}", "time, over that of the last", None)
    panels[0].set_ylabel("singular value over its end")
    panels[-1].legend(loc="lower right")
