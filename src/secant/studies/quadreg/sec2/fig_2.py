"""Figure 2: sharpness settles just below the edge, the same for every step size once rescaled."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Options, claim, options, sheet, study
from secant.studies.shared.regression import starts
from secant.theory.edge import edge_limit, nullclines, quartic, skeleton, two_eigenvalue

PAIRS = 10
"""Pairs of steps after which the jump from a start far away is over, and the end is predicted."""


class Config(Options):
    epsilon: float = starts.epsilon(0.005, at_most=0.2)
    lrs: tuple[float, ...] = options.lrs((0.5, 1.0, 2.0, 4.0), at_least=1e-6, at_most=1e6, distinct=True)
    residuals: tuple[float, ...] = starts.residuals((-0.9, -0.6, -1.2, -1.0))
    curvatures: tuple[float, ...] = starts.curvatures((0.25, 0.85, 0.05, 0.1))
    steps: int = options.steps(12_000, 20_000, at_least=1_000, at_most=10_000_000)

    def check(self) -> None:
        """As many residuals as curvatures, and parameters for each pair."""
        starts.check_starts(self.residuals, self.curvatures, self.epsilon)


@study("quadreg/fig-2", section="2.2", title="Sharpness settles just below the edge")
def run(config: Config) -> xr.Dataset:
    r"""For eigenvalues $\{1, -\epsilon\}$ with small $\epsilon$, gradient descent that starts far from the edge of
    stability sharpens, overshoots $2/\eta$, and settles just below it. Runs with different step sizes and the same
    $(\eta z_0, \eta\lambda_0)$ are the same run. Every other iterate stays near the nullcline $f_z$ on which two steps
    leave the residual as it is, and the distance $y = T - f_z(\tilde z)$ from it quickly becomes small and negative.
    """
    eps = config.epsilon
    Q = jnp.diag(jnp.array([1.0, -eps]))
    z0, T0 = config.residuals[0], config.curvatures[0]
    scaled_runs = simulate(
        lambda lr: quartic.quartic(Q, lr),
        lambda lr: two_eigenvalue.parameters(z0, T0, -eps, lr=lr),
        config.steps,
        over={"lr": jnp.array(config.lrs)},
        probes={"curvature": lambda t, lr: two_eigenvalue.phase_point(t, -eps, lr=lr).T / lr},
        stop=Stop(converged=lambda t, lr: jnp.abs(lr * quartic.residual(t, Q)) < 1e-12),
    ).dataset
    begun = two_eigenvalue.Point(jnp.array(config.residuals), jnp.array(config.curvatures))
    plane = simulate(
        two_eigenvalue.two_eigenvalue(-eps),
        lambda start: start,
        config.steps,
        over={"start": begun},
        probes={"z": lambda p: p.z, "T": lambda p: p.T},
        stop=Stop(converged=lambda p: jnp.abs(p.z) < 1e-12),
    )
    ends, records = jax.tree.map(np.asarray, plane.state), plane.dataset.rename(step="map_step")
    # For each start, the steps of the parity whose residuals are positive in the end.
    last = records.stopped_at.astype(int)
    before = records.z.isel(map_step=np.maximum(last - 1, 0)).values
    parity = np.where((ends.z < 0) & (before > 0), last + 1, last) % 2
    pairs = records.sizes["map_step"] // 2
    z, T = (np.stack([row[p::2][:pairs] for row, p in zip(records[n].values, parity, strict=True)]) for n in "zT")
    even = ("start", "even")
    return (
        records[["outcome", "z", "T"]]
        .assign(
            curvature=scaled_runs.curvature.assign_attrs(long_name="curvature", units="1/step size"),
            final=("start", ends.T, {"long_name": "final rescaled curvature"}),
            z_even=(even, z),
            T_even=(even, T),
            y=(even, nullclines.edge_distance(z, T, eps), {"long_name": "distance to the nullcline"}),
        )
        .assign_coords(even=2 * np.arange(pairs))
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    eps = config.epsilon
    z0, T0 = config.residuals[0], config.curvatures[0]
    # One start at several step sizes, in rescaled variables, and by the map of two numbers.
    level = float(skeleton.conserved(z0, T0))
    by_map = data["T"].isel(start=[0]).rename(map_step="step", start="lr")
    forms = xr.concat([data.curvature * data.lr, by_map], "lr", join="inner").dropna("step")
    chaos = f"T - 2z = {level:.3g} starts in chaos, where rounding grows to the size of the orbit"
    sentence = "largest difference between the rescaled curvatures of different step sizes"
    why = "an identity: rounding of float64 over the run"
    yield claim("step-sizes", sentence, level <= skeleton.CYCLE_FLIP, chaos).zero(
        (forms.max("lr") - forms.min("lr")).max(), 1e-10, why, note="the map of two numbers counts as one more"
    )
    # Residual, curvature and distance to the nullcline of every start after its first pairs; NaN if it has ended.
    after = data[["z_even", "T_even", "y"]].reindex(even=[2 * PAIRS]).isel(even=0)
    limits, errors = map(np.asarray, edge_limit.limit_from(after.z_even.values, after.y.values, eps))
    converged = data.outcome == Outcome.CONVERGED
    late = f"this start has not converged in {config.steps:,} steps"
    far = f"it is not near the nullcline after {PAIRS} pairs of steps"
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        settled, none = converged[i] & np.isfinite(limits[i] + errors[i]), far if converged[i] else late
        sentence = f"final distance below the edge from ({z:g}, {T:g}), rescaled"
        yield claim(f"distance-{z:g}-{T:g}", sentence, settled, none).equal(
            -limits[i],
            2 - data.final[i],
            errors[i] + 1e-11,
            f"the memory of the point after {PAIRS} pairs of steps, known up to a share of the residual of its "
            "exponent; the next term of the series; the residual at the end",
        )
    yield claim("below-edge", "largest final rescaled curvature: below the edge").at_most(
        2.0, data.final.where(converged).max()
    )
    level = float(skeleton.level_step(skeleton.conserved(z0, T0), z0, eps))
    outside = f"T - 2z = {level:.3g} after a step, outside the window from 2 to 4"
    sentence = "largest rescaled curvature on even steps: it overshoots the edge"
    yield claim("overshoot", sentence, 2 < level < skeleton.ESCAPE, outside).at_least(2.0, data.T_even[0].max())
    start = data.y.isel(even=0)
    # Starts away from the nullcline that have come to the edge and not below it.
    came = (np.abs(start) > 0.2) & (after.T_even - 2 * after.z_even > 2 - eps)
    none = "no start comes to the edge from farther than 0.2 from the nullcline"
    sentence = f"largest distance to the nullcline after {PAIRS} pairs of steps, over the distance at the start"
    yield claim("to-nullcline", sentence, came, none).at_most(
        0.1, lambda: np.abs(after.y / start)[came].max(), "quickly: by an order of magnitude"
    )
    # Where y stays while the residual decays, for the starts that are forgotten.
    small = data.y.where((data.z_even < 0.1) & (data.z_even > 1e-6)).median("even")
    ratios = (small / float(edge_limit.fixed_point(eps)))[errors < 0.01 * np.abs(limits)].dropna("start")
    none = "no start is forgotten: 4 z^2 is not large against epsilon after the jump"
    sentence = "median distance to the nullcline while the residual decays, over the fixed point of lowest order"
    note = f"the farthest from one of {ratios.size} starts whose end is known to a per cent"
    why = r"next orders of the slow manifold, $\tfrac34 z^2$ and $0.94\epsilon$"
    yield claim("fixed-point", sentence, ratios.size, none).equal(
        1.0, lambda: ratios[np.abs(ratios - 1).argmax("start")], 0.1**2 + 2 * eps, why, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    eps, ink = config.epsilon, sheet.ink()
    (whole, close), (middle, right) = sheet.panels(figure, (10.5, 7.2), 2, 2)
    star, last = float(edge_limit.fixed_point(eps)), data.step[-1]
    seen = 2 * np.unique(np.geomspace(1, (data.sizes["step"] + 1) // 2, 250).astype(int) - 1)  # by the logarithm
    for i, lr in enumerate(config.lrs):  # one curve: each line is thinner than the one below it
        even = data.curvature[i, seen] * lr
        for axes in (whole, close):
            axes.plot(even.step + 1, even, color=f"C{i}", lw=max(1.0, 7.0 - 2.0 * i), label=f"{lr:g}")
    for axes in (whole, close):
        sheet.mark(axes, y=2, lw=1.3)
        axes.set(xlabel="even step + 1", ylabel=r"$\eta\lambda$")
    whole.set(title="One curve for every step size", ylim=(0, 2.45), xlim=(1, last), xscale="log")
    whole.text(8, 1.95, "edge", va="top", fontsize=9)
    whole.legend(title=r"step size $\eta$", loc="lower right")
    close.set(title="It settles just below the edge", ylim=(2 - 1.5 * eps, 2 + 1.5 * eps), xlim=(last / 20, last))
    close.text(last, 2 + 0.05 * eps, "edge", va="bottom", ha="right", fontsize=9)
    sheet.guide(close, [last / 20, last], [2 + star] * 2, ls=":", zorder=4)
    close.text(last, 2 + star - 0.08 * eps, f"{2 + star:.6g}", va="top", ha="right", fontsize=9)
    close.ticklabel_format(axis="y", useOffset=False)
    grid = np.linspace(-0.02, 0.34, 200)
    sheet.guide(middle, grid, nullclines.nullcline(grid, eps), r"nullcline $f_z$", lw=1.1, zorder=4)
    f_T = nullclines.nullcline(grid, eps, "curvature")
    sheet.guide(middle, grid, f_T, r"nullcline $f_T$", ls=":", lw=1.5, zorder=4)
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        one = data.isel(start=i, even=slice(1, None))
        for axes, height, size, label in (
            (middle, one.T_even, 4, None),
            (right, one.y / eps, 2.5, rf"$({z:g}, {T:g})$"),
        ):
            axes.plot(one.z_even, height, "-", lw=0.6, alpha=0.6, color=f"C{i}")
            axes.plot(one.z_even, height, "o", ms=size, color=f"C{i}", label=label)
    middle.axhline(2, color=ink, lw=0.7, alpha=0.5)
    sheet.label(middle, "Even iterates hug the nullclines", r"$\tilde z$", r"$T$", "upper left", ylim=(1.9, 3.1))
    sheet.mark(right, y=star / eps, lw=1.3)
    right.text(0.335, star / eps - 0.12, r"$y^*$", ha="right", va="top")
    right.set(title=r"Distance $y = T - f_z$ turns constant", xlabel=r"$\tilde z$", ylabel=r"$y/\epsilon$")
    right.set_ylim(-1.5, 3.5)
    right.legend(title=r"start $(\tilde z, T)$", loc="upper right")
    for axes in (middle, right):
        axes.set_xlim(-0.02, 0.34)
    for axes in (close, middle, right):
        axes.locator_params(nbins=5)
