r"""Controllers that keep the step size below the critical one or raise catapults: transformations of optax.

A controller stands behind an optimiser of step size 1.

On a quadratic with Hessian $H$ a step shrinks every mode while it is below $\eta_{\mathrm{crit}} =
s/\lambda_{\max}(H)$, $s = 2$ for gradient descent. Both controllers measure $\lambda_{\max}$ of the loss along the
run, with Hessian products, and set the step size from it. `below_critical` stays below the critical step.
`catapults` exceeds it on purpose a given number of times, and then settles.

Controllers need the loss, as the line searches of optax do: `update(..., value_fn=loss)`, where `loss(params)` is the
loss of the current batch. [`train`][secant.optim.train] passes it on by itself.

Put a controller last in a chain, because it must scale the update and not the gradient. A controller that receives the
gradient, or another direction that climbs in every coordinate, raises an error at its first step. If the loss, the
critical step or the update is not finite, or the critical step is not above 0, it takes no step: the parameters stay as
they are, and a catapult under way is given up.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from secant.core.arguments import positive, whole
from secant.core.arguments import share as between
from secant.core.device import is_tracing, jit
from secant.core.types import Params
from secant.optim.optimizers.placement import MisplacedError, refuse_uphill, slope

if TYPE_CHECKING:
    import optax

FIRST = 10
"""Refinements of the first look, which starts from a random direction. Later looks start where the last one ended."""

ANEW = 10.0
"""Once a catapult has raised the loss by this factor, a look is as thorough as the first."""

KEPT = 0.9
"""How much of the averages along the update is kept from one look to the next."""

ALONG = ("top", "update")


class Meter(NamedTuple):
    """What a controller knows about the curvature.

    Attributes:
        vector: estimate of the direction of largest curvature, of length 1.
        falls: running average of the downward slope along the update.
        bends: running average of the curvature along the update.
        critical: the critical step size at the last look.
    """

    vector: Params
    falls: Float[Array, ""]
    bends: Float[Array, ""]
    critical: Float[Array, ""]


class ControlState(NamedTuple):
    """The state of a controller.

    Attributes:
        meter: what is known about the curvature.
        size: the step size of the last step that was taken.
        step: how many steps have been asked for.
        skipped: how many steps were not taken, because something was not finite or pointed uphill.
        astray: whether the first update pointed uphill; then no step is taken.
        over: whether a catapult is under way.
        age: steps since this catapult began, or since the rest before the next one began.
        before: the loss at which the catapult began.
        first: the loss of the first step.
        begun: how many catapults have begun.
        done: how many catapults have ended below the critical step, with the loss back to where it began.
    """

    meter: Meter
    size: Float[Array, ""]
    step: Int[Array, ""]
    skipped: Int[Array, ""]
    astray: Bool[Array, ""]
    over: Bool[Array, ""]
    age: Int[Array, ""]
    before: Float[Array, ""]
    first: Float[Array, ""]
    begun: Int[Array, ""]
    done: Int[Array, ""]


def below_critical(
    lr: float | None = None,
    share: float = 0.9,
    *,
    along: str = "top",
    factor: float = 2.0,
    every: int = 1,
    critical: Callable[[Params], Any] | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""A step size just below the critical one, $\min(\eta, \rho\,\eta_{\mathrm{crit}})$: a curvature-aware warm-up.

    Args:
        lr: an upper limit $\eta$ of the step size; by default there is none.
        share: $\rho$, between 0 and 1.
        along: the direction whose curvature counts. `"top"`: the direction in which the loss curves most, which the
            theory of gradient descent and momentum needs. `"update"`: the update itself, where $u^\top g + \frac\eta2
            u^\top Hu$ turns positive, averaged over some steps; this fits any optimiser, such as Adam.
        factor: $s$ of `"top"`: 2 for gradient descent, $2 + 2\beta$ for momentum.
        every: steps between two looks; a look costs as much as three or four steps, `"update"` as two.
        critical: `params -> step size`, a critical step of your own, for example from the tangent kernel. If a
            [monitor][secant.monitors.monitor] already measures the critical step, pass its reading to the step:
            `update(..., critical=reading)` replaces a look and costs nothing. A NaN keeps the last critical step.

    Example:
        ```python
        import jax.numpy as jnp
        import optax
        import secant as sc

        rule = optax.chain(optax.sgd(1.0), sc.control.below_critical(lr=0.5))
        stiff = lambda x: 50.0 * x[0] ** 2 + x[1] ** 2  # curvature 100: the critical step is 0.02
        run = sc.simulate(sc.optimisers.from_optax(rule)(stiff), jnp.ones(2), steps=100, probes={"loss": stiff})
        print(float(run.dataset.loss[-1]) < 0.1)
        ```
        ```text
        True
        ```
    """
    meter = _meter("below_critical", along, factor, every, critical)
    top, kept = _limit("below_critical", lr), between("below_critical", "share", share)

    def choose(state: ControlState, found: Meter, value: Array) -> ControlState:
        return state._replace(meter=found, size=_below(state, found, top, kept))

    return _controller("below_critical", meter, choose, every)


def catapults(
    count: int,
    lr: float | None = None,
    *,
    over: float = 1.3,
    share: float = 0.9,
    rest: int = 10,
    patience: int = 200,
    height: float = 30.0,
    along: str = "top",
    factor: float = 2.0,
    every: int = 1,
    critical: Callable[[Params], Any] | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Catapults on purpose: a step size that is repeatedly set above the critical one and held until the loss is back.

    A catapult begins with the step at `over` times the critical one. The catapult ends when the curvature has fallen so
    far that this step is below the critical one, and the loss is back to where it was. After a rest the next catapult
    begins. Between catapults and after the last, the step is that of `below_critical`.

    Args:
        count: how many catapults.
        lr: a limit of the step size outside of catapults; by default there is none.
        over: step size over the critical one in a catapult. Up to 2 a quadratic model comes back. A smaller value gives
            a lower peak of the loss.
        share: step size over the critical one outside of catapults.
        rest: steps before each catapult.
        patience: steps after which a catapult that does not end is given up.
        height: a catapult is also given up if the loss exceeds this many times the loss of the first step.
        along: as for `below_critical`.
        factor: as for `below_critical`.
        every: as for `below_critical`.
        critical: as for `below_critical`.
    """
    meter = _meter("catapults", along, factor, every, critical)
    top, kept = _limit("catapults", lr), between("catapults", "share", share)
    if not (math.isfinite(over) and over > 1):
        raise ValueError(f"catapults: `over` must be above 1, got {over!r}: at or below 1 there is no catapult.")
    if not height > 1:
        raise ValueError(f"catapults: `height` must be above 1, got {height!r}: a catapult raises the loss.")
    total, pause, limit = (
        whole("catapults", *pair) for pair in (("count", count), ("rest", rest), ("patience", patience))
    )

    def choose(state: ControlState, found: Meter, value: Array) -> ControlState:
        calm = (found.critical > state.size) & (value <= state.before)
        ends = state.over & (calm | (state.age >= limit) | ~(value <= height * state.first))
        begins = ~state.over & (state.age >= pause) & (state.begun < total) & jnp.isfinite(found.critical)
        under_way = begins | (state.over & ~ends)
        below = _below(state, found, top, kept)
        return state._replace(
            meter=found,
            size=jnp.where(begins, over * found.critical, jnp.where(under_way, state.size, below)),
            over=under_way,
            age=jnp.where(begins | ends, 1, state.age + 1),
            before=jnp.where(begins, value, state.before),
            begun=state.begun + begins,
            done=state.done + (ends & calm),
        )

    return _controller("catapults", meter, choose, every)


def _below(state: ControlState, found: Meter, lr: Any, share: Any) -> Array:
    """A share of the critical step. If nothing curves upwards and there is no limit, the last step size stays."""
    size = jnp.minimum(lr, share * found.critical)
    return jnp.where(jnp.isfinite(size), size, state.size).astype(state.size.dtype)


def reading(state: Any) -> ControlState:
    """The controller's own state, found in the state of a whole optimiser, with its `size` and `meter.critical`."""
    found = [
        leaf
        for leaf in jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, ControlState))
        if isinstance(leaf, ControlState)
    ]
    if len(found) != 1:
        raise ValueError(f"control.reading: `state` must hold the state of one controller, it holds {len(found)}.")
    return found[0]


Look = Callable[[Callable[[Params], Any], Params, Params, Meter, Any], Meter]


def _controller(
    caller: str, look: Look, choose: Callable[[ControlState, Meter, Array], ControlState], every: int
) -> optax.GradientTransformationExtraArgs:
    import optax

    def init(params: Params) -> ControlState:
        if not jax.tree.leaves(params):
            raise ValueError(f"{caller}: `params` has no arrays in it.")
        return _at_start(params)

    def update(
        updates: Params,
        state: ControlState,
        params: Params | None = None,
        *,
        value_fn: Callable[[Params], Any] | None = None,
        **others: Any,
    ) -> tuple[Params, ControlState]:
        if params is None or value_fn is None:
            raise ValueError(
                f"{caller}: the controller must see the loss. Call `update(gradient, state, params, value_fn=loss)`, "
                "where `loss(params)` is the loss of this step's batch."
            )
        astray = refuse_uphill(caller, updates, params, value_fn, others.get("grad"), state.step == 0, state.astray)
        if value_fn is slope:  # `check_order` only asks whether the controller is in its place
            return updates, state
        given = others.get("value")
        value = jnp.asarray(value_fn(params) if given is None else given).astype(state.before.dtype)
        unknown = (state.step == 0) | ~jnp.isfinite(state.first)
        state = state._replace(first=jnp.where(unknown, value, state.first), astray=astray)
        # Once the loss has shot up, it curves most in another direction.
        anew = (state.step == 0) | (state.over & (value > ANEW * state.before))
        told = others.get("critical")
        if told is None:
            meter = lax.cond(
                (state.step % every == 0) | anew,
                lambda: look(value_fn, params, updates, state.meter, anew),
                lambda: state.meter,
            )
        else:
            given_size = jnp.asarray(told, state.meter.critical.dtype)
            known = jnp.where(given_size > 0, given_size, state.meter.critical)
            meter = state.meter._replace(critical=known)
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(updates)]
        sound = functools.reduce(operator.and_, finite, jnp.isfinite(value) & (meter.critical > 0) & ~astray)
        calm = state._replace(meter=meter, over=jnp.zeros_like(sound), age=jnp.where(state.over, 1, state.age))
        after = jax.tree.map(functools.partial(jnp.where, sound), choose(state, meter, value), calm)
        taken = jax.tree.map(lambda u: jnp.where(sound, after.size * u, 0).astype(u.dtype), updates)
        return taken, after._replace(step=state.step + 1, skipped=state.skipped + ~sound)

    return optax.GradientTransformationExtraArgs(init, update)


@functools.partial(jit, quick=True)
def _at_start(params: Params) -> ControlState:
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    drawn = [
        jax.random.normal(key, jnp.shape(leaf), jnp.result_type(leaf)) for key, leaf in zip(keys, leaves, strict=True)
    ]
    zero, count, no = jnp.zeros((), jnp.result_type(*leaves)), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    meter = Meter(_unit(jax.tree.unflatten(structure, drawn)), zero, zero, zero)
    return ControlState(meter, zero + 1, count, count, no, no, count + 1, zero, zero, count, count)


def check_order(transformation: optax.GradientTransformation) -> None:
    """Raises an error if a chain hands a controller something that points uphill, which a trial on a slope shows.

    Rules that only work on parameters of a certain form, or whose settings are being traced, are not tried. Their
    controllers look at the first step themselves.
    """
    import optax

    rule = optax.with_extra_args_support(transformation)
    try:
        made = jax.eval_shape(rule.init, jax.ShapeDtypeStruct((), jnp.result_type(float)))
        states = jax.tree.leaves(made, is_leaf=lambda node: isinstance(node, ControlState))
        if any(isinstance(node, ControlState) for node in states):
            # Inside a traced program too, these numbers are computed at once, one by one.
            with jax.ensure_compile_time_eval() if is_tracing() else contextlib.nullcontext():
                here = jnp.ones(())
                rule.update(here, rule.init(here), here, value=here, grad=here, value_fn=slope)
    except MisplacedError:
        raise
    except Exception:  # an error about these made-up parameters tells the user nothing; the real ones raise their own
        return


def _meter(caller: str, along: str, factor: float, every: int, critical: Callable[[Params], Any] | None) -> Look:
    if along not in ALONG:
        raise ValueError(f"{caller}: `along` must be one of {', '.join(ALONG)}, got {along!r}.")
    positive(caller, "factor", factor)
    whole(caller, "every", every)
    if critical is not None:
        return lambda loss, params, updates, last, anew: last._replace(
            critical=jnp.asarray(critical(params), last.critical.dtype)
        )
    return _along_update if along == "update" else functools.partial(_along_top, factor)


def _along_top(
    factor: float, loss: Callable[[Params], Any], params: Params, updates: Params, last: Meter, anew: Any
) -> Meter:
    r"""The direction of largest curvature in the plane of the last one, $v$, and $Hv$; at most $\lambda_{\max}$."""
    _, product = jax.linearize(jax.grad(loss), params)

    def refine(_: Any, carried: tuple[Params, Array]) -> tuple[Params, Array]:
        v = carried[0]
        image = product(v)
        a = _dot(v, image)
        rest = jax.tree.map(lambda h, own: h - a * own, image, v)
        b = jnp.sqrt(_dot(rest, rest))
        other = jax.tree.map(lambda leaf: leaf / jnp.where(b > 0, b, 1), rest)
        c = _dot(other, product(other))
        angle = jnp.arctan2(2 * b, a - c) / 2  # of the first eigenvector of [[a, b], [b, c]]
        turned = jax.tree.map(lambda x, y: jnp.cos(angle) * x + jnp.sin(angle) * y, v, other)
        return _unit(turned), (a + c) / 2 + jnp.hypot((a - c) / 2, b)

    begin = last.vector, jnp.zeros_like(last.critical)
    vector, curvature = lax.fori_loop(0, jnp.where(anew, FIRST, 1), refine, begin)
    usable = jnp.isfinite(curvature)  # after a loss that is not finite the old direction is as good as any
    return last._replace(
        vector=jax.tree.map(lambda new, old: jnp.where(usable, new, old), vector, last.vector),
        critical=jnp.where(usable, _over(factor, curvature), last.critical),
    )


def _along_update(loss: Callable[[Params], Any], params: Params, updates: Params, last: Meter, anew: Any) -> Meter:
    r"""The $\eta$ at which $L(\theta + \eta u) = L(\theta)$ to second order, $-2u^\top g/u^\top Hu$, on average."""
    gradient, image = jax.jvp(jax.grad(loss), (params,), (updates,))
    kept = jnp.where(last.bends == 0, 0.0, KEPT)  # the first look has no past
    falls = kept * last.falls - (1 - kept) * _dot(gradient, updates)
    bends = kept * last.bends + (1 - kept) * _dot(updates, image)
    usable = jnp.isfinite(falls) & jnp.isfinite(bends)
    # If the update points uphill on average, no step leads down, and the last step stays.
    critical = jnp.where(usable & (falls > 0), _over(2 * falls, bends), last.critical)
    return last._replace(
        falls=jnp.where(usable, falls, last.falls).astype(last.falls.dtype),
        bends=jnp.where(usable, bends, last.bends).astype(last.bends.dtype),
        critical=critical.astype(last.critical.dtype),
    )


def _over(above: Any, below: Array) -> Array:
    """A quotient, infinite where nothing curves upwards."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1), jnp.inf)


def _dot(a: Params, b: Params) -> Array:
    return functools.reduce(operator.add, jax.tree.leaves(jax.tree.map(jnp.vdot, a, b)))


def _unit(v: Params) -> Params:
    size = jnp.sqrt(_dot(v, v))
    return jax.tree.map(lambda leaf: (leaf / jnp.where(size > 0, size, 1)).astype(leaf.dtype), v)


def _limit(caller: str, lr: float | None) -> Any:
    return math.inf if lr is None else positive(caller, "lr", lr)


__all__ = ["ControlState", "Meter", "below_critical", "catapults", "reading"]
