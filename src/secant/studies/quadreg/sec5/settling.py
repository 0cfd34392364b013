"""How far below the edge random quadratic regression settles: the paper's open question, measured and fitted."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Findings, Seeded, bootstrap, claim, options, scaled, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.cells import (
    at_the_edge,
    cells_by_draws,
    enough,
    fitted,
    law,
    over_sampling,
    scales,
)
from secant.studies.shared.regression.draws import check_sizes, sizes
from secant.theory.regression import phase_plane
from secant.theory.regression import quadratic_regression as model

COARSE = (0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5)
FINE = (0.3, 0.325, 0.35, 0.375, 0.4, 0.425, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6)
LARGE = (20, 20, 20, 40, 40, 40, 60), (30, 40, 80, 60, 80, 160, 120)
SQUARES = (0.05, 0.15, 0.2, 0.25, 0.3), (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs((20, 20), (20, 20, 20), LARGE[0], longest=50)
    parameters: tuple[int, ...] = models.parameters((40, 80), (30, 40, 80), LARGE[1], longest=50)
    residuals: tuple[float, ...] = models.residuals(COARSE, FINE, at_most=10, longest=100, distinct=True)
    jacobians: tuple[float, ...] = models.jacobians(*SQUARES, at_most=10, longest=100, distinct=True)
    draws: int = options.draws(4, 16, 24, at_least=3, at_most=1_000)
    steps: int = options.steps(3_000, 10_000, at_least=100, at_most=10_000_000)
    finer: int = scaled(
        smoke=3, laptop=8, at_least=2, at_most=100, help="step of descent over the step of gradient flow"
    )

    def check(self) -> None:
        """Sizes that pair up, with more parameters than residuals: the law takes the logarithm of 1 - D/P."""
        check_sizes(self.outputs, self.parameters, together=1)
        for D, P in sizes(self.outputs, self.parameters):
            if P <= D:
                raise ValueError(f"parameters: must be above outputs, {D}, got {P}.")


@study("quadreg/settling", section="5.2", title="How far below the edge it settles", new=True, precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""The paper asks for the final deviation $\delta = 2 - \eta\lambda_{\max}$ at the edge of stability as a function
    of $\tilde\sigma_z$, $\tilde\sigma_J$ and $D/P$. Let $\Lambda$ be $\eta\lambda_{\max}$ at the end of gradient flow
    from the same start. Where $\Lambda > 2$ gradient descent cannot follow. It settles the closer below the edge, the
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
        ended = {"converged": Outcome.CONVERGED, "diverged": Outcome.DIVERGED}
        ended_so = {name: (plane.outcome == outcome).astype(float) for name, outcome in ended.items()}
        found = xr.Dataset({"curvature": slower * plane.top.isel(mode=0), **ended_so})
        return found.assign_coords(residual=list(config.residuals), jacobian=list(config.jacobians))

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


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    edge = (data.flow > 2) & (data.converged == 1)
    below, note = (data.curvature < 2).where(edge).mean(), f"{int(edge.sum()):,} runs"
    sentence = "share of converged runs whose flow ends above 2 that end below 2"
    yield claim("below-edge", sentence).equal(
        1.0, below, 0.02, "a mode barely above 2 grows too slowly to be seen before the loss is zero", note=note
    )
    cells = at_the_edge(data)
    yield from _law(data, cells)
    left = "left out of the fit: error of the law, over the sampling error of the medians"
    none = "without it, no two values of D/P are left for an exponent"
    if len(set(data.ratio.values)) < 3:
        yield claim("left-out", f"a size {left}").undecided(1.0, none.replace("it,", "one,"), "at most")
        return
    for number, size in enumerate(data["size"].values):
        out = (cells.number == number).values
        missing = "" if enough(out) else f"{np.sum(out)} of its cells are at the edge"
        if len(set(cells.ratio.values[~out])) < 2:
            missing = none
        error = lambda number=number: bootstrap(_without(data, number), data.sizes["draw"])[0]  # noqa: E731
        yield claim(f"left-out-{size}", f"{size} {left}", not missing, missing).at_most(
            1.0, error, "as above", slack=0.5
        )


def _without(data: xr.Dataset, number: int) -> Callable[[np.ndarray], float]:
    """A function of some draws that gives the error of the law on one size, fitted on the others."""
    by_draws = cells_by_draws(data)

    def judged(draws: np.ndarray) -> float:
        cells = by_draws(draws)
        out = cells.number == number
        return over_sampling(cells, out) if enough(out) else np.nan

    return judged


def _law(data: xr.Dataset, cells: xr.Dataset) -> Findings:
    """The law, fitted on some cells and judged on the rest of them; errors by resampling the draws."""
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
    note = f"A = {np.exp(A):.3f}, c = {-c:.2f}, q = {q:.2f} on {np.sum(~rest)} cells; {np.sum(rest)} held out"
    yield claim("slope", r"fall of $\ln\delta$ when the flow ends one higher", given, few).at_least(
        0.0, found[0], "an inequality: the further the flow, the closer to the edge", note=note
    )
    why = "one is a law without fault; half as much again for its simple form"
    note = f"a factor of {np.exp(error):.2f} in delta; between draws of one cell delta varies by much more"
    sentence = "error of the law on held-out cells, over "
    yield claim("error-sampling", sentence + "the sampling error of their medians", given, few).at_most(
        1.0, found[1], why, slack=0.5, note=note
    )
    yield claim("error-power", sentence + "the error of the power law", given, few).at_most(
        1.0, found[2], "an inequality: the flow's end says more than the scales, with one constant less"
    )
    why = "the scales enter through the flow's end alone, up to sampling errors"
    yield claim("error-both", "error of the law with both scales added to it, over its own", given, few).at_least(
        1.0, found[3], why, slack=0.15
    )


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
    title, legend = "Median deviation of every cell, and the law", {"title": "D x P", "loc": "best"}
    sheet.label(left, title, r"$\Lambda$, end of gradient flow", r"$\delta = 2 - \eta\lambda_{\max}$", legend)
    ends = np.sort(cells.law)
    sheet.guide(right, ends, ends)
    by_law, logs = r"$\delta$ by the law", {"xscale": "log", "yscale": "log"}
    sheet.label(right, "Cells held out of the fit", by_law, r"$\delta$ measured", **logs)
