"""Lemma 7.3.2: gradient descent that has not come down has not come far."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.theory.landscape import rank_one
from secant.theory.landscape.escape import improve_or_localize


class Config(Seeded):
    eigenvalues: tuple[float, ...] = option(
        (3.0, 2.0, 1.5, 1.0, 0.5, 0.1), at_least=0.01, at_most=10, shortest=2, longest=12, help="of the matrix"
    )
    runs: int = option(20, at_least=2, at_most=200, help="random starts of each function")
    steps: int = options.steps(120, at_least=5, at_most=1_000)
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (0.05, 0.5, 1.0), at_least=0.01, at_most=1, distinct=True, longest=6
    )


@study("book/lem-7.3.2", section="7.3", title="Improve or localise")
def run(config: Config) -> xr.Dataset:
    r"""Let $f$ have an $\ell$-Lipschitz gradient, and $\eta \le 1/\ell$. Gradient descent then has
    $|x_\tau - x_0| \le \sqrt{2\eta t\,(f(x_0) - f(x_t))}$ for all $\tau \le t$. On a parabola of curvature $\ell$ the
    ratio of the two sides after the first step is $1/\sqrt{2 - \eta\ell}$. The step reaches the bound at
    $\eta = 1/\ell$ and breaks it beyond. Where the gradient hardly changes, the ratio is $1/\sqrt2$.
    """
    rng = np.random.default_rng(config.seed)
    M = np.diag(config.eigenvalues)
    d, reach = len(M), np.sqrt(2 * max(config.eigenvalues))
    smooth = rank_one.smoothness(M, reach)[0]
    inside = rng.normal(size=(config.runs, d))
    inside *= reach * rng.uniform(size=(config.runs, 1)) ** (1 / d) / np.linalg.norm(inside, axis=1, keepdims=True)
    saddle, wave = np.linspace(1.0, -1.0, d), rng.normal(size=(config.runs, d))
    functions = {
        "eigenvector": (lambda x: rank_one.objective(M, x), lambda x: rank_one.gradient(M, x), smooth, inside),
        "saddle": (lambda x: (saddle * x**2).sum(-1) / 2, lambda x: saddle * x, 1.0, rng.normal(size=(config.runs, d))),
        "cosine": (lambda x: np.cos(x).sum(-1), lambda x: -np.sin(x), 1.0, 3 * wave),
    }
    ratio = np.zeros((len(functions), len(config.eta_lambdas), config.runs, config.steps))
    first = np.zeros((len(config.eta_lambdas),))
    for i, (value, slope, curve, start) in enumerate(functions.values()):
        for j, share in enumerate(config.eta_lambdas):
            x, far, lr = start, np.zeros(len(start)), share / curve
            for t in range(1, config.steps + 1):
                x = x - lr * slope(x)
                far = np.maximum(far, np.linalg.norm(x - start, axis=1))
                bound = improve_or_localize(lr, t, np.maximum(value(start) - value(x), 0))
                ratio[i, j, :, t - 1] = far / np.maximum(bound, 1e-300)
    for j, share in enumerate(config.eta_lambdas):  # a parabola of curvature 1, its first step
        first[j] = share / improve_or_localize(share, 1, (1 - (1 - share) ** 2) / 2)
    beyond = 1.5 / improve_or_localize(1.5, 1, (1 - (1 - 1.5) ** 2) / 2)
    return xr.Dataset(
        {"largest": (("function", "lr", "step"), ratio.max(2)), "first": ("lr", first), "beyond": beyond},
        coords={"function": list(functions), "lr": list(config.eta_lambdas)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    note = "the slack is the rounding of small decreases"
    for name in data.function.values:
        yield claim(
            f"bound-{name}", f"{name}: largest distance over its bound, all runs, steps and step sizes"
        ).at_most(1.0, data.largest.sel(function=name).max(), "lemma 7.3.2", slack=1e-6, note=note)
    parabola = "parabola: distance of the first step over its bound"
    for share in config.eta_lambdas:
        yield claim(f"first-step-{share:g}", rf"{parabola}, $\eta\ell = {share:g}$").equal(
            1 / np.sqrt(2 - share), data.first.sel(lr=share), 1e-9 / share, "an identity"
        )
    yield claim("beyond", rf"{parabola}, $\eta\ell = 1.5$").at_least(
        1.0, data.beyond, r"beyond $1/\ell$ the bound is broken"
    )
    yield claim("beyond-value", rf"{parabola}, $\eta\ell = 1.5$, by the formula").equal(
        np.sqrt(2), data.beyond, 1e-12, r"$1/\sqrt{2 - 1.5}$"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    top = max(config.eta_lambdas)
    for i, name in enumerate(data.function.values):
        for share in config.eta_lambdas:
            line = {"label": str(name)} if share == top else {"alpha": 0.45}
            left.plot(np.arange(1, config.steps + 1), data.largest.sel(function=name, lr=share), color=f"C{i}", **line)
    sheet.mark(left, y=1, label="bound")
    sheet.label(
        left, "Largest of all runs", "step", "distance over its bound", "lower right", xscale="log", ylim=(0, 1.05)
    )
    lr = np.linspace(0.01, 1.8, 200)
    right.plot(lr, 1 / np.sqrt(2 - lr), label=r"parabola, first step: $1/\sqrt{2 - \eta\ell}$")
    right.plot(config.eta_lambdas, data.first, "o", ms=7)
    right.plot(1.5, data.beyond, "s", ms=7, label="beyond")
    sheet.mark(right, x=1, y=1, label=r"bound, and $\eta = 1/\ell$")
    sheet.label(right, "The bound is reached", r"$\eta\ell$", "distance over its bound", "best")
