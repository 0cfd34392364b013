"""The run behind figures 5, 6 and 13: a network trained to the edge of stability, and watched there step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import curvature, data, losses, measure, nets
from secant.core.device import to_device
from secant.lab import Options, fits_memory, option, options, scaled
from secant.optim import Problem, train

MODES = 3
"""How many eigenvalues are watched: three show a crossing of the first two."""


POINTS = 400
"""Points of a spectral density."""

SOURCE_SAMPLES = 5_000
"""Training samples of the source's figures."""


class EdgeConfig(Options):
    """Data, network, step size, and how long the run is watched."""

    data: str = scaled(smoke="digits", laptop="cifar10", help="a data set that secant.data knows")
    samples: int = options.samples(100, 500, 5_000, at_least=10, at_most=100_000)
    width: int = options.width(32, 200, at_least=2, at_most=10_000)
    lr: float | None = options.lr(None, 0.0115, 0.01, at_least=1e-6, at_most=10)
    time: float = option(
        150.0, at_least=1, at_most=10_000, help="time of gradient flow at which the default step size meets the edge"
    )
    look: int = scaled(
        smoke=25, laptop=50, at_least=1, at_most=10_000, help="steps between two measurements on the way"
    )
    approach: int = scaled(
        smoke=800, laptop=4_000, paper=10_000, at_least=1, at_most=1_000_000, help="steps to the edge at most"
    )
    near: float = option(1.985, at_least=1, below=2, help="rescaled curvature at which the window begins")
    window: int = scaled(
        smoke=600, laptop=600, paper=1_500, at_least=10, at_most=1_000_000, help="steps that are watched one by one"
    )
    seed: int = options.seed(0)

    def check(self) -> None:
        """Checks that outputs and parameters fit into memory: a few dozen vectors of both are kept."""
        fits_memory(8 * 50 * (10 * self.samples * self.width + self.width**2), "samples or width")


def run_to_the_edge(config: EdgeConfig) -> xr.Dataset:
    r"""Trains until the rescaled curvature is near 2, then watches every step of a window.

    The network has two hidden layers of tanh, with weights and biases uniform in $\pm 1/\sqrt{\text{fan-in}}$. It
    learns one-hot labels from standardised features with the squared loss $\frac1{2n}\sum_i|f(x_i) - y_i|^2$ on the
    full batch. Without a given step size, the step is $2/\lambda_1$ with the eigenvalue that gradient flow has at the
    given time. Every network then meets the edge at about this time, with as much sharpening still to come.

    Returns:
        A dataset with `lr`, the step size, and

        - over `step`, counted from the start of training: `top`, the rescaled eigenvalues of the tangent kernel; `y`,
          the distance of the followed eigenvalue from the edge; `z`, the residual along its eigenvector; `overlap`,
          `bend`, `loss`;
        - over `past`: `before`, the eigenvalues on the way;
        - over `moment` (the beginning and the end of the window) and `direction`: `extreme`, the largest and smallest
          eigenvalue of the slice of the second derivative, and its spectral `density` over `eigenvalue`.
    """
    task = data.load(config.data, samples=config.samples, test_samples=1, labels="one-hot", seed=config.seed)
    x, y = (to_device(np.asarray(part, jnp.result_type(float))) for part in task.train)
    net = nets.mlp([config.width] * 2, outputs=y.shape[1], activation="tanh", parametrization="pytorch", bias=True)
    problem = Problem(net.apply, x, y, losses.half_mean)
    params = net.init(jax.random.key(config.seed), x.shape)
    lr = config.lr
    if lr is None:
        lr = 2 / _eigenvalue_of_flow(problem, params, config.time)
    past, window, first, last = _watched(problem, params, config, lr)
    moments = [_slices(problem, at) for at in (first, last)]
    return xr.Dataset(
        {
            "before": (("past", "mode"), past.values),
            "top": (("step", "mode"), lr * window["mode"].values),
            "y": ("step", lr * window.mode_followed.values - 2),
            "z": ("step", window.mode_along.values),
            "overlap": ("step", window.mode_overlap.values),
            "bend": ("step", window.mode_bend.values),
            "loss": ("step", window.loss.values),
            "lr": lr,
        },
        coords={"step": window.step.values, "past": past.step.values},
        attrs=task.attributes(),
    ).merge(xr.concat(moments, "moment").assign_coords(moment=["begin", "end"]))


class _Modes(NamedTuple):
    """The leading modes of the tangent kernel: rescaled eigenvalues `(modes,)`, eigenvectors `(modes, n, outputs)`.

    The eigenvalues are in units in which the loss is half the square of residuals.
    """

    values: np.ndarray
    vectors: Any


def _modes(problem: Problem, params: Any, near: _Modes | None = None) -> _Modes:
    """The leading modes. The search starts from the modes of parameters nearby, at first from random vectors.

    A search of a few vectors together needs a short basis, and one program serves the first and all later looks. If the
    run has blown up the eigenvalues are NaN.
    """
    start = None if near is None else near.vectors
    if start is None:
        rows = min(MODES, problem.y.size)
        start = to_device(np.random.default_rng(0).normal(size=(rows, *problem.y.shape)).astype(problem.y.dtype))
    try:
        found = curvature.ntk(problem.f, params, problem.x).top(MODES, tol=1e-6, start=start)
    except FloatingPointError:
        return _Modes(np.full(len(start), np.nan), start)
    return _Modes(np.asarray(found.values) * float(problem.loss.curvature(problem.y)), found.vectors)  # type: ignore[attr-defined]


def _eigenvalue_of_flow(problem: Problem, params: Any, time: float) -> float:
    """The largest eigenvalue of the tangent kernel at a given time of gradient flow."""
    # A step of an eighth of 2/lambda at the start stays below the edge until the curvature has grown eightfold.
    steps = int(np.ceil(4 * time * _modes(problem, params).values[0]))
    return float(_modes(problem, train(problem, params, lr=time / steps, steps=steps).state).values[0])


Watched = tuple[xr.DataArray, xr.Dataset, Any, Any]
"""Rescaled eigenvalues on the way, records of the window, and the parameters at its beginning and end."""


def _watched(problem: Problem, params: Any, config: EdgeConfig, lr: float) -> Watched:
    """Looks now and then on the way, and at every step of the window."""
    looks: list[np.ndarray] = []
    modes = None
    while len(looks) * config.look < config.approach:
        done = (len(looks) + 1) * config.look
        later = train(problem, params, lr=lr, steps=config.look, label=f"to the edge, step {done:,}").state
        modes = _modes(problem, later, modes)
        looks.append(lr * modes.values)
        if np.isnan(looks[-1]).any():  # the window shows the blow-up, from the last finite parameters on
            break
        params = later
        if looks[-1][0] > config.near:
            break
    past = xr.DataArray(
        np.stack(looks), dims=("step", "mode"), coords={"step": config.look * np.arange(1, len(looks) + 1)}
    )
    probes = {"loss": measure.loss(), "mode": measure.leading_mode(MODES, tol=1e-5)}
    run = train(problem, params, lr=lr, steps=config.window, probes=probes, label="at the edge")
    return past, run.dataset.assign_coords(step=run.dataset.step + int(past.step[-1])), params, run.state


def _slices(problem: Problem, params: Any) -> xr.Dataset:
    """Spectra of the second derivative along the top eigenvector and along a random direction of the outputs.

    They are NaN if the run has blown up.
    """
    try:
        found = _spectra(problem, params)
    except FloatingPointError:
        nothing = np.full(POINTS, np.nan)
        found = [_slice(nothing[:2], nothing, nothing)] * 2
    return xr.concat(found, "direction").assign_coords(direction=["top mode", "random"], end=["largest", "smallest"])


def _spectra(problem: Problem, params: Any) -> list[xr.Dataset]:
    """The spectra of both slices."""
    modes = _modes(problem, params)
    if np.isnan(modes.values).any():
        raise FloatingPointError("the run has blown up")
    first = modes.vectors[0]
    random = jax.random.normal(jax.random.key(7), first.shape, first.dtype)
    scale = jnp.sqrt(problem.loss.curvature(problem.y))  # type: ignore[attr-defined]
    found = []
    for direction in (first, random / jnp.linalg.norm(random)):
        operator = curvature.second_derivative(problem.f, params, problem.x, scale * direction)
        density = operator.density(degree=40, probes=3, points=POINTS)
        ends = np.array([density.nodes.max(), density.nodes.min()])  # Lanczos' method finds the ends first
        found.append(_slice(ends, np.asarray(density.values), np.asarray(density.grid)))
    return found


def _slice(ends: np.ndarray, density: np.ndarray, grid: np.ndarray) -> xr.Dataset:
    """The spectrum of one slice: its ends (2), its density and where (points)."""
    return xr.Dataset({"extreme": ("end", ends), "density": ("point", density), "eigenvalue": ("point", grid)})


def two_steps(data: xr.Dataset) -> xr.Dataset:
    """Differences over two steps, and their values by the reduced dynamics."""
    y, z = data.y.values, data.z.values
    here = data.step.values[:-2]
    return xr.Dataset(
        {
            "dz": ("step", z[2:] - z[:-2]),
            "dy": ("step", y[2:] - y[:-2]),
            "y": ("step", y[:-2]),
            "z": ("step", z[:-2]),
            "first_order": ("step", 2 * y[:-2] * z[:-2]),
            "linear": ("step", ((1 + y[:-2]) ** 2 - 1) * z[:-2]),
        },
        coords={"step": here},
    )


HOLDS = 0.98
"""If two eigenvectors of successive steps overlap less than this, they do not belong to one mode."""
STRAIGHT = 0.9
"""With this correlation a line explains four fifths of the variance of points."""
GROWS = 10
"""A mode that has grown by less than this factor has not been unstable for long."""
FEWEST = 10
"""The fewest double steps to which a line can be fitted."""


def while_it_lasts(data: xr.Dataset) -> xr.Dataset:
    """The part of the window with one unstable mode: all statements about a mode refer to it.

    It ends where the followed eigenvector first turns within a step, or a second eigenvalue comes to the edge.
    """
    ends = ~(data.overlap.values >= HOLDS) | (data.top.values[:, 1] > 2)
    ends[0] = data.top.values[0, 1] > 2  # the first look has nothing to overlap with
    return data.isel(step=slice(0, int(np.argmax(ends)) if ends.any() else None))


def obstacle(data: xr.Dataset) -> str:
    """Why the run shows nothing of one mode at the edge; empty if it shows a mode."""
    y = data.y.values
    if not np.isfinite(y).all():
        return "the run blows up; take a smaller step size"
    if y.max() <= 0:
        return f"the curvature does not come to the edge, only to y = {y.max():.3g}; take more steps or a larger step"
    alone = while_it_lasts(data)
    steps = two_steps(alone)
    if steps.sizes["step"] < FEWEST or steps.y.values.max() <= 0:
        return f"the followed mode is alone at the edge for {steps.sizes['step']} double steps only"
    size = np.abs(steps.z.values)
    if size.argmax() + 2 >= len(size) or size.max() < GROWS * np.median(size[:FEWEST]):
        if alone.sizes["step"] < data.sizes["step"]:
            return "another mode comes to the edge while the first still grows; take another seed or another width"
        return "the window ends while the mode still grows; take a longer one"
    return ""


def episode(data: xr.Dataset) -> xr.Dataset:
    """Double steps of the first episode in which the mode becomes unstable and calms down again.

    The episode ends where the residual is small after its peak. There are no steps if there is an obstacle.
    """
    steps = two_steps(while_it_lasts(data))
    if obstacle(data):
        return steps.isel(step=slice(0, 0))
    size = np.abs(steps.z.values)
    high = int(np.argmax(size > 0.5 * size.max()))
    small = np.flatnonzero(size[high:] < 1e-2 * size.max())
    return steps.isel(step=slice(0, high + int(small[0]) if len(small) else None))


def slope_through_zero(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of the least-squares line through the origin; NaN without points."""
    return float(x @ y / (x @ x)) if np.any(x) else float("nan")


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """The correlation of two series; NaN for fewer than three points."""
    return float(np.corrcoef(x, y)[0, 1]) if len(x) > 2 else float("nan")
