"""Figure 12: under gradient flow larger residuals sharpen more and end faster."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import flow
from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.draws import check_sizes, each_draw, scaled_start, standard_error, top, weakest
from secant.theory.regression import quadratic_regression as qr

FALLEN = 1e-2
"""Runs are timed until their loss has fallen by this factor."""
SMALL = 1e-2
"""One more scale is this multiple of the smallest scale that was asked for: there the first order says everything."""


class Config(Seeded):
    outputs: int = scaled(smoke=10, laptop=30, at_least=2, help="residuals D")
    parameters: int = scaled(smoke=20, laptop=60, at_least=2, help="parameters P")
    residuals: tuple[float, ...] = models.residuals(
        (0.01, 0.3, 1.0, 2.0, 4.0), (0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0), at_most=1e3, shortest=2, ascending=True
    )
    jacobian: float = models.jacobian(0.1, at_least=1e-4, at_most=1e3)
    draws: int = options.draws(8, 8, 100, at_least=3, at_most=10_000)
    until: float = option(40.0, at_least=1, at_most=1e4, help="last time, over the sum of the two scales")

    def check(self) -> None:
        """Tensors that fit into memory."""
        check_sizes((self.outputs,), (self.parameters,), together=self.draws)


@study("quadreg/fig-12", section="C.1", title="Larger residuals sharpen more, and end faster")
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow from a random start of scales $\tilde\sigma_z$ and $\tilde\sigma_J^2$. With small residuals the
    curvature hardly moves. With larger ones it rises first and then stays at a higher value, in the end in proportion
    to $\tilde\sigma_z$, so that the loss falls faster late in the run.
    """
    D, P, scale = config.outputs, config.parameters, jnp.array([SMALL * config.residuals[0], *config.residuals])
    Q, start = each_draw(lambda Q, start: (Q, start), config.seed, config.draws, D, P, together=config.draws)
    # Each run has its own unit of time, about four over its final curvature: one step size suits them all.
    ran = flow(
        lambda state, draw, residual: qr.flow_field(draw[0], 1 / (residual + config.jacobian))(state),
        lambda draw, residual: scaled_start(draw[1], residual, config.jacobian),
        until=config.until,
        over={"draw": (Q, start), "residual": scale},
        probes={"loss": lambda state: jnp.sum(state.z**2) / 2, "top": lambda state: top(state.J)},
        samples=np.concatenate([[0.0], np.geomspace(0.01, config.until, 120)]),
        rtol=1e-6,
        atol=1e-10,
    ).dataset
    ran, small = ran.isel(residual=slice(1, None)), ran.top.isel(residual=0)
    relative = ran.loss / ran.loss.isel(time=0)
    clock = ran.time / (ran.residual + config.jacobian)
    fallen = xr.apply_ufunc(_time_to_fall, relative, clock, input_core_dims=[["time"], ["time"]], vectorize=True)
    sigma, until = qr.scales(scale[0], config.jacobian**0.5, D, P), config.until / (float(scale[0]) + config.jacobian)
    begin = qr.Regression(sigma.z * start.z, sigma.J * start.J)
    lazy = np.stack([small[:, -1] / small[:, 0] - 1, qr.lazy_change(np.asarray(Q), begin, until)], 1)
    change = "relative change of curvature at tiny residuals, by the flow and to first order"
    return xr.Dataset(
        {
            "loss": relative.assign_attrs(long_name="loss over that at the start"),
            "top": ran.top.assign_attrs(long_name="largest kernel eigenvalue"),
            "clock": clock.assign_attrs(long_name="time"),
            "fallen": fallen.assign_attrs(long_name=f"time until the loss has fallen to {FALLEN:g}"),
            "lazy": (("draw", "by"), lazy, {"long_name": change}),
        }
    )


def _time_to_fall(loss: np.ndarray, time: np.ndarray) -> float:
    """The time by interpolation of logarithms; NaN where the loss does not fall that far."""
    if not loss[-1] < FALLEN:
        return np.nan
    return float(np.exp(np.interp(np.log(FALLEN), np.log(loss[::-1]), np.log(time[::-1] + 1e-9))))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    scale = np.array(config.residuals)
    begin, *_, end = data.top.transpose("time", "draw", "residual").values
    steps = np.diff(end, axis=1)
    worst = weakest(steps)
    sentence = "smallest rise of the mean final curvature from one scale of residuals to the next"
    note = f"from {scale[worst]:g} to {scale[worst + 1]:g}"
    yield claim("rise", sentence).at_least(0.0, estimate(steps[:, worst]), note=note)
    sentence = f"mean size of the relative change of curvature at the smallest residuals, {scale[0]:g}"
    yield claim("small-residuals", sentence).at_most(
        0.1, estimate(np.abs(end[:, 0] / begin[:, 0] - 1)), "'don't change their curvature much', read as ten percent"
    )
    change, first = data.lazy.values.T
    largest = float(np.abs(first).max())
    sentence = f"slope of the change of curvature against its first order, residuals of {SMALL * scale[0]:g}"
    why = "next order, with repulsion by one over a distance of eigenvalues; one percent for integrating tiny changes"
    aside = f"the largest change is {largest:.1g} of the curvature"
    yield claim("first-order", sentence).equal(
        1.0, first @ change / (first @ first), 1e-2 + 20 * largest, why, note=aside
    )
    ratio = end / scale
    mean, error = ratio[:, -1].mean(), standard_error(ratio[:, -1])
    sentence = f"final curvature over the scale of residuals, {scale[-1]:g} against {scale[-2]:g}"
    why = r"the start has a share of order $\tilde\sigma_J^2/\tilde\sigma_z$ of the curvature"
    aside = f"the ratio itself is {mean:.2f} with standard error {error:.2f}"
    yield claim("proportional", sentence).equal(
        1.0, estimate(ratio[:, -1] / ratio[:, -2]), config.jacobian / scale[-2], why, note=aside
    )
    fell = int((data.loss.isel(time=-1) < FALLEN).sum())
    steps = np.diff(np.log10(data.fallen.values), axis=1)
    worst = weakest(steps, above=False)
    note = f"from {scale[worst]:g} to {scale[worst + 1]:g}; {fell} of {data.fallen.size} runs fell that far"
    sentence = f"largest change of log(time until the loss has fallen to {FALLEN:g}) from one scale to the next"
    yield claim("time-to-fall", sentence).at_most(0.0, estimate(steps[:, worst]), note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib as mpl

    left, middle, right = sheet.panels(figure, (12, 4.0), 3)
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.9, len(config.residuals)))
    for i, colour in enumerate(colours):
        one = data.isel(draw=0, residual=i, time=slice(1, None))
        left.loglog(one.clock, one.loss, color=colour, label=f"{config.residuals[i]:g}")
        middle.loglog(one.clock, one["top"], color=colour)
    legend = {"title": r"$\tilde\sigma_z$", "loc": "lower left", "fontsize": 8}
    sheet.label(left, "Loss", "time", r"$L(t)/L(0)$", legend, ylim=(1e-8, 2), xlim=(5e-3, None))
    sheet.label(middle, "Curvature", "time", r"$\lambda_{\max}$", xlim=(5e-3, None))
    end, begin = data["top"].isel(time=-1), float(data["top"].isel(time=0).mean())
    far = float((end / data.residual).isel(residual=-1).mean())
    sheet.guide(right, data.residual, far * data.residual, rf"${far:.2f}\,\tilde\sigma_z$")
    sheet.mark(right, y=begin, ls=":", lw=1.4, label="at the start")
    look = {"fmt": "o", "ms": 6, "capsize": 3, "color": "C0", "label": f"mean of {config.draws} draws"}
    right.errorbar(data.residual, end.mean("draw"), 2 * standard_error(end.values), **look)
    look = {"xscale": "log", "yscale": "log", "ylim": (begin / 4, None)}
    sheet.label(right, "Final curvature", r"$\tilde\sigma_z$", r"$\lambda_{\max}(\infty)$", "upper left", **look)
