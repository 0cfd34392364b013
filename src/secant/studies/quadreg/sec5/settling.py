"""How far below the edge random quadratic regression settles: the paper's open question, measured and fitted."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Findings, Seeded, bootstrap, claim, options, scaled, sheet, study
from secant.studies.shared.regression.draws import check_sizes, sizes
from secant.theory.regression import phase_plane
from secant.theory.regression import quadratic_regression as model

COARSE = (0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5)
FINE = (0.3, 0.325, 0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6)


class Config(Seeded):
    outputs: tuple[int, ...] = scaled(
        smoke=(20, 20),
        laptop=(20, 20, 20),
        paper=(20, 20, 20, 40, 40, 40, 60),
        at_least=2,
        longest=50,
        help="residuals D",
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(40, 80),
        laptop=(30, 40, 80),
        paper=(30, 40, 80, 60, 80, 160, 120),
        at_least=2,
        longest=50,
        help="parameters P, as many entries, each more than D",
    )
    residuals: tuple[float, ...] = scaled(
        smoke=COARSE,
        laptop=FINE,
        at_least=1e-3,
        at_most=10,
        longest=100,
        distinct=True,
        help="rescaled scales of the residuals",
    )
    jacobians: tuple[float, ...] = scaled(
        smoke=(0.05, 0.15, 0.2, 0.25, 0.3),
        laptop=(0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35),
        at_least=1e-3,
        at_most=10,
        longest=100,
        distinct=True,
        help="squares of the rescaled scales of the Jacobian",
    )
    draws: int = options.draws(4, 16, 24, at_least=3, at_most=1_000)
    steps: int = options.steps(3_000, 10_000, at_least=100, at_most=10_000_000)
    finer: int = scaled(
        smoke=3,
        laptop=8,
        at_least=2,
        at_most=100,
        help="how many times smaller the steps are that stand for gradient flow",
    )

    def check(self) -> None:
        """Sizes that pair up, with more parameters than residuals: of the law's factor 1 - D/P a logarithm is taken."""
        check_sizes(self.outputs, self.parameters, together=1)
        for D, P in sizes(self.outputs, self.parameters):
            if P <= D:
                raise ValueError(f"parameters: must be above outputs, {D}, got {P}.")


@study("quadreg/settling", section="5.2", title="How far below the edge it settles", new=True, precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""The paper asks for the final deviation $\delta = 2 - \eta\lambda_{\max}$ at the edge of stability as a function
    of $\tilde\sigma_z$, $\tilde\sigma_J$ and $D/P$. Let $\Lambda$ be $\eta\lambda_{\max}$ at the end of gradient flow
    from the same start. Where $\Lambda > 2$ gradient descent cannot follow; it settles the closer below the edge, the
    further the flow would have gone, and the slower its slowest modes are. Over the draws of a cell, the median is
    $$\delta = A\,(1 - D/P)^q\,e^{-c(\Lambda - 2)}:$$ three constants, and the two scales enter through $\Lambda$ alone.
    The law is fitted on every other cell of the plane and judged on the rest, beside a power law in $\tilde\sigma_z$,
    $\tilde\sigma_J^2$ and $1 - D/P$.
    """

    def ends(D: int, P: int, seed: int, slower: int) -> xr.Dataset:
        tensor, start = jax.random.split(jax.random.key(seed))
        # With s times smaller scales, steps of gradient descent are those of a step size s times smaller.
        plane = phase_plane.phase_plane(
            model.random_tensor(tensor, D, P, dtype=jnp.float32),
            model.random_start(start, D, P, jnp.float32),
            [residual / slower for residual in config.residuals],
            [jacobian / slower for jacobian in config.jacobians],
            max_steps=config.steps * slower,
            label=f"{D} x {P}, seed {seed}, step 1/{slower}",
        )
        return xr.Dataset(
            {
                "curvature": slower * plane.top.isel(mode=0),
                "converged": (plane.outcome == Outcome.CONVERGED).astype(float),
                "diverged": (plane.outcome == Outcome.DIVERGED).astype(float),
            }
        ).assign_coords(residual=list(config.residuals), jacobian=list(config.jacobians))

    def draws(D: int, P: int) -> xr.Dataset:
        seeds = range(config.seed, config.seed + config.draws)
        pairs = [(ends(D, P, seed, 1), ends(D, P, seed, config.finer)) for seed in seeds]
        descent, flow = (xr.concat(found, "draw") for found in zip(*pairs, strict=True))
        return descent.assign(flow=flow.curvature.where(flow.converged == 1))

    pairs = sizes(config.outputs, config.parameters)
    return xr.concat([draws(D, P) for D, P in pairs], "size").assign_coords(
        size=[f"{D} x {P}" for D, P in pairs],
        D=("size", list(config.outputs)),
        ratio=("size", [D / P for D, P in pairs]),
    )


MARGIN, ENOUGH = 0.05, 0.75
"""A cell is at the edge if its flow ends so far above 2, and is used if so many of its draws have converged."""


class Cells(NamedTuple):
    """What the fits are made of: the cells at the edge, one entry each.

    The logarithm of the median deviation, its sampling error, how far above 2 the median of the flow ends, the number
    of its size, whether the cell is kept from the fit, its scales, and its ratio D/P.
    """

    log_delta: np.ndarray
    error: np.ndarray
    excess: np.ndarray
    number: np.ndarray
    held_out: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    ratio: np.ndarray


def cells_by_draws(data: xr.Dataset) -> Callable[[np.ndarray], Cells]:
    """A function of some draws: the cells at the edge by these. In NumPy, for it is called once a resampling."""
    axes = ("size", "residual", "jacobian")
    flow, converged, curvature = (
        data[name].transpose(*axes, "draw").values for name in ("flow", "converged", "curvature")
    )
    # Deviations of almost nothing, or a curvature just above 2, must not count for everything in a logarithm.
    every = np.log(np.maximum(np.where(converged == 1, 2 - curvature, np.nan), 1e-5))

    def at(draws: np.ndarray) -> Cells:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no draw of a cell has converged
            excess = np.nanmedian(flow[..., draws], -1) - 2
        places = np.nonzero((excess > MARGIN) & (converged[..., draws].mean(-1) >= ENOUGH))
        logs = every[..., draws][places]
        # A median of n draws has the standard error 1.2533 s / sqrt(n); s from the middle half, 1.349 s wide.
        quantile = np.nanquantile if np.isnan(logs).any() else np.quantile
        lower, middle, upper = quantile(logs, [0.25, 0.5, 0.75], axis=-1)
        error = 1.2533 * (upper - lower) / 1.349 / np.sqrt(np.isfinite(logs).sum(-1))
        size, residual, jacobian = places
        scales = data.residual.values[residual], data.jacobian.values[jacobian]
        held_out = (residual + jacobian) % 2 == 1
        return Cells(middle, error, excess[places], size, held_out, *scales, data.ratio.values[size])

    return at


def at_the_edge(data: xr.Dataset) -> xr.Dataset:
    """The cells at the edge by all draws, along `cell`."""
    cells = cells_by_draws(data)(np.arange(data.sizes["draw"]))
    return xr.Dataset({name: ("cell", values) for name, values in cells._asdict().items()})


def law(cells: xr.Dataset | Cells) -> np.ndarray:
    """Columns of the law: its logarithm is linear in its constants."""
    return np.stack([np.ones_like(cells.excess), cells.excess, np.log(1 - cells.ratio)], axis=1)


def scales(cells: xr.Dataset | Cells) -> np.ndarray:
    """Columns that the two scales would add."""
    return np.stack([np.log(cells.residual), np.log(cells.jacobian)], axis=1)


def fitted(cells: xr.Dataset | Cells, columns: np.ndarray, held_out: np.ndarray) -> tuple[np.ndarray, float]:
    """Constants by least squares on what is not held out; root mean square error of the logarithm on the rest."""
    found = np.asarray(cells.log_delta)
    constants, *_ = np.linalg.lstsq(columns[~held_out], found[~held_out], rcond=None)
    missed = (found - columns @ constants)[held_out]
    return constants, float(np.sqrt(np.sum(missed**2) / max(len(missed), 1)))


def over_sampling(cells: Cells, held_out: np.ndarray) -> float:
    """Error of the law on what is held out of its fit, over the sampling error of the medians there."""
    known = float(np.sqrt(np.mean(cells.error[held_out] ** 2)))
    return fitted(cells, law(cells), held_out)[1] / known if known else np.nan


def enough(held_out: np.ndarray) -> bool:
    """Whether there are more cells to fit than constants, at most five, and as many to judge by."""
    return min(np.sum(~held_out), np.sum(held_out)) > 5


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    edge = (data.flow > 2) & (data.converged == 1)
    yield claim("share-converged-runs", "share of converged runs whose flow ends above 2 that end below 2").equal(
        1.0,
        (data.curvature < 2).where(edge).mean(),
        0.02,
        "a mode barely above 2 grows too slowly to be seen before the loss is zero",
        note=f"{int(edge.sum()):,} runs",
    )
    cells = at_the_edge(data)
    yield from _law(data, cells)
    left = "left out of the fit: error of the law, over the sampling error of the medians"
    if len(set(data.ratio.values)) < 3:
        why = "without one, no two values of D/P are left for an exponent"
        yield claim(f"size-{left}", f"a size {left}").undecided(1.0, why, "at most")
        return
    for number, size in enumerate(data["size"].values):
        out = (cells.number == number).values
        missing = "" if enough(out) else f"{np.sum(out)} of its cells are at the edge"
        if len(set(cells.ratio.values[~out])) < 2:
            missing = "without it, no two values of D/P are left for an exponent"
        yield claim(f"{size}-{left}", f"{size} {left}", given=not missing, otherwise=missing).at_most(
            1.0, lambda number=number: bootstrap(_without(data, number), data.sizes["draw"])[0], "as above", slack=0.5
        )


def _without(data: xr.Dataset, number: int) -> Callable[[np.ndarray], float]:
    """Of some draws: the error of the law on one size, fitted on the others."""

    by_draws = cells_by_draws(data)

    def judged(draws: np.ndarray) -> float:
        cells = by_draws(draws)
        out = cells.number == number
        return over_sampling(cells, out) if enough(out) else np.nan

    return judged


def _law(data: xr.Dataset, cells: xr.Dataset) -> Findings:
    """The law, fitted on some cells, on the rest of them; errors by resampling the draws."""
    rest = cells.held_out.values
    few = f"{np.sum(~rest)} cells at the edge to fit and {np.sum(rest)} to judge by; five constants need more"
    given = enough(rest)
    (A, c, q), error = fitted(cells, law(cells), rest) if given else ([np.nan] * 3, np.nan)

    by_draws = cells_by_draws(data)

    def judged(draws: np.ndarray) -> list[float]:
        cells = by_draws(draws)
        rest = cells.held_out
        if not enough(rest):
            return [np.nan] * 4
        (_, slope, _), error = fitted(cells, law(cells), rest)
        powers, both = (np.column_stack([known, scales(cells)]) for known in (law(cells)[:, [0, 2]], law(cells)))
        others = [fitted(cells, columns, rest)[1] for columns in (powers, both)]
        return [-slope, over_sampling(cells, rest), error / others[0], others[1] / error]

    found = bootstrap(judged, data.sizes["draw"]) if given else [np.nan] * 4
    yield claim(
        "how-much-log", "by how much log(delta) falls when the flow ends one higher", given=given, otherwise=few
    ).at_least(
        0.0,
        found[0],
        "an inequality: the further the flow, the closer to the edge",
        note=f"A = {np.exp(A):.3f}, c = {-c:.2f}, q = {q:.2f} on {np.sum(~rest)} cells; {np.sum(rest)} held out",
    )
    yield claim(
        "error-law-held",
        "error of the law on held-out cells, over the sampling error of their medians",
        given=given,
        otherwise=few,
    ).at_most(
        1.0,
        found[1],
        "one is a law without fault; half as much again for its simple form",
        slack=0.5,
        note=f"a factor of {np.exp(error):.2f} in delta; between draws of one cell delta varies by much more",
    )
    yield claim(
        "error-law-held-out",
        "error of the law on held-out cells, over that of the power law",
        given=given,
        otherwise=few,
    ).at_most(1.0, found[2], "an inequality: the flow's end says more than the scales, with one constant less")
    yield claim(
        "error-law-both", "error of the law with both scales added to it, over its own", given=given, otherwise=few
    ).at_least(1.0, found[3], "the scales enter through the flow's end alone, up to sampling errors", slack=0.15)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    cells = at_the_edge(data).sortby("excess")
    constants, _ = fitted(cells, law(cells), cells.held_out.values)
    cells = cells.assign(law=("cell", np.exp(law(cells) @ constants)), delta=np.exp(cells.log_delta))
    ratios, outputs = sorted(set(data.ratio.values)), sorted(set(data.D.values))
    for number, size in enumerate(data["size"].values):
        own = cells.isel(cell=cells.number == number)
        colour = f"C{ratios.index(data.ratio[number])}"
        look = {"color": colour, "marker": "osD^v"[outputs.index(data.D[number]) % 5], "ms": 4, "alpha": 0.7}
        left.semilogy(own.excess + 2, own.delta, ls="none", label=size, **look)
        left.plot(own.excess + 2, own.law, color=colour, lw=1.2)
        new = own.isel(cell=own.held_out)
        bars = new.delta - new.delta / np.exp(new.error), new.delta * np.exp(new.error) - new.delta
        right.errorbar(new.law, new.delta, np.stack(bars), ls="none", elinewidth=0.8, **look)
    left.set(title="Median deviation of every cell, and the law", xlabel=r"$\Lambda$, end of gradient flow")
    left.set(ylabel=r"$\delta = 2 - \eta\lambda_{\max}$")
    left.legend(title="D x P", loc="best")
    ends = np.sort(cells.law)
    sheet.guide(right, ends, ends)
    right.set(title="Cells held out of the fit", xlabel=r"$\delta$ by the law", ylabel=r"$\delta$ measured")
    right.set(xscale="log", yscale="log")
