"""Gradient flow is homogeneous: the final curvature is a function of one ratio, and tells where the edge begins."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array, lax

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study, unfold
from secant.studies.shared.regression import draws, models
from secant.studies.shared.regression.tables import by_size
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr

ENDED = 1e-8
"""A run has ended when its loss over the loss at the start is below this: the rest no longer moves the curvature."""


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs((10,), (10, 20, 15), (20, 40, 80, 20))
    parameters: tuple[int, ...] = models.parameters((20,), (20, 40, 60), (40, 80, 160, 80))
    variances: tuple[float, ...] = scaled(
        smoke=(0.2, 0.5, 2.0, 16.0),
        laptop=(0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        at_least=1e-3,
        at_most=1e3,
        ascending=True,
        help="variance of the Jacobian over scale of the residuals, rescaled",
    )
    residuals: tuple[float, ...] = models.residuals(
        (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), at_most=10, shortest=2, ascending=True
    )
    descents: int = option(3, at_least=1, help="number of the smallest ratios that gradient descent takes")
    draws: int = options.draws(12, 16, 100, at_least=3, at_most=10_000)
    until: float = option(60.0, at_least=1, at_most=1e4, help="last time of the flow, over the sum of the two scales")
    steps: int = options.steps(2_000, 2_500, 20_000, at_least=100, at_most=10_000_000)

    def check(self) -> None:
        """Sizes that pair up and fit into memory."""
        draws.check_sizes(self.outputs, self.parameters, together=4)


@study("quadreg/flow-scaling", section="3.2", title="The flow's end is a function of one ratio", new=True)
def run(config: Config) -> xr.Dataset:
    r"""If $(z, J)(t)$ solves gradient flow of quadratic regression, so does $(sz, \sqrt s\,J)(st)$. The final curvature
    from a random start of scales $\tilde\sigma_z$ and $\tilde\sigma_J^2$ is therefore
    $$\lambda_\infty = \tilde\sigma_z\,F(r), \qquad r = \tilde\sigma_J^2/\tilde\sigma_z,$$
    with $F(r) \to r\,(\sqrt{P/D} + \sqrt{D/P} + 2)$ for large $r$, where the kernel does not move, and a constant for
    small $r$, where the start is forgotten. Gradient descent with $\eta = 1$ is Euler's method for the flow of unit
    scale with step $\tilde\sigma_z$: it ends at $\tilde\sigma_zF(r)\,(1 + O(\tilde\sigma_z))$ while that is below 2,
    and $\tilde\sigma_zF(r) = 2$ is where the edge of stability begins.
    """
    pairs, ratios = draws.sizes(config.outputs, config.parameters), jnp.array(config.variances)
    together = min(4, config.draws)

    def flows(Q: Array, start: qr.Regression) -> dict[str, Array]:
        ends = draws.flow_ends(Q, start, jnp.ones_like(ratios), ratios, config.until, int(10 * config.until))
        left = jnp.sum(ends.z**2, axis=-1) * start.J.shape[0] ** 2 / jnp.sum(start.z**2)
        return {"end": draws.kernel(ends.J), "begin": draws.kernel(start.J) / np.sqrt(start.J.size), "loss": left}

    ran = [draws.each_draw(flows, config.seed, config.draws, D, P, together=together) for D, P in pairs]
    final, initial = (np.stack([draws.largest(one[name]) for one in ran]) for name in ("end", "begin"))
    D, P = pairs[min(1, len(pairs) - 1)]
    ends, left = draws.each_draw(_descents(config), config.seed, config.draws, D, P, together=together)
    descents = xr.Dataset({"descent": (("seed", "start"), ends), "descent_loss": (("seed", "start"), left)})
    same, close = _homogeneous(config)
    each = ("size", "seed", "ratio")
    table = unfold(descents, "start", residual=config.residuals, low_ratio=config.variances[: config.descents])
    return table.assign_coords(ratio=list(config.variances), **by_size(pairs)).assign(
        F=(each, final, {"long_name": "final curvature of the flow"}),
        initial=(each[:2], initial, {"long_name": "curvature at the start over the ratio"}),
        loss=(each, np.stack([one["loss"] for one in ran]), {"long_name": "loss at the end over the start"}),
        limit=("size", [rr.edge(D, P) / np.sqrt(D * P) for D, P in pairs], {"long_name": "of F over a large ratio"}),
        same_bits=same,
        scaled_gap=close,
        descent_size=f"({D}, {P})",
    )


def _descents(config: Config) -> Callable[[Array, qr.Regression], tuple[Array, Array]]:
    """Gradient descent from one draw at every scale of the residuals and the smaller ratios."""
    scale, ratio = np.meshgrid(config.residuals, config.variances[: config.descents], indexing="ij")
    residual, jacobian = jnp.asarray(scale.ravel()), jnp.asarray((scale * ratio).ravel())

    def descend(Q: Array, start: qr.Regression) -> tuple[Array, Array]:
        step = jax.vmap(qr.descent(Q).step)
        begin = jax.vmap(lambda a, b: draws.scaled_start(start, a, b))(residual, jacobian)
        end = lax.fori_loop(0, config.steps, lambda _, state: step(state), begin)
        fine = jnp.isfinite(end.z).all(-1) & jnp.isfinite(end.J).all((-1, -2))
        J = jnp.where(fine[:, None, None], end.J, 0.0)
        loss = jnp.sum(end.z**2, -1) / jnp.sum(begin.z**2, -1)
        return jnp.where(fine, draws.top(J), jnp.nan), jnp.where(fine, loss, jnp.inf)

    return descend


def _homogeneous(config: Config) -> tuple[bool, float]:
    """Whether scaling by 4 gives the scaled bits, and how far scaling by 3 is from scaled numbers."""

    def flows(Q: Array, start: qr.Regression) -> Array:
        def end(s: Array) -> Array:
            begin = draws.scaled_start(start, 1.0, 0.3)
            begin = qr.Regression(s * begin.z, jnp.sqrt(s) * begin.J)
            after = draws.runge_kutta(qr.flow_field(Q), begin, 0.02 / s, 200)
            return jnp.concatenate([after.z / s, (after.J / jnp.sqrt(s)).ravel()])

        return lax.map(end, jnp.array([1.0, 4.0, 3.0]))

    one, four, three = np.moveaxis(draws.each_draw(flows, config.seed, 4, D=6, P=12, together=4), 1, 0)
    return bool((one == four).all()), float(np.abs(three - one).max() / np.abs(one).max())


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = "powers of two scale without rounding, step by step"
    yield claim("scaled-by-4", "scaled by 4, the flow has the same bits").equal(1.0, data.same_bits, 0, why)
    why = "rounding of float64 over 200 steps"
    yield claim("scaled-by-3", "scaled by 3, largest difference from the scaled flow").zero(data.scaled_gap, 1e-12, why)
    last, smallest = config.variances[-1], config.variances[0]
    for i, size in enumerate(data.size.values):
        one = data.isel(size=i)
        sentence = f"$F$ over its value for a kernel that does not move, ratio {last:g}, (D, P) = {size}"
        aside = f"that value is r times {float(one.initial.mean()):.2f}, at infinite size {float(one.limit):.2f}"
        reason = "the kernel's mean motion is of second order in 1/r"
        yield claim(f"unmoved-{size}", sentence).equal(
            1.0, estimate(one.F.isel(ratio=-1) / one.initial / last), 4 / last**2, reason, note=aside
        )
        growth = (one.F / (one.initial * one.ratio)).sel(ratio=one.ratio <= 2).values
        worst = draws.weakest(growth, 1.0) if growth.size else 0
        mean, note = estimate(growth[:, worst : worst + 1]), f"at ratio {config.variances[worst]:g}"
        sentence = f"smallest mean of final over initial curvature, ratios up to 2, (D, P) = {size}"
        yield claim(f"sharpens-{size}", sentence, growth.size, f"the smallest ratio is {smallest:g}").at_least(
            1.0, mean, "an inequality: progressive sharpening", note=note
        )
    yield from _descent_findings(data, config)


def _of_descents(data: xr.Dataset) -> xr.Dataset:
    """The flows from the draws and ratios of the descents, and where they would end at each scale."""
    flows = data[["F", "loss"]].isel(size=min(1, data.sizes["size"] - 1), ratio=slice(0, data.sizes["low_ratio"]))
    flows = flows.rename(ratio="low_ratio")
    return flows.assign(end=(flows.F * data.residual).transpose(*data.descent.dims))


def _descent_findings(data: xr.Dataset, config: Config) -> Findings:
    flows = _of_descents(data)
    predicted, known = flows.end, flows.loss < ENDED
    ended = known & (data.descent_loss < ENDED)
    gap = data.descent / predicted - 1
    both = ended.isel(residual=[0, 1]).all("residual")
    fine, coarse = (np.abs(gap.isel(residual=i, drop=True)).where(both) for i in (0, 1))
    none = "the loss of no flow and its two descents has ended: give until and steps more"
    sentence = "median power of the scale in the distance of descent from flow, at the two smallest scales"
    yield claim("power", sentence, both, none).equal(
        1.0,
        lambda: np.log(coarse / fine).median() / np.log(config.residuals[1] / config.residuals[0]),
        predicted.isel(residual=1).mean(),
        r"Euler's method is of first order; the next order is of relative size $\eta\lambda$",
        note=f"{int(both.sum())} pairs of descents that have ended",
    )
    low = known & (predicted < 1.8)
    below = np.abs(gap).where(low & ended)
    none = "no flow ends below 1.8 whose descent ends"
    sentence = r"runs that should end below 1.8: largest relative distance from the flow, over $\eta\lambda$"
    reason = r"to first order descent is the flow of $L + \eta |\nabla L|^2 / 4$: a correction of $\eta\lambda / 4$"
    yield claim("below-distance", sentence, low & ended, none).at_most(
        0.25, lambda: (below / predicted).max(), reason, note=f"mean relative distance {float(below.mean()):.3f}"
    )
    finite = np.isfinite(data.descent).where(low)
    sentence = "share of the runs that should end below 1.8 and do not diverge"
    yield claim("below-share", sentence, low, "no flow ends below 1.8").equal(
        1.0, lambda: finite.mean(), 0, "the linear step is stable below 2"
    )
    edge = ended & (predicted > 2.2)
    final, none = data.descent.where(edge), "no descent converges whose flow ends above 2.2"
    sentence = "largest final curvature of the runs that should end above 2.2 and converge"
    yield claim("above-largest", sentence, edge, none).at_most(
        2.0, lambda: final.max(), "an inequality: above 2 the step is unstable"
    )
    why, note = "within five per cent of the edge is called the edge here", f"{int(edge.sum())} runs"
    yield claim("above-median", "the same runs: median final curvature", edge, none).equal(
        2.0, lambda: final.median(), 0.1, why, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.4), 2)
    high, look = np.geomspace(1, config.variances[-1], 10), {"fmt": "o", "ms": 5, "capsize": 3}
    for i, size in enumerate(data.size.values):
        one, error = data.isel(size=i), 2 * draws.standard_error(data.F.values[i])
        left.errorbar(one.ratio * 1.04**i, one.F.mean("seed"), error, color=f"C{i}", label=f"(D, P) = {size}", **look)
        sheet.guide(left, high, high * float(one.limit), color=f"C{i}")
    sheet.guide(left, [], [], r"$r(\sqrt{P/D} + \sqrt{D/P} + 2)$")
    along, up = r"$r = \tilde\sigma_J^2/\tilde\sigma_z$", r"$F(r) = \lambda_\infty/\tilde\sigma_z$"
    sheet.label(left, "Where gradient flow ends", along, up, "upper left", xscale="log", yscale="log")
    left.set_yticks([4, 6, 10, 20, 40, 60], ["4", "6", "10", "20", "40", "60"], minor=False)
    left.minorticks_off()
    predicted = _of_descents(data).end
    sheet.guide(right, [0, 2, 4], [0, 2, 2])
    # Small scales take long to the last digit, but are nowhere near the edge.
    done = (data.descent_loss < 1e-10) | ((predicted < 1.8) & (data.descent_loss < 1e-4))
    lost = data.descent.isnull()
    for keep, colour, label in ((done, "C0", "converged"), (~done & ~lost, "C1", "still going")):
        x, y = predicted.values[keep], data.descent.values[keep]
        right.plot(x, y, "o", ms=3.5, alpha=0.6, color=colour, mew=0, label=label)
    far = predicted.values[lost]
    right.plot(far, np.full(far.size, 3.0), "x", ms=4, color="C5", alpha=0.7, label="diverged")
    title, look = f"Where gradient descent ends, {data.descent_size.item()}", {"xlim": (0, 4), "ylim": (0, 3.15)}
    along = r"$\tilde\sigma_zF(r)$, the flow of the same draw"
    sheet.label(right, title, along, r"$\eta\lambda$ at the end", "lower right", **look)
