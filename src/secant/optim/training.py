"""The function `train`: gradient descent or another rule on a problem, with measurements on the way."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.arguments import is_traced, positive
from secant.core.device import to_device
from secant.core.progress import Progress
from secant.core.types import Params
from secant.dynamics.axes import Axes, call_with, is_function
from secant.dynamics.map import Map
from secant.dynamics.probes import Probe
from secant.dynamics.runner import simulate
from secant.dynamics.stop import Stop
from secant.dynamics.trajectory import Trajectory
from secant.nets.reduction import InputReduction
from secant.optim.batches import Batches, on_batches
from secant.optim.measurement import Measurement
from secant.optim.optimizers.optimizer import Optimiser, as_rule
from secant.optim.problem import Problem
from secant.optim.rules.descent import gradient_descent

if TYPE_CHECKING:
    import optax

Rule = Callable[..., Map]
"""Turns a loss of the parameters into a Map; may also take, by name, the values of the run's axes."""


def train(
    problem: Problem | Callable[..., Problem],
    params: Params | Callable[..., Params] | None = None,
    *,
    steps: int,
    lr: float | None = None,
    rule: Rule | optax.GradientTransformation | None = None,
    batches: Batches | Callable[..., Batches] | None = None,
    probes: Mapping[str, Measurement | Probe | Callable[..., Any]] | None = None,
    over: Mapping[str, Any] | None = None,
    stop: Stop | None = None,
    reduce: bool | None = None,
    attributes: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    label: str = "train",
) -> Trajectory:
    r"""Gradient descent on a problem, $\theta_{t+1} = \theta_t - \eta \nabla L(\theta_t)$, or on batches of it.

    With fewer samples than input features and a dense first layer, the run takes place in the span of the data. There
    it is the same run and costs less. The dataset's attribute `input_reduction` records this.

    Args:
        problem: what to train; or a function that makes a problem from the values of axes in `over`, so that every run
            has data of its own: `lambda draw: sc.Problem(net.apply, draw.x, draw.y, "mse")`.
        params: where to start, or a function of the values of axes; by default at the parameters of the model that
            the problem was made of.
        steps: how many steps.
        lr: the step size, a finite number above 0, unless it is an axis in `over`.
        rule: another update rule: one of [`secant.optimisers`][secant.optim.optimisers], any transformation of
            optax, or `loss -> Map` with a Map that shows the parameters. A function may also take, by name, the
            values of axes in `over`: `lambda loss, lr: sc.optimisers.adam(lr)(loss)`.
        batches: the samples that each step sees, [`Batches`][secant.optim.Batches], or a function that makes them
            from the values of axes in `over`: `lambda draw: sc.Batches(32, seed=draw)`; by default all samples. The
            loss of a batch is `problem.loss` of its outputs and targets. Measurements still see the whole problem.
        probes: what to record, by name: measurements from `secant.measure`, or functions of the parameters.
        over: named axes to batch over, as for [`simulate`][secant.dynamics.simulate]; `lr` may be one.
        stop: when to end early; its conditions see the parameters.
        reduce: whether to train in the span of the data. By default this happens where it is known to be exact; with
            `False` never; with `True` also for another `rule`, which must then treat rotated parameters alike, as
            momentum does and Adam does not.
        attributes: what to keep with the records, such as `task.attributes()`.
        progress: the object that is told how far the run is.
        checkpoint: a directory to save to and resume from.
        label: what progress calls the run.

    Returns:
        The records, and the final parameters.

    Example:
        ```python
        import jax
        import secant as sc

        task = sc.data.load("digits", classes=(0, 1), samples=32)
        net = sc.nets.mlp([64], activation="tanh")
        problem = sc.Problem(net.apply, *task.train, sc.losses.mean_mse)
        run = sc.train(
            problem,
            net.init(jax.random.key(0), task.train.x.shape),
            lr=0.5,
            steps=20,
            probes={"loss": sc.measure.loss(), "sharpness": sc.measure.sharpness(every=10)},
        )
        run.dataset.attrs["input_reduction"], run.dataset.sharpness.sizes
        ```
    """
    given, rule = over or {}, as_rule(rule)
    example = _first(problem, given)
    params = _start(problem, example, params)
    example.check("train", _at_first(params, given, "train: `params`") if is_function(params) else params)
    if rule is None and lr is None and "lr" not in given:
        raise ValueError("train: `lr` is missing. Give a step size, an axis `lr` in `over`, or a `rule`.")
    if rule is not None and lr is not None:
        raise ValueError("train: `lr` belongs to gradient descent; a `rule` brings its own.")
    if lr is not None:
        lr = positive("train", "lr", lr)
    elif rule is None:
        _check_step_sizes(given["lr"])
    if rule is not None and "lr" in given and not _takes(rule, "lr"):
        raise ValueError(
            "train: `over` has an axis 'lr' that `rule` does not take. Pass a rule that does, such as "
            "`lambda loss, lr: secant.optimisers.adam(lr)(loss)`."
        )
    if isinstance(batches, Batches):
        batches.check("train", len(jax.tree.leaves(example.x)[0]))
    elif batches is not None and not callable(batches):
        raise TypeError(f"train: `batches` must be secant.Batches, or a maker of them, got {type(batches).__name__}.")
    each = None if isinstance(problem, Problem) else problem
    reduction = None if each is not None or is_function(params) else _reduction(example, rule, reduce)
    if reduce and reduction is None:
        raise ValueError("train: `reduce=True` needs one problem and one start for all runs. Leave it out.")
    inner, start = (example, params) if reduction is None else (reduction[0], reduction[1].shrink(params))
    change = None if reduction is None else reduction[1]
    trajectory = simulate(
        _system(each or inner, lr, rule, batches, bool(given)),
        start,
        steps,
        probes={
            name: _probe(name, probe, each, example, inner, change, params) for name, probe in (probes or {}).items()
        },
        over=over,
        stop=_stop(stop, change, params),
        progress=progress,
        checkpoint=checkpoint,
        label=label,
    )
    record = dict(attributes or {}) | {"input_reduction": _describe(change)}
    return Trajectory(trajectory.dataset.assign_attrs(record), _lifted(trajectory.state, change, params, len(given)))


def _first(problem: Any, given: Mapping[str, Any]) -> Problem:
    """The problem, or the problem of the first values of the axes."""
    made = is_function(problem)
    found = _at_first(problem, given, _MAKER) if made else problem
    if not isinstance(found, Problem):
        what = "make" if made else "be"
        raise TypeError(
            f"train: `problem` must {what} a secant.Problem, got {type(found).__name__}. "
            "Pass `secant.Problem(model, x, y, loss)`."
        )
    return found


_MAKER = "train: `problem`"


def _at_first(function: Callable[..., Any], given: Mapping[str, Any], role: str) -> Any:
    """The result of a function for the first value of every axis."""
    values = Axes.of(given).values
    first = {name: jax.tree.map(_first_of, value) for name, value in values.items()}
    return call_with(function, first, role=role)


def _first_of(leaf: Any) -> Any:
    """The first of some values, taken on the host where possible, so that nothing is compiled."""
    if isinstance(leaf, np.ndarray):
        return to_device(np.asarray(leaf[0]))
    return jnp.asarray(leaf)[0]


def _start(problem: Problem | Callable[..., Problem], example: Problem, params: Any) -> Any:
    """Where to start: the given parameters, or else those of the problem. With several problems each has its own."""
    found = example.start("train", params)
    if params is not None or isinstance(problem, Problem):
        return found
    return _own_start(problem)


@functools.lru_cache(maxsize=32)
def _own_start(problem: Callable[..., Problem]) -> Callable[..., Params]:
    def start(**values: Any) -> Params:
        return call_with(problem, values, role=_MAKER).params

    return start


def _check_step_sizes(values: Any) -> None:
    """Raises an error if an axis holds an invalid step size. Traced step sizes have no numbers yet and pass."""
    if is_traced(values):
        return
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"train: `lr` in `over` must be numbers above 0, got {values!r}.") from None
    if wrong := [float(value) for value in found.ravel() if not 0 < value < math.inf]:
        raise ValueError(f"train: `lr` in `over` must be finite numbers above 0, got {wrong[0]!r} among them.")


def _reduction(problem: Problem, rule: Rule | None, reduce: bool | None) -> tuple[Problem, InputReduction] | None:
    exact = rule is None or (isinstance(rule, Optimiser) and rule.rotates)
    if reduce is False or (reduce is None and not exact):
        return None
    if reduce and not problem.is_reducible:
        raise ValueError(
            "train: `reduce=True` needs one of Secant's networks with a dense first layer, "
            "and fewer samples than features. Leave it out otherwise."
        )
    return problem.reduced


@functools.lru_cache(maxsize=32)
def _system(
    problem: Problem | Callable[..., Problem],
    lr: float | None,
    rule: Rule | None,
    batches: Batches | Callable[..., Batches] | None,
    batched: bool,
) -> Map | Callable[..., Map]:
    def descent(**values: Any) -> Map:
        def of_loss(loss: Callable[[Params], Any]) -> Map:
            if rule is not None:
                return call_with(rule, values, loss, role="train: `rule`") if batched else rule(loss)
            return gradient_descent(loss, values["lr"] if lr is None else lr)

        at = problem if isinstance(problem, Problem) else call_with(problem, values, role=_MAKER)
        if batches is None:
            return of_loss(at.objective)
        drawn = batches if isinstance(batches, Batches) else call_with(batches, values, role="train: `batches`")
        return on_batches(at.objective_on, at.x, at.y, drawn, of_loss)

    return descent if batched else descent()


def _takes(rule: Rule, name: str) -> bool:
    parameters = inspect.signature(rule).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def _probe(
    name: str,
    probe: Any,
    each: Callable[..., Problem] | None,
    problem: Problem,
    inner: Problem,
    change: InputReduction | None,
    params: Params,
) -> Probe | Callable[..., Any]:
    """A measurement sees the problem that is run; a function of the parameters sees the parameters of the user."""
    if isinstance(probe, Measurement):
        own = problem if probe.inputs else inner
        found = probe.on(own) if each is None else probe.on_each(_all_values(each), problem)
        found = dataclasses.replace(found, dims=tuple(f"{name}_{dim}" for dim in found.dims))
        if not probe.inputs:
            return found
        probe = found
    if change is None:
        return probe
    whole = probe if isinstance(probe, Probe) else Probe(probe)
    if whole.memory is not None or whole.whole:
        what = "with a memory of its own" if whole.memory is not None else "of the whole state"
        raise ValueError(f"train: a probe {what} sees reduced parameters. Pass `reduce=False`.")

    return Probe(_of_whole(whole.function, change, params), whole.every, whole.units, whole.label, whole.dims)


@functools.lru_cache(maxsize=32)
def _all_values(problem: Callable[..., Problem]) -> Callable[..., Problem]:
    """The same maker, changed so that it accepts the values of all axes."""
    return lambda **values: call_with(problem, values, role=_MAKER)


def _stop(stop: Stop | None, change: InputReduction | None, params: Params) -> Stop | None:
    """The stop conditions, changed so that they see the parameters of the user."""
    if stop is None or change is None:
        return stop
    converged, diverged = (
        None if condition is None else _of_whole(condition, change, params)
        for condition in (stop.converged, stop.diverged)
    )
    return Stop(converged, diverged, stop.every)


def _of_whole(function: Callable[..., Any], change: InputReduction, params: Params) -> Callable[..., Any]:
    @functools.wraps(function)
    def of_small(small: Params, *rest: Any, **named: Any) -> Any:
        return function(change.lift(small, params), *rest, **named)

    return of_small


def _lifted(state: Params, change: InputReduction | None, params: Params, axes: int) -> Params:
    if change is None:
        return state
    lift = functools.partial(change.lift, start=params)
    for _ in range(axes):
        lift = jax.vmap(lift)
    return lift(state)


def _describe(change: InputReduction | None) -> str:
    if change is None:
        return "none"
    before, after = change.features
    return f"{before} -> {after} features"
