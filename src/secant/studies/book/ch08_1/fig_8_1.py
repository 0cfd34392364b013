"""Figure 8.1: where steepest descent in the 4/3-norm ends depends on its step size."""

import numpy as np
import scipy  # its parts are loaded when they are used
import xarray as xr

from secant.lab import Figure, Findings, Options, claim, option, scaled, sheet, study
from secant.theory.bias import interpolants, potentials

X, Y = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1.0, 10.0])
P = 4 / 3
ALONG = np.array([-2.0, 1.0, 1.0])
"""Every solution is one solution plus a multiple of this."""


class Config(Options):
    rates: tuple[float, ...] = option(
        (0.15, 0.1, 0.05, 0.02, 0.01),
        at_least=5e-3,
        at_most=0.15,
        shortest=2,
        longest=12,
        distinct=True,
        help="step sizes",
    )
    smallest: float = scaled(smoke=1e-3, laptop=1e-4, at_least=2e-5, at_most=2e-3, help="the smallest step size")
    time: float = option(17.0, at_least=14, at_most=40, help="steps times step size, of every run")


def flow(_: float, w: np.ndarray) -> np.ndarray:
    r"""$\operatorname{argmin}_v\langle g, v\rangle + \frac12\|v\|_{4/3}^2 = -g^3/\|g\|_4^2$, $g = 2X^\top(Xw - y)$."""
    g = 2 * (X @ w - Y) @ X
    return -(g**3) / np.sqrt((g**4).sum())


def descend(rate: float, steps: int) -> np.ndarray:
    """The path from zero, number by number: three weights are too few for arrays."""
    a = b = c = 0.0
    path = [(a, b, c)]
    for _ in range(steps):
        r, s = 2 * (a + b + c - 1), 2 * (a + 2 * b - 10)
        f, g = r + s, r + 2 * s  # the gradient is f, g, r
        size = (f**4 + g**4 + r**4) ** 0.5
        if not 1e-150 < size < 1e150:
            break
        a, b, c = a - rate * f**3 / size, b - rate * g**3 / size, c - rate * r**3 / size
        path.append((a, b, c))
    return np.array(path)


def mirrored(steps: int = 3_000) -> np.ndarray:
    """The end of mirror descent with half the squared 4/3-norm, from zero."""
    R, dual = potentials.lp(P), np.zeros(3)
    for _ in range(steps):
        curvature = 2 * R.slope(dual, X) @ X.T
        dual = dual - 2 * (X @ R.inverse(dual) - Y) @ X * 0.5 / np.linalg.norm(curvature, 2)
    return R.inverse(dual)


@study("book/fig-8.1", section="8.1", title="Steepest descent depends on its step size")
def run(config: Config) -> xr.Dataset:
    r"""Mirror descent has an implicit bias whatever its step sizes. Steepest descent need not have one. On
    $x_1 = (1, 1, 1)$, $y_1 = 1$ and $x_2 = (1, 2, 0)$, $y_2 = 10$ steepest descent in $\ell_{4/3}$ from zero,
    $w_{t+1} = w_t + \eta\operatorname{argmin}_v\langle\nabla L(w_t), v\rangle + \frac12\|v\|_{4/3}^2$, ends in a
    solution that depends on $\eta$. For $\eta \to 0$ its end is not the solution of least $\|w\|_{4/3}$.
    """
    rates = (*config.rates, 2 * config.smallest, config.smallest)
    paths = [descend(rate, int(np.ceil(config.time / rate))) for rate in rates]
    limit = scipy.integrate.solve_ivp(flow, (0, config.time), np.zeros(3), method="DOP853", rtol=1e-10, atol=1e-12)
    # The least norm once more, along the line of solutions.
    start = np.linalg.pinv(X) @ Y
    size = lambda s: (np.abs(start + s * ALONG) ** P).sum()  # noqa: E731
    line = scipy.optimize.minimize_scalar(size, bounds=(-1, 1), options={"xatol": 1e-10}, method="bounded")
    wild = descend(0.2, 1_000)
    return xr.Dataset(
        {
            "end": (("rate", "weight"), np.stack([path[-1] for path in paths])),
            "limit": ("weight", limit.y[:, -1]),
            "least": ("weight", interpolants.min_norm(X, Y, P)),
            "searched": ("weight", start + line.x * ALONG),
            "mirror": ("weight", mirrored()),
            "wild": np.abs(X @ wild[-1] - Y).max(),
            "way": (("time", "weight"), np.stack([np.interp(np.linspace(0, 2, 60), limit.t, w) for w in limit.y], 1)),
            "first": (("rate", "step", "weight"), np.stack([path[:12] for path in paths])),
        },
        coords={"rate": list(rates)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    end, least, limit = data.end.values, data.least.values, data.limit.values
    far = "far beyond what is left of the residuals"
    # The slowest part of the residual falls as e^{-1.35 t}, by an order of magnitude in a time of 1.7.
    yield claim("residual", "largest residual at the end, all step sizes").zero(
        np.abs(end @ X.T - Y).max(), 1e-6, "steps enough for a solution"
    )
    yield claim("ends-apart", "largest distance between two ends").at_least(
        1e-3, np.ptp(end, axis=0).max(), far, note="mirror descent would end in one point"
    )
    wild, why = float(data.wild), "the residual of the start: it diverges"
    yield claim("divergence", "step size 0.2: residual after 1,000 steps").at_least(10.0, wild, why)
    yield claim("least-norm", "least 4/3-norm: dual Newton less a search along the line of solutions").zero(
        np.abs(data.searched - least).max(), 1e-5, "a search by values has the root of rounding"
    )
    yield claim("mirror", "mirror descent with the squared 4/3-norm: distance of its end from the least norm").zero(
        np.abs(data.mirror - least).max(), 1e-6, "steps enough"
    )
    small = data.rate.values <= 0.1  # larger steps oscillate, and an end may pass by
    yield claim(
        "ends-least", "least distance of an end from the solution of least norm, step sizes up to 0.1"
    ).at_least(1e-2, np.abs(end - least).max(1)[small].min(), far)
    norms = [np.linalg.norm(w, P) for w in (limit, least)]
    yield claim("flow-end", "limit of small steps: distance from the solution of least norm").at_least(
        0.1, np.abs(limit - least).max(), far, note=f"norm {norms[0]:.4f}, least {norms[1]:.4f}"
    )
    larger = norms[0] / norms[1]
    yield claim("flow-norm", "limit of small steps: its norm over the least").at_least(
        1.001, larger, "well above rounding"
    )
    twice, once = (np.abs(w - limit).max() for w in end[-2:])
    why, note = (
        "the next order of the step, with a coefficient of 10 or less",
        f"the flow ends in {limit.round(4).tolist()}",
    )
    yield claim(
        "first-order", "distance from the flow's end, at twice the smallest step over that at the smallest"
    ).equal(2.0, twice / once, 20 * config.smallest, why, note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    s = np.linspace(-0.8, 0.8, 5)[:, None] * ALONG + np.linalg.pinv(X) @ Y
    sheet.guide(left, s[:, 0], s[:, 1], "solutions")
    for k, rate in enumerate(data.rate.values[:4]):
        left.plot(*data.first[k, :, :2].T, "o-", ms=3, lw=0.8, color=f"C{k}", label=rf"$\eta$ = {rate:g}")
        left.plot(*data.end[k, :2], "s", ms=7, color=f"C{k}")
    left.plot(data.way[:, 0], data.way[:, 1], color=sheet.ink(), lw=1, label="flow")
    left.plot(*data.least[:2], "*", ms=15, color=sheet.ink(), label="least 4/3-norm")
    left.set(xlim=(-1.5, 3), ylim=(2, 6.2))
    sheet.label(left, "Steps and ends (squares)", "$w_1$", "$w_2$", {"loc": "best", "fontsize": 8})
    right.plot(data.rate, data.end[:, 0], "o", label="steepest descent")
    sheet.mark(right, y=[float(data.limit[0])], label="flow", ls=":")
    sheet.mark(right, y=[float(data.least[0])], label="least 4/3-norm")
    right.axhline(float(data.mirror[0]), color="C1", lw=4, alpha=0.4, label="mirror descent")
    sheet.label(right, "First weight at the end", r"$\eta$", None, "lower left", xscale="log")
