"""Section 3.3: the second-order term of a step is what keeps curvature at the edge."""

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from scipy import special

from secant.dynamics import Outcome, simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.draws import check_sizes, each_draw, flow_ends, scaled_start, top
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression.phase_plane import phase_plane

TERMS = ("with", "without")
CLEAR = 0.2
"""Flows that end this far from 2 tell what descent does: the two differ by about a tenth at the edge."""


class Config(Seeded):
    outputs: int = scaled(smoke=10, laptop=20, paper=60, at_least=2, help="residuals D")
    parameters: int = scaled(smoke=20, laptop=40, paper=120, at_least=2, help="parameters P")
    residuals: tuple[float, ...] = models.residuals((0.3, 0.4, 0.5, 0.6), at_most=1, distinct=True)
    jacobian: float = models.jacobian(0.1, at_most=1)
    draws: int = options.draws(16, 40, 100, at_least=4, at_most=10_000)
    steps: int = options.steps(1_000, 4_000, 20_000, at_least=100, at_most=10_000_000)
    shown: int = option(80, at_least=10, at_most=10_000, help="steps of the runs in the figure")

    def check(self) -> None:
        """Tensors that fit into memory."""
        check_sizes((self.outputs,), (self.parameters,), together=self.draws)


@study("quadreg/sec-3.3", section="3.3", title="The second-order term stabilises")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on quadratic regression moves the residuals by
    $-\eta JJ^\top z + \tfrac12\eta^2Q(J^\top z, J^\top z)$. The second term is crucial for the curvature to stay near
    $2/\eta$: without it a run whose curvature passes $2/\eta$ diverges. The gradient flow of the same draw tells which
    runs these are: those that the flow takes above $2/\eta$.
    """
    D, P, scale = config.outputs, config.parameters, jnp.array(config.residuals)

    def one(Q: Array, start: qr.Regression) -> tuple[Array, qr.Regression, Array]:
        ends = flow_ends(Q, start, scale, jnp.full_like(scale, config.jacobian), 40.0, 400)
        return Q, start, top(ends.J)

    tensors, starts, flows = each_draw(one, config.seed, config.draws, D, P, together=min(4, config.draws))
    starts = [qr.Regression(z, J) for z, J in zip(*starts, strict=True)]

    def plane(i: int, term: str) -> xr.Dataset:
        return phase_plane(
            jnp.asarray(tensors[i], jnp.float32),
            starts[i],
            config.residuals,
            (config.jacobian,),
            max_steps=config.steps,
            second_order=term == "with",
            label=f"draw {i + 1} of {config.draws}, {term} the second-order term",
        ).isel(jacobian=0, mode=0, drop=True)

    planes = [xr.concat([plane(i, term) for i in range(config.draws)], "draw") for term in TERMS]
    ends = xr.concat(planes, "term").assign_coords(term=list(TERMS))
    # For the figure: a draw and a scale that show the difference, if there are any.
    kept, dropped = ends.outcome.values
    lost = np.argwhere((dropped == Outcome.DIVERGED) & (kept == Outcome.CONVERGED))
    draw, column = lost[0] if len(lost) else (0, len(config.residuals) - 1)
    shown = [
        simulate(
            qr.descent(jnp.asarray(tensors[draw]), second_order=term == "with"),
            scaled_start(starts[draw], config.residuals[column], config.jacobian),
            config.shown,
            probes={"top": lambda s: top(s.J), "loss": lambda s: jnp.sum(s.z**2) / 2},
        ).dataset.reindex(step=np.arange(config.shown + 1))
        for term in TERMS
    ]
    return xr.concat(shown, "term")[["top", "loss"]].assign(
        outcome=ends.outcome,
        final=ends.top.assign_attrs(long_name="final curvature"),
        flow=(("draw", "residual"), flows, {"long_name": "final curvature of gradient flow"}),
        shown_residual=config.residuals[column],
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    lost = data.outcome == Outcome.DIVERGED
    kept, dropped = lost.sel(term="with", drop=True), lost.sel(term="without", drop=True)
    above, below = data.flow > 2 + CLEAR, data.flow < 2 - CLEAR
    why = "a few descents differ from the flow by more than a tenth"
    for key, side, predicted, there in (
        ("above", f"above {2 + CLEAR:g}", 1.0, above),
        ("below", f"below {2 - CLEAR:g}", 0.0, below),
    ):
        sentence = f"share that diverges without the term, among draws and scales whose flow ends {side}"
        yield claim(f"diverges-{key}", sentence, there, f"no flow ends {side}").equal(
            predicted, dropped.where(there).mean(), 0.1, why, note=f"{int(there.sum())} runs"
        )
    saved, harmed, all_lost = (part.sum("residual") for part in (dropped & ~kept, kept & ~dropped, dropped))
    some = all_lost > 0
    counts = f"{int(dropped.sum())} runs of {int(some.sum())} draws diverge without the term, {int(kept.sum())} with it"
    sentence = "mean over draws of the share of runs that the term saves, among those that diverge without it"
    yield claim("saved", sentence, some, "nothing diverges without the term").at_least(
        0.5, estimate(saved / all_lost.where(some)), "an inequality: most", note=counts
    )
    # By draws: runs from one draw at several scales are alike.
    better, worse = int((saved > harmed).sum()), int((saved < harmed).sum())
    more_saved = claim("sign-test", "the term saves more runs than it loses")
    if better + worse:
        # Half of the chance of this very count is taken, so that few draws speak as little against it as for it.
        more, as_many = (special.bdtr(worse - k, better + worse, 0.5) if worse >= k else 0.0 for k in (1, 0))
        test = "the sign test of the draws in which it makes a difference"
        yield more_saved.significant((more + as_many) / 2, test, f"{better} draws for it, {worse} against")
    else:
        yield more_saved.undecided(0.0, "it makes no difference in any draw", "at least")
    ends = data.sel(term="with")
    edge = ends.final.where((ends.outcome == Outcome.CONVERGED) & above)
    why = "within five per cent of the edge is called the edge here"
    note = f"{int(edge.count())} runs, the largest {float(edge.max()):.4f}"
    sentence = f"with the term, flows above {2 + CLEAR:g}: median final curvature of the runs that converge"
    yield claim("edge", sentence, edge.notnull(), "no such run converges in time").equal(
        2.0, edge.median(), 0.1, why, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.0), 3)
    x = np.arange(len(config.residuals))
    for i, term in enumerate(TERMS):
        one = data.sel(term=term)
        below = np.zeros(len(x))
        for kind, colour in ((Outcome.CONVERGED, "C0"), (Outcome.UNFINISHED, "C1"), (Outcome.DIVERGED, "C5")):
            share = (one.outcome == kind).mean("draw").values
            label = "still going" if kind == Outcome.UNFINISHED else kind.name.lower()
            left.bar(x + 0.42 * i - 0.21, share, 0.36, bottom=below, color=colour, label=None if i else label)
            below += share
        fine = (one.loss < 1e3 * one.loss[0]).values
        seen = one.isel(step=slice(None if fine.all() else int(np.argmin(fine))))
        middle.plot(seen.step, seen.top, color=f"C{5 * i}", label=f"{term} the term")
        right.semilogy(seen.step, seen.loss, color=f"C{5 * i}", label=f"{term} the term")
    predicted, look = 1 - (data.flow > 2).mean("draw"), {"ms": 20, "mew": 2.5, "color": sheet.ink()}
    left.plot(x + 0.21, predicted, "_", label="predicted by flows", **look)
    left.set_xticks([*(x - 0.21), *(x + 0.21)], ["with"] * len(x) + ["without"] * len(x), rotation=60, fontsize=8)
    for i, scale in enumerate(config.residuals):
        left.text(i, 1.02, f"{scale:g}", ha="center", fontsize=9)
    legend = {"loc": "upper center", "ncols": 2, "fontsize": 8}
    title = rf"How {config.draws} draws end, by $\tilde\sigma_z$"
    sheet.label(left, title, y="share", legend=legend, ylim=(0, 1.45))
    sheet.mark(middle, y=2.0)
    title, highest = rf"One draw, $\tilde\sigma_z = {float(data.shown_residual):g}$", data.top.sel(term="with").max()
    sheet.label(middle, title, "step", r"$\eta\lambda_{\max}$", "lower right", ylim=(0, 1.3 * highest))
    sheet.label(right, "Its loss", "step", r"$\frac{1}{2}|z|^2$", "upper right")
