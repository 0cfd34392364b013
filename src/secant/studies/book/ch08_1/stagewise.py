"""Section 8.1.1, example 1: coordinate descent with infinitesimal steps against the lasso."""

import warnings

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.theory.bias import interpolants


class Config(Seeded):
    samples: int = options.samples(5, at_least=2, at_most=10)
    features: int = options.features(7, at_least=2, at_most=20)
    draws: int = options.draws(150, 1_000, at_least=20, at_most=10_000)
    step: float = option(0.01, at_least=1e-4, at_most=0.02, help="step of coordinate descent, over the whole way")

    def check(self) -> None:
        """There are solutions to choose from."""
        if self.samples >= self.features:
            raise ValueError(f"samples: fewer than the {self.features} features, got {self.samples}.")


def boosted(X: np.ndarray, y: np.ndarray, step: float, length: float) -> np.ndarray:
    """Forward stagewise regression: small steps in the coordinate of largest correlation, over `length` in all."""
    gram, correlation, w = X.T @ X, X.T @ y, np.zeros(X.shape[1])
    for _ in range(round(length / step)):
        j = np.argmax(np.abs(correlation))
        moved = step * np.sign(correlation[j])
        w[j] += moved
        correlation = correlation - moved * gram[j]
    return w


def is_monotone(path: np.ndarray) -> bool:
    """Whether no weight ever turns back or changes its sign."""
    return bool(np.all(path[1:] * path[:-1] >= 0) and np.all(np.diff(np.abs(path), axis=0) > -1e-12))


def problem(config: Config, draw: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([config.seed, draw])
    return rng.normal(size=(config.samples, config.features)), rng.normal(size=config.samples)


def regularised(X: np.ndarray, y: np.ndarray, method: str = "lasso") -> tuple[np.ndarray, np.ndarray]:
    """Largest correlations and weights at the corners of scikit-learn's path."""
    from sklearn.exceptions import ConvergenceWarning  # not loaded before it is needed
    from sklearn.linear_model import lars_path

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn warns whenever a coordinate leaves
        levels, _, weights = lars_path(X, y, method=method)
    return levels * len(y), weights.T


def apart(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> float:
    """How far two paths are apart at equal correlations. They are piecewise linear functions of the correlation."""
    levels = np.union1d(one[0], other[0])
    at = [np.stack([np.interp(levels, c[::-1], w[::-1]) for w in weights.T]) for c, weights in (one, other)]
    return float(np.abs(at[0] - at[1]).max())


@study("book/stagewise", section="8.1", title="Coordinate descent and the lasso")
def run(config: Config) -> xr.Dataset:
    r"""Coordinate descent is steepest descent in the 1-norm. With infinitesimal steps, averaged over ties, it is
    forward stagewise regression. Let $\hat w(\lambda) = \operatorname{argmin}_wL(w) + \lambda\|w\|_1$ be the lasso's
    path. Where each of its coordinates is monotone, stagewise regression and least angles follow this path, and end in
    the solution of least 1-norm. Elsewhere the paths part, and stagewise regression can end in a larger 1-norm.
    """
    rows = []
    for draw in range(config.draws):
        X, y = problem(config, draw)
        lasso, angles, path = regularised(X, y), regularised(X, y, "lar"), interpolants.stagewise_path(X, y)
        end, least = path.weights[-1], np.abs(lasso[1][-1]).sum()
        distances = apart((path.correlation, path.weights), lasso), apart(angles, lasso)
        sizes = least, np.abs(end).sum() / least, np.abs(X @ end - y).max()
        rows.append((is_monotone(lasso[1]), *distances, *sizes))
    names = ("monotone", "from_lasso", "angles_from_lasso", "least", "norm", "residual")
    table = dict(zip(names, np.array(rows, float).T, strict=True))
    programs = [np.abs(interpolants.min_norm(*problem(config, k), 1)).sum() for k in range(20)]
    # Small steps against the limit, as a share of the path's length.
    shares, error = config.step / 16.0 ** np.arange(2), np.zeros((2, 20))
    for k in range(20):
        path = interpolants.stagewise_path(*problem(config, k))
        for i, share in enumerate(shares):
            end = boosted(*problem(config, k), share * path.length[-1], path.length[-1])
            error[i, k] = np.abs(end - path.weights[-1]).max() / path.length[-1]
    return xr.Dataset(
        {name: ("draw", values) for name, values in table.items()}
        | {"program": ("first", programs), "small": (("share", "first"), error)},
        coords={"share": shares},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    monotone, rest = data.monotone.values > 0, data.monotone.values == 0
    same, longer = data.from_lasso.values < 1e-9, data.norm.values > 1 + 1e-9
    angles, whole = data.angles_from_lasso.values < 1e-9, "the whole path, to 1e-9"
    none, all_are = "no lasso path of these is monotone", "every lasso path of these is monotone"
    left = data.residual.max()
    yield claim("residual", "stagewise: largest residual at the end").zero(left, 1e-9, "a solution, up to rounding")
    yield claim("least-norm", "1-norm at the end of the lasso over that of the linear program, less 1").zero(
        np.abs(data.least.values[:20] / data.program - 1).max(), 1e-8, "the program's own tolerance"
    )
    yield claim("monotone", "monotone: share of problems where stagewise is the lasso").share(
        1.0, same, monotone, whole, otherwise=none
    )
    yield claim("monotone-angles", "monotone: share of problems where least angles are the lasso").share(
        1.0, angles, monotone, whole, otherwise=none
    )
    yield claim("turning", "not monotone: share of problems where stagewise is the lasso").share(
        0.0, same, rest, "a weight of stagewise moves only in the sense of its correlation", otherwise=all_are
    )
    name = "not monotone: least 1-norm of stagewise over the lasso's"
    yield claim("turning-norm", name, given=rest, otherwise=all_are).at_least(
        1.0, lambda: data.norm.values[rest].min(), "the lasso's is the least", slack=1e-9
    )
    name, enough = "not monotone: share of problems where stagewise ends in a larger 1-norm", rest.sum() >= 20
    yield claim("longer", name, given=enough, otherwise="fewer than 20 such problems").at_least(
        0.5, lambda: estimate(longer[rest]), "most of them", note=f"of {rest.sum()}; the source says that it can"
    )
    name = "coordinate descent: distance of its end from the path's, at a 16th of the step over that at the whole"
    fine, otherwise = config.step * config.samples <= 0.06, "the steps are not small for so many samples"
    why, note = "in proportion to the step, up to a factor of four", "median of 20 problems; a 16th is in proportion"
    yield claim("small-steps", name, given=fine, otherwise=otherwise).at_most(
        0.25, (data.small[1] / data.small[0]).median(), why, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    *paths, right = sheet.panels(figure, (13, 4.2), 3)
    monotone = data.monotone.values > 0
    worst, first = int(np.argmax(data.norm.values)), int(np.argmax(monotone))
    for axes, k, title in zip(paths, (first, worst), ("Monotone: one path", "Not monotone: two paths"), strict=True):
        X, y = problem(config, k)
        both = {"lasso": regularised(X, y)[1], "stagewise": interpolants.stagewise_path(X, y).weights}
        for (name, path), look in zip(both.items(), ({"lw": 4, "alpha": 0.35}, {"lw": 1.3}), strict=True):
            for j in range(config.features):
                label = None if j else name
                axes.plot(np.abs(path).sum(1), path[:, j], color=f"C{j % 8}", label=label, **look)
        sheet.label(axes, title, r"$\|w\|_1$", "weights", "upper left")
    bins = np.linspace(1, max(float(data.norm.max()), 1.1), 30)
    right.hist([data.norm[monotone], data.norm[~monotone]], bins, stacked=True, label=["monotone", "not monotone"])
    sheet.label(right, "1-norm at the end of stagewise", "over the least", "problems", "best")
