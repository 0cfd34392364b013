"""Figure 1: the quartic landscape, and gradient descent that sharpens on its way down."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit, to_device
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Options, claim, options, sheet, study
from secant.studies.shared.regression import starts
from secant.theory.edge import edge_limit, nullclines, quartic, skeleton, two_eigenvalue

LANDED = 3
"""After this many steps a start below the edge has jumped across the valley, and its end can be predicted."""


class Config(Options):
    epsilon: float = starts.epsilon(0.1, at_most=0.2)
    lr: float = options.lr(1.0, at_least=1e-6, at_most=1e6)
    residuals: tuple[float, ...] = starts.residuals((-0.5, -0.6, -0.3))
    curvatures: tuple[float, ...] = starts.curvatures((1.2, 1.0, 1.5))
    steps: int = options.steps(800, 2_000, at_least=200, at_most=1_000_000)

    def check(self) -> None:
        """As many residuals as curvatures, and parameters for each pair."""
        starts.check_starts(self.residuals, self.curvatures, self.epsilon)


@study("quadreg/fig-1", section="2.2", title="Descending into sharper minima")
def run(config: Config) -> xr.Dataset:
    r"""With eigenvalues $\{1, -0.1\}$ and $E = 0$ the loss is the square of a hyperbolic paraboloid. Gradient descent
    converges to minima of larger curvature than its start, oscillating across the valley; every other iterate does
    not oscillate.
    """
    second, lr = -config.epsilon, config.lr
    parameters = jit(lambda z, T: two_eigenvalue.parameters(z, T, second, lr=lr), quick=True)
    start = np.asarray(parameters(np.array(config.residuals), np.array(config.curvatures)))
    Q = to_device(np.diag([1.0, second]))
    ran = simulate(
        quartic.quartic(Q, lr),
        lambda start: start,
        config.steps,
        over={"start": start},
        probes={
            "theta": lambda t: t,
            "curvature": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).T,
            "residual": lambda t: two_eigenvalue.phase_point(t, second, lr=lr).z,
        },
        stop=Stop(converged=lambda t: jnp.abs(lr * quartic.residual(t, Q)) < 1e-12),
    )
    end = jit(lambda theta: two_eigenvalue.phase_point(theta, second, lr=lr), quick=True)(ran.state)
    return ran.dataset.assign(
        final=("start", np.asarray(end.T), {"long_name": "final rescaled curvature"}),
        last=("start", np.asarray(end.z), {"long_name": "final rescaled residual"}),
        end=(("start", "parameter"), np.asarray(ran.state)),
        residuals=jax.eval_shape(quartic.residual, start[0], Q).size,
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    converged = data.outcome == Outcome.CONVERGED
    begun = list(zip(config.residuals, config.curvatures, strict=True))
    late = f"in {config.steps:,} steps this start does not settle near the edge"
    for i, (z, T) in enumerate(begun):
        one = data.isel(start=i)
        # The parity whose residuals are positive after the jump.
        landed = one.isel(step=LANDED + int(one.residual[LANDED + 1] > 0))
        y = nullclines.edge_distance(landed.residual.values, landed.curvature.values, config.epsilon)
        limit, error = map(float, edge_limit.limit_from(float(landed.residual), float(y), config.epsilon))
        settled = converged[i] & np.isfinite([limit, error]).all()
        yield claim(f"distance-{z:g}-{T:g}", f"final distance below the edge from ({z:g}, {T:g})", settled, late).equal(
            -limit,
            2 - one.final,
            error + 1e-11,
            "the memory of where it landed, known up to a share of the residual of its exponent; the next term of the "
            "series; the residual at the end",
        )
        level = float(skeleton.conserved(z, T))
        sharpens, sentence = z < 0 and T < 2 < level, f"curvature at the end over its start, from ({z:g}, {T:g})"
        none = f"the claim is for z < 0, T < 2 and T - 2z above 2, here {level:.3g}, and runs that converge"
        yield claim(f"sharpening-{z:g}-{T:g}", sentence, converged[i] & sharpens, none).at_least(1.0, one.final / T)
    # Signs of the residual, step by step and on every other step, while it is larger than rounding.
    crossed, changes = [], []
    for residual in data.residual[(converged & (data.final > 1)).values, 10:].values:
        sign = np.sign(residual[np.abs(residual) > 1e-12])
        if len(sign) > 10:
            crossed.append((sign[1:] != sign[:-1]).mean())
            changes.append((sign[2:] != sign[:-2]).sum())
    none = "no run ends above curvature one, where a step crosses the valley"
    sentence = "smallest share of steps that cross the valley, from the tenth on"
    yield claim("crossings", sentence, crossed, none).equal(
        1.0, lambda: min(crossed), 0, "above curvature one every step crosses the valley"
    )
    sentence = "sign changes among even iterates after the first ten steps"
    yield claim("even-changes", sentence, changes, none).count(0.0, lambda: max(changes))
    below = np.array([float(skeleton.conserved(*start)) < skeleton.ESCAPE for start in begun])
    given = below.any() and (data.outcome != Outcome.UNFINISHED).all()
    late = f"a run has not ended in {config.steps:,} steps, or none starts below T - 2z = 4"
    converging = claim("converge", "starts whose loss goes to zero", given, late)
    yield converging.count(below.sum(), (converged & below).sum())
    wrong, right = (r"D = 2", 2), (r"D = 1,\ P = 2", 1)
    note = "the landscape has two parameters and one residual"
    yield claim("outputs", "number of outputs in the caption").erratum(
        wrong, right, data.residuals, 0.0, "a count", note=note, where="caption of figure 1", by="derivation"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    from matplotlib.colors import LogNorm

    ink = sheet.ink()
    panels = sheet.panels(figure, (11, 4.2), 3)
    *planes, right = panels
    low, high = data.theta.min(("start", "step")).values, data.theta.max(("start", "step")).values
    x, y = np.linspace(low[0] - 0.1, high[0] + 0.15, 241), np.linspace(low[1] - 0.1, high[1] + 0.1, 241)
    loss = (x[None] ** 2 - config.epsilon * y[:, None] ** 2) ** 2 / 8
    valley = np.sqrt(config.epsilon) * y
    for axes, stride, title in zip(planes, (1, 2), ("Every step", "Every other step"), strict=True):
        look = {"norm": LogNorm(), "cmap": "Blues", "alpha": 0.35, "antialiased": True}
        filled = axes.contourf(x, y, np.maximum(loss, 1.1e-6), levels=np.logspace(-6, 0.0, 13), **look)
        filled.set_edgecolor("face")
        sheet.guide(axes, valley, y)
        for i, path in enumerate(data.theta.values[:, :400:stride]):
            axes.plot(*path.T, "-", lw=0.8, color=f"C{i}", alpha=0.6)
            axes.plot(*path.T, "o", ms=2.4, color=f"C{i}")
            axes.plot(*path[0], "s", ms=6, color=f"C{i}", mec=ink)
            axes.plot(*data["end"][i], "*", ms=11, color=f"C{i}", mec=ink, mew=0.6)
        axes.set(title=title, xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axes.grid(False)
    planes[0].annotate("zero loss", (valley[12], y[12]), xytext=(5, -3), textcoords="offset points", fontsize=8)
    sheet.mark(right, y=2, lw=1)
    right.text(1.05, 2.02, r"$2/\eta$", va="bottom", fontsize=9)
    sheet.mark(right, y=2 + edge_limit.limit_series(config.epsilon), ls=":", lw=1)
    for i, (z, T) in enumerate(zip(config.residuals, config.curvatures, strict=True)):
        curve = data.curvature[i]
        right.semilogx(data.step + 1, curve, color=f"C{i}", alpha=0.25, lw=0.8)
        right.semilogx(data.step[::2] + 1, curve[::2], color=f"C{i}", label=f"({z:g}, {T:g})")
    legend = {"title": r"start $(\tilde z, T)$", "loc": "lower right"}
    sheet.label(right, "Curvature rises to the edge", "step + 1", r"$\eta\lambda$", legend, xlim=(1, 500))
    right.tick_params(colors=ink, which="both")
    for axes in panels:
        axes.spines[:].set_color(sheet.faint())
