"""Section 3.3: the second-order term of a step is what keeps curvature at the edge."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from scipy import special

from secant.dynamics import Outcome, simulate
from secant.lab import Figure, Findings, claims, estimate, option, scaled, sheet, study
from secant.setups.regression.draws import check_sizes, each_draw, flow_ends, scaled_start, top
from secant.theory import quadratic_regression as qr
from secant.theory.phase_plane import phase_plane

TERMS = ("with", "without")
CLEAR = 0.2
"""Flows that end so far from 2 tell what descent does: the two differ by about a tenth at the edge."""


@dataclass(frozen=True)
class Config:
    outputs: int = scaled(smoke=10, laptop=20, paper=60, at_least=2, help="residuals D")
    parameters: int = scaled(smoke=20, laptop=40, paper=120, at_least=2, help="parameters P")
    residuals: tuple[float, ...] = option(
        (0.3, 0.4, 0.5, 0.6), at_least=1e-3, at_most=1, distinct=True, help="rescaled scales of the residuals"
    )
    jacobian: float = option(0.1, at_least=1e-3, at_most=1, help="rescaled variance of the Jacobian")
    seeds: int = scaled(smoke=16, laptop=40, paper=100, at_least=4, at_most=10_000, help="random draws")
    steps: int = scaled(
        smoke=1_000, laptop=4_000, paper=20_000, at_least=100, at_most=10_000_000, help="gradient-descent steps"
    )
    shown: int = option(80, at_least=10, at_most=10_000, help="steps of the runs in the figure")
    seed: int = option(0, at_least=0, help="random seed")

    def check(self) -> None:
        """Tensors that fit into memory."""
        check_sizes((self.outputs,), (self.parameters,), together=self.seeds)


@study(
    "quadreg/sec-3.3", section="3.3", title="The second-order term stabilises",
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
                Q, start, config.residuals, (config.jacobian,), max_steps=config.steps, second_order=term == "with",
                label=f"draw {i + 1} of {config.seeds}, {term} the second-order term",
            )
            outcome[j, i], final[j, i] = ends.outcome.values[:, 0], ends.top.values[:, 0, 0]
    # For the figure: a draw and a scale that show the difference, if there are any.
    lost = (outcome[1] == Outcome.DIVERGED) & (outcome[0] == Outcome.CONVERGED)
    draw, column = np.argwhere(lost)[0] if lost.any() else (0, len(config.residuals) - 1)
    begin = scaled_start(qr.Regression(starts.z[draw], starts.J[draw]), config.residuals[column], config.jacobian)
    shown = [
        simulate(
            qr.descent(jnp.asarray(tensors[draw]), second_order=term == "with"), begin, config.shown,
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
def check(data: xr.Dataset, config: Config) -> Findings:
    lost = data.outcome == Outcome.DIVERGED
    kept, dropped = lost.sel(term="with").values, lost.sel(term="without").values
    sides = (
        (f"above {2 + CLEAR:g}", 1.0, (data.flow > 2 + CLEAR).values),
        (f"below {2 - CLEAR:g}", 0.0, (data.flow < 2 - CLEAR).values),
    )
    for side, predicted, there in sides:
        claim = f"share that diverges without the term, of the draws and scales whose flow ends {side}"
        if there.any():
            yield claims.equal(
                claim, predicted, dropped[there].mean(), 0.1,
                "a few descents differ from the flow by more than a tenth", note=f"{there.sum()} runs",
            )
        else:
            yield claims.undecided(claim, predicted, f"no flow ends {side}")
    statements = (
        "of the runs that diverge without the term, share that do not with it, mean over draws",
        "the term saves more runs than it loses",
    )
    some = dropped.any(axis=1)
    if some.any():
        yield claims.at_least(
            statements[0], 0.5, estimate((dropped & ~kept).sum(axis=1)[some] / dropped.sum(axis=1)[some]),
            "an inequality: most",
            note=f"{dropped.sum()} runs of {some.sum()} draws diverge without the term, {kept.sum()} with it",
        )
    else:
        yield claims.undecided(statements[0], 0.5, "nothing diverges without the term", "at least")
    # By draws: runs from one draw at several scales are alike.
    balance = np.sign((dropped & ~kept).sum(axis=1) - (kept & ~dropped).sum(axis=1))
    better, worse = int((balance > 0).sum()), int((balance < 0).sum())
    if better + worse:
        # Half of the chance of this very count is taken, so that few draws speak as little against it as for it.
        more, as_many = (special.bdtr(worse - k, better + worse, 0.5) if worse >= k else 0.0 for k in (1, 0))
        yield claims.significant(
            statements[1], float(more + as_many) / 2, "the sign test of the draws in which it makes a difference",
            note=f"{better} draws for it, {worse} against",
        )
    else:
        yield claims.undecided(statements[1], 0.0, "it makes no difference in any draw", "at least")
    edge = data.final.sel(term="with").where(
        (data.outcome.sel(term="with") == Outcome.CONVERGED) & (data.flow > 2 + CLEAR)
    )
    claim = f"with the term, flows above {2 + CLEAR:g}: median final curvature of the runs that converge"
    if edge.notnull().any():
        yield claims.equal(
            claim, 2.0, edge.median(), 0.1, "within five per cent of the edge is called the edge here",
            note=f"{int(edge.notnull().sum())} runs, the largest {float(edge.max()):.4f}",
        )
    else:
        yield claims.undecided(claim, 2.0, "no such run converges in time")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, middle, right = sheet.panels(figure, (12, 4.0), 3)
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
        title=rf"One draw, $\tilde\sigma_z = {float(data.shown_residual):g}$", xlabel="step",
        ylabel=r"$\eta\lambda_{\max}$",
    )
    middle.set(ylim=(0, 1.3 * float(data.top.sel(term="with").max())))
    right.set(title="Its loss", xlabel="step", ylabel=r"$\frac{1}{2}|z|^2$")
    middle.legend(loc="lower right")
    right.legend(loc="upper right")
