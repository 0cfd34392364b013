"""Figure 4: where in the plane of initial scales gradient descent ends at the edge of stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Finding, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.setups.regression.draws import check_sizes, share, sizes
from secant.theory import phase_plane
from secant.theory import quadratic_regression as model

COARSE = (0.1, 0.2, 0.4, 0.55, 1.2), (0.05, 0.1, 0.5, 0.7)
MEDIUM = (
    (0.02, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.2),
    (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.7),
)
FINE = (
    (0.02, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1.2),
    (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7),
)


@dataclass(frozen=True)
class Config:
    outputs: tuple[int, ...] = scaled(
        smoke=(20,), laptop=(15, 20, 60), at_least=2, at_most=400, help="residuals of each model"
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(40,), laptop=(60, 40, 120), at_least=2, at_most=800, help="its parameters"
    )
    seeds: tuple[int, ...] = scaled(
        smoke=(8,), laptop=(16, 24, 3), paper=(100, 100, 100), at_least=1, at_most=10_000,
        help="random models of each size",
    )  # fmt: skip
    seed: int = option(0, at_least=0, help="so many times as many models are skipped before the first")
    residuals: tuple[float, ...] = scaled(
        smoke=COARSE[0], laptop=MEDIUM[0], paper=FINE[0], at_least=1e-3, at_most=100, ascending=True,
        help="rescaled scales of the residuals",
    )
    jacobians: tuple[float, ...] = scaled(
        smoke=COARSE[1], laptop=MEDIUM[1], paper=FINE[1], at_least=1e-3, at_most=100, ascending=True,
        help="squares of the rescaled scales of the Jacobian",
    )
    steps: int = scaled(
        smoke=1_500, laptop=5_000, paper=20_000, at_least=100, at_most=10_000_000, help="gradient-descent steps at most"
    )

    def check(self) -> None:
        """Sizes that pair up, with a loss that can reach zero, and fit into memory."""
        check_sizes(self.outputs, self.parameters, together=1, solvable=True)
        if len(self.seeds) != len(self.outputs):
            raise ValueError(f"seeds: must be as many as outputs, {len(self.outputs)}, got {len(self.seeds)}.")


@study(
    "quadreg/fig-4", section="3.2", title="Phase planes of random quadratic regression",
    statement=r"""
    Gradient descent from random models with residuals of scale $\tilde\sigma_z/D$ and a Jacobian of scale
    $\tilde\sigma_J/(DP)^{1/4}$, until convergence. For intermediate $\tilde\sigma_z$ and small $\tilde\sigma_J$ the
    curvature first grows and then settles near $2/\eta$. Large $\tilde\sigma_z$ and large $\tilde\sigma_J$ diverge. A
    band of $\tilde\sigma_J$ over a wide range of $\tilde\sigma_z$ begins near the edge and stays there.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    def one(D: int, P: int, seed: int) -> xr.Dataset:
        tensor, start = jax.random.split(jax.random.key(seed))
        return phase_plane.phase_plane(
            model.random_tensor(tensor, D, P, dtype=jnp.float32), model.random_start(start, D, P, jnp.float32),
            config.residuals, config.jacobians, max_steps=config.steps, label=f"{D} x {P}, seed {seed}",
        )

    planes = []
    pairs = sizes(config.outputs, config.parameters)
    for (D, P), count in zip(pairs, config.seeds, strict=True):
        seeds = range(config.seed * count, (config.seed + 1) * count)
        planes.append(xr.concat([one(D, P, seed) for seed in seeds], "draw").assign_coords(draw=range(count)))
    # Sizes with fewer draws than others are filled up with what is not a number.
    whole = xr.concat([plane.astype(float) for plane in planes], "size", join="outer")
    return whole.assign_coords(size=[f"{D} x {P}" for D, P in pairs])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    final = data.top.isel(mode=0).where(data.outcome == Outcome.CONVERGED)
    claim = "share of all converged runs whose curvature is below 2"
    if final.notnull().any():
        yield claims.equal(
            claim, 1.0, (final < 2).where(final.notnull()).mean(), 0.01,
            "a mode barely above 2 grows too slowly to be seen before the loss is called zero",
            note=f"{int(final.notnull().sum())} runs",
        )
    else:
        yield claims.undecided(claim, 1.0, "no run converges in time")
    cells = phase_plane.over_draws(data)
    for i, size in enumerate(data.size.values):
        yield from _medians(cells.isel(size=i), str(size), config)
        yield from _divergence(data.isel(size=i), str(size), config)


def _part(plane: xr.Dataset, config: Config, residuals: tuple[float, float], jacobians: tuple[float, float]) -> Any:
    """The cells of a plane with both scales in a range."""
    residual, jacobian = np.array(config.residuals), np.array(config.jacobians)
    return plane.isel(
        residual=np.flatnonzero((residual >= residuals[0]) & (residual <= residuals[1])),
        jacobian=np.flatnonzero((jacobian >= jacobians[0]) & (jacobian <= jacobians[1])),
    )


def _medians(cells: xr.Dataset, size: str, config: Config) -> Findings:
    """Medians over what converged, of the least or of the most of some cells.

    Those that end at the edge take longest: a cell counts if half of what does not diverge has converged in time.
    """
    none, inf = "none of the scales of this run is there, or too little converges in time", np.inf
    cells = cells.assign(curvature=cells.curvature.where(cells.converged >= (1 - cells.diverged) / 2))
    edge = _part(cells, config, (0.5, 0.6), (0, 0.2))
    calm = _part(cells, config, (0, 0.2), (0, 0.1))
    band = _part(cells, config, (0, 0.3), (0, inf))
    band = band.where((band.initial > 1.75) & (band.initial < 2))
    statements = (
        (
            "median curvature where residuals are 0.5 to 0.6 and the Jacobian's square at most 0.2, the least",
            edge.curvature, "at least", 1.9, "an inequality: within five percent of the edge",
        ),
        (
            "curvature there at the start, median, the most: these have sharpened", edge.initial, "at most", 1.0,
            "an inequality: less than half of the edge",
        ),
        (
            "median curvature with residuals of at most 0.2 and a Jacobian's square of at most 0.1, the most",
            calm.curvature, "at most", 1.5, "an inequality: below three quarters of the edge",
        ),
        (
            "median curvature where it begins between 1.75 and 2, residuals of at most 0.3, the least", band.curvature,
            "at least", 1.75, "an inequality: the band that begins near the edge stays near it",
        ),
    )
    for claim, values, relation, bound, why in statements:
        found = values.values[np.isfinite(values.values)]
        if not len(found):
            yield claims.undecided(f"{size}: {claim}", bound, none, relation)
            continue
        yield Finding(
            f"{size}: {claim}", predicted=bound, measured=float(found.min() if relation == "at least" else found.max()),
            tolerance=Tolerance(why=why), relation=relation,
        )


def _divergence(plane: xr.Dataset, size: str, config: Config) -> Findings:
    """How many draws diverge, in more than half of some cells or in none of them."""
    plane = plane.isel(draw=np.flatnonzero(plane.outcome.notnull().all(["residual", "jacobian"])))
    none, inf = "none of the scales of this run is there", np.inf
    far = _part(plane, config, (1.2, inf), (0, inf))
    steep = _part(plane, config, (0.1, inf), (0.7, inf))
    statements = (
        ("residuals of 1.2 and more", far, none),
        ("a Jacobian's square of 0.7 and more, and residuals of 0.1 and more, begun above 2", steep, none),
    )
    for where, cells, why in statements:
        claim = f"{size}: share of draws that diverge in most cells, {where}"
        if cells.outcome.size and (cells is far or float(cells.initial.median("draw").min()) > 2):
            lost = (cells.outcome == Outcome.DIVERGED).mean(["residual", "jacobian"])
            yield claims.at_least(
                claim, 0.5, share(lost > 0.5), "an inequality: most of them; by Laplace's rule",
                note=f"{float(lost.mean()):.3f} of all runs",
            )
        else:
            yield claims.undecided(claim, 0.5, why, "at least")
    claim = f"{size}: share that diverges with residuals of at most 0.2 and a Jacobian's square of at most 0.1"
    calm = _part(plane, config, (0, 0.2), (0, 0.1)).outcome
    if calm.size:
        lost = float((calm == Outcome.DIVERGED).mean())
        yield claims.zero(claim, lost, 0, "a share: none diverges")
    else:
        yield claims.undecided(claim, 0.0, none)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    cells, ink = phase_plane.over_draws(data), sheet.ink()
    count = data.sizes["size"]
    figure.set_size_inches(2.2 + 3.4 * count, 4.6)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    image = None
    for i, (axes, size) in enumerate(zip(panels, data.size.values, strict=True)):
        one = cells.isel(size=i).transpose("residual", "jacobian")
        image = axes.imshow(
            one.curvature.where(one.diverged <= 0.5), origin="lower", cmap="viridis", vmin=0, vmax=2, aspect="auto"
        )
        rows, columns = one.sizes["residual"], one.sizes["jacobian"]
        for row in range(rows):
            for column in range(columns):
                gone, come = float(one.diverged[row, column]), float(one.converged[row, column])
                if gone > 0.5 or come < 0.5:
                    axes.add_patch(
                        plt.Rectangle(
                            (column - 0.5, row - 0.5), 1, 1, facecolor=ink if gone > 0.5 else "none",
                            alpha=0.75 if gone > 0.5 else 1.0, edgecolor="none" if gone > 0.5 else ink,
                            hatch=None if gone > 0.5 else "////", linewidth=0,
                        )
                    )
        draws = int(data.outcome.isel(size=i, residual=0, jacobian=0).notnull().sum())
        axes.set(title=f"$D = {size.split(' x ')[0]}$, $P = {size.split(' x ')[1]}$, {draws} draws")
        axes.set_xticks(range(columns), [f"{b:g}" for b in one.jacobian.values], rotation=90 if columns > 6 else 0)
        axes.set_yticks(range(rows), [f"{a:g}" for a in one.residual.values])
        axes.set_xlabel(r"$\tilde\sigma_J^2$")
        axes.grid(False)
    panels[0].set_ylabel(r"$\tilde\sigma_z$")
    if image is not None:
        figure.colorbar(
            image, ax=panels, label=r"median $\eta\lambda_{\max}$ of what converged", fraction=0.04, pad=0.02, aspect=30
        )
    figure.legend(
        handles=[
            Patch(facecolor=ink, alpha=0.75, label="more than half diverge"),
            Patch(facecolor="none", edgecolor=ink, hatch="////", label="less than half converge in time"),
        ],
        loc="outside lower center", ncols=2,
    )
