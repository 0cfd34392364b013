"""Figure 4: where in the plane of initial scales gradient descent ends at the edge of stability."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Figure, Findings, Options, claim, options, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.draws import check_sizes, share, sizes
from secant.theory.regression import phase_plane
from secant.theory.regression import quadratic_regression as model


class Config(Options):
    outputs: tuple[int, ...] = models.outputs((20,), (15, 20, 60), at_most=400)
    parameters: tuple[int, ...] = models.parameters((40,), (60, 40, 120), at_most=800)
    draws: tuple[int, ...] = options.draws((8,), (16, 24, 3), (100, 100, 100), at_most=10_000)
    seed: int = options.seed(0, at_most=None)
    residuals: tuple[float, ...] = models.residuals(
        (0.1, 0.2, 0.4, 0.55, 1.2),
        (0.02, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.2),
        (0.02, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1.2),
        at_most=100,
        ascending=True,
    )
    jacobians: tuple[float, ...] = models.jacobians(
        (0.05, 0.1, 0.5, 0.7),
        (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.7),
        (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7),
        at_most=100,
        ascending=True,
    )
    steps: int = options.steps(1_500, 5_000, 20_000, at_least=100, at_most=10_000_000)

    def check(self) -> None:
        """Sizes that pair up, with a loss that can reach zero, and fit into memory."""
        check_sizes(self.outputs, self.parameters, together=1, solvable=True)
        if len(self.draws) != len(self.outputs):
            raise ValueError(f"draws: must be as many as outputs, {len(self.outputs)}, got {len(self.draws)}.")


@study("quadreg/fig-4", section="3.2", title="Phase planes of random quadratic regression", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent from random models with residuals of scale $\tilde\sigma_z/D$ and a Jacobian of scale
    $\tilde\sigma_J/(DP)^{1/4}$, until convergence. For intermediate $\tilde\sigma_z$ and small $\tilde\sigma_J$ the
    curvature first grows and then settles near $2/\eta$. Large $\tilde\sigma_z$ and large $\tilde\sigma_J$ diverge. A
    band of $\tilde\sigma_J$ over a wide range of $\tilde\sigma_z$ begins near the edge and stays there.
    """

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
    pairs = sizes(config.outputs, config.parameters)
    for (D, P), count in zip(pairs, config.draws, strict=True):
        seeds = range(config.seed * count, (config.seed + 1) * count)
        planes.append(xr.concat([one(D, P, seed) for seed in seeds], "draw").assign_coords(draw=range(count)))
    # Sizes with fewer draws than others are filled up with NaN.
    whole = xr.concat([plane.astype(float) for plane in planes], "size", join="outer")
    return whole.assign_coords(size=[f"{D} x {P}" for D, P in pairs])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    final = data.top.isel(mode=0).where(data.outcome == Outcome.CONVERGED)
    done, below = final.notnull(), (final < 2).where(final.notnull()).mean()
    why = "a mode barely above 2 grows too slowly to be seen before the loss is called zero"
    sentence = "share of all converged runs whose curvature is below 2"
    yield claim("below-edge", sentence, done, "no run converges in time").equal(
        1.0, below, 0.01, why, note=f"{int(done.sum())} runs"
    )
    cells = phase_plane.over_draws(data)
    for i, size in enumerate(data.size.values):
        yield from _medians(cells.isel(size=i), size)
        yield from _divergence(data.isel(size=i), size)


CALM = {"residual": slice(None, 0.2), "jacobian": slice(None, 0.1)}


def _medians(cells: xr.Dataset, size: str) -> Findings:
    """The least or the largest median curvature of some cells, over what converged.

    Runs that end at the edge take longest: a cell counts if half of what does not diverge has converged in time.
    """
    cells = cells.assign(curvature=cells.curvature.where(cells.converged >= (1 - cells.diverged) / 2))
    edge = cells.sel(residual=slice(0.5, 0.6), jacobian=slice(None, 0.2))
    band = cells.sel(residual=slice(None, 0.3))
    band = band.where((band.initial > 1.75) & (band.initial < 2))
    there = "residuals of 0.5 to 0.6, the Jacobian's square at most 0.2"
    calm = "residuals of at most 0.2, the Jacobian's square at most 0.1"
    near = "begun between 1.75 and 2, residuals of at most 0.3"
    few = "none of the scales of this run is there, or too little converges in time"
    for key, sentence, values, bound, why in (
        ("edge", f"least median curvature, {there}", edge.curvature, 1.9, "within five percent of the edge"),
        ("band", f"least median curvature, {near}", band.curvature, 1.75, "what begins near the edge stays near it"),
    ):
        yield claim(f"{size}-{key}", f"{size}: {sentence}", values.notnull(), few).at_least(
            bound, values.min, f"an inequality: {why}"
        )
    for key, sentence, values, bound, why in (
        ("edge-start", f"largest median curvature at the start, {there}", edge.initial, 1.0, "less than half the edge"),
        ("calm", f"largest median curvature, {calm}", cells.sel(CALM).curvature, 1.5, "below 3/4 of the edge"),
    ):
        yield claim(f"{size}-{key}", f"{size}: {sentence}", values.notnull(), few).at_most(
            bound, values.max, f"an inequality: {why}"
        )


def _divergence(plane: xr.Dataset, size: str) -> Findings:
    """How many draws diverge, in more than half of some cells or in none of them."""
    cell, none = ["residual", "jacobian"], "none of the scales of this run is there"
    plane = plane.sel(draw=plane.outcome.notnull().all(cell))
    plane = plane.assign(lost=(plane.outcome == Outcome.DIVERGED).astype(float))
    far, steep = plane.sel(residual=slice(1.2, None)), plane.sel(residual=slice(0.1, None), jacobian=slice(0.7, None))
    begun = steep.lost.size and steep.initial.median("draw").min() > 2
    beyond = "residuals of at least 0.1, the Jacobian's square at least 0.7, begun above 2"
    why = "an inequality: most of them; by Laplace's rule"
    for key, where, cells, there in (
        ("far", "residuals of 1.2 and more", far, far.lost.size),
        ("steep", beyond, steep, begun),
    ):
        lost = cells.lost.mean(cell)
        note = f"{float(lost.mean()):.3f} of all runs"
        sentence = f"{size}: share of draws that diverge in most cells, {where}"
        yield claim(f"{size}-diverge-{key}", sentence, there, none).at_least(0.5, share(lost > 0.5), why, note=note)
    calm = plane.lost.sel(CALM)
    sentence = f"{size}: share that diverges, residuals of at most 0.2, the Jacobian's square at most 0.1"
    yield claim(f"{size}-diverge-calm", sentence, calm.size, none).zero(calm.mean(), 0, "a share: none diverges")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.patches import Patch, Rectangle

    over = phase_plane.over_draws(data).transpose("size", "residual", "jacobian")
    gone: dict[str, Any] = {"facecolor": sheet.ink(), "alpha": 0.75}
    late: dict[str, Any] = {"facecolor": "none", "edgecolor": sheet.ink(), "hatch": "////"}
    count, rows, columns = over.curvature.shape
    panels = sheet.panels(figure, (2.2 + 3.4 * count, 4.6), count, squeeze=False, sharey=True)[0]
    for i, (axes, size) in enumerate(zip(panels, data.size.values, strict=True)):
        one = over.isel(size=i)
        shown = one.curvature.where(one.diverged <= 0.5)
        image = axes.imshow(shown, origin="lower", cmap="viridis", vmin=0, vmax=2, aspect="auto")
        for row, column in np.argwhere(((one.diverged > 0.5) | (one.converged < 0.5)).values):
            look = gone if one.diverged[row, column] > 0.5 else late
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, linewidth=0, **look))
        draws = int(data.outcome.isel(size=i, residual=0, jacobian=0).notnull().sum())
        D, P = size.split(" x ")
        axes.set(title=f"$D = {D}$, $P = {P}$, {draws} draws", xlabel=r"$\tilde\sigma_J^2$")
        axes.set_xticks(range(columns), [f"{b:g}" for b in config.jacobians], rotation=90 if columns > 6 else 0)
        axes.set_yticks(range(rows), [f"{a:g}" for a in config.residuals])
        axes.grid(False)
    panels[0].set_ylabel(r"$\tilde\sigma_z$")
    label = r"median $\eta\lambda_{\max}$ of what converged"
    figure.colorbar(image, ax=panels, label=label, fraction=0.04, pad=0.02, aspect=30)
    patches = Patch(label="more than half diverge", **gone), Patch(label="less than half converge in time", **late)
    figure.legend(handles=patches, loc="outside lower center", ncols=2)
