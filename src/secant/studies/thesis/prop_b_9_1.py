"""Propositions B.9.1 and B.11.2: the scale of the tangent kernel at initialisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import starting_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Widths and number of networks."""

    widths: tuple[int, ...] = option((20, 50, 200, 1_000, 5_000), at_least=2, help="hidden neurons")
    networks: int = scaled(smoke=1_000, laptop=10_000, paper=50_000, at_least=100, help="random networks per width")
    seed: int = option(0, help="random seed")


@study(
    "thesis/prop-B.9.1",
    section="B.9",
    title="The initial curvature is close to one",
    statement=r"""
    For $m \ge c'\log(4/\delta)$, with probability at least $1 - \delta$ the tangent kernel of one sample
    satisfies $\frac{\|x\|^2}{2d} \le \lambda(0) \le \frac{3\|x\|^2}{2d}$. Sharper: its mean is $\|x\|^2/d$
    and, with $v_i = \pm 1$, its standard deviation $\frac{\|x\|^2}{d}\sqrt{2/m}$. For several scalar samples
    (Proposition B.11.2) the two eigenvalues are $\|p_i\|^2$ times such a variable, so
    $M = \max_i \|p_i\|^2$.""",
)
def run(config: Config) -> xr.Dataset:
    keys = jax.random.split(jax.random.key(config.seed), len(config.widths))
    draws = [starting_points(k, m, config.networks) for k, m in zip(keys, config.widths, strict=True)]
    return xr.Dataset(
        {
            "curvature": (("width", "network"), np.stack([np.asarray(d[1]) for d in draws])),
            "output": (("width", "network"), np.stack([np.asarray(d[0]) for d in draws])),
        },
        coords={"width": list(config.widths)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    inside = ((data.curvature >= 0.5) & (data.curvature <= 1.5)).mean("network")
    for m in data.width.values[data.width.values >= 200][:1]:
        yield Finding(
            f"share of networks of width {m} with curvature between 1/2 and 3/2",
            predicted=0.99,
            measured=float(inside.sel(width=m)),
            relation="at least",
            tolerance=Tolerance(0.0, why="five standard deviations; 0.99 leaves room for the skew"),
        )
    n = config.networks
    for m in (data.width.values[0], data.width.values[-1]):
        one = data.curvature.sel(width=m)
        error = float(one.std()) / np.sqrt(n)
        yield Finding(
            f"mean curvature at width {m}",
            predicted=1.0,
            measured=float(one.mean()),
            tolerance=Tolerance(4 * error, why="four standard errors"),
        )
        kurtosis = float((((one - one.mean()) / one.std()) ** 4).mean())
        yield Finding(
            f"standard deviation times sqrt(m) at width {m}",
            predicted=float(np.sqrt(2)),
            measured=float(one.std() * np.sqrt(m)),
            tolerance=Tolerance(
                relative=2 * np.sqrt((kurtosis - 1) / n), why="four standard errors of a standard deviation"
            ),
        )
    widest = data.output.isel(width=-1)
    yield Finding(
        "variance of the output at the largest width",
        predicted=0.5,
        measured=float(widest.var()),
        tolerance=Tolerance(relative=4 * np.sqrt(2 / n), why="four standard errors of a variance"),
        note="so the output is of order one, as the proofs assume",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    left, right = figure.subplots(1, 2)
    ink = plt.rcParams["text.color"]
    bins = np.linspace(0, 2.2, 111)
    for i, m in enumerate(data.width.values):
        left.hist(
            data.curvature.sel(width=m), bins, density=True, histtype="step", lw=1.5, color=f"C{i}", label=f"$m = {m}$"
        )
    left.axvspan(0.5, 1.5, color=plt.rcParams["grid.color"], alpha=0.3, lw=0)
    left.set(title="Initial curvature", xlabel=r"$\lambda_0\,d/\|x\|^2$", ylabel="density", xlim=(0, 2.2))
    left.legend()
    right.loglog(data.width, data.curvature.std("network"), "o", color="C0", label="measured")
    right.loglog(data.width, np.sqrt(2 / data.width), "--", color=ink, lw=1, label=r"$\sqrt{2/m}$")
    right.set(title="Its spread", xlabel="width $m$", ylabel="standard deviation")
    right.legend()
