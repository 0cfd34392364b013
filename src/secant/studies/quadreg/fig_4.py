"""Figure 4: where in the plane of initial scales gradient descent ends at the edge of stability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import phase_plane
from secant.theory import quadratic_regression as model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        smoke=(20,), laptop=(15, 20, 60), paper=(15, 20, 60), at_least=2, at_most=400, help="residuals of each model"
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(40,), laptop=(60, 40, 120), paper=(60, 40, 120), at_least=2, at_most=800, help="its parameters"
    )
    seeds: tuple[int, ...] = scaled(
        smoke=(6,), laptop=(16, 24, 3), paper=(100, 100, 100), at_least=1, help="random models of each size"
    )
    first_seed: int = option(0, at_least=0, help="seed of the first of them")
    residuals: tuple[float, ...] = scaled(
        smoke=COARSE[0], laptop=MEDIUM[0], paper=FINE[0], above=0, help="rescaled scales of the residuals"
    )
    jacobians: tuple[float, ...] = scaled(
        smoke=COARSE[1], laptop=MEDIUM[1], paper=FINE[1], above=0, help="squares of the rescaled scales of the Jacobian"
    )
    steps: int = scaled(smoke=1_500, laptop=5_000, paper=20_000, at_least=100, help="gradient-descent steps at most")


@study(
    "quadreg/fig-4",
    section="3.2",
    title="Phase planes of random quadratic regression",
    statement=r"""
    Gradient descent from random models with residuals of scale $\tilde\sigma_z/D$ and a Jacobian of scale
    $\tilde\sigma_J/(DP)^{1/4}$, until convergence. For intermediate $\tilde\sigma_z$ and small $\tilde\sigma_J$ the
    curvature first grows and then settles near $2/\eta$. Large $\tilde\sigma_z$ and large $\tilde\sigma_J$ diverge. A
    band of $\tilde\sigma_J$ over a wide range of $\tilde\sigma_z$ begins near the edge and stays there.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    lengths = {len(config.outputs), len(config.parameters), len(config.seeds)}
    if len(lengths) > 1:
        raise ValueError(
            f"outputs, parameters and seeds: {len(config.outputs)}, {len(config.parameters)} and {len(config.seeds)} "
            "entries. Give as many of each."
        )

    def one(D: int, P: int, seed: int) -> xr.Dataset:
        tensor, start = jax.random.split(jax.random.key(seed))
        return phase_plane.phase_plane(
            model.random_tensor(tensor, D, P, dtype=jnp.float32),
            model.random_start(start, D, P, jnp.float32),
            config.residuals,
            config.jacobians,
            max_steps=config.steps,
            label=f"{D} x {P}, seed {seed}",
        )

    planes = []
    for D, P, count in zip(config.outputs, config.parameters, config.seeds, strict=True):
        seeds = range(config.first_seed, config.first_seed + count)
        planes.append(xr.concat([one(D, P, seed) for seed in seeds], "draw").assign_coords(draw=range(count)))
    # Sizes with fewer draws than others are filled up with what is not a number.
    whole = xr.concat([plane.astype(float) for plane in planes], "size", join="outer")
    return whole.assign_coords(size=[f"{D} x {P}" for D, P in zip(config.outputs, config.parameters, strict=True)])


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    cells = phase_plane.over_draws(data)
    final = data.top.isel(mode=0).where(data.outcome == Outcome.CONVERGED)
    yield Finding(
        "share of all converged runs whose curvature is below 2",
        predicted=1.0,
        measured=float((final < 2).where(final.notnull()).mean()),
        tolerance=Tolerance(
            0.01, why="a mode barely above 2 grows too slowly to be seen before the loss is called zero"
        ),
        note=f"{int(final.notnull().sum())} runs",
    )
    for size in data.size.values:
        yield from _plane(cells.sel(size=size), str(size), config)


def _plane(cells: xr.Dataset, size: str, config: Config) -> Iterator[Finding]:
    shares = Tolerance(0.0, why="an inequality")
    intermediate = cells.sel(
        residual=[a for a in config.residuals if 0.5 <= a <= 0.6], jacobian=[b for b in config.jacobians if b <= 0.2]
    )
    if intermediate.curvature.notnull().any():
        yield Finding(
            f"{size}: median curvature where residuals are 0.5 to 0.6 and the Jacobian's square at most 0.2, the least",
            predicted=1.9,
            measured=float(intermediate.curvature.min()),
            tolerance=Tolerance(0.0, why="an inequality: within 5 percent of the edge"),
            relation="at least",
        )
        yield Finding(
            f"{size}: curvature there at the start, the most: these have sharpened",
            predicted=1.0,
            measured=float(intermediate.initial.max()),
            tolerance=Tolerance(0.0, why="an inequality: less than half of the edge"),
            relation="at most",
        )
    calm = cells.sel(
        residual=[a for a in config.residuals if a <= 0.2], jacobian=[b for b in config.jacobians if b <= 0.1]
    )
    yield Finding(
        f"{size}: share that diverges with residuals of at most 0.2 and a Jacobian's square of at most 0.1, the most",
        predicted=0.0,
        measured=float(calm.diverged.max()),
        tolerance=Tolerance(0.0, why="a share: none diverges"),
    )
    yield Finding(
        f"{size}: median curvature there, the most: below the edge",
        predicted=1.5,
        measured=float(calm.curvature.max()),
        tolerance=shares,
        relation="at most",
    )
    far = cells.sel(residual=[a for a in config.residuals if a >= 1.2])
    if far.sizes["residual"]:
        yield Finding(
            f"{size}: share that diverges with residuals of 1.2 and more, over all Jacobians",
            predicted=0.9,
            measured=float(far.diverged.mean()),
            tolerance=shares,
            relation="at least",
        )
    steep = cells.sel(
        jacobian=[b for b in config.jacobians if b >= 0.7], residual=[a for a in config.residuals if a >= 0.1]
    )
    if steep.sizes["jacobian"] and float(steep.initial.min()) > 2:
        yield Finding(
            f"{size}: share that diverges with a Jacobian's square of 0.7 and residuals of 0.1 and more",
            predicted=0.5,
            measured=float(steep.diverged.mean()),
            tolerance=shares,
            relation="at least",
        )
    band = cells.sel(residual=[a for a in config.residuals if a <= 0.3]).where(
        (cells.initial > 1.75) & (cells.initial < 2)
    )
    if band.curvature.notnull().any():
        yield Finding(
            f"{size}: median curvature where it begins between 1.75 and 2, residuals of at most 0.3, the least",
            predicted=1.75,
            measured=float(band.curvature.min()),
            tolerance=shares,
            relation="at least",
            note="the band that begins near the edge stays near it",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    cells, ink = phase_plane.over_draws(data), plt.rcParams["text.color"]
    count = data.sizes["size"]
    figure.set_size_inches(2.2 + 3.4 * count, 4.6)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    image = None
    for axes, size in zip(panels, data.size.values, strict=True):
        one = cells.sel(size=size).transpose("residual", "jacobian")
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
                            (column - 0.5, row - 0.5),
                            1,
                            1,
                            facecolor=ink if gone > 0.5 else "none",
                            alpha=0.75 if gone > 0.5 else 1.0,
                            edgecolor="none" if gone > 0.5 else ink,
                            hatch=None if gone > 0.5 else "////",
                            linewidth=0,
                        )
                    )
        draws = int(data.outcome.sel(size=size).isel(residual=0, jacobian=0).notnull().sum())
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
        loc="outside lower center",
        ncols=2,
    )
