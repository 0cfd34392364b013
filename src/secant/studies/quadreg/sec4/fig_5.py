"""Figure 5: a network at the edge of stability, mode by mode."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, sheet, study
from secant.studies.shared.edge import approach
from secant.studies.shared.edge.approach import SOURCE_SAMPLES, EdgeConfig


@study("quadreg/fig-5", section="4", title="A network at the edge of stability", precision="float32")
def run(config: EdgeConfig) -> xr.Dataset:
    r"""A tanh network trained by gradient descent on the squared loss. Near $\eta\lambda_1 = 2$ the residual $z_1$
    along the top eigenvector of the tangent kernel changes sign at every step; every other value of it grows while the
    eigenvalue $\lambda_1$ is above $2/\eta$ and shrinks while it is below; the loss swings with $\frac12z_1^2$. The
    eigenvalue crosses the edge again and again, while the second one stays below.
    """
    return approach.run_to_the_edge(config)


@run.findings
def check(data: xr.Dataset, config: EdgeConfig) -> Findings:
    why, y, second = approach.obstacle(data), data.y.values, data.top.values[:, 1].max()
    crossings = np.nan if why else np.sum(np.diff(np.sign(y)) != 0)
    note = why or f"from y = {y.min():.2g} to y = {y.max():.2g}"
    yield claim("crossings", "crossings of the edge by the followed eigenvalue").at_least(
        2.0, crossings, "an inequality: up and down again", note=note
    )
    large = not why and config.samples >= SOURCE_SAMPLES
    single = f"a claim on the source's network of {SOURCE_SAMPLES:,} samples; a smaller one depends on the draw"
    small, note = (
        why or f"{single}, {second:.3g} here",
        "where it reaches the edge too, there is no single unstable mode",
    )
    yield claim("second-eigenvalue", "second eigenvalue, largest over the window", large, small).at_most(
        2.0, second, note=note
    )
    lasting = approach.while_it_lasts(data)
    y, z = lasting.y.values, lasting.z.values
    large = np.abs(z) > 1e-3 * np.abs(z).max(initial=0.0)  # another mode may be at the edge from the first step
    turns = np.nan if why else _share(z[1:] * z[:-1] < 0, large[1:] & large[:-1])
    note = why or f"over {len(z):,} of {data.sizes['step']:,} steps, in which the mode is alone at the edge"
    sentence = "share of steps in which the residual along the mode changes sign, while above a thousandth of its peak"
    yield claim("changes-sign", sentence).equal(1.0, turns, 0.02, "a turn of the swing may cost a step", note=note)
    grows = np.abs(z[2:]) > np.abs(z[:-2])
    # Where the eigenvalue itself crosses in between, neither is right.
    clear = large[:-2] & (y[:-2] * y[2:] > 0) & (np.abs(y[:-2]) > 1e-3)
    right = np.nan if why else _share(grows == (y[:-2] > 0), clear)
    sentence = "share of double steps in which that residual grows above the edge and shrinks below it"
    yield claim("grows-above", sentence).equal(
        1.0, right, 0.05, "the other modes and the nonlinear terms, where growth is slow", note=why
    )
    double = approach.episode(data).sizes["step"]
    first = data.isel(step=slice(0, double + 2 if double else 0))
    swing = approach.slope_through_zero(np.diff(first.z.values**2 / 2), np.diff(first.loss.values))
    sentence = "slope of the change of the loss in a step against that of half the square of that residual"
    yield claim("loss-swing", f"{sentence}, first episode").equal(
        1.0, swing, 0.05, "the swing of the loss is the mode's, up to what the mode drives in the others", note=why
    )


def _share(hits: np.ndarray, among: np.ndarray) -> float:
    """The share of `among` that are `hits`; NaN if there are none."""
    return float(hits[among].mean()) if among.any() else np.nan


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: EdgeConfig) -> None:
    left, middle, right = sheet.panels(figure, (11, 4), 3)
    for axes, every, width, title in (
        (left, 1, 0.6, "Residual along the top mode"),
        (middle, 2, 1.3, "The same, every other step"),
    ):
        shown = data.isel(step=slice(0, None, every))
        axes.plot(shown.step, shown.z, color="C0", lw=width)
        axes.set(title=title, xlabel="step", ylabel=r"$z_1$")
        axes.ticklabel_format(axis="y", scilimits=(-2, 2))
    sheet.mark(right, y=2, lw=1.0)
    for mode, label in enumerate((r"$\eta\lambda_1$", r"$\eta\lambda_2$")):
        right.plot(data.past, data.before.isel(mode=mode), color=f"C{mode}", lw=1.0, alpha=0.6)
        right.plot(data.step, data.top.isel(mode=mode), color=f"C{mode}", lw=1.3, label=label)
    right.axvspan(float(data.step[0]), float(data.step[-1]), color=sheet.ink(), alpha=0.06, lw=0)
    sheet.label(right, "Eigenvalues of the tangent kernel", "step", legend="lower right", ylim=(1.2, None))
