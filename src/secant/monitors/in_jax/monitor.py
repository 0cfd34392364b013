"""The monitor of a training loop in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.arguments import whole
from secant.core.device import jit
from secant.core.types import Params
from secant.losses import Loss
from secant.losses import get as get_loss
from secant.monitors.base import Monitor, PassedError, described
from secant.monitors.in_jax import outputs as jax_outputs
from secant.monitors.in_jax.bundles import Carrier
from secant.monitors.in_jax.compiled_looks import Call, Setting, Taker, fetched
from secant.monitors.in_jax.optimizer import Rule, is_optimiser
from secant.monitors.in_jax.trees import samples_of, split
from secant.monitors.plan import Look, cadences
from secant.monitors.records.keeper import Later, Sink

LOOKS = (
    Look("batch_sharpness", ("gradient_norm", "parameter_norm", "batch_sharpness", "dead_units", "batch", "lr"), 2, 4),
    Look("sharpness", ("sharpness", "sharpness_error", "sharpest_share", "threshold", "critical_lr"), 7, 4),
    Look("update_curvature", ("update_norm", "update_curvature", "stable_multiple"), 1, 1.5, after=True),
    Look("noise_scale", ("noise_scale",), 1, 1),
)
"""Looks that need only the loss."""

OF_OUTPUTS = (
    Look("kernel_drift", ("kernel_critical_lr", "kernel_drift"), 3, 1, samples=jax_outputs.SAMPLES),
    Look("agop_change", ("agop_change",), 1, 0.5, samples=jax_outputs.SAMPLES),
)
"""Looks that also need the model's outputs."""

TREES = 3
"""How often the tree of the parameters may change; after that, looks wait until the last tree comes back."""


class JaxMonitor(Monitor):
    """A monitor of a loop in JAX; made by [`monitor`][secant.monitors.monitor]."""

    def __init__(
        self,
        loss: Any,
        *,
        optimiser: Any = None,
        f: Callable[..., Any] | None = None,
        inputs: Callable[[Any], Any] | None = None,
        samples: int | Literal["all"] | None = None,
        stacked: bool | str = False,
        name: str | None = None,
        record: Any = None,
        budget: float = 0.05,
        every: int | Mapping[str, int] | None = None,
        sinks: str | Sink | Sequence[str | Sink] = (),
        **options: Any,
    ) -> None:
        """Args: those of [`monitor`][secant.monitors.monitor]."""
        _check(loss, f, optimiser, samples)
        by_hand = None if samples == "all" else samples
        looks = tuple(look._replace(samples=by_hand) for look in LOOKS) + (OF_OUTPUTS if f is not None else ())
        first = jax.process_index() == 0
        if every is None and jax.process_count() > 1:  # clocks differ between processes, and all must look together
            prices, weights = {look.name: look.price for look in looks}, {look.name: look.weight for look in looks}
            every = {own: int(steps) for own, steps in cadences(prices, weights, 1.0, budget).items()}
        about = {"framework": "jax", "jax": jax.__version__, "device": jax.default_backend()}
        super().__init__(
            looks,
            record=record if first else False,
            budget=budget,
            every=every,
            sinks=sinks if first else (),
            about=about | ({} if name is None else {"name": str(name)}),
            ready=lambda value: value.is_ready() if hasattr(value, "is_ready") else True,
            number=lambda value: float(np.asarray(value).reshape(())),
            fewer=samples is None,
            **options,
        )
        named = get_loss(loss) if isinstance(loss, str | Loss) else None
        find = jax_outputs.inputs_of if inputs is None else inputs

        def of_outputs(params: Params, batch: Any, *others: Any) -> Any:
            assert f is not None
            assert named is not None
            return named(f(params, find(batch)), batch[1])

        function = loss if named is None else of_outputs
        self._setting = Setting(function, optimiser, f, find, named, stacked)
        self._taker: Taker | None = None
        self._trees = 0
        self._copies = True
        self._far, self._carrier = jax.default_backend() != "cpu", Carrier()
        self._point: tuple[Call, Any] | None = None

    def __call__(
        self,
        step: int,
        params: Params,
        opt_state: Any,
        batch: Any,
        *others: Any,
        loss: Any = None,
        grads: Params | None = None,
        scaler: Any = None,
    ) -> None:
        """Watches a step before the loop takes it; raises nothing.

        Args:
            step: the number of the step, from 0.
            params: the parameters from which the step starts.
            opt_state: the state of the optimiser, or None.
            batch: the batch of the step, any tree of arrays.
            others: the loss's other arguments: keys of dropout, running statistics.
            loss: the loss of this step, if the loop has it; the monitor does not wait for it.
            grads: the gradient of this batch at these parameters, if the loop has it: a look then costs half.
            scaler: the loss scale of mixed precision, or an object with a `loss_scale`.
        """
        try:
            call = Call(int(step), params, opt_state, batch, others, grads)
            if self._far:
                loss = self._carrier.promise(loss)
            at_hand = {"loss": loss, "scaler": getattr(scaler, "loss_scale", scaler)}
            self.observe(
                call.step,
                {name: value for name, value in at_hand.items() if value is not None},
                lambda name: self._take(name, call),
                hold=lambda: self._hold(call),
                shape=samples_of(batch),
                wait=lambda: jax.block_until_ready((params, opt_state)),
                size=lambda: self._taker_of(call).cuttable(call),
                begin=(lambda name: self._begin(name, call)) if self._far else None,
            )
            if self._held is None:
                self._point = None
        except Exception as error:
            self.say("call", f"this step could not be watched: {described(error)}")

    def _take(self, name: str, call: Call) -> Mapping[str, Any]:
        taker = self._taker_of(call)
        if name != "update_curvature":
            return taker.take(name, call, self._sampling)
        before = self._before()
        return {} if before is None else fetched(taker.update(before, call.params, self._sampling))

    def _begin(self, name: str, call: Call) -> Later:
        taker = self._taker_of(call)
        if name != "update_curvature":
            return taker.begin(name, call, self._sampling)
        before = self._before()
        return Later({}, dict) if before is None else taker.update(before, call.params, self._sampling)

    def _before(self) -> Call | None:
        """The point that the last call kept, if it is still there."""
        if self._point is None:
            return None
        before, witness = self._point
        gone = isinstance(witness, jax.Array) and witness.is_deleted()
        if gone and not self._copies:  # the loop has begun to give its parameters away
            self._copies = True
            return None
        self._copies = gone
        return before

    def _taker_of(self, call: Call) -> Taker:
        """The taker of looks for parameters of this tree."""
        if self._taker is None or split(call.params)[1] != self._taker.tree:
            if self._taker is not None:
                self._trees += 1
                if self._trees > TREES:
                    raise PassedError("the parameters have another tree than at the last look.")
                text = f"from step {call.step} on the parameters have another tree or other shapes: looks begin anew."
                self.say("tree", text, call.step)
                self._point = None
            self._taker = Taker(self._setting, call, lambda key, text: self.say(key, text, call.step), self.compare)
            self.tell(optimiser=self._taker.rule.facts.told(), parameters=self._taker.parameters)
            if self._taker.rule.missing and self._setting.optimiser is not None:
                self.say("optimiser", self._taker.rule.missing, call.step)
        return self._taker

    def _hold(self, call: Call) -> None:
        """Keeps the point from which a step starts, until the next call.

        If the loop donates its parameters to its step, or reads the next batch into the same memory, copies are kept.
        Otherwise the arrays themselves are kept, which costs nothing.
        """

        witness = next((leaf for leaf in split(call.params)[0] if isinstance(leaf, jax.Array)), None)
        leaves, structure = jax.tree.flatten((call.params, call.batch, call.others))
        leaves = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        if self._copies:
            places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
            own = [leaves[place] for place in places]
            together = len({frozenset(leaf.devices()) for leaf in own}) == 1
            for place, copy in zip(places, _copies(own) if together else map(jnp.copy, own), strict=True):
                leaves[place] = copy
        parts = jax.tree.unflatten(structure, leaves)
        self._point = Call(call.step, parts[0], None, *parts[1:]), witness


@jit
def _copies(arrays: list[jax.Array]) -> list[jax.Array]:
    """New arrays of the same numbers, in one call of the device."""
    return [jnp.copy(x) for x in arrays]


def _check(loss: Any, f: Any, optimiser: Any, samples: Any) -> None:
    if isinstance(loss, str | Loss) and f is None:
        raise ValueError(
            "monitor: `loss` is a loss of outputs and targets, so it needs `f`. Give f(params, x) -> outputs, or a "
            "loss(params, batch)."
        )
    if not isinstance(loss, str) and not callable(loss):
        raise TypeError(f"monitor: `loss` must be a function (params, batch) -> number, got {type(loss).__name__}.")
    if f is not None and not callable(f):
        raise TypeError(f"monitor: `f` must be a function (params, x) -> outputs, got {type(f).__name__}.")
    if not is_optimiser(optimiser):
        raise TypeError(
            "monitor: `optimiser` must be a transformation of optax, one of secant.optimisers, or facts such as "
            f"{{'name': 'adam', 'lr': 1e-3}}, got {type(optimiser).__name__}."
        )
    if isinstance(optimiser, Mapping):
        Rule(optimiser, ())  # reports wrong facts here, not in the loop
    if samples is not None and samples != "all":
        whole("monitor", "samples", samples, least=2)
