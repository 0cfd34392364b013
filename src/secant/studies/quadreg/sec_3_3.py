"""Section 3.3: the second-order term of a step is what keeps curvature at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from secant.dynamics import Outcome, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.quadreg._random import each_draw, flow_ends, scaled_start, top
from secant.theory import quadratic_regression as qr
from secant.theory.phase_plane import phase_plane

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TERMS = ("with", "without")


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=10, laptop=20, paper=60, at_least=2, help="residuals D")
    parameters: int = scaled(smoke=20, laptop=40, paper=120, at_least=2, help="parameters P")
    residuals: tuple[float, ...] = option((0.3, 0.4, 0.5, 0.6), above=0, help="rescaled scales of the residuals")
    jacobian: float = option(0.1, above=0, help="rescaled variance of the Jacobian")
    seeds: int = scaled(smoke=16, laptop=40, paper=100, at_least=4, help="random draws")
    steps: int = scaled(smoke=1_000, laptop=4_000, paper=20_000, at_least=100, help="gradient-descent steps")
    shown: int = option(80, at_least=10, help="steps of the runs in the figure")
    seed: int = option(0, at_least=0, help="random seed")


@study(
    "quadreg/sec-3.3",
    section="3.3",
    title="The second-order term stabilises",
    statement=r"""
    Gradient descent on quadratic regression moves the residuals by
    $-\eta JJ^\top z + \tfrac12\eta^2Q(J^\top z, J^\top z)$. The second term is crucial for the curvature to stay near
    $2/\eta$: without it a run whose curvature passes $2/\eta$ diverges. Which runs these are the gradient flow of the
    same draw tells: those that it takes above $2/\eta$.""",
)
def run(config: Config) -> xr.Dataset:
    D, P, scale = config.outputs, config.parameters, jnp.array(config.residuals)

    def one(Q: Array, start: qr.Regression) -> tuple[Array, qr.Regression, Array]:
        ends = flow_ends(Q, start, scale, jnp.full_like(scale, config.jacobian), 40.0, 400)
        return Q, start, top(ends.J)

    tensors, starts, flows = each_draw(one, config.seed, config.seeds, D, P, together=min(4, config.seeds))
    outcome = np.zeros((2, config.seeds, len(scale)), np.int8)
    final = np.full(outcome.shape, np.nan)
    for i in range(config.seeds):
        Q, start = jnp.asarray(tensors[i], jnp.float32), qr.Regression(starts.z[i], starts.J[i])
        for j, term in enumerate(TERMS):
            ends = phase_plane(
                Q,
                start,
                config.residuals,
                (config.jacobian,),
                max_steps=config.steps,
                second_order=term == "with",
                label=f"draw {i + 1} of {config.seeds}, {term} the second-order term",
            )
            outcome[j, i], final[j, i] = ends.outcome.values[:, 0], ends.top.values[:, 0, 0]
    # For the figure: a draw and a scale that show the difference, if there are any.
    lost = (outcome[1] == Outcome.DIVERGED) & (outcome[0] == Outcome.CONVERGED)
    draw, column = np.argwhere(lost)[0] if lost.any() else (0, len(config.residuals) - 1)
    begin = scaled_start(qr.Regression(starts.z[draw], starts.J[draw]), config.residuals[column], config.jacobian)
    shown = [
        simulate(
            qr.descent(jnp.asarray(tensors[draw]), second_order=term == "with"),
            begin,
            config.shown,
            probes={"top": lambda s: top(s.J), "loss": lambda s: jnp.sum(s.z**2) / 2},
        ).dataset.reindex(step=np.arange(config.shown + 1))
        for term in TERMS
    ]
    return xr.Dataset(
        {
            "outcome": (("term", "draw", "residual"), outcome),
            "final": (("term", "draw", "residual"), final, {"long_name": "final curvature"}),
            "flow": (("draw", "residual"), flows, {"long_name": "final curvature of gradient flow"}),
            "top": (("term", "step"), np.stack([one.top.values for one in shown])),
            "loss": (("term", "step"), np.stack([one.loss.values for one in shown])),
            "shown_residual": config.residuals[column],
        },
        coords={"term": list(TERMS), "residual": list(config.residuals), "step": np.arange(config.shown + 1)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    lost = data.outcome == Outcome.DIVERGED
    kept, dropped = lost.sel(term="with"), lost.sel(term="without")
    for scale in config.residuals:
        flow = data.flow.sel(residual=scale)
        yield Finding(
            f"share that diverges without the term, scale {scale:g}: that of flows above the edge",
            predicted=float((flow > 2).mean()),
            measured=float(dropped.sel(residual=scale).mean()),
            tolerance=Tolerance(
                1 / config.seeds + float((np.abs(flow - 2) < 0.2).mean()),
                why="descent departs from flow by about a tenth at the edge: draws within 0.2 of it, and one more",
            ),
        )
    saved = (dropped & ~kept).sum() / max(1, int(dropped.sum()))
    yield Finding(
        "of the runs that diverge without the term, share that do not with it",
        predicted=0.5,
        measured=float(saved),
        tolerance=Tolerance(0.0, why="an inequality: most"),
        relation="at least",
        note=f"{int(dropped.sum())} runs diverge without the term, {int(kept.sum())} with it",
    )
    yield Finding(
        "runs that diverge with the term and not without",
        predicted=0.0,
        measured=float((kept & ~dropped).sum()),
        tolerance=Tolerance(0.0, why="a count"),
    )
    edge = data.final.sel(term="with").where((data.outcome.sel(term="with") == Outcome.CONVERGED) & (data.flow > 2.2))
    yield Finding(
        "with the term, flows above 2.2: median final curvature of the runs that converge",
        predicted=2.0,
        measured=float(edge.median()),
        tolerance=Tolerance(0.1, why="within five per cent of the edge is called the edge here"),
        note=f"{int(edge.notnull().sum())} runs, the largest {float(edge.max()):.4f}",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    ink = plt.rcParams["text.color"]
    figure.set_size_inches(12, 4.0)
    left, middle, right = figure.subplots(1, 3)
    x = np.arange(len(config.residuals))
    parts = ((Outcome.CONVERGED, "C0", "converged"), (Outcome.UNFINISHED, "C1", "still going"),
             (Outcome.DIVERGED, "C5", "diverged"))  # fmt: skip
    for i, term in enumerate(TERMS):
        below = np.zeros(len(x))
        for kind, colour, label in parts:
            share = (data.outcome.sel(term=term) == kind).mean("draw").values
            left.bar(x + 0.42 * i - 0.21, share, 0.36, bottom=below, color=colour, label=None if i else label)
            below += share
    predicted = (data.flow > 2).mean("draw").values
    left.plot(x + 0.21, 1 - predicted, "_", ms=20, mew=2.5, color=ink, label="predicted by flows")
    left.set_xticks(
        np.concatenate([x - 0.21, x + 0.21]), ["with"] * len(x) + ["without"] * len(x), rotation=60, fontsize=8
    )
    for i, scale in enumerate(config.residuals):
        left.text(i, 1.02, f"{scale:g}", ha="center", fontsize=9)
    left.set(title=rf"How {config.seeds} draws end, by $\tilde\sigma_z$", ylabel="share", ylim=(0, 1.45))
    left.legend(loc="upper center", ncols=2, fontsize=8)
    for i, term in enumerate(TERMS):
        one = data.sel(term=term)
        fine = (one.loss < 1e3 * float(one.loss[0])).values
        last = len(fine) if fine.all() else int(np.argmin(fine))
        middle.plot(data.step[:last], one.top[:last], color=f"C{5 * i}", label=f"{term} the term")
        right.semilogy(data.step[:last], one.loss[:last], color=f"C{5 * i}", label=f"{term} the term")
    middle.axhline(2.0, ls="--", color=ink, lw=1.2)
    middle.set(
        title=rf"One draw, $\tilde\sigma_z = {float(data.shown_residual):g}$",
        xlabel="step",
        ylabel=r"$\eta\lambda_{\max}$",
    )
    middle.set(ylim=(0, 1.3 * float(data.top.sel(term="with").max())))
    right.set(title="Its loss", xlabel="step", ylabel=r"$\frac{1}{2}|z|^2$")
    middle.legend(loc="lower right")
    right.legend(loc="upper right")
