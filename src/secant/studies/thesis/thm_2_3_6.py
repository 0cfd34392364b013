"""Theorem 2.3.6: the Hessian of an output falls with the width, unless a whole layer of the network stays narrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
import xarray as xr

from secant.lab import Finding, Tolerance, study
from secant.studies.thesis._width import (
    KINDS,
    WidthConfig,
    law,
    mark_widths,
    norms_at_starts,
    one_input,
    refuse_oversized,
    resolved,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config(WidthConfig):
    """Widths, networks and the input."""


@study(
    "thesis/thm-2.3.6",
    section="2.3",
    title="Wide networks turn linear",
    statement=r"""
    For a feedforward network on any directed acyclic graph whose neurons from layer 2 on have in-degree at least
    $m$, with smooth activations and linear outputs, the Hessian of every output in the weights satisfies
    $\|H_f\| = \tilde O(1/\sqrt m)$ in a ball around the random start: the network transitions to linearity. This
    covers fully connected and dense networks and random graphs, and extends to skip connections (Theorem A.4.1)
    and shared weights (Theorem A.5.1). A few bottleneck neurons do not break it. A bottleneck layer does, until the
    neurons behind it also read a wide layer (section 2.3); a nonlinear activation of the output does too: then
    $\|H_f\| = \Theta(1)$.

    All networks here have two hidden layers of width $m$ and tanh activations, and are measured at the start. The
    logarithms in $\tilde O$ come from the largest of $m$ Gaussian weights, which multiplies blocks quadratic in the
    input; the input is small enough to keep these behind the others.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    key_input, key_graph, key_weights = jax.random.split(jax.random.key(config.seed), 3)
    for kind in KINDS.values():
        refuse_oversized("thesis/thm-2.3.6", kind.by_width(config.dim, key_graph), config.dim, config.widths)
    x = one_input(key_input, config.dim, config.size)
    norms, errors = np.empty((2, len(KINDS), len(config.widths), config.seeds))
    degrees = np.empty((len(KINDS), len(config.widths)))
    for i, kind in enumerate(KINDS.values()):
        for j, width in enumerate(config.widths):
            net = kind.make(width, config.dim, jax.random.fold_in(key_graph, width))
            keys = jax.random.split(jax.random.fold_in(key_weights, j), config.seeds)
            norms[i, j], errors[i, j] = norms_at_starts(net, x, keys)
            degrees[i, j] = net.facts.get("width", width)
    return xr.Dataset(
        {
            "norm": (("kind", "width", "network"), norms, {"long_name": "spectral norm of the output's Hessian"}),
            "residual": (("kind", "width", "network"), errors, {"long_name": "residual of its eigenvector"}),
            "degree": (("kind", "width"), degrees, {"long_name": "smallest in-degree from layer 2 on"}),
        },
        coords={"kind": list(KINDS), "width": list(config.widths)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    logs = "a maximum of m Gaussian weights, sqrt(2 log m), adds 1/(2 log m) = 0.1 to the exponent; half of that again"
    laws = {kind: law(data.norm.sel(kind=kind)) for kind in KINDS}
    for kind, found in laws.items():
        if KINDS[kind].claim == "falls" or kind == "repaired":
            yield Finding(
                f"{KINDS[kind].name}: exponent of the Hessian's norm in the width",
                predicted=-0.5,
                measured=found.exponent,
                relation="at most",
                tolerance=Tolerance(0.15, why=logs),
                uncertainty=found.error,
            )
    steepest = min((kind for kind in KINDS if KINDS[kind].claim == "falls"), key=lambda kind: laws[kind].exponent)
    yield Finding(
        f"the rate is sharp: steepest exponent of these, {KINDS[steepest].name}",
        predicted=-0.5,
        measured=laws[steepest].exponent,
        relation="at least",
        tolerance=Tolerance(0.3, why="a rate of 1/m would be -1; the middle between both, and sampling error"),
        uncertainty=laws[steepest].error,
    )
    yield Finding(
        "two bottleneck neurons: exponent",
        predicted=-0.5,
        measured=laws["two"].exponent,
        relation="at most",
        tolerance=Tolerance(0.25, why="two of m neurons fluctuate by order one; half way to no decay"),
        uncertainty=laws["two"].error,
    )
    for kind in ("layer", "output"):
        yield Finding(
            f"{KINDS[kind].name}: exponent",
            predicted=0.0,
            measured=laws[kind].exponent,
            tolerance=Tolerance(
                0.2, why="the part that still falls as 1/sqrt(m) is a fraction of the norm at the smallest width"
            ),
            uncertainty=laws[kind].error,
        )

    yield resolved(data)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(12, 4.8)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.9))
    ink, faint = plt.rcParams["text.color"], plt.rcParams["grid.color"]
    panels = {"falls": left, "falls still": middle, "stays": middle}
    for i, (kind, facts) in enumerate(KINDS.items()):
        axes, color = panels[facts.claim], f"C{i}"
        logs = np.log(data.norm.sel(kind=kind))
        mean, error = logs.mean("network"), logs.std("network", ddof=1)
        axes.errorbar(
            data.width, np.exp(mean), [np.exp(mean) - np.exp(mean - error), np.exp(mean + error) - np.exp(mean)],
            fmt="o", ms=5, lw=1, capsize=2, color=color, label=facts.name,
        )  # fmt: skip
        found = law(data.norm.sel(kind=kind))
        axes.plot(data.width, found(data.width), color=color, lw=1.2)
        right.errorbar(found.exponent, -i, xerr=2 * found.error, fmt="o", color=color, ms=6, capsize=3, lw=1.5)
    guide = 0.6 * float(data.norm.sel(kind="cnn").isel(width=0).mean()) * (data.width / data.width[0]) ** -0.5
    left.plot(data.width, guide, "--", color=ink, lw=1.2)
    left.annotate(r"$1/\sqrt{m}$", (float(data.width[0]), 0.7 * float(guide[0])), color=ink, va="top")
    for axes, title in ((left, "Wide everywhere"), (middle, "Narrow, or bent at the end")):
        mark_widths(axes, data.width)
        axes.set_title(title)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    left.set_ylabel(r"$\|H_f\|$")
    right.axvline(-0.5, ls="--", color=ink, lw=1.2)
    right.axvline(0, ls="--", color=ink, lw=1.2)
    right.axvspan(-0.8, -0.35, color=faint, alpha=0.3, lw=0)
    right.set_yticks([-i for i in range(len(KINDS))], [facts.name for facts in KINDS.values()])
    right.yaxis.tick_right()
    right.tick_params(axis="y", length=0)
    right.set(title="Exponents", xlabel=r"$\alpha$ in $\|H_f\| \propto m^\alpha$", xlim=(-0.85, 0.35))
