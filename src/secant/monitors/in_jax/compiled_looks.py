"""Takes the looks of a loop in JAX: compiles them once for each kind of batch, and keeps where the next one starts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.device import jit
from secant.core.types import Params
from secant.curvature.checks import refuse_mixing
from secant.monitors.base import HopelessError, PassedError, described
from secant.monitors.critical_batch import Noise
from secant.monitors.in_jax import looks as jax_looks
from secant.monitors.in_jax import outputs as jax_outputs
from secant.monitors.in_jax.optimizer import Rule
from secant.monitors.in_jax.trees import Shell, is_array, is_real, precise, rows, samples_of, split, units
from secant.monitors.records.keeper import Later
from secant.monitors.sampling import ROUGH, SAME, Sampling, refused
from secant.nets.parametrization import Draw

FIRST, LATER = 12, 2
"""Rounds of the search for the largest curvature: at the first look, and from where the last look ended."""


class Call(NamedTuple):
    """The arguments of one call of the loop."""

    step: int
    params: Params
    state: Any
    batch: Any
    others: tuple[Any, ...]
    grads: Any = None


class Setting(NamedTuple):
    """The arguments with which the user made the monitor.

    Attributes:
        loss: `(params, batch, *others) -> number`; it may return more behind the number.
        optimiser: the optimiser, or None.
        f: `(params, x) -> outputs`, or None.
        inputs: `batch -> x`.
        outputs_loss: the loss of outputs and targets, if the user gave one.
        stacked: whether parameters and batches have an axis of devices, or the name of this axis in the loss.
    """

    loss: Callable[..., Any]
    optimiser: Any = None
    f: Callable[..., Any] | None = None
    inputs: Callable[[Any], Any] = jax_outputs.inputs_of
    outputs_loss: Any = None
    stacked: bool | str = False


class Taker:
    """Takes looks at a run whose parameters are of one tree.

    Args:
        setting: the user's arguments.
        call: the first call of the loop.
        say: `(key, text)`, says a text once.
        seen: `(step, samples, mark)`, called with the samples of a look at the noise.

    Attributes:
        rule: the optimiser, as far as it is known.
        tree: the tree of the parameters.
    """

    def __init__(
        self,
        setting: Setting,
        call: Call,
        say: Callable[[str, str], None],
        seen: Callable[[int, int, float], None] = lambda step, samples, mark: None,
    ) -> None:
        self.setting, self._say, self._seen = setting, say, seen
        _, self.tree = split(call.params)
        example = self._first(call.params)
        moving = [leaf for leaf in split(example)[0] if is_real(leaf)]
        if not moving:
            raise HopelessError(
                "`params` hold no arrays of real numbers. Give the parameters that the optimiser moves."
            )
        self.parameters = sum(math.prod(leaf.shape) for leaf in moving)
        self.rule = Rule(setting.optimiser, example if len(moving) == len(self.tree.others) else moving)
        if any(jnp.finfo(leaf.dtype).bits < 32 for leaf in moving):
            say("precision", "the parameters have half precision: curvature is measured in single precision.")
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self._rungs: dict[Any, str] = {}
        self._memory: dict[str, Any] = {}
        self._refused: str | None = None
        self._average, self._units = Noise(), units(example)

    def take(self, name: str, call: Call, sampling: Sampling) -> dict[str, float]:
        """Takes a look and waits for its numbers."""
        return fetched(self.begin(name, call, sampling, wait=True))

    def begin(self, name: str, call: Call, sampling: Sampling, *, wait: bool = False) -> Later:
        """Begins a look and returns its numbers, which are under way; with `wait` it may wait for some of them."""
        call, samples = self._together(call), float(self._count(call.batch))
        if name in ("kernel_drift", "agop_change"):
            return Later(self._outputs(name, call), dict)
        call = self._some(name, call, sampling)
        if name == "noise_scale":
            return self._noise(call)
        lr = self.rule.lr_under_way(call.state, call.step)
        known = {} if lr is None else {"lr": lr}
        if name == "batch_sharpness":
            return Later(self._at("batch", call) | known, lambda found: {**found, "batch": samples})
        return Later(self._sharpness(call, wait) | known, self._against_the_edge)

    def update(self, before: Call, after: Params, sampling: Sampling) -> Later:
        """Begins the look along an update."""
        arrays = [leaf for leaf in split(after)[0] if is_real(leaf)]
        return Later(self._at("update", self._some("update_curvature", self._together(before), sampling), arrays), dict)

    def cuttable(self, call: Call) -> int:
        """How many samples a batch has, if any part of the batch is like the whole.

        Raises:
            PassedError: a part is not like the whole; the text says why.
        """
        size = samples_of(call.batch)
        if self._refused is None:
            self._refused = self._why_whole(self._together(call), size or 0)
        if self._refused or size is None:
            raise PassedError(self._refused)
        return size

    def _why_whole(self, call: Call, size: int) -> str:
        """A sentence that says why looks need whole batches; empty if they do not."""
        if self.setting.stacked:
            return "batches are stacked by devices."
        arrays = split(call.params)[0] + split(call.batch)[0]
        if any(isinstance(x, jax.Array) and len(x.devices()) > 1 for x in arrays):
            return "arrays are spread over several devices."
        if size < 2:
            return "the batch has no axis of samples."
        a, b = np.split(np.arange(2 * (size // 2)), 2)

        def loss(*parts: np.ndarray) -> float:
            cut = call._replace(batch=rows(call.batch, np.concatenate(parts)), grads=None)
            return float(self._at("loss", cut)["loss"])

        try:
            same = SAME if jax.default_backend() == "cpu" else ROUGH
            return refused(loss(a, b), loss(b, a), loss(a, a), loss(b, b), loss(a), loss(b), same)
        except Exception as error:
            return f"half of the batch has no loss: {described(error)}"

    def _at(self, kind: str, call: Call, extra: Any = None) -> dict[str, Any]:
        return self._function(kind, call)(*self._arrays(call), extra)

    def _arrays(self, call: Call) -> tuple[Any, ...]:
        arrays, _ = split(call.params)
        theta, rest = [x for x in arrays if is_real(x)], [x for x in arrays if not is_real(x)]
        own, _ = split(call.state)
        grads = None if call.grads is None else [x for x in split(call.grads)[0] if is_real(x)]
        if grads is not None and len(grads) != len(theta):
            grads = None
        return theta, rest, split(call.batch)[0], split(call.others)[0], own, grads

    def _function(self, kind: str, call: Call) -> Callable[..., Any]:
        """A compiled look, one for all batches of a kind."""
        shells = split(call.params)[1], split(call.batch)[1], split(call.others)[1], split(call.state)[1]
        key = kind, call.grads is None, *shells
        if key in self._compiled:
            return self._compiled[key]
        at = self._loss_of(*shells[:3])
        rung = self._rung(shells[:3], at, call)

        def look(theta: Any, rest: Any, batch: Any, others: Any, state: Any, grads: Any, extra: Any) -> Any:
            theta, rest = self._one(theta), self._one(rest)
            theta = [precise(x) for x in theta]
            loss = lambda one: at(one, rest, batch, others)  # noqa: E731
            if kind == "loss":
                return {"loss": loss(theta)}
            if kind == "batch":
                given = None if grads is None else [precise(x) for x in self._one(grads)]
                return jax_looks.batch_look(loss, theta, given, rung, self._units)
            if kind == "update":
                return jax_looks.update_look(loss, theta, [precise(x) for x in self._one(extra)], rung)
            if kind == "sharpness":
                divided = self._divided(shells[0], shells[3], theta, rest, self._one(state))
                return jax_looks.sharpness_look(loss, theta, divided, extra, rung)
            halves, whole, samples = _halved(shells[1].join(batch))

            def of_half(one: Any, half: Any) -> Any:
                arrays, shell = split(whole(half))
                return at(one, rest, arrays, others, shell)

            return jax_looks.noise_look(of_half, theta, halves, samples) | {"mark": jax_looks.mark(batch)}

        self._compiled[key] = jit(look)
        return self._compiled[key]

    def _loss_of(self, params: Shell, batch: Shell, others: Shell) -> Callable[..., Any]:
        """`(theta, rest, batch, others) -> number`, on arrays alone."""
        setting = self.setting

        def one(theta: Any, rest: Any, batch_tree: Any, others_tree: Any) -> Any:
            dtype = jnp.result_type(*theta)
            given = setting.loss(params.join(_merged(params, theta, rest)), batch_tree, *others_tree)
            value = jnp.asarray(given[0] if isinstance(given, tuple | list) and given else given)
            if value.shape != ():
                raise HopelessError(
                    f"`loss` must return a number, got shape {value.shape}. Return a mean over samples."
                )
            return value.astype(dtype)

        def loss(theta: Any, rest: Any, batch_arrays: Any, other_arrays: Any, shell: Shell = batch) -> Any:
            tree = shell.join([precise(x) if is_real(x) else x for x in batch_arrays])
            if not setting.stacked:
                return one(theta, rest, tree, others.join(other_arrays))
            name = setting.stacked if isinstance(setting.stacked, str) else None
            each = jax.vmap(lambda b, o: one(theta, rest, shell.join(b), others.join(o)), axis_name=name)
            return jnp.mean(each(split(tree)[0], other_arrays))

        return loss

    def _rung(self, shells: tuple[Shell, ...], at: Callable[..., Any], call: Call) -> str:
        if shells not in self._rungs:
            theta, rest, batch, others, _, _ = self._arrays(call)

            def whole(theta: Any, rest: Any, batch: Any, others: Any) -> Any:
                return at([precise(x) for x in self._one(theta)], self._one(rest), batch, others)

            try:
                jax.eval_shape(whole, theta, rest, batch, others)
            except HopelessError:
                raise
            except Exception as error:
                raise HopelessError(f"`loss` could not be called as loss(params, batch): {described(error)}") from error
            shapes = jax.eval_shape(lambda t: [precise(x) for x in self._one(t)], theta)
            found = jax_looks.rung_of(lambda t, r, b, o: at(t, self._one(r), b, o), shapes, rest, batch, others)
            self._rungs[shells] = found
            if found == "difference":
                self._say("difference", "the loss has no second derivatives: curvature is a difference of gradients.")
        return self._rungs[shells]

    def _divided(self, params: Shell, state: Shell, theta: Any, rest: Any, own: Any) -> Callable[[Any], Any]:
        memory = state.join(own)
        whole = not rest and len(params.kinds) == len(params.others)

        def divided(gradient: Any) -> Any:
            if not whole:
                return self.rule.divisor(memory, theta, gradient)
            found = self.rule.divisor(memory, params.join(theta), params.join(gradient))
            return None if found is None else jax.tree.leaves(found)

        return divided

    def _sharpness(self, call: Call, wait: bool) -> dict[str, Any]:
        """Searches the sharpest direction, for as many rounds as needed; without waiting, as many as the last time."""
        known = len(self._compiled)
        function, arrays = self._function("sharpness", call), self._arrays(call)
        first = len(self._compiled) > known  # look at such batches
        if "vector" not in self._memory:
            self._memory["vector"] = self._random(arrays[0])
        rounds = (FIRST if first else LATER) if wait else self._memory.get("rounds", LATER)
        for count in range(1, rounds + 1):
            found, self._memory["vector"] = function(*arrays, self._memory["vector"])
            if wait:
                self._memory["rounds"] = min(count, LATER)
                value, error = (float(found[name]) for name in ("sharpness", "sharpness_error"))
                if not error > jax_looks.NEAR * abs(value):
                    break
        return found

    def _against_the_edge(self, found: Mapping[str, float]) -> dict[str, float]:
        lr, numbers = found.get("lr"), {name: value for name, value in found.items() if name != "lr"}
        more = {
            "threshold": self.rule.threshold(lr),
            "critical_lr": self.rule.critical_lr(numbers["sharpness"], lr),
        }
        return numbers | {name: value for name, value in more.items() if value is not None}

    def _random(self, theta: Any) -> Any:
        shapes = jax.eval_shape(lambda t: [precise(x) for x in self._one(t)], theta)
        each = zip(jax.random.split(jax.random.key(0), len(shapes)), shapes, strict=True)
        return [Draw("normal", 1.0).sample(key, x.shape, x.dtype) for key, x in each]

    def _noise(self, call: Call) -> Later:
        size = samples_of(call.batch)
        if size is None or size < 2:
            raise ValueError("a batch of one sample has no halves, so its noise cannot be measured.")
        many = self._count(call.batch)
        return Later(self._at("noise", call), functools.partial(self._averaged, call.step, many, many / size))

    def _averaged(self, step: int, many: int, devices: float, found: Mapping[str, float]) -> dict[str, float]:
        """The noise scale, from averages over looks."""
        self._seen(step, many, found["mark"])
        if not (math.isfinite(found["trace"]) and math.isfinite(found["square"])):
            return {"noise_scale": math.nan}
        return {"noise_scale": self._average.add(found["trace"] * devices, found["square"], many)}

    def _outputs(self, name: str, call: Call) -> dict[str, Any]:
        f = self.setting.f
        assert f is not None
        arrays, shell = split(self._first(call.params))
        params = shell.join([precise(x) if is_real(x) else x for x in arrays])
        if "inputs" not in self._memory:
            given = self.setting.inputs(self._first(call.batch))
            given = jax.tree.map(lambda x: precise(x) if is_array(x) and is_real(x) else x, given)
            refuse_mixing("monitor", f, params, given)
            self._memory["inputs"] = rows(given, slice(0, jax_outputs.samples_for(f, params, given)))
        x = self._memory["inputs"]
        if name not in self._compiled:
            outputs = jax.eval_shape(f, params, x)
            curvature = jax_outputs.output_curvature(self.setting.outputs_loss, outputs)
            look = {
                "kernel_drift": lambda p, x, first: jax_outputs.kernel_look(f, curvature, p, x, first),
                "agop_change": lambda p, x, first: jax_outputs.agop_look(f, p, x, first),
            }[name]
            # Compiled code takes only arrays; the tree with everything else is rebuilt inside.
            self._compiled[name] = jit(lambda arrays, x, first: look(shell.join(arrays), x, first))
            blank = jax.eval_shape(lambda a, x: look(shell.join(a), x, None)[1], split(params)[0], x)
            self._memory[name] = jnp.zeros(blank.shape, blank.dtype)
            _, self._memory[name] = self._compiled[name](split(params)[0], x, self._memory[name])
        return self._compiled[name](split(params)[0], x, self._memory[name])[0]

    def _first(self, tree: Any) -> Any:
        """The first device's part of a tree."""
        return jax.tree.map(lambda x: x[0] if is_array(x) else x, tree) if self.setting.stacked else tree

    def _one(self, arrays: Any) -> Any:
        """The first device's copy of arrays that every device has."""
        return [x[0] for x in arrays] if self.setting.stacked and arrays is not None else arrays

    def _some(self, name: str, call: Call, sampling: Sampling) -> Call:
        """The call with only those samples that the look uses."""
        size = samples_of(call.batch)
        if self.setting.stacked or size is None:
            return call
        wanted = sampling.wanted(name, size)
        return call if wanted >= size else call._replace(batch=rows(call.batch, slice(0, wanted)), grads=None)

    def _count(self, batch: Any) -> int:
        """How many samples a batch has."""
        if not self.setting.stacked:
            return samples_of(batch) or 1
        leaves = [leaf for leaf in jax.tree.leaves(batch) if is_array(leaf) and leaf.ndim > 1]
        return leaves[0].shape[0] * leaves[0].shape[1] if leaves else 1

    def _together(self, call: Call) -> Call:
        """The call with its batch on the device of the parameters."""
        home = next((x for x in split(call.params)[0] if isinstance(x, jax.Array)), None)
        if home is None:
            return call
        devices = home.devices()

        def here(x: Any) -> Any:
            if not isinstance(x, jax.Array) or not x.committed or x.devices() & devices:
                return x
            if len(devices) > 1:
                raise PassedError("the batch is on another device than the parameters, which are on several devices.")
            self._say("device", "the batch is on another device than the parameters: looks copy it to theirs.")
            return jax.device_put(x, home.sharding)

        return call._replace(batch=jax.tree.map(here, call.batch), others=jax.tree.map(here, call.others))


def _merged(shell: Shell, theta: Any, rest: Any) -> list[Any]:
    """Arrays of real numbers and other arrays, in the order of the tree."""
    real, other = iter(theta), iter(rest)
    return [next(real) if _is_real(kind) else next(other) for _, kind in shell.kinds]


def _is_real(kind: str) -> bool:
    return kind in ("float16", "bfloat16", "float32", "float64") or kind.startswith("float8")


def _halved(batch: Any) -> tuple[list[Any], Callable[[Any], Any], int]:
    """The two halves of a batch, a function that makes a batch of one half, and the number of samples in both."""
    size = samples_of(batch)
    assert size is not None
    leaves, structure = jax.tree.flatten(batch)
    half = size // 2
    splits = [is_array(x) and x.ndim > 0 and x.shape[0] == size for x in leaves]
    halves = [x[: 2 * half].reshape(2, half, *x.shape[1:]) for x, has in zip(leaves, splits, strict=True) if has]

    def whole(one: Any) -> Any:
        rest = iter(one)
        return jax.tree.unflatten(structure, [next(rest) if has else x for x, has in zip(leaves, splits, strict=True)])

    return halves, whole, 2 * half


def fetched(later: Later) -> dict[str, float]:
    """The numbers of a look; waits for them."""
    return dict(later.finish({name: float(value) for name, value in jax.device_get(dict(later.arrays)).items()}))
