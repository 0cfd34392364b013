"""How far below the edge random quadratic regression settles: the paper's open question, measured and fitted."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Findings, claims, scaled, sheet, study
from secant.setups.regression.draws import check_sizes, sizes
from secant.theory import phase_plane
from secant.theory import quadratic_regression as model

COARSE = (0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5)
FINE = (0.3, 0.325, 0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6)


@dataclass(frozen=True)
class Config:
    outputs: tuple[int, ...] = scaled(
        smoke=(20, 20), laptop=(20, 20, 20), paper=(20, 20, 20, 40, 40, 40, 60), at_least=2, longest=50,
        help="residuals D",
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(40, 80), laptop=(30, 40, 80), paper=(30, 40, 80, 60, 80, 160, 120), at_least=2, longest=50,
        help="parameters P, as many entries, each more than D",
    )
    residuals: tuple[float, ...] = scaled(
        smoke=COARSE, laptop=FINE, at_least=1e-3, at_most=10, longest=100, distinct=True,
        help="rescaled scales of the residuals",
    )
    jacobians: tuple[float, ...] = scaled(
        smoke=(0.05, 0.15, 0.2, 0.25, 0.3), laptop=(0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35), at_least=1e-3,
        at_most=10, longest=100, distinct=True, help="squares of the rescaled scales of the Jacobian",
    )
    seeds: int = scaled(smoke=6, laptop=16, paper=24, at_least=3, at_most=1_000, help="random models a size")
    steps: int = scaled(
        smoke=3_000, laptop=10_000, at_least=100, at_most=10_000_000, help="gradient-descent steps at most"
    )
    finer: int = scaled(
        smoke=3, laptop=8, at_least=2, at_most=100,
        help="how many times smaller the steps are that stand for gradient flow",
    )

    def check(self) -> None:
        """Sizes that pair up, with more parameters than residuals: of the law's factor 1 - D/P a logarithm is taken."""
        check_sizes(self.outputs, self.parameters, together=1)
        for D, P in sizes(self.outputs, self.parameters):
            if P <= D:
                raise ValueError(f"parameters: must be above outputs, {D}, got {P}.")


@study(
    "quadreg/settling", section="5.2", title="How far below the edge it settles", new=True,
    statement=r"""
    The paper asks for the final deviation $\delta = 2 - \eta\lambda_{\max}$ at the edge of stability as a function of
    $\tilde\sigma_z$, $\tilde\sigma_J$ and $D/P$. Let $\Lambda$ be $\eta\lambda_{\max}$ at the end of gradient flow
    from the same start. Where $\Lambda > 2$ gradient descent cannot follow; it settles the closer below the edge, the
    further the flow would have gone, and the slower its slowest modes are. Over the draws of a cell, the median is
    $$\delta = A\,(1 - D/P)^q\,e^{-c(\Lambda - 2)}:$$
    three constants, and the two scales enter through $\Lambda$ alone. The law is fitted on every other cell of the
    plane and judged on the rest, beside a power law in $\tilde\sigma_z$, $\tilde\sigma_J^2$ and $1 - D/P$.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    def ends(D: int, P: int, seed: int, slower: int) -> xr.Dataset:
        tensor, start = jax.random.split(jax.random.key(seed))
        # With s times smaller scales, steps of gradient descent are those of a step size s times smaller.
        plane = phase_plane.phase_plane(
            model.random_tensor(tensor, D, P, dtype=jnp.float32), model.random_start(start, D, P, jnp.float32),
            [residual / slower for residual in config.residuals], [jacobian / slower for jacobian in config.jacobians],
            max_steps=config.steps * slower, label=f"{D} x {P}, seed {seed}, step 1/{slower}",
        )
        return xr.Dataset(
            {
                "curvature": slower * plane.top.isel(mode=0),
                "converged": (plane.outcome == Outcome.CONVERGED).astype(float),
                "diverged": (plane.outcome == Outcome.DIVERGED).astype(float),
            }
        ).assign_coords(residual=list(config.residuals), jacobian=list(config.jacobians))

    def draws(D: int, P: int) -> xr.Dataset:
        pairs = [(ends(D, P, seed, 1), ends(D, P, seed, config.finer)) for seed in range(config.seeds)]
        descent, flow = (xr.concat(found, "draw") for found in zip(*pairs, strict=True))
        return descent.assign(flow=flow.curvature.where(flow.converged == 1))

    pairs = sizes(config.outputs, config.parameters)
    return xr.concat([draws(D, P) for D, P in pairs], "size").assign_coords(
        size=[f"{D} x {P}" for D, P in pairs], D=("size", [D for D, _ in pairs]),
        ratio=("size", [D / P for D, P in pairs]),
    )


MARGIN, ENOUGH = 0.05, 0.75
"""A cell is at the edge if its flow ends so far above 2, and is used if so many of its draws have converged."""


@dataclass(frozen=True)
class Cells:
    """The cells at the edge, one entry each.

    Attributes:
        log_delta: of the median deviation.
        error: its sampling error.
        excess: median of the flow's end, less 2.
        ratio: D/P.
        residual: the scale of the residuals.
        jacobian: that of the Jacobian, squared.
        held_out: whether the cell is kept from the fit.
        size: the number of its size.
    """

    log_delta: np.ndarray
    error: np.ndarray
    excess: np.ndarray
    ratio: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    held_out: np.ndarray
    size: np.ndarray

    def law(self) -> np.ndarray:
        """Columns of the law: its logarithm is linear in its constants."""
        return np.stack([np.ones_like(self.excess), self.excess, np.log(1 - self.ratio)], axis=1)

    def scales(self) -> np.ndarray:
        """Columns that the two scales would add."""
        return np.stack([np.log(self.residual), np.log(self.jacobian)], axis=1)

    def power_law(self) -> np.ndarray:
        """Columns of a power law in both scales and the ratio of sizes."""
        return np.column_stack([self.law()[:, [0, 2]], self.scales()])


def at_the_edge(data: xr.Dataset) -> Cells:
    """What the fits are made of."""
    deviation = (2 - data.curvature).where(data.converged == 1)
    excess = data.flow.median("draw") - 2
    used = ((excess > MARGIN) & (data.converged.mean("draw") >= ENOUGH)).transpose("size", "residual", "jacobian")
    size, residual, jacobian = np.nonzero(used.values)
    # Deviations of almost nothing, or a curvature just above 2, must not count for everything in a logarithm.
    logs = np.log(np.maximum(deviation.transpose("draw", *used.dims).values[:, size, residual, jacobian], 1e-5))
    middle = np.nanmedian(logs, axis=0)
    # A median of n draws has the standard error 1.2533 s / sqrt(n); s from the middle half, 1.349 s wide.
    lower, upper = np.nanquantile(logs, [0.25, 0.75], axis=0)
    return Cells(
        log_delta=middle, error=1.2533 * (upper - lower) / 1.349 / np.sqrt(np.sum(np.isfinite(logs), axis=0)),
        excess=excess.transpose(*used.dims).values[size, residual, jacobian], ratio=data.ratio.values[size],
        residual=data.residual.values[residual], jacobian=data.jacobian.values[jacobian],
        held_out=(residual + jacobian) % 2 == 1, size=size,
    )


def fitted(cells: Cells, columns: np.ndarray, held_out: np.ndarray) -> tuple[np.ndarray, float]:
    """Constants by least squares on what is not held out; root mean square error of the logarithm on the rest."""
    constants, *_ = np.linalg.lstsq(columns[~held_out], cells.log_delta[~held_out], rcond=None)
    missed = (cells.log_delta - columns @ constants)[held_out]
    return constants, float(np.sqrt(np.mean(missed**2)))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    edge = (data.flow > 2) & (data.converged == 1)
    yield claims.equal(
        "share of converged runs whose flow ends above 2 that end below 2", 1.0,
        (data.curvature < 2).where(edge).mean(), 0.02,
        "a mode barely above 2 grows too slowly to be seen before the loss is zero", note=f"{int(edge.sum()):,} runs",
    )
    cells = at_the_edge(data)
    rest = cells.held_out
    yield from _law(cells, rest) if _enough(cells, rest) else _too_few(cells, rest)
    left = "left out of the fit: error of the law, over the sampling error of the medians"
    if len(set(data.ratio.values)) < 3:
        yield claims.undecided(
            f"a size {left}", 1.0, "without one, no two values of D/P are left for an exponent", "at most"
        )
        return
    for number, size in enumerate(data["size"].values):
        name = f"{size} {left}"
        left_out = cells.size == number
        if len(set(cells.ratio[~left_out])) < 2:
            yield claims.undecided(name, 1.0, "without it, no two values of D/P are left for an exponent", "at most")
        elif not _enough(cells, left_out):
            yield claims.undecided(name, 1.0, f"{np.sum(left_out)} of its cells are at the edge", "at most")
        else:
            error = fitted(cells, cells.law(), left_out)[1]
            yield claims.at_most(
                name, 1.0, error / float(np.sqrt(np.mean(cells.error[left_out] ** 2))), "as above", slack=0.5
            )


CLAIMS = {
    "by how much log(delta) falls when the flow ends one higher": (0.0, "at least"),
    "error of the law on held-out cells, over the sampling error of their medians": (1.0, "at most"),
    "error of the law on held-out cells, over that of the power law": (1.0, "at most"),
    "error of the law with both scales added to it, over its own": (1.0, "at least"),
}
"""What is said of the law, with the bounds."""


def _enough(cells: Cells, held_out: np.ndarray) -> bool:
    """Whether there are more cells to fit than constants, the most that a form has, and as many to judge by."""
    most = cells.law().shape[1] + cells.scales().shape[1]
    return bool(np.sum(~held_out) > most and np.sum(held_out) > most)


def _too_few(cells: Cells, held_out: np.ndarray) -> Findings:
    why = f"{np.sum(~held_out)} cells at the edge to fit and {np.sum(held_out)} to judge by; five constants need more"
    for name, (bound, relation) in CLAIMS.items():
        yield claims.undecided(name, bound, why, relation)


def _law(cells: Cells, rest: np.ndarray) -> Findings:
    """The law, fitted on some cells, on the rest of them."""
    constants, error = fitted(cells, cells.law(), rest)
    falls, sampled, power, scales = CLAIMS
    yield claims.at_least(
        falls, 0.0, -constants[1], "an inequality: the further the flow, the closer to the edge",
        note=f"A = {np.exp(constants[0]):.3f}, c = {-constants[1]:.2f}, q = {constants[2]:.2f} on "
        f"{np.sum(~rest)} cells; {np.sum(rest)} held out",
    )
    yield claims.at_most(
        sampled, 1.0, error / float(np.sqrt(np.mean(cells.error[rest] ** 2))),
        "one is a law without fault; half as much again for its simple form", slack=0.5,
        note=f"a factor of {np.exp(error):.2f} in delta; between draws of one cell delta varies by much more",
    )
    yield claims.at_most(
        power, 1.0, error / fitted(cells, cells.power_law(), rest)[1],
        "an inequality: the flow's end says more than the scales, with one constant less",
    )
    yield claims.at_least(
        scales, 1.0, fitted(cells, np.column_stack([cells.law(), cells.scales()]), rest)[1] / error,
        "the scales enter through the flow's end alone, up to sampling errors", slack=0.15,
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, right = sheet.panels(figure, (11, 4.4), 2)
    cells = at_the_edge(data)
    constants, _ = fitted(cells, cells.law(), cells.held_out)
    law = np.exp(cells.law() @ constants)
    ratios, outputs = sorted(set(data.ratio.values)), sorted(set(data.D.values))
    for number, size in enumerate(data["size"].values):
        own = cells.size == number
        colour = f"C{ratios.index(data.ratio.values[number])}"
        look = {"color": colour, "marker": "osD^v"[outputs.index(data.D.values[number]) % 5], "ms": 4, "alpha": 0.7}
        left.semilogy(cells.excess[own] + 2, np.exp(cells.log_delta[own]), ls="none", label=size, **look)
        along = np.argsort(cells.excess[own])
        left.plot(cells.excess[own][along] + 2, law[own][along], color=colour, lw=1.2)
        new = own & cells.held_out
        right.errorbar(law[new], np.exp(cells.log_delta[new]), _bars(cells, new), ls="none", elinewidth=0.8, **look)
    left.set(
        title="Median deviation of every cell, and the law", xlabel=r"$\Lambda$, end of gradient flow",
        ylabel=r"$\delta = 2 - \eta\lambda_{\max}$",
    )
    left.legend(title="D x P", loc="best")
    ends = [law.min(), law.max()]
    right.loglog(ends, ends, "--", color=ink, lw=1.0)
    right.set(title="Cells held out of the fit", xlabel=r"$\delta$ by the law", ylabel=r"$\delta$ measured")


def _bars(cells: Cells, which: np.ndarray) -> np.ndarray:
    """Lengths of error bars, below and above."""
    middle, factor = np.exp(cells.log_delta[which]), np.exp(cells.error[which])
    return np.stack([middle - middle / factor, middle * factor - middle])
