"""Recognises an optimiser of optax, from its state and from its updates for a few tiny gradients.

A transformation hides its settings in closures. But it is a function, so it can be asked. It is given a few gradients,
for a tree like the user's with one entry in each array, and the settings are solved for. The rule that the state
suggests, with these settings, must then give the same updates. If it does not, as for LAMB or RAdam, the optimiser
counts as not known.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secant.core.types import Params
from secant.monitors.optimizers import BLIND, Facts, explained
from secant.optim.optimizers.optimizer import Optimiser

ASKED = np.array([[1.0, 0.0, 0.5, -2.0]]) * np.array([[1e-2], [1e-4], [1e-6]])
"""Gradients of four steps in a row, at three sizes, all too small for clipping."""

AGREE = 2e-3
"""Relative error up to which the updates of an optimiser must be reproduced, in single precision."""

STATES = {
    "TraceState": "momentum",
    "ScaleByRmsState": "rmsprop",
    "ScaleByRmsWithCountState": "rmsprop",
    "ScaleByAdamState": "adam",
    "ScaleByLionState": "lion",
    "MuonState": "muon",
}
"""Name of a state in optax -> the rule that it suggests."""

SCHEDULES = frozenset({"ScaleByScheduleState", "WrappedScheduleState"})
"""Names of states of schedules, which hold the number of steps."""

STARTS = (0, 1, 10, 100, 1_000, 10_000)
"""Steps at which a schedule is tried: the first step that moves is taken, because many schedules begin at zero."""

StepSize = Callable[[Any], Any]
"""`state of the run -> the step size of its next step`: None or a number, which may be under way on the device."""


def recognised(optimiser: Any, params: Params) -> tuple[Facts, StepSize]:
    """The facts about an optimiser, as far as they are known, and a function that gives its step size.

    Args:
        optimiser: one of `secant.optimisers`, or a transformation of optax.
        params: the parameters of the run; only their shapes are used.

    Example:
        ```python
        import jax.numpy as jnp
        import optax
        from secant.monitors.in_jax.recognition import recognised

        facts, _ = recognised(optax.sgd(0.1, momentum=0.9, nesterov=True), jnp.zeros(3))
        print(facts.name, round(facts.lr, 4), round(facts.momentum, 4))
        ```
        ```text
        nesterov 0.1 0.9
        ```
    """
    if isinstance(optimiser, Optimiser):
        if optimiser.name != "optax":
            return _own(optimiser, params)
        optimiser = optimiser.transformation
    optimiser = getattr(optimiser, "inner_opt", optimiser)  # inside an optimiser that accumulates gradients
    if not (callable(getattr(optimiser, "init", None)) and callable(getattr(optimiser, "update", None))):
        name = type(optimiser).__name__
        return Facts(name, missing=f"{name} is not a known optimiser: {BLIND}."), lambda state: None
    try:
        with np.errstate(all="ignore"):
            asked = _asked(optimiser, params)
        facts = explained(_solved(asked))
        return facts, _step_size(optimiser, asked, facts)
    except Exception as error:
        text = (str(error).splitlines() or [""])[0][:200]
        why = f"the optimiser could not be asked ({type(error).__name__}: {text})"
        how = "Give facts, such as {'name': 'adam', 'lr': 1e-3}."
        return Facts("unknown", missing=f"{why}: {BLIND}. {how}"), lambda state: None


def _own(optimiser: Optimiser, params: Params) -> tuple[Facts, StepSize]:
    """The facts of one of Secant's own optimisers, from its settings; the step size of a schedule is asked for."""
    settings = dict(optimiser.settings)
    renamed = {"beta": "momentum", "decay": "b2"}
    known = ("lr", "weight_decay", "b1", "b2", "eps", "momentum")
    facts = {renamed.get(name, name): value for name, value in settings.items() if renamed.get(name, name) in known}
    name = "sgd" if optimiser.name == "gd" else optimiser.name
    found = Facts(name, corrected=name != "rmsprop", **facts)
    if not callable(found.lr):
        return explained(found), lambda state: found.lr
    asked = _asked(optimiser.transformation, params)
    found = dataclasses.replace(found, lr=float(found.lr(asked.begun)))
    return explained(found), _step_size(optimiser.transformation, asked, found)


class _Asked(NamedTuple):
    """The answers of an optimiser.

    Attributes:
        names: the rules that its state suggests.
        told: the updates of the first steps, `(sizes, steps)`, for parameters at zero.
        decayed: first updates without a gradient, for parameters at one and at two.
        after: its state after the first step of the largest size.
        memory: its state before.
        tiny: the parameters.
        which: the number of an array that moves.
        uneven: whether some arrays move differently from others.
        shifted: the first update of the largest size for parameters at three, minus the update without a gradient.
        begun: the step of its schedule at which it was asked.
    """

    names: frozenset[str]
    told: np.ndarray
    decayed: tuple[float, float]
    after: Any
    memory: Any
    tiny: Params
    which: int
    uneven: bool
    shifted: float
    begun: int


def _asked(transformation: Any, params: Params) -> _Asked:
    import optax

    tiny = jax.tree.map(lambda leaf: jnp.zeros((1,) * jnp.ndim(leaf), jnp.float32), params)
    memory = transformation.init(tiny)
    planned = bool(SCHEDULES & _tuples(memory))

    @jax.jit
    def answers(gradients: Any, at: Any, begun: Any) -> tuple[Any, Any]:
        here = jax.tree.map(lambda leaf: leaf + at, tiny)
        state, found, after = memory, [], None
        for number in range(ASKED.shape[1]):
            if planned:  # the step size of one moment
                state = optax.tree_utils.tree_set(state, _scheduled, count=begun)
            gradient = jax.tree.map(lambda leaf, size=gradients[number]: jnp.full_like(leaf, size), tiny)
            update, state = transformation.update(gradient, state, here)
            found.append(jnp.stack([jnp.ravel(leaf)[0] for leaf in jax.tree.leaves(update)]))
            after = state if number == 0 else after
        return jnp.stack(found), after

    def ask(gradients: np.ndarray, at: float, begun: int) -> tuple[np.ndarray, Any]:
        found, after = answers(jnp.asarray(gradients, jnp.float32), at, jnp.int32(begun))
        return np.asarray(found, float), after

    for begun in STARTS if planned else (0,):
        asked = [ask(gradients, 0.0, begun) for gradients in ASKED]
        told = np.stack([one for one, _ in asked])
        moves = np.abs(told).max((0, 1)) > 0  # frozen arrays do not move
        if moves.any():
            break
    else:
        raise ValueError("it does not move")
    which = int(np.flatnonzero(moves)[0])
    uneven = bool(np.ptp(told[..., moves], axis=-1).max() > AGREE * np.abs(told).max())
    one, two, three = (float(ask(0 * ASKED[0], at, begun)[0][0, which]) for at in (1.0, 2.0, 3.0))
    shifted = float(ask(ASKED[0], 3.0, begun)[0][0, which]) - three
    names = frozenset(STATES[name] for name in _tuples(memory) if name in STATES)
    return _Asked(names, told[..., which], (one, two), asked[0][1], memory, tiny, which, uneven, shifted, begun)


def _solved(asked: _Asked) -> Facts:
    """The settings that follow from the answers, checked by reproducing the answers."""
    names, told = asked.names, asked.told
    name = "rmsprop" if names == {"momentum", "rmsprop"} else " and ".join(sorted(names)) or "sgd"
    if asked.uneven or "muon" in names:
        plain = "muon" if "muon" in names else f"{name} with several step sizes"
        return Facts(plain)
    if not math.isclose(asked.shifted, told[0, 0], rel_tol=10 * AGREE):  # it uses the parameters as well
        return Facts(f"something like {name}")
    size = -float(told[0, 0])
    if name == "sgd" and np.allclose(told, -size * np.sign(ASKED), rtol=AGREE):
        return Facts("sign", size)
    if name == "lion" and np.allclose(np.abs(told[told != 0]), size, rtol=AGREE):
        return Facts("lion", size)
    scale = np.abs(told).max(1, keepdims=True)
    off = [(float((np.abs(reproduced(one) - told) / scale).max()), one) for one in _candidates(name, asked)]
    error, found = min(off, key=lambda pair: pair[0], default=(math.inf, None))
    return found if found is not None and error < AGREE else Facts(f"something like {name}")


def _candidates(name: str, asked: _Asked) -> list[Facts]:
    """Rules of this name that fit the first answers."""
    told, first = asked.told, float(ASKED[0, 0])
    kept = max(0.0, float(told[0, 1] / told[0, 0]))  # share of a step that remains without a gradient
    if name == "sgd":
        lr = -float(told[0, 0]) / first
        return [Facts("sgd", lr, weight_decay=_decay(asked, lr))]
    if name == "momentum":
        beta = (kept + math.sqrt(kept**2 + 4 * kept)) / 2  # Nesterov's momentum keeps b^2/(1 + b)
        heavy, other = -float(told[0, 0]) / first, -float(told[0, 0]) / first / (1 + beta)
        return [
            Facts("momentum", heavy, momentum=kept, weight_decay=_decay(asked, heavy)),
            Facts("nesterov", other, momentum=beta, weight_decay=_decay(asked, other * (1 + beta))),
        ]
    if name in ("adam", "rmsprop"):
        return [_divided(name, kept, asked, inside) for inside in (False, True)]
    return []


def _divided(name: str, kept: float, asked: _Asked, inside: bool) -> Facts:
    """Adam or RMSProp: the decays follow from its state after one step, the rest from the lengths of its steps."""
    g, sizes = ASKED[:, 0], np.abs(asked.told[:, 0])
    b2 = 1 - _first(asked.after, "nu") / g[0] ** 2
    b1 = 1 - _first(asked.after, "mu") / g[0] if name == "adam" else 0.0
    corrected = name == "adam" or "ScaleByRmsWithCountState" in _tuples(asked.after)
    slope = 1.0 if corrected else math.sqrt(1 - b2)  # the first divisor over the gradient
    # A step is lr g / (s g + e), or lr g / sqrt(s^2 g^2 + e): linear in lr, or its square, and in e.
    power = 2 if inside else 1
    wanted = (slope * g) ** power
    over = (sizes / g) ** power
    scale, extra = np.linalg.lstsq(np.stack([np.ones_like(g), -over], 1), wanted * over, rcond=None)[0]
    extra = float(max(extra, 0.0))
    # Rounding matters least where the gradient is largest.
    lr = float(sizes[0] / g[0] * (wanted[0] + extra) ** (1 / power)) if scale > 0 else 0.0
    decay = _decay(asked, lr)
    return Facts(
        "adamw" if name == "adam" and decay > 0 else name,
        lr,
        momentum=kept if name == "rmsprop" and kept > 0.01 and "momentum" in asked.names else 0.0,
        b1=float(b1),
        b2=float(b2),
        eps=0.0 if inside else extra,
        eps_inside=extra if inside else 0.0,
        weight_decay=decay,
        corrected=corrected,
    )


def _decay(asked: _Asked, lr: float) -> float:
    """The weight decay, if it is a step in proportion to the parameters; else 0."""
    one, two = asked.decayed
    return max(0.0, -one / lr) if lr and math.isclose(two, 2 * one, rel_tol=AGREE) else 0.0


def reproduced(facts: Facts) -> np.ndarray:
    """The updates that the rule of these facts gives for the same gradients, at zero, `(sizes, steps)`."""
    rows = np.zeros_like(ASKED)
    for row, gradients in zip(rows, ASKED, strict=True):
        velocity = mean = square = 0.0
        for step, g in enumerate(gradients):
            mean = facts.b1 * mean + (1 - facts.b1) * g
            direction = g
            if facts.divides:
                direction = mean / facts.divisor(square, g, step, math.sqrt)
                square = facts.b2 * square + (1 - facts.b2) * g**2
            velocity = facts.momentum * velocity + direction
            moved = g + facts.momentum * velocity if facts.name == "nesterov" else velocity
            row[step] = -float(facts.lr) * moved  # type: ignore[arg-type]
    return rows


def _step_size(transformation: Any, asked: _Asked, facts: Facts) -> StepSize:
    """The step size along a run: constant, from the state, or from a schedule."""
    import optax

    get, put = optax.tree_utils.tree_get_all_with_path, optax.tree_utils.tree_set
    if get(asked.memory, "learning_rate"):
        return lambda state: _kept(get(state, "learning_rate")[0][1])
    lr = facts.lr if isinstance(facts.lr, float) else None
    if lr is None or not SCHEDULES & _tuples(asked.memory):
        return lambda state: lr

    @jax.jit
    def update(count: Any) -> Any:
        state = put(asked.memory, _scheduled, count=count)
        gradient = jax.tree.map(lambda leaf: jnp.full_like(leaf, ASKED[0, 0]), asked.tiny)
        found, _ = transformation.update(gradient, state, asked.tiny)
        return jnp.ravel(jax.tree.leaves(found)[asked.which])[0]

    # With the first state, updates are in proportion to the step size alone.
    unit = lr / float(update(jnp.int32(asked.begun)))
    scaled = jax.jit(lambda count: unit * update(jnp.ravel(count)[0].astype(jnp.int32)))
    return lambda state: scaled(get(state, "count", _scheduled)[0][1])


def _scheduled(path: Any, _: Any) -> bool:
    return getattr(path[-1], "tuple_name", "") in SCHEDULES


def _kept(value: Any) -> Any:
    """A copy of a number that survives when the loop donates its state; one of them if every device has one."""
    if not isinstance(value, jax.Array):
        return float(np.ravel(np.asarray(value))[0])
    return jnp.copy(value) if value.ndim == 0 else jnp.ravel(value)[0]


def _first(state: Any, key: str) -> float:
    import optax

    trees = [tree for _, tree in optax.tree_utils.tree_get_all_with_path(state, key)]
    return float(np.ravel(np.asarray(jax.tree.leaves(trees)[0]))[0])


def _tuples(state: Any) -> frozenset[str]:
    """The names of the kinds of state inside a state."""
    found: set[str] = set()

    def note(node: Any) -> bool:
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            found.add(type(node).__name__)
        return False

    jax.tree.leaves(state, is_leaf=note)
    return frozenset(found)
