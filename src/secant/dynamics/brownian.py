"""The noise of a stochastic differential equation: its diffusion at a state, and paths by the solvers of diffrax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from secant.dynamics.axes import call_with
from secant.dynamics.stop import is_finite

FEW = 16
"""Up to this many noises products are written out."""


@dataclass(frozen=True)
class Noise:
    r"""The diffusion at one state.

    Attributes:
        kind: `number`, `diagonal`, `matrix`, or `product` if the diffusion is a function of the noise.
        factor: $\sigma$, a tree of arrays like the state, one number, or `z -> tree`.
        size: how many noises there are.
    """

    kind: str
    factor: Any
    size: int

    def applied(self, state: Any, z: Array) -> Any:
        r"""$\sigma z$, a tree like the state."""
        if self.kind == "product":
            return self.factor(z)
        if self.kind == "matrix":
            return jax.tree.map(lambda b: _product(b, z), self.factor)
        leaves, structure = jax.tree.flatten(state)
        ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])
        parts = [z[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
        own = jax.tree.unflatten(structure, parts)
        if self.kind == "number":
            return jax.tree.map(lambda part: self.factor * part, own)
        return jax.tree.map(lambda b, part: b * part, self.factor, own)

    def example(self, state: Any) -> Any:
        """A tree of the shapes and types that noise adds to the state."""
        return self.applied(state, jnp.zeros(self.size))

    def matrix(self, state: Any) -> Array:
        r"""$\sigma$ for all entries of the state in one column, dense."""
        return jax.vmap(lambda z: ravel_pytree(self.applied(state, z))[0], out_axes=1)(jnp.eye(self.size))


def _product(b: Array, z: Array) -> Array:
    """The product of a matrix and a vector. Small ones go column by column, which is faster for many at a time."""
    if len(z) > FEW:
        return b @ z
    return sum((b[..., j] * z[j] for j in range(1, len(z))), b[..., 0] * z[0])


def noise_of(diffusion: Callable[..., Any], available: Mapping[str, Any], state: Any, wanted: int | None) -> Noise:
    """Evaluates a diffusion at a state. A wrong shape is an error.

    Args:
        diffusion: the diffusion that the user gave.
        available: the values that it may take by name.
        state: the state to evaluate it at.
        wanted: how many noises the diffusion takes as an argument; None if it takes none.
    """
    leaves = jax.tree.leaves(state)
    structure: Any = jax.tree.structure(state)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    total = int(sum(np.prod(shape, dtype=int) for shape in shapes))
    if wanted is not None:

        def product(z: Array) -> Any:
            return jax.tree.map(jnp.asarray, call_with(diffusion, available, state, z, role="sde: `diffusion`"))

        made = jax.eval_shape(product, jnp.zeros(wanted))
        if structure != jax.tree.structure(made) or [leaf.shape for leaf in jax.tree.leaves(made)] != shapes:
            raise ValueError(
                f"sde: with `noise`, `diffusion(state, z)` must return a tree of the state's shapes, {_said(shapes)}, "
                f"got {_said([leaf.shape for leaf in jax.tree.leaves(made)])}."
            )
        return Noise("product", product, wanted)
    factor = jax.tree.map(jnp.asarray, call_with(diffusion, available, state, role="sde: `diffusion`"))
    found = [jnp.shape(leaf) for leaf in jax.tree.leaves(factor)]
    if found == [()] and shapes != [()]:
        return Noise("number", jax.tree.leaves(factor)[0], total)
    alike = structure == jax.tree.structure(factor)
    if alike and found == shapes:
        return Noise("diagonal", factor, total)
    widths = {shape[-1] for shape in found if shape}
    if alike and len(widths) == 1 and [shape[:-1] for shape in found] == shapes and all(found):
        return Noise("matrix", factor, widths.pop())
    raise ValueError(
        f"sde: `diffusion` has the wrong shape, {_said(found)}. For a state of {_said(shapes)} return one number, the "
        "same shape (a factor of each entry's own noise), or that shape with one more dimension for the noises."
    )


def _said(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "nothing"


def solved(system: Any, values: dict[str, Any], path: Any, key: Any, state: Any, until: Any) -> tuple[Any, Any, Any]:
    """One path by diffrax: its records, its last state, and at which records it was finite.

    Args:
        system: the equation and how to solve it.
        values: the values of the axes.
        path: the number of the path.
        key: the random key of its Brownian motion.
        state: the state at which it starts.
        until: the last time.
    """
    import diffrax
    import lineax  # type: ignore[import-untyped]

    name, _, rtol, atol, max_steps = system.how
    flat, back = ravel_pytree(state)
    kick = system.parts(values, path, 0.0, state)[1]
    length = until / system.steps
    adaptive = rtol is not None or atol is not None
    method, area = {
        "euler": (diffrax.Euler, diffrax.BrownianIncrement),
        "milstein": (diffrax.ItoMilstein, diffrax.BrownianIncrement),
        "additive": (diffrax.SRA1, diffrax.SpaceTimeLevyArea),
    }[name]

    def rate(time: Any, row: Array, _: Any) -> Array:
        return ravel_pytree(system.parts(values, path, time, back(row))[0])[0].astype(row.dtype)

    def spread(time: Any, row: Array, _: Any) -> Any:
        here = back(row)
        kick = system.parts(values, path, time, here)[1]
        if kick.kind in ("number", "diagonal"):
            return lineax.DiagonalLinearOperator(ravel_pytree(kick.applied(here, jnp.ones_like(row)))[0])
        return kick.matrix(here)

    def observe(time: Any, row: Array, _: Any) -> Any:
        records, finite = system.look(values, path, time, back(row))
        return records, finite

    tolerance = float(np.finfo(np.float32).eps) * 8
    motion = diffrax.VirtualBrownianTree(0.0, until, until * tolerance, (kick.size,), key, levy_area=area)
    solution = diffrax.diffeqsolve(
        diffrax.MultiTerm(diffrax.ODETerm(rate), diffrax.ControlTerm(spread, motion)),
        method(),
        t0=0.0,
        t1=until,
        dt0=length,
        y0=flat,
        saveat=diffrax.SaveAt(
            subs=[
                diffrax.SubSaveAt(ts=jnp.asarray(system.places) * length, fn=observe),
                diffrax.SubSaveAt(t1=True),
            ]
        ),
        stepsize_controller=diffrax.PIDController(
            rtol=1e-3 if rtol is None else rtol, atol=1e-6 if atol is None else atol
        )
        if adaptive
        else diffrax.ConstantStepSize(),
        adjoint=diffrax.ForwardMode(),
        max_steps=max_steps if adaptive else system.steps + 8,
        throw=False,
    )
    (records, finite), last = solution.ys
    good = (solution.result == diffrax.RESULTS.successful) & is_finite(last)
    return records, back(last[0]), finite & good


def refuse_for(name: str, system: Any, values: dict[str, Any], point: Any) -> None:
    """Raises an error if a solver loses its order with this noise, tested at the start of the first path."""
    path = jnp.int32(0)
    state = system.begin(values, path, point)
    kick = system.parts(values, path, 0.0, state)[1]
    if name == "milstein" and kick.kind not in ("number", "diagonal") and kick.size > 1:
        raise ValueError(
            f"sde: the solver 'milstein' needs one noise for each entry, or a single one; `diffusion` has {kick.size} "
            "noises that entries share. Use the solver 'euler'."
        )
    if name != "additive":
        return

    def factor(state: Any) -> Array:
        return system.parts(values, path, 0.0, state)[1].matrix(state)

    way = jax.tree.map(lambda leaf: 1.0 + leaf, state)
    if jnp.any(jax.jvp(factor, (state,), (way,))[1] != 0):
        raise ValueError(
            "sde: the solver 'additive' needs a diffusion that does not depend on the state. Use the solver 'euler'."
        )
