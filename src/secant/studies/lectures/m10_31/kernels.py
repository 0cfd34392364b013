"""Lecture of 10/31: the functions of a kernel, ridge regression in two ways, Gaussian and determinantal processes."""

import itertools

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.kernels import posterior
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, scaled, sheet, study

POINTS = 5
"""Points of the set from which a determinantal process takes subsets."""


class Config(Seeded):
    grid: int = scaled(smoke=60, laptop=200, at_least=10, at_most=2_000, help="points of the domain")
    samples: int = options.samples(8, at_least=2, at_most=10)
    ridge: float = option(0.1, at_least=1e-3, at_most=100, help="ridge, which is also the variance of the noise")
    terms: int = option(40, at_least=10, at_most=10_000, help="eigenfunctions kept as features")
    drawn: int = scaled(smoke=200, laptop=1_000, at_least=20, at_most=2_000, help="random points of a sampled operator")
    draws: int = options.draws(20, 50, at_least=5, at_most=1_000)
    subsets: int = scaled(
        smoke=400, laptop=10_000, at_least=50, at_most=10**5, help="subsets from the determinantal process"
    )

    def check(self) -> None:
        """Refuses kernels that do not fit the memory."""
        fits_memory(100.0 * (self.grid**2 + self.drawn**2 + self.terms * self.grid + self.terms**2), "grid or terms")


def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    r"""$\min(x, y)$, the covariance of Brownian motion."""
    return np.minimum(x[:, None], y[None, :])


def eigen(terms: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Eigenvalues $1/((j - \frac12)^2\pi^2)$ on $[0, 1]$ and eigenfunctions $\sqrt2\sin((j - \frac12)\pi x)$."""
    root = (np.arange(terms) + 0.5) * np.pi
    return root**-2.0, np.sqrt(2) * np.sin(x[:, None] * root)


def subset(vectors: np.ndarray, chances: np.ndarray, rng: np.random.Generator) -> list[int]:
    """A draw of a determinantal process: eigenvectors by coins, then points one by one from the span that is left."""
    basis, found = vectors[:, rng.random(len(chances)) < chances], []
    while basis.shape[1]:
        weight = (basis**2).sum(1)
        found.append(int(rng.choice(len(weight), p=weight / weight.sum())))
        # The part of the span that vanishes at the point is left.
        basis = basis @ np.linalg.svd(basis[found[-1]][None])[2][1:].T
    return found


@study("lectures/10-31-kernels", section="10-31", title="A kernel and its space of functions")
def run(config: Config) -> xr.Dataset:
    r"""A positive kernel is $K(x, y) = \sum_j \lambda_j\psi_j(x)\psi_j(y)$, with features $\sqrt{\lambda_j}\,\psi_j$.
    Let $T$ be the operator of the kernel. The functions of the kernel are $T^{1/2}L^2$, with
    $\|f\|^2 = \|T^{-1/2}f\|^2_{L^2}$. Then $\langle f, K(x, \cdot)\rangle = f(x)$, and
    $\|\sum_i a_iK(x_i, \cdot)\|^2 = \sum_{ij} a_ia_jK(x_i, x_j)$.

    The function with the least $\sum_i(f(x_i) - y_i)^2 + \lambda\|f\|^2$ is $\sum_i a_iK(x_i, \cdot)$ with
    $a = (K + \lambda)^{-1}y$. It is also the ridge regression on the features, and the mean of a Gaussian process with
    covariance $K$, given data with noise of variance $\lambda$. Here $K = \min(x, y)$.
    """
    rng = np.random.default_rng(config.seed)
    x = np.arange(1, config.grid + 1) / config.grid
    full = kernel(x, x)
    seen = np.sort(rng.choice(config.grid, config.samples, replace=False))
    y = np.sin(2 * np.pi * x[seen]) + 0.1 * rng.normal(size=config.samples)
    parts = (jnp.asarray(part) for part in (full[np.ix_(seen, seen)], full[:, seen], full, y))
    process = posterior(*parts, noise=config.ridge)
    # Over all functions on the grid: least squares with the norm f'K^{-1}f, without the representer theorem.
    inverse, look = np.linalg.inv(full), np.eye(config.grid)[seen]
    bend = np.linalg.inv(look.T @ look / config.ridge + inverse)
    values, psi = eigen(config.terms, x)
    features = psi * np.sqrt(values)
    some, few = features[seen].T @ features[seen], features[seen] @ features[seen].T
    theta = np.linalg.solve(some + config.ridge * np.eye(config.terms), features[seen].T @ y)
    ridge = features @ features[seen].T @ np.linalg.solve(few + config.ridge * np.eye(len(few)), y)
    sampled = [np.linalg.eigvalsh(kernel(p, p))[::-1] / config.drawn for p in rng.random((config.draws, config.drawn))]
    likely = POINTS * kernel(*[np.arange(1, POINTS + 1) / POINTS] * 2)
    chances, vectors = np.linalg.eigh(likely)
    found = [subset(vectors, chances / (1 + chances), rng) for _ in range(config.subsets)]
    return xr.Dataset(
        {
            "seen": ("sample", seen),
            "y": ("sample", y),
            "mean": ("x", np.asarray(process.mean)),
            "variance": ("x", np.diagonal(process.covariance)),
            "direct": ("x", bend @ (look.T @ y) / config.ridge),
            "direct_variance": ("x", np.diagonal(bend)),
            "primal": ("x", features @ theta),
            "dual": ("x", ridge),
            "sampled": (("draw", "order"), np.stack(sampled)[:, :10]),
            "likely": (("i", "j"), likely),
            "in_subset": (("subset", "i"), np.array([[i in one for i in range(POINTS)] for one in found])),
            "weights": ("x", rng.dirichlet(np.full(config.grid, 5.0))),
            "any": ("x", rng.normal(size=config.grid)),
        },
        coords={"x": x},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    full, rounding = kernel(data.x.values, data.x.values), 1e-13 * config.grid**2
    sharp = 1e-13 * (1 + config.samples / config.ridge) * config.grid
    for key, name, one, other, within in (
        ("primal-dual", "ridge regression on features against that on their kernel", "primal", "dual", sharp),
        ("representer", "kernel ridge regression against the least over all functions", "mean", "direct", rounding),
        ("variance", "Gaussian process: variance by its precision", "variance", "direct_variance", rounding),
    ):
        yield claim(key, name).zero(np.abs(data[one] - data[other]).max(), within, "rounding of an inverse")
    yield from functions(data, config, full, rounding)
    yield from spectrum(data, config)
    yield from determinantal(data, config)


def functions(data: xr.Dataset, config: Config, full: np.ndarray, rounding: float) -> Findings:
    """The space of the kernel under random weights, by eigenfunctions."""
    small = "rounding of small eigenvalues"
    values, vectors = np.linalg.eigh(np.sqrt(np.outer(data.weights, data.weights)) * full)
    psi = vectors / np.sqrt(data.weights.values)[:, None]
    name = "kernel from its eigenvalues and eigenfunctions, under random weights"
    yield claim("eigenfunctions", name).zero(
        np.abs((psi * values) @ psi.T - full).max(), 1e-12 / float(data.weights.min()), "rounding, by the least weight"
    )
    # T^{-1/2} f in L^2 of these weights, f by its values.
    root = lambda f: (psi.T * data.weights.values) @ f / np.sqrt(values).reshape(-1, *[1] * (f.ndim - 1))  # noqa: E731
    a = data["any"].values
    f, square = full @ a, a @ full @ a
    name = r"function's product with $K(x, \cdot)$ less its value, largest"
    yield claim("reproducing", name).zero(np.abs(root(full).T @ root(f) - f).max() / np.abs(f).max(), rounding, small)
    name = r"squared norm of a random combination of kernels over $a^\top Ka$"
    yield claim("squared-norm", name).equal(1.0, (root(f) ** 2).sum() / square, rounding, small)
    sizes = np.abs(f) / np.sqrt(np.diagonal(full) * square)
    name = r"largest value of a function over its bound, norm times $\sqrt{K(x, x)}$"
    yield claim("value-bound", name).at_most(1.0, sizes.max())
    lower, seen, fit = np.linalg.cholesky(full), data.seen.values, data["mean"].values
    spare = np.linalg.qr(lower.T[:, seen], mode="complete")[0][:, config.samples :]
    aside = lower @ spare @ np.ones(spare.shape[1])
    norm = lambda g: float(g @ np.linalg.solve(full, g))  # noqa: E731
    name = "part orthogonal to the data's kernels"
    yield claim("orthogonal-values", f"{name}: its largest value at the data").zero(
        np.abs(aside[seen]).max(), rounding, "rounding"
    )
    added, note = norm(fit + aside) - norm(fit), "the least function therefore has no such part"
    yield claim("orthogonal-norm", f"{name}: what it adds to the squared norm, over its own").equal(
        1.0, added / norm(aside), rounding, "rounding", note=note
    )


def spectrum(data: xr.Dataset, config: Config) -> Findings:
    """The operator on the interval, whose eigenvalues are known, and on random points."""
    terms, half = 10_000, np.array([0.5])
    values, psi = eigen(terms, half)
    left = 2 / (np.pi**2 * (terms - 0.5))
    inner = (values * psi[0]) ** 2  # squared products of K(1/2, .) with the eigenfunctions
    printed = r"\mathcal H = T^{-1}L^2:\ \|Tf\|^2", (inner * values**2).sum()
    right, found = (r"\mathcal H = T^{1/2}L^2:\ \|T^{-1/2}f\|^2", (inner / values).sum()), kernel(half, half)[0, 0]
    where = "lecture of 10/31, the space of a kernel"
    note = "Functions of the space are smoother than square-integrable functions, by half of the operator."
    yield claim("norm-erratum", r"squared norm of $K(x, \cdot)$, which is $K(x, x)$, at $x = 1/2$").erratum(
        printed, right, found, left, "the terms left out", by="derivation", where=where, note=note
    )
    for order in range(2):
        exact, found = 1 / ((order + 0.5) * np.pi) ** 2, estimate(data.sampled[:, order])
        name = f"eigenvalue {order + 1} of the kernel on random points over their number"
        why = "the next order: at most one over their number"
        yield claim(f"eigenvalue-{order + 1}", name).equal(exact, found, 1 / config.drawn, why)
    points = np.random.default_rng(config.seed).normal(size=(10, 3))
    name = "rank of the linear kernel of ten points in three dimensions, which is not strictly positive"
    yield claim("linear-rank", name).count(3, int(np.linalg.matrix_rank(points @ points.T)), "its features")


def determinantal(data: xr.Dataset, config: Config) -> Findings:
    """Chances of all subsets, det L_X / det(1 + L), and the marginal kernel."""
    likely, both, exact = data.likely.values, data.in_subset.values, "exact in the mean"
    whole = np.eye(POINTS) + likely
    marginal = likely @ np.linalg.inv(whole)
    subsets = [s for size in range(POINTS + 1) for s in itertools.combinations(range(POINTS), size)]
    minor = lambda matrix, s: np.linalg.det(matrix[np.ix_(s, s)])  # noqa: E731
    chance = {s: minor(likely, s) / np.linalg.det(whole) for s in subsets}
    apart = [sum(p for of, p in chance.items() if set(s) <= set(of)) - minor(marginal, s) for s in subsets]
    name = "determinantal process: chance that a set is in it less its determinant, of all 32"
    yield claim("marginal-kernel", name).zero(np.abs(apart).max(), 1e-12, "rounding")
    yield claim("subset-size", "drawn subsets: points in one").equal(
        float(np.trace(marginal)), estimate(both.sum(1)), 0, exact
    )
    gap = (both[:, 0] & both[:, -1]).astype(float)
    yield claim("subset-pair", "drawn subsets: share that have the first and the last point").equal(
        float(minor(marginal, [0, -1])), estimate(gap), 0, exact
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    spread = 2 * np.sqrt(data.variance)
    left.fill_between(data.x, data["mean"] - spread, data["mean"] + spread, color="C0", alpha=0.2, lw=0)
    left.plot(data.x, data["mean"], color="C0", label="Gaussian process")
    sheet.guide(left, data.x, data.direct, "ridge regression")
    left.plot(data.x[data.seen], data.y, "o", color="C1", label="data")
    sheet.label(left, r"One fit in two ways, $K = \min(x, y)$", "$x$", None, "best")
    order = np.arange(1, data.sizes["order"] + 1)
    sheet.guide(middle, order, eigen(len(order), np.ones(1))[0], "on the interval")
    middle.errorbar(order, data.sampled.mean("draw"), data.sampled.std("draw"), fmt="o", ms=4, label="on random points")
    sheet.label(middle, "Eigenvalues", "order", None, "best", xscale="log", yscale="log")
    sheet.ticks(middle, [1, 2, 5, 10])
    values, psi = eigen(200, np.array([0.5]))
    inner = (values * psi[0]) ** 2
    for color, (power, words) in enumerate(((-1, r"$T^{1/2}L^2$"), (2, r"$T^{-1}L^2$, as printed"))):
        right.semilogx(np.arange(1, 201), np.cumsum(inner * values**power), color=f"C{color}", label=words)
    sheet.mark(right, y=0.5, label="$K(x, x)$")
    sheet.label(right, r"Squared norm of $K(x, \cdot)$, $x = 1/2$", "terms", None, "center right")
