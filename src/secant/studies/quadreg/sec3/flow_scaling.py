"""Gradient flow is homogeneous: the final curvature is a function of one ratio, and tells where the edge begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array, lax

from secant.lab import Figure, Findings, claims, estimate, option, scaled, sheet, study
from secant.setups.regression.draws import (
    check_sizes,
    each_draw,
    flow_ends,
    kernel,
    largest,
    runge_kutta,
    scaled_start,
    sizes,
    standard_error,
    top,
    weakest,
)
from secant.theory import quadratic_regression as qr
from secant.theory import random_regression as rr

ENDED = 1e-8
"""Loss over its start below which a run has ended: what is left of it no longer moves the curvature."""


@dataclass(frozen=True)
class Config:
    outputs: tuple[int, ...] = scaled(
        smoke=(10,), laptop=(10, 20, 15), paper=(20, 40, 80, 20), at_least=2, help="residuals D"
    )
    parameters: tuple[int, ...] = scaled(
        smoke=(20,), laptop=(20, 40, 60), paper=(40, 80, 160, 80), at_least=2, help="parameters P, as many entries"
    )
    ratios: tuple[float, ...] = scaled(
        smoke=(0.2, 0.5, 2.0, 16.0), laptop=(0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), at_least=1e-3, at_most=1e3,
        ascending=True, help="variance of the Jacobian over scale of the residuals, rescaled",
    )
    residuals: tuple[float, ...] = option(
        (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), at_least=1e-3, at_most=10, shortest=2, ascending=True,
        help="scales of the residuals for gradient descent",
    )
    descents: int = option(3, at_least=1, help="ratios for gradient descent: so many of the smallest")
    seeds: int = scaled(smoke=12, laptop=16, paper=100, at_least=3, at_most=10_000, help="random draws a size")
    until: float = option(60.0, at_least=1, at_most=1e4, help="last time of the flow, over the sum of the two scales")
    steps: int = scaled(
        smoke=2_000, laptop=2_500, paper=20_000, at_least=100, at_most=10_000_000, help="gradient-descent steps"
    )
    seed: int = option(0, at_least=0, help="random seed")

    def check(self) -> None:
        """Sizes that pair up and fit into memory."""
        check_sizes(self.outputs, self.parameters, together=4)


@study(
    "quadreg/flow-scaling", section="3.2", title="The flow's end is a function of one ratio", new=True,
    statement=r"""
    If $(z, J)(t)$ solves gradient flow of quadratic regression, so does $(sz, \sqrt s\,J)(st)$. The final curvature
    from a random start of scales $\tilde\sigma_z$ and $\tilde\sigma_J^2$ is therefore
    $$\lambda_\infty = \tilde\sigma_z\,F(r), \qquad r = \tilde\sigma_J^2/\tilde\sigma_z,$$
    with $F(r) \to r\,(\sqrt{P/D} + \sqrt{D/P} + 2)$ for large $r$, where the kernel does not move, and a constant for
    small $r$, where the start is forgotten. Gradient descent with $\eta = 1$ is Euler's method for the flow of unit
    scale with step $\tilde\sigma_z$: it ends at $\tilde\sigma_zF(r)\,(1 + O(\tilde\sigma_z))$ while that is below 2,
    and $\tilde\sigma_zF(r) = 2$ is where the edge of stability begins.""",
)
def run(config: Config) -> xr.Dataset:
    pairs, ratios = sizes(config.outputs, config.parameters), jnp.array(config.ratios)

    def flows(Q: Array, start: qr.Regression) -> dict[str, Array]:
        ends = flow_ends(Q, start, jnp.ones_like(ratios), ratios, config.until, int(10 * config.until))
        left = jnp.sum(ends.z**2, axis=-1) * start.J.shape[0] ** 2 / jnp.sum(start.z**2)
        return {"end": kernel(ends.J), "begin": kernel(start.J) / np.sqrt(start.J.size), "loss": left}

    ran = [each_draw(flows, config.seed, config.seeds, D, P, together=min(4, config.seeds)) for D, P in pairs]
    D, P = pairs[min(1, len(pairs) - 1)]
    descent, left = each_draw(_descents(config), config.seed, config.seeds, D, P, together=min(4, config.seeds))
    shape = (config.seeds, len(config.residuals), -1)
    same, close = _homogeneous(config)
    return xr.Dataset(
        {
            "F": (
                ("size", "seed", "ratio"), np.stack([largest(one["end"]) for one in ran]),
                {"long_name": "final curvature of the flow"},
            ),
            "initial": (
                ("size", "seed"), np.stack([largest(one["begin"]) for one in ran]),
                {"long_name": "curvature at the start over the ratio"},
            ),
            "loss": (
                ("size", "seed", "ratio"), np.stack([one["loss"] for one in ran]),
                {"long_name": "loss at the end over the start"},
            ),
            "descent": (("seed", "residual", "low_ratio"), descent.reshape(shape)),
            "descent_loss": (("seed", "residual", "low_ratio"), left.reshape(shape)), "same_bits": same,
            "scaled_gap": close, "descent_size": f"({D}, {P})",
        },
        coords={
            "size": [f"({D}, {P})" for D, P in pairs], "D": ("size", list(config.outputs)),
            "P": ("size", list(config.parameters)), "ratio": list(config.ratios), "residual": list(config.residuals),
            "low_ratio": list(config.ratios[: config.descents]),
        },
    )


def _descents(config: Config) -> Callable[[Array, qr.Regression], tuple[Array, Array]]:
    """Gradient descent from one draw at every scale of the residuals and the smaller ratios."""
    scale, ratio = np.meshgrid(config.residuals, config.ratios[: config.descents], indexing="ij")
    residual, jacobian = jnp.asarray(scale.ravel()), jnp.asarray((scale * ratio).ravel())

    def descend(Q: Array, start: qr.Regression) -> tuple[Array, Array]:
        step = jax.vmap(qr.descent(Q).step)
        begin = jax.vmap(lambda a, b: scaled_start(start, a, b))(residual, jacobian)
        end = lax.fori_loop(0, config.steps, lambda _, state: step(state), begin)
        fine = jnp.isfinite(end.z).all(-1) & jnp.isfinite(end.J).all((-1, -2))
        J = jnp.where(fine[:, None, None], end.J, 0.0)
        loss = jnp.sum(end.z**2, -1) / jnp.sum(begin.z**2, -1)
        return jnp.where(fine, top(J), jnp.nan), jnp.where(fine, loss, jnp.inf)

    return descend


def _homogeneous(config: Config) -> tuple[bool, float]:
    """Whether scaling by 4 gives the scaled bits, and how far scaling by 3 is from scaled numbers."""
    D, P = 6, 12

    def flows(Q: Array, start: qr.Regression) -> Array:
        def end(s: Array) -> Array:
            begin = scaled_start(start, 1.0, 0.3)
            begin = qr.Regression(s * begin.z, jnp.sqrt(s) * begin.J)
            after = runge_kutta(qr.flow_field(Q), begin, 0.02 / s, 200)
            return jnp.concatenate([after.z / s, (after.J / jnp.sqrt(s)).ravel()])

        return lax.map(end, jnp.array([1.0, 4.0, 3.0]))

    one, four, three = np.moveaxis(each_draw(flows, config.seed, 4, D, P, together=4), 1, 0)
    return bool((one == four).all()), float(np.abs(three - one).max() / np.abs(one).max())


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield claims.equal(
        "scaled by 4, the flow has the same bits", 1.0, data.same_bits, 0,
        "powers of two scale without rounding, step by step",
    )
    yield claims.zero(
        "scaled by 3, largest difference from the scaled flow", data.scaled_gap, 1e-12,
        "rounding of float64 over 200 steps",
    )
    for i, size in enumerate(data.size.values):
        one = data.isel(size=i)
        lazy = (one.F.isel(ratio=-1) / one.initial).values / config.ratios[-1]
        yield claims.equal(
            f"F over its value for a kernel that does not move, ratio {config.ratios[-1]:g}, (D, P) = {size}", 1.0,
            estimate(lazy), 4 / config.ratios[-1] ** 2, "the kernel's mean motion is of second order in 1/r",
            note=f"that value is r times {float(one.initial.mean()):.2f}, at infinite size "
            f"{rr.edge(int(one.D), int(one.P)) / np.sqrt(int(one.D) * int(one.P)):.2f}",
        )
        claim = f"smallest mean of final over initial curvature, ratios up to 2, (D, P) = {size}"
        moving = one.isel(ratio=np.flatnonzero(one.ratio <= 2))
        if not moving.sizes["ratio"]:
            yield claims.undecided(claim, 1.0, f"the smallest ratio is {config.ratios[0]:g}", "at least")
            continue
        growth = (moving.F / (moving.initial * moving.ratio)).values
        worst = weakest(growth, 1.0)
        yield claims.at_least(
            claim, 1.0, estimate(growth[:, worst]), "an inequality: progressive sharpening",
            note=f"at ratio {config.ratios[worst]:g}",
        )
    yield from _descent_findings(data, config)


def _of_descents(data: xr.Dataset, name: str) -> xr.DataArray:
    """A quantity of the flows from the draws and ratios of the descents."""
    own = data[name].isel(size=min(1, data.sizes["size"] - 1), ratio=slice(0, data.sizes["low_ratio"]))
    return own.rename(ratio="low_ratio")


def _predicted(data: xr.Dataset) -> xr.DataArray:
    """Where the flow of each draw of the descents would end."""
    return (_of_descents(data, "F") * data.residual).transpose(*data.descent.dims)


def _descent_findings(data: xr.Dataset, config: Config) -> Findings:
    predicted = _predicted(data)
    known = (_of_descents(data, "loss") < ENDED).broadcast_like(predicted).transpose(*data.descent.dims)
    ended = known & (data.descent_loss < ENDED)
    gap = data.descent / predicted - 1
    claim = "power of the scale in the distance of descent from flow, at the two smallest, median"
    fine, coarse = (np.abs(gap.isel(residual=i)).values[ended[:, :2].all("residual").values] for i in (0, 1))
    if len(fine):
        yield claims.equal(
            claim, 1.0, np.median(np.log(coarse / fine)) / np.log(config.residuals[1] / config.residuals[0]),
            predicted.isel(residual=1).mean(),
            "Euler's method is of first order; the next is of the relative size of eta lambda",
            note=f"{len(fine)} pairs of descents that have ended",
        )
    else:
        yield claims.undecided(
            claim, 1.0, "the loss of no flow and its two descents has ended: give until and steps more"
        )
    low = known.values & (predicted < 1.8).values
    below = low & ended.values
    statements = (
        "runs that should end below 1.8: largest relative distance from the flow, over eta lambda",
        "runs that should end below 1.8 and do not diverge: share",
    )
    if below.any():
        yield claims.at_most(
            statements[0], 0.25, (np.abs(gap) / predicted).where(below).max(),
            "to first order descent is the flow of L + eta |grad L|^2 / 4: a correction of eta lambda / 4",
            note=f"mean relative distance {float(np.abs(gap).where(below).mean()):.3f}",
        )
    else:
        yield claims.undecided(statements[0], 0.25, "no flow ends below 1.8 whose descent ends", "at most")
    if low.any():
        yield claims.equal(
            statements[1], 1.0, np.isfinite(data.descent.values[low]).mean(), 0, "the linear step is stable below 2"
        )
    else:
        yield claims.undecided(statements[1], 1.0, "no flow ends below 1.8")
    edge = (ended & (predicted > 2.2)).values
    statements = (
        "runs that should end above 2.2 and converge: largest final curvature", "the same runs: median final curvature",
    )
    if not edge.any():
        why = "no descent converges whose flow ends above 2.2"
        yield claims.undecided(statements[0], 2.0, why, "at most")
        yield claims.undecided(statements[1], 2.0, why)
        return
    final = data.descent.values[edge]
    yield claims.at_most(statements[0], 2.0, final.max(), "an inequality: above 2 the step is unstable")
    yield claims.equal(
        statements[1], 2.0, np.median(final), 0.1, "within five per cent of the edge is called the edge here",
        note=f"{edge.sum()} runs",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    left, right = sheet.panels(figure, (11, 4.4), 2)
    r = np.array(config.ratios)
    for i, size in enumerate(data.size.values):
        one = data.sel(size=size)
        limit = rr.edge(int(one.D), int(one.P)) / np.sqrt(int(one.D) * int(one.P))
        left.errorbar(
            r * 1.04**i, one.F.mean("seed"), 2 * standard_error(one.F.values), fmt="o", ms=5, capsize=3, color=f"C{i}",
            label=f"(D, P) = {size}",
        )  # fmt: skip
        high = np.geomspace(1, r[-1], 10)
        left.plot(high, high * limit, "--", color=f"C{i}", lw=1.2)
    left.plot([], [], "--", color=ink, lw=1.2, label=r"$r(\sqrt{P/D} + \sqrt{D/P} + 2)$")
    left.set(title="Where gradient flow ends", xlabel=r"$r = \tilde\sigma_J^2/\tilde\sigma_z$", xscale="log")
    left.set(ylabel=r"$F(r) = \lambda_\infty/\tilde\sigma_z$", yscale="log")
    left.set_yticks([4, 6, 10, 20, 40, 60], ["4", "6", "10", "20", "40", "60"], minor=False)
    left.minorticks_off()
    left.legend(loc="upper left")
    predicted = _predicted(data)
    line = np.linspace(0, 2, 10)
    right.plot(line, line, "--", color=ink, lw=1.2)
    right.plot([2, 4], [2, 2], "--", color=ink, lw=1.2)
    # Small scales take long to the last digit, but are nowhere near the edge.
    done = ((data.descent_loss < 1e-10) | ((predicted < 1.8) & (data.descent_loss < 1e-4))).values
    lost = ~np.isfinite(data.descent.values)
    x, y = predicted.values, data.descent.values
    for keep, colour, label in ((done, "C0", "converged"), (~done & ~lost, "C1", "still going")):
        right.plot(x[keep], y[keep], "o", ms=3.5, alpha=0.6, color=colour, mew=0, label=label)
    right.plot(x[lost], np.full(lost.sum(), 3.0), "x", ms=4, color="C5", alpha=0.7, label="diverged")
    right.set(
        title=f"Where gradient descent ends, {data.descent_size.item()}",
        xlabel=r"$\tilde\sigma_zF(r)$, the flow of the same draw", ylabel=r"$\eta\lambda$ at the end", xlim=(0, 4),
        ylim=(0, 3.15),
    )
    right.legend(loc="lower right")
