"""The runs behind figures 7 and 14: a network at the edge of stability beside its Taylor polynomials."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.signal import find_peaks

from secant import curvature, data, losses, measure, nets
from secant.core.device import to_device
from secant.expansion import expand
from secant.lab import Options, fits_memory, options, scaled
from secant.optim import Problem, train

MODELS = ("network", "quadratic from the start", "quadratic near the edge", "cubic near the edge")


class TaylorConfig(Options):
    """Data, network, step size, and the step at which the network is expanded."""

    data: str = scaled(smoke="digits", laptop="cifar10", help="a data set that secant.data knows")
    classes: tuple[int, ...] = scaled(
        smoke=(3, 8), laptop=(0, 1), at_least=0, shortest=2, longest=2, distinct=True, help="two classes, +1 and -1"
    )
    redrawn: float = scaled(
        smoke=1.0, laptop=0.0, at_least=0, at_most=1, help="share of labels drawn anew: sharpening lasts longer"
    )
    samples: int = options.samples(40, 120, 900, at_least=10, at_most=100_000)
    width: int = options.width(64, 64, 256, at_least=2, at_most=10_000)
    share: float = scaled(
        smoke=0.75, laptop=0.6, at_least=0.01, below=1, help="step size, over 2/lambda_1 at the start"
    )
    steps: int = options.steps(300, 1_000, 3_000, at_least=50, at_most=1_000_000)
    lead: int = scaled(
        smoke=10, laptop=30, paper=20, at_least=1, at_most=100_000, help="steps before the first crossing to expand at"
    )
    seed: int = options.seed(0)

    def check(self) -> None:
        """Checks that outputs and parameters fit into memory: a few dozen vectors of both are kept."""
        fits_memory(8 * 50 * (self.samples * self.width + self.width**2), "samples or width")


def run_with_polynomials(config: TaylorConfig) -> xr.Dataset:
    r"""Trains the network and its Taylor polynomials with one step size, and watches the top mode of each.

    The network has two hidden layers of erf, weights of unit variance behind $1/\sqrt{\text{fan-in}}$, and no biases.
    Targets are scalars $\pm1$, the loss is $\frac12\sum_i(f(x_i) - y_i)^2$ on the full batch. One polynomial is
    expanded at the start. Two, of second and of third order, are expanded `lead` steps before $y = \eta\lambda_1 - 2$
    of the network first becomes positive.

    Returns:
        A dataset over `model` and `step`, counted from the start of the network's training: `loss`, `y` and `z`, the
        residual along the followed mode; NaN before a model begins. `begins` is the step at which each was expanded. If
        the network does not reach the edge, only the expansion at the start stands beside it.
    """
    task = data.load(
        config.data, classes=config.classes, samples=config.samples, test_samples=1, labels="signs", seed=config.seed
    )
    x, y = (to_device(np.asarray(part, jnp.result_type(float))) for part in task.train)
    net = nets.mlp([config.width] * 2, activation="erf")
    coin = np.random.default_rng(config.seed).random((2, len(x)))
    y = jnp.where(coin[0] < config.redrawn, jnp.where(coin[1] < 0.5, -1.0, 1.0), y.reshape(-1))
    whole = Problem(net.apply, x, y, losses.half_sum)
    params = net.init(jax.random.key(config.seed), x.shape)
    # In the span of the data all results are the same, also for the polynomials, and cost less.
    problem, start = whole, params
    if whole.reduced is not None:
        problem, change = whole.reduced
        start = change.shrink(params)
    kernel = np.asarray(curvature.ntk(problem.f, start, problem.x).dense())
    lr = config.share * 2 / float(np.linalg.eigvalsh(kernel)[-1])
    network = _watched(problem, start, lr, config.steps, MODELS[0])
    plans: list[tuple[str, Any, int, int]] = [(MODELS[1], start, 2, 0)]
    crossing = first_above(network)
    if crossing >= 0:
        near = max(crossing - config.lead, 1)
        close = train(problem, start, lr=lr, steps=near, reduce=False).state
        plans += [(MODELS[2], close, 2, near), (MODELS[3], close, 3, near)]
    found = [network]
    for name, origin, order, begin in plans:
        model = Problem(expand(problem.f, origin, order), problem.x, problem.y, problem.loss)
        record = _watched(model, origin, lr, config.steps - begin, name)
        found.append(record.assign_coords(step=record.step + begin))
    return (
        xr.concat(found, "model", join="outer", fill_value=np.nan)
        .assign_coords(model=list(MODELS[: len(found)]))
        .assign({"begins": ("model", np.array([0, *(begin for *_, begin in plans)])), "lr": lr})
        .assign_attrs(task.attributes())
    )


def _watched(problem: Problem, params: Any, lr: float, steps: int, label: str) -> xr.Dataset:
    probes = {"loss": measure.loss(), "mode": measure.leading_mode(2, tol=1e-6, bend=False)}
    records = train(problem, params, lr=lr, steps=steps, probes=probes, reduce=False, label=label).dataset
    return xr.Dataset(
        {
            "loss": ("step", records.loss.values),
            "y": ("step", lr * records.mode_followed.values - 2),
            "z": ("step", records.mode_along.values),
        },
        coords={"step": records.step.values},
    )


def one_model(data: xr.Dataset, name: str) -> xr.Dataset:
    """The records of a model from where it begins."""
    found = data.sel(model=name)
    return found.sel(step=slice(int(found.begins), None))


def obstacle(data: xr.Dataset) -> str:
    """Why the run shows nothing of the edge; empty if it shows the edge."""
    y = one_model(data, MODELS[0]).y.values
    if not np.isfinite(y).all():
        return "the network blows up; take a smaller share"
    if MODELS[2] not in data.model.values:
        return (
            f"the curvature of the network does not reach the edge within {len(y) - 1:,} steps; it comes to "
            f"y = {y.max():.3g}. Take more steps or a larger share"
        )
    without = [name for name in (MODELS[0], *MODELS[2:]) if not peaks(data, name).sizes["step"]]
    return f"no peak of the residual along the mode after the expansion: {', '.join(without)}" if without else ""


def first_above(model: xr.Dataset) -> int:
    """The first step at which the curvature is above the edge; -1 if there is none."""
    above = model.y.values > 0
    return int(model.step[int(np.argmax(above))]) if above.any() else -1


def peaks(data: xr.Dataset, name: str) -> xr.Dataset:
    """Peaks of the size of the residual along the mode: `height` over `step`.

    Because the residual changes sign at every step, the larger of two neighbours counts. A peak is twice as high as its
    surroundings, no lower than a twentieth of the highest peak, and later than the expansion near the edge.
    """
    model = one_model(data, name).sel(step=slice(int(data.begins.max()), None))
    size = np.abs(model.z.values)
    size = np.where(np.isfinite(size), size, 0.0)
    envelope = np.maximum(size[:-1], size[1:])
    at, _ = find_peaks(np.log(np.maximum(envelope, 1e-300)), prominence=np.log(2), distance=4)
    at = at[envelope[at] > 0.05 * envelope[at].max(initial=0.0)]
    return xr.Dataset({"height": ("step", envelope[at])}, coords={"step": model.step.values[at]})


def last_steps(data: xr.Dataset, name: str) -> xr.Dataset:
    """The last 200 steps of a model; for a short run the last third."""
    return one_model(data, name).isel(step=slice(-min(200, data.sizes["step"] // 3), None))


def settled(data: xr.Dataset, name: str) -> xr.Dataset:
    """Means of `y` over the last steps: over even steps, odd steps, and both; NaN while `y` is not at rest.

    `y` is at rest if neither mean swings by more than its distance from zero, and if above the edge the residual no
    longer grows.
    """
    last = last_steps(data, name)
    parities = [last.y[last.step % 2 == parity] for parity in (0, 1)]
    mean = float(last.y.mean())
    size = np.abs(last.z.values)
    grows = mean > 0 and size[-2:].max() > 2 * size[:2].max()
    moves = any(float(part.max() - part.min()) > abs(mean) for part in parities)
    even, odd = (float("nan") if grows or moves else float(part.mean()) for part in parities)
    return xr.Dataset({"even": even, "odd": odd, "mean": float("nan") if grows or moves else mean})
