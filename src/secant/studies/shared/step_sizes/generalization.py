"""The runs behind the figures of best test loss and accuracy against step size: a network and its Taylor models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.core.memo import kept
from secant.curvature import kernel_matrix
from secant.dynamics import Map, Outcome, Probe, Stop, simulate
from secant.expansion import expand
from secant.lab import Study, reuse
from secant.losses import mean_mse
from secant.nets.network import Network
from secant.nets.reduction import reduce_inputs
from secant.optim import Batches
from secant.studies.shared.panels import PANELS, Panel, draw, known_panel, network
from secant.studies.shared.step_sizes.sizes import PanelConfig, Sizes
from secant.theory.catapult import scaling as cs

MODELS = ("network", "quadratic", "linear")

CEILING = 1e6
"""A run with a larger training loss has diverged."""

ROUNDING = 1e-3
"""A rise of the training loss by less than this fraction does not count."""


class Trial(NamedTuple):
    """One draw of data and weights, for all three models. `x_test` has the form that `_on_test` takes."""

    seed: Any
    start: Any
    x: Any
    y: Any
    x_test: Any
    y_test: Any


class Descent(NamedTuple):
    """The state of a run. The steps compute its losses with their gradients, at no extra cost.

    Attributes:
        params: the parameters.
        step: steps made.
        loss: training loss before the last step, on its batch.
        low: the smallest loss so far.
        rise: the largest ratio so far of a loss to the smallest loss before it.
    """

    params: Any
    step: Any
    loss: Any
    low: Any
    rise: Any


class Span(NamedTuple):
    r"""The linear model in the span of its gradients, $f = f_0 - Ka$, on training and on test samples."""

    seed: Any
    kernel: Any
    cross: Any
    outputs: Any
    outputs_test: Any
    y: Any
    y_test: Any


def sweep_steps(config: PanelConfig) -> xr.Dataset:
    r"""Trains a network and its Taylor models of order one and two with every step size, from every start.

    Gradient descent minimises $\frac1n\sum_i(f(x_i) - y_i)^2$ with $y = \pm1$, on all samples or, for some panels, on
    batches. A run ends at a training loss of `goal` or at the last step; beyond a loss of $10^6$ it has diverged. Step
    sizes are in units of $\eta_{\mathrm{crit}} = n/\lambda_{\max}(K)$ at the start, beyond which the linear model
    diverges on the full batch.

    Returns:
        A dataset with

        - over `model`, `seed` and `ratio`: `best_loss` and `best_accuracy` on the test samples at any look; `final`
          training loss; `rise`, its largest ratio to its smallest value before; `regime`, `outcome`, `stopped_at`;
        - over `seed`: `critical`;
        - over `model` and `seed`: `largest`, the last ratio before the first that diverges, NaN if the very first
          diverges;
        - `tests`, the number of test samples.
    """
    panel, ratios = PANELS[known_panel(config.panel)], np.asarray(config.ratios)
    net = network(panel, config)
    runs = {kind: _runner(net, kind, panel, config) for kind in MODELS}
    found: list[xr.Dataset] = []
    attributes: dict[str, Any] = {}
    tests = 0
    for seed in range(config.seed, config.seed + config.draws):
        task, split = draw(panel, config, seed)
        attributes, tests = attributes or task.attributes(), len(split[-1])
        trial, span = _trial(net, split, seed)
        critical = len(span.y) / float(np.linalg.eigvalsh(span.kernel)[-1])
        initial = float(np.mean((span.outputs - span.y) ** 2))
        records = [runs[kind](span if kind == "linear" else trial, ratios * critical, initial) for kind in MODELS]
        found.append(xr.concat(records, "model").assign(critical=critical))
    result = xr.concat(found, "seed").assign_coords(
        model=list(MODELS), seed=np.arange(config.seed, config.seed + config.draws), ratio=ratios
    )
    before = (result.regime == cs.DIVERGENT).cumsum("ratio") == 0
    return result.assign(largest=result.ratio.where(before).max("ratio"), tests=tests).assign_attrs(attributes)


def sweep_panels(one: Study, config: Any, cases: dict[str, dict[str, Any]]) -> xr.Dataset:
    """Runs of the one-panel study with some options changed, along `panel`. Each run is kept separately."""
    common = {name: getattr(config, name) for name in Sizes.__dataclass_fields__}
    runs = [reuse(one, PanelConfig(**common | case)) for case in cases.values()]
    return xr.concat(runs, "panel", join="outer", combine_attrs="drop_conflicts").assign_coords(panel=list(cases))


def settled(values: xr.DataArray, data: xr.Dataset) -> xr.DataArray:
    """Values of the runs that have not diverged; NaN for the others."""
    return values.where(data.regime != cs.DIVERGENT)


def comparable(values: xr.DataArray, data: xr.Dataset) -> xr.DataArray:
    """As `settled`, but below the critical step only converged runs: an untrained run cannot count as worse."""
    return settled(values, data).where((data.ratio > 1) | (data.outcome == Outcome.CONVERGED))


@kept
def _at_start(net: Network) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """The tangent kernel of all samples with the training samples, and the outputs, from one compiled program."""
    return jit(lambda params, both, x: (kernel_matrix(net.apply, params, both, x), net.apply(params, both)))


def _trial(net: Network, split: tuple[np.ndarray, ...], seed: int) -> tuple[Trial, Span]:
    x, y, x_test, y_test = split
    params = net.init(jax.random.key(seed), x.shape)
    both = np.concatenate([x, x_test])
    kernel, outputs = (np.asarray(found) for found in _at_start(net)(params, both, x))
    n = len(x)
    span = Span(np.uint32(seed), kernel[:n], kernel[n:], outputs[:n], outputs[n:], y, y_test)
    change = reduce_inputs(net, jnp.asarray(x))
    if change is None:
        return Trial(np.uint32(seed), params, x, y, (x_test, np.zeros((), x.dtype)), y_test), span
    # Outside the span of the training samples, test samples meet weights that never move.
    basis = np.asarray(change.basis)
    inside = x_test @ basis.T
    outside = net.parts[0].run(params[0], x_test - inside @ basis)
    scale = np.linalg.norm(change.x) / np.linalg.norm(x)
    return Trial(np.uint32(seed), change.shrink(params), change.x, y, (scale * inside, outside), y_test), span


def _on_test(net: Network) -> Callable[[Any, Any], Any]:
    """The network as a function of `(inputs, addition to the first layer's outputs)`."""
    first, rest = net.parts[0], net.parts[1:]

    def outputs(params: Any, given: Any) -> Any:
        signal = first.run(params[0], given[0]) + given[1]
        for part, own in zip(rest, params[1:], strict=True):
            signal = part.run(own, signal)
        return signal

    return outputs


def _runner(
    net: Network, kind: str, panel: Panel, config: PanelConfig
) -> Callable[[Any, np.ndarray, float], xr.Dataset]:
    """`(trial, step sizes, loss at the start) -> records`, by one compiled loop, the same for all trials."""
    on_test = _on_test(net)

    def train_outputs(params: Any, trial: Any) -> Any:
        if kind == "linear":
            return trial.outputs - trial.kernel @ params
        return (net.apply if kind == "network" else expand(net.apply, trial.start))(params, trial.x)

    def test_outputs(params: Any, trial: Any) -> Any:
        if kind == "linear":
            return trial.outputs_test - trial.cross @ params
        return (on_test if kind == "network" else expand(on_test, trial.start))(params, trial.x_test)

    def loss(params: Any, trial: Any) -> Any:
        return mean_mse(train_outputs(params, trial), trial.y)

    def gradient(params: Any, trial: Any, step: Any) -> tuple[Any, Any]:
        batch, rows = trial, jnp.arange(len(trial.y))
        if panel.batch is not None:
            rows = Batches(panel.batch, seed=trial.seed).indices(len(trial.y), step)
            names = ("kernel", "outputs", "y") if kind == "linear" else ("x", "y")
            batch = trial._replace(**{name: getattr(trial, name)[rows] for name in names})
        if kind != "linear":
            return jax.value_and_grad(loss)(params, batch)
        # The gradient is minus the transposed Jacobian times this, so that only coefficients of its rows are kept.
        pull = batch.y - train_outputs(params, batch)
        slope = jnp.asarray(2 / len(batch.y) * pull, params.dtype)
        return jnp.mean(pull**2), jnp.zeros_like(params).at[rows].set(slope)

    def descent(trial: Any, lr: Any) -> Map:
        def step(state: Descent) -> Descent:
            value, slope = gradient(state.params, trial, state.step)
            low = jnp.minimum(state.low, value)
            params = jax.tree.map(lambda p, g: p - lr * g, state.params, slope)
            return Descent(params, state.step + 1, value, low, jnp.maximum(state.rise, value / low))

        high = jnp.asarray(CEILING, float)
        return Map(lambda params: Descent(params, jnp.zeros((), jnp.int32), high, high, jnp.asarray(1.0)), step)

    def training(state: Descent, trial: Any) -> Any:
        """The training loss; on full batches the loss that the last step has seen."""
        return state.loss if panel.batch is None else loss(state.params, trial)

    def look(state: Descent, trial: Any) -> dict[str, Any]:
        outputs = test_outputs(state.params, trial)
        found, accuracy = mean_mse(outputs, trial.y_test), jnp.mean(outputs * trial.y_test > 0)
        return {"value": found, "accuracy": accuracy, "training": training(state, trial), "rise": state.rise}

    goal = config.image_goal if panel.images else config.goal
    stop = Stop(
        converged=lambda state, trial: training(state, trial) < goal,
        diverged=lambda state: ~(state.loss <= CEILING),
        every=config.every,
    )

    def start(trial: Any) -> Any:
        return jnp.zeros_like(trial.y) if kind == "linear" else trial.start

    def run(trial: Trial | Span, lrs: np.ndarray, initial: float) -> xr.Dataset:
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], trial)
        steps, probes = config.steps - config.steps % config.every, {"test": Probe(look, config.every)}
        # A run that has ended waits for its neighbours, so that runs of similar length go together.
        blocks = np.pad(lrs, (0, -len(lrs) % config.together), mode="edge").reshape(-1, config.together)
        found = [
            simulate(descent, start, steps, probes=probes, over={"trial": one, "lr": lr}, stop=stop, label=kind)
            for lr in blocks.astype(np.result_type(trial.y))
        ]
        summaries = [_summary(each.dataset.isel(trial=0).transpose("lr", "step"), initial) for each in found]
        return xr.concat(summaries, "ratio").isel(ratio=slice(len(lrs)))

    return run


def _summary(records: xr.Dataset, initial: float) -> xr.Dataset:
    """The summary of the runs of one model from one start."""
    losses = records.test_training.values[:, 1:]
    # A run whose last loss exceeds its first has not come back yet, and may never come back.
    diverged = (records.outcome.values == Outcome.DIVERGED) | ~(losses[:, -1] <= initial)
    rise = records.test_rise.values[:, -1]
    columns = {
        "best_loss": np.nanmin(records.test.values, axis=1),
        "best_accuracy": records.test_accuracy.values.max(axis=1),
        "final": losses[:, -1],
        "rise": rise,
        "regime": np.where(diverged, cs.DIVERGENT, np.where(rise > 1 + ROUNDING, cs.CATAPULT, cs.MONOTONE)),
        "outcome": records.outcome.values,
        "stopped_at": records.stopped_at.values,
    }
    return xr.Dataset({name: ("ratio", values) for name, values in columns.items()})
