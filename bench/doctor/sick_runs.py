"""Training runs that are ill on purpose, and healthy ones, recorded like a monitor's: the test bench of the diagnosis.

All runs train one small network on handwritten digits. A run is a list of steps, each with its samples, its step size
and a factor of the inputs. Every kind fills this list in its own way, so that all kinds and seeds share one compiled
loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from secant import data, nets
from secant.core.device import jit
from secant.monitors.records.record import Watched
from secant.optim import optimisers

BATCH, SAMPLES, WIDTH = 64, 1024, 64
EVERY = 10
"""Steps between two looks at the curvature."""
REFINED = 4
"""How many products of a look at the sharpness improve the last direction."""
RULES = ("gd", "momentum", "adam")
BETA, B2 = 0.9, 0.999
STEPS = 1000
KINDS = ("healthy", "catapult", "divergence", "stale second moment", "bad batch", "step too small")


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Attributes:
        kind: what is wrong with the run, or `healthy`.
        rule: one of `RULES`.
        rows: sample numbers, `(steps, BATCH)`.
        lr: step sizes, `(steps,)`.
        stretch: the factors of the inputs of each step, `(steps,)`. Where the factor is not 1, labels are wrong, too.
        entropy: whether the loss is the cross-entropy rather than half the squared error.
        seed: seed of the parameters.
    """

    kind: str
    rule: str
    rows: np.ndarray
    lr: np.ndarray
    stretch: np.ndarray
    entropy: bool
    seed: int


class _Carry(NamedTuple):
    params: Any
    inner: Any
    vector: Any


@functools.cache
def digits() -> tuple[Any, Any, Any]:
    """The network, and the inputs and targets of all samples."""
    task = data.load("digits", samples=SAMPLES, test_samples=1, seed=0, dtype=np.float32)
    net = nets.mlp([WIDTH], outputs=10, activation="relu", parametrization="standard", bias=True)
    return net, np.asarray(task.train.x, np.float32), np.asarray(task.train.y, np.float32)


def edge(rule: str, seed: int, rows: np.ndarray, entropy: bool) -> float:
    """The critical step size at the start, on the samples of the first step."""
    _, x, y = digits()
    return threshold(rule, 1.0) / float(_sharpness()(start(seed), x[rows[0]], y[rows[0]], entropy))


@functools.cache
def _sharpness() -> Callable[..., Any]:
    """`(params, x, y, entropy)` -> the largest eigenvalue of the Hessian, by repeated refinement of a direction."""

    def top(params: Any, x: Any, y: Any, entropy: Any) -> jax.Array:
        flat, unravel = ravel_pytree(params)
        _, product = jax.linearize(jax.grad(lambda p: loss(p, x, y, entropy)), params)

        def apply(w: jax.Array) -> jax.Array:
            return ravel_pytree(product(unravel(w)))[0]

        w = lax.fori_loop(0, 40, lambda _, w: _refined(apply, w), _first(flat))
        return w @ apply(w)

    return jit(top, long=True)


def _first(flat: Any) -> jax.Array:
    """The first direction of a search."""
    w = jnp.cos(jnp.arange(flat.size, dtype=flat.dtype))
    return w / jnp.linalg.norm(w)


def _refined(apply: Callable[[jax.Array], jax.Array], w: jax.Array) -> jax.Array:
    """The direction of largest curvature in the plane of a direction and its image."""
    image = apply(w)
    a = w @ image
    rest = image - a * w
    b = jnp.linalg.norm(rest)
    other = rest / jnp.where(b > 0, b, 1.0)
    c = other @ apply(other)
    angle = jnp.arctan2(2 * b, a - c) / 2
    turned = jnp.cos(angle) * w + jnp.sin(angle) * other
    return turned / jnp.linalg.norm(turned)


def plan(kind: str, seed: int, rule: str | None = None) -> Plan:
    """The plan of a run of a kind. The seed draws all settings that the kind leaves open.

    Args:
        kind: one of `KINDS`.
        seed: seed of all draws.
        rule: one of `RULES`, for kinds that leave it open; by default the rules take turns.
    """
    random = np.random.default_rng([KINDS.index(kind), seed])
    between = random.uniform
    rule = rule or {"catapult": "gd", "stale second moment": "adam"}.get(kind, RULES[seed % 3])
    if kind == "divergence" and rule == "adam":  # Adam's steps are as long as its step size, whatever happens
        rule = "gd"
    entropy = kind in ("healthy", "bad batch") and bool(random.integers(2))
    whole = kind in ("catapult", "stale second moment") or (
        kind != "bad batch" and rule != "adam" and bool(random.integers(2))
    )
    rows = np.tile(np.arange(BATCH), (STEPS, 1)) if whole else random.integers(0, SAMPLES, (STEPS, BATCH))
    lr, stretch = np.ones(STEPS), np.ones(STEPS)
    if rule == "adam":
        usual = between(0.05, 0.08) if kind == "stale second moment" else between(0.005, 0.015)
    else:
        critical = edge(rule, seed, rows, entropy)
        # On batches momentum bears smaller steps, because its memory of one batch adds to the next.
        usual = critical * (between(0.3, 0.8) if rule == "gd" or whole else between(0.15, 0.3))
    lr *= usual
    if kind == "healthy" and random.integers(3) == 0:
        lr *= np.minimum(np.arange(1, STEPS + 1) / 50, 0.5 + 0.5 * np.cos(np.pi * np.arange(STEPS) / STEPS))
    elif kind == "catapult" and seed % 2:
        lr[:], lr[int(between(200, 400)) :] = 0.4 * critical, between(1.5, 1.7) * critical
    elif kind == "catapult":
        lr[:] = between(1.45, 1.6) * critical
    elif kind == "divergence":
        lr[:] = between(4, 10) * critical
    elif kind == "bad batch":
        stretch[int(between(300, 600))] = between(4, 8)
    elif kind == "step too small":
        lr /= 10
    return Plan(kind, rule, rows, lr, stretch, entropy, seed)


def start(seed: int) -> Any:
    """The parameters of a seed, in single precision."""
    net, x, _ = digits()
    drawn = net.init(jax.random.key(seed), x.shape)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), drawn)


def loss(params: Any, x: Any, y: Any, entropy: Any) -> jax.Array:
    """The mean over samples of the cross-entropy, or of half the squared error."""
    out = digits()[0].apply(params, x)
    return jnp.where(entropy, _crossed(out, y), _squared(out, y))


def _squared(out: Any, y: Any) -> jax.Array:
    return 0.5 * jnp.mean(jnp.sum((out - y) ** 2, -1))


def _crossed(out: Any, y: Any) -> jax.Array:
    return jnp.mean(jax.nn.logsumexp(out, -1) - jnp.sum(out * y, -1))


def _rule(which: Any, lr: Any) -> Any:
    several = optimisers.gd(lr), optimisers.momentum(lr, BETA), optimisers.adam(lr, BETA, B2)
    return optimisers.one_of(several, which)


def threshold(rule: str, lr: float) -> float:
    """The largest curvature at which a rule is stable, in the rule's own measure."""
    several = {"gd": optimisers.gd, "momentum": optimisers.momentum, "adam": optimisers.adam}
    return float(several[rule](lr).threshold)


def _dot(a: Any, b: Any) -> jax.Array:
    return jnp.vdot(ravel_pytree(a)[0], ravel_pytree(b)[0])


def _look(value: Callable[[Any], Any], gradients: Any, params: Any, g: Any, u: Any, scale: Any, v: Any) -> Any:
    """The measurements of a look at the parameters, and the direction from which the next look starts."""
    _, product = jax.linearize(jax.grad(value), params)
    square, bent = _dot(g, g), _dot(g, product(g))
    along = _dot(u, product(u))
    _, unravel = ravel_pytree(params)
    root = jnp.sqrt(ravel_pytree(scale)[0])

    def divided(w: jax.Array) -> jax.Array:
        return ravel_pytree(product(unravel(w / root)))[0] / root

    w = lax.fori_loop(0, REFINED, lambda _, w: _refined(divided, w), v)
    image = divided(w)
    top = w @ image
    spread = jnp.sum(gradients**2) / len(gradients) - jnp.sum(gradients.mean(0) ** 2)
    spread, length = spread * len(gradients) / (len(gradients) - 1), jnp.sum(gradients.mean(0) ** 2)
    found = {
        "batch_sharpness": bent / square,
        "update_curvature": along / _dot(u, u),
        "stable_multiple": -2 * _dot(g, u) / along,
        "sharpness": top,
        "sharpness_error": jnp.linalg.norm(image - top * w),
        "sharpest_share": (w @ (slope := ravel_pytree(g)[0] / root)) ** 2 / (slope @ slope),
        "noise_scale": spread / jnp.maximum(length - spread / len(gradients), 1e-30),
    }
    return found, jnp.where(jnp.isfinite(w).all(), w, v)


@functools.cache
def _loop(watched: bool) -> Callable[..., Any]:
    _, x, y = digits()

    def run(params: Any, which: Any, entropy: Any, rows: Any, lr: Any, stretch: Any) -> Any:
        flat = ravel_pytree(params)[0]
        state = _rule(which, lr[0])(lambda p: 0.0)
        begin = _Carry(params, state.init(params).inner, _first(flat))

        def step(carry: _Carry, now: Any) -> Any:
            batch, size, by, look = now
            inputs, targets = jnp.asarray(x)[batch] * by, jnp.asarray(y)[batch]
            targets = jnp.where(by != 1, jnp.roll(targets, 1, -1), targets)

            def value(p: Any) -> jax.Array:
                return loss(p, inputs, targets, entropy)

            at, g = jax.value_and_grad(value)(carry.params)
            rule = _rule(which, size)
            u, inner = rule.transformation.update(g, carry.inner, carry.params)
            row = {"loss": at, "gradient_norm": jnp.sqrt(_dot(g, g)), "update_norm": jnp.sqrt(_dot(u, u))}
            vector = carry.vector
            if watched:
                scale = rule.scale(inner, carry.params)

                def one(p: Any, a: Any, b: Any) -> jax.Array:
                    return ravel_pytree(jax.grad(loss)(p, a[None], b[None], entropy))[0]

                def seen() -> Any:
                    each = jax.vmap(one, (None, 0, 0))(carry.params, inputs, targets)
                    return _look(value, each, carry.params, g, u, scale, vector)

                empty = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), jax.eval_shape(seen))
                found, vector = lax.cond(look, seen, lambda: (empty[0], vector))
                row |= found
            moved = jax.tree.map(lambda p, d: (p + d).astype(p.dtype), carry.params, u)
            return _Carry(moved, inner, vector), row

        looks = np.arange(len(lr)) % EVERY == 0  # the same for all runs, so that no other looks are computed
        return lax.scan(step, begin, (rows, lr, stretch, looks))[1]

    return jit(jax.vmap(run), long=True)


def losses(plans: Sequence[Plan]) -> np.ndarray:
    """The loss of every step of runs, `(runs, steps)`, without looks."""
    return _made(plans, False)["loss"]


def _made(plans: Sequence[Plan], watched: bool) -> dict[str, np.ndarray]:
    """All runs side by side: a step of twenty runs takes little longer than a step of one run."""
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(start(plan.seed) for plan in plans))
    which = np.array([RULES.index(plan.rule) for plan in plans], np.int32)
    entropy = np.array([plan.entropy for plan in plans])
    rows = np.stack([plan.rows for plan in plans]).astype(np.int32)
    lr, stretch = (np.stack([getattr(plan, name) for plan in plans], dtype=np.float32) for name in ("lr", "stretch"))
    found = _loop(watched)(params, which, entropy, rows, lr, stretch)
    return {name: np.asarray(values, float) for name, values in found.items()}


def watch(plans: Sequence[Plan]) -> list[Watched]:
    """The records of runs: loss and lengths at every step, curvature and noise at every tenth.

    Each record ends with the first number that is not finite, as in a loop that checks.
    """
    found = _made(plans, True)
    each = [{name: values[number] for name, values in found.items()} for number in range(len(plans))]
    return [_record(plan, one) for plan, one in zip(plans, each, strict=True)]


def _record(plan: Plan, found: dict[str, np.ndarray]) -> Watched:
    rows: list[dict[str, Any]] = []
    whole = bool((plan.rows == plan.rows[0]).all())
    for step, lr in enumerate(plan.lr):
        row: dict[str, Any] = {"step": step, "lr": float(lr), "batch": float(plan.rows.shape[1])}
        row |= {name: float(found[name][step]) for name in ("loss", "gradient_norm", "update_norm")}
        if step % EVERY == 0:
            others = {name: float(values[step]) for name, values in found.items() if name not in row}
            if whole:  # a full batch has no noise
                del others["noise_scale"]
            edge = threshold(plan.rule, float(lr))
            row |= others | {"threshold": edge}
            if others["sharpness"] > 0:
                row["critical_lr"] = float(lr) * edge / others["sharpness"]
        rows.append(row)
        if not np.isfinite(row["loss"]):
            break
    about = {
        "format": 1,
        "framework": "jax",
        "optimiser": {"name": plan.rule} | ({"b2": B2} if plan.rule == "adam" else {}),
        "loss": "cross-entropy" if plan.entropy else "half_mean",
        "name": f"{plan.kind}-{plan.seed}",
    }
    return Watched(Path(f"{plan.kind}-{plan.seed}"), about, rows, [])
