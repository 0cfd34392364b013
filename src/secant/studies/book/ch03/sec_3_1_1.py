"""Section 3.1.1: the pseudo-inverse by singular values, and the identities that it alone satisfies."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, sheet, study
from secant.studies.shared.numerics.differences import largest, relative

SHAPES = {"wide": (1, 2), "square": (1, 1), "tall": (2, 1)}
"""Rows and columns of a matrix, over the size."""


class Config(Seeded):
    size: int = option(8, at_least=3, at_most=150, help="smaller side of the matrices")
    rank: int = option(5, at_least=1, at_most=150, help="rank of the matrices, below the size")
    spread: float = option(10.0, at_least=1, at_most=1e6, help="largest singular value over the smallest")

    def check(self) -> None:
        """A rank below the size: a matrix with an inverse has nothing to show."""
        if self.rank >= self.size:
            raise ValueError(f"rank: below the size of {self.size}; got {self.rank}.")


def parts(data: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A matrix and its pseudo-inverse, without the padding."""
    rows, columns = (int(data[side].sel(shape=name)) for side in ("rows", "columns"))
    return data.M.sel(shape=name).values[:rows, :columns], data.inverse.sel(shape=name).values[:columns, :rows]


@study("book/sec-3.1.1", section="3.1.1", title="The pseudo-inverse")
def run(config: Config) -> xr.Dataset:
    r"""The pseudo-inverse of $M = \sum_{i\le k}\sigma_iu_iv_i^\top$, a matrix of rank $k$, is
    $M^\dagger = \sum_{i\le k}\sigma_i^{-1}v_iu_i^\top$. Problem 3.1.1: $MM^\dagger M = M$ and
    $M^\dagger MM^\dagger = M^\dagger$. Only the pseudo-inverse has these two properties with $MM^\dagger$ and
    $M^\dagger M$ symmetric, Penrose's four. The two products project onto what $M$ reaches and onto what $M$ sees.
    Problem 3.1.2: for $X$ of full row rank $(X^\top X)^\dagger X^\top = X^\top(XX^\top)^{-1}$.
    """
    rng = np.random.default_rng(config.seed)
    sigma = np.geomspace(config.spread, 1, config.rank)
    side = 2 * config.size
    M, inverse = np.zeros((len(SHAPES), side, side)), np.zeros((len(SHAPES), side, side))
    for k, (a, b) in enumerate(SHAPES.values()):
        u, v = (np.linalg.qr(rng.normal(size=(n * config.size, config.rank)))[0] for n in (a, b))
        M[k, : len(u), : len(v)] = (u * sigma) @ v.T
        # By (3.7), from the singular values of the matrix itself.
        left, found, right = np.linalg.svd(M[k, : len(u), : len(v)])
        inverse[k, : len(v), : len(u)] = (right[: config.rank].T / found[: config.rank]) @ left[:, : config.rank].T
    sizes = np.array(list(SHAPES.values())) * config.size
    return xr.Dataset(
        {
            "M": (("shape", "i", "j"), M),
            "inverse": (("shape", "j", "i"), inverse),
            "rows": ("shape", sizes[:, 0]),
            "columns": ("shape", sizes[:, 1]),
            "sigma": ("mode", sigma),
            "full": (("sample", "feature"), rng.normal(size=(config.size // 2 + 1, side))),
        },
        coords={"shape": list(SHAPES)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rounding = 1e-14 * config.size * config.spread**2
    for name in data["shape"].values:
        M, A = parts(data, name)
        size, small = np.abs(M).max(), np.abs(A).max()
        for key, law, left, scale in (
            ("mam", r"$MM^\dagger M = M$", M @ A @ M - M, size),
            ("ama", r"$M^\dagger MM^\dagger = M^\dagger$", A @ M @ A - A, small),
            ("ma", r"$MM^\dagger$ is symmetric", M @ A - (M @ A).T, 1),
            ("am", r"$M^\dagger M$ is symmetric", A @ M - (A @ M).T, 1),
            ("numpy", r"$M^\dagger$ is NumPy's", A - np.linalg.pinv(M, rcond=1e-3 / config.spread), small),
        ):
            yield claim(f"{name}-{key}", f"{name}: {law}, largest miss").zero(
                largest(left) / scale, rounding, "rounding"
            )
        yield claim(f"{name}-trace", rf"{name}: trace of $MM^\dagger$").equal(
            config.rank, np.trace(M @ A), rounding * config.rank, "the trace of a projection is its rank"
        )
    X = data.full.values
    small = np.linalg.svd(X, compute_uv=False)
    found, exact = np.linalg.pinv(X.T @ X, rcond=1e-9, hermitian=True) @ X.T, X.T @ np.linalg.inv(X @ X.T)
    sentence = r"problem 3.1.2: $(X^\top X)^\dagger X^\top$ less $X^\top(XX^\top)^{-1}$, over its largest entry"
    yield claim("full-rank", sentence).zero(
        relative(found, exact), 1e-14 * len(X.T) * (small[0] / small[-1]) ** 3, "rounding"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (13, 4.2), 4, width_ratios=(1, 1, 1, 1.3))
    M, A = parts(data, "wide")
    for panel, matrix, title in zip(axes, (M, A @ M, M @ A), ("$M$", r"$M^\dagger M$", r"$MM^\dagger$"), strict=False):
        top = np.abs(matrix).max()
        panel.imshow(matrix, cmap="RdBu_r", vmin=-top, vmax=top)
        panel.set(xticks=[], yticks=[])
        panel.grid(False)
        sheet.label(panel, f"{title}, {matrix.shape[0]} x {matrix.shape[1]}")
    modes = np.arange(1, config.rank + 1)
    axes[3].semilogy(modes, data.sigma, "o-", label=r"$M$")
    axes[3].semilogy(modes, np.linalg.svd(A, compute_uv=False)[: config.rank][::-1], "s-", label=r"$M^\dagger$")
    sheet.guide(axes[3], modes, 1 / data.sigma, r"$1/\sigma_i$")
    ticks = modes if config.rank < 12 else [1, config.rank]
    sheet.label(axes[3], "Singular values", "number", None, "best", xticks=ticks)
