"""Stochastic differential equations: a whole ensemble of random paths in one loop, with axes and probes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from secant._version import __version__
from secant.core.arguments import positive, whole
from secant.core.device import jit
from secant.dynamics.axes import Axes, call_with, is_function
from secant.dynamics.brownian import Noise, noise_of, refuse_for, solved
from secant.dynamics.loop import stable_types
from secant.dynamics.normals import normals
from secant.dynamics.probes import Probe, as_probes, look_afresh
from secant.dynamics.stop import Outcome, is_finite
from secant.dynamics.trajectory import Trajectory, outcome_variables, record_variable

SOLVERS = ("euler", "milstein", "additive")


def sde(
    drift: Callable[..., Any],
    diffusion: Callable[..., Any],
    start: Any,
    until: float,
    *,
    steps: int = 200,
    paths: int | None = None,
    probes: Mapping[str, Probe | Callable[..., Any]] | None = None,
    over: Mapping[str, Any] | None = None,
    samples: int = 201,
    seed: int | Callable[..., Any] = 0,
    noise: int | None = None,
    solver: Literal["euler", "milstein", "additive"] = "euler",
    shared: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 100_000,
) -> Trajectory:
    r"""Follows $dX = b(X)\,dt + \sigma(X)\,dW$ in the sense of Ito from 0 to `until`, and records its probes.

    The default method is that of Euler and Maruyama, $X \leftarrow X + b\,\delta + \sigma\sqrt\delta\,\xi$ with
    $\xi \sim N(0, I)$ and $\delta$ = `until`/`steps`, in one compiled loop where each step moves the whole ensemble.
    Values of other axes see the same noise (common random numbers), so that differences between them have a small
    sampling error; let `seed` depend on an axis for independent noise. A path that is no longer finite has diverged,
    which is an outcome and no error. For equations without noise there is [`flow`][secant.dynamics.flow].

    Args:
        drift: state -> $b$, a pytree like the state; may take by name values of axes, `path` (its number) and `time`.
        diffusion: state -> $\sigma$, of the structure of the state; takes the same names. For a leaf of shape `s`
            return shape `s`, a factor of each entry's own noise, or shape `(*s, m)`, a matrix for $m$ noises that all
            leaves share. One number is the same factor for all entries.
        start: the starting point, or a function of axis values and `path` that makes one.
        until: the last time.
        steps: how many steps of fixed size; with tolerances the first step has this size.
        paths: size of the ensemble, an axis `path` of the result; by default one path and no such axis.
        probes: what to record, by name; cadences do not apply.
        over: named axes to batch over, as in [`simulate`][secant.dynamics.simulate].
        samples: about how many records; both ends are among them, and all lie on steps.
        seed: seed of the noise, or a function of axis values that makes one.
        noise: how many noises $z$ drive a diffusion without a matrix; `diffusion(state, z)` then returns $\sigma z$.
        solver: `"euler"`; `"milstein"`, of strong order 1; or `"additive"`, of strong order 3/2 (SRA1). `"milstein"`
            needs one noise for all entries, or a noise for each entry whose factor depends on that entry alone.
            `"additive"` needs a diffusion that does not depend on the state. The latter two are diffrax's.
        shared: whether paths are the same for every number of steps. They then lie on a virtual Brownian tree of
            diffrax, which is slower. Other solvers and tolerances always use the tree.
        rtol: relative tolerance of a step, for the solver `"additive"`, which then chooses its steps.
        atol: absolute tolerance of a step, for the solver `"additive"`, which then chooses its steps.
        max_steps: with tolerances, a path that needs more steps is given up and recorded as diverged.

    Returns:
        The records over `(*axes, path, time)`, and the last state.

    Example:
        ```python
        import secant as sc

        run = sc.sde(lambda x: -2 * x, lambda x: 1.0, 3.0, until=1.0, steps=100, paths=4_000, probes={"x": lambda x: x})
        last = run["x"].isel(time=-1)
        print(run["x"].sizes, abs(float(last.mean()) - 0.3979) < 0.03, abs(float(last.var()) - 0.2479) < 0.03)
        ```
        ```text
        Frozen({'path': 4000, 'time': 101}) True True
        ```
    """
    until, steps = positive("sde", "until", until), whole("sde", "steps", steps, 1)
    samples = whole("sde", "samples", samples, 2)
    adaptive = rtol is not None or atol is not None
    if solver not in SOLVERS:
        raise ValueError(f"sde: `solver` must be one of {', '.join(SOLVERS)}, got {solver!r}.")
    if adaptive and solver != "additive":
        raise ValueError(
            f"sde: `rtol` and `atol` belong to the solver 'additive', got {solver!r}. Give a number of `steps`."
        )
    if over and "path" in over:
        raise ValueError("sde: `over` cannot have an axis 'path', the ensemble's name. Rename it, or use `paths`.")
    axes = Axes.of(over)
    ensemble = {} if paths is None else {"path": np.arange(whole("sde", "paths", paths, 1))}
    everything = Axes.of({**axes.values, **ensemble})
    named = as_probes(probes, everything.names)
    every = max(1, round(steps / (samples - 1)))
    system = _System(
        drift,
        diffusion,
        start if is_function(start) else None,
        seed if callable(seed) else None,
        bool(axes.names),
        paths,
        tuple(named.items()),
        steps,
        every,
        noise,
        (solver, shared or adaptive, rtol, atol, max_steps),
    )
    point = None if system.start else start
    number = 0 if system.seed else whole("sde", "seed", seed, 0)
    values = axes.grid()
    if solver != "euler":
        refuse_for(solver, system, jax.tree.map(lambda leaf: leaf[0], values), point)
    records, state, finite = _compiled(system)(values, point, jnp.uint32(number), float(until))
    return _trajectory(system, axes, everything, until, records, state, np.asarray(finite))


@dataclass(frozen=True)
class _System:
    """Everything about a run but its numbers. Equal systems share compiled code."""

    drift: Callable[..., Any]
    diffusion: Callable[..., Any]
    start: Callable[..., Any] | None
    seed: Callable[..., Any] | None
    batched: bool
    paths: int | None
    probes: tuple[tuple[str, Probe], ...]
    steps: int
    every: int
    noise: int | None
    how: tuple[str, bool, float | None, float | None, int]

    @property
    def places(self) -> np.ndarray:
        """Steps at which there are records: the first, every `every`-th step, and the last."""
        return np.unique(np.append(np.arange(0, self.steps + 1, self.every), self.steps))

    def lift(self, function: Callable[..., Any], *each: bool) -> Callable[..., Any]:
        """A function of `(axis values, path, ...)` for all axes and paths; `each` says which arguments differ."""
        if self.paths is not None:
            function = jax.vmap(function, (None, 0, *(0 if own else None for own in each)))
        if self.batched:
            function = jax.vmap(function, (0, None, *(0 if own else None for own in each)))
        return function

    def begin(self, values: dict[str, Any], path: Any, point: Any) -> Any:
        """The state at which one path starts, in the types that a step keeps."""
        if self.start is not None:
            point = call_with(self.start, {**values, "path": path}, role="sde: `start`")
        point = jax.tree.map(jnp.asarray, point)

        def moved(state: Any) -> Any:
            rate, kick = self.parts(values, path, 0.0, state)
            return jax.tree.map(lambda x, b, s: x + 1.0 * b + s, state, rate, kick.example(state))

        return stable_types(moved, point)

    def parts(self, values: dict[str, Any], path: Any, time: Any, state: Any) -> tuple[Any, Noise]:
        """Drift and diffusion at one state, of the right shapes."""
        available = {**values, "path": path, "time": time}
        rate = jax.tree.map(jnp.asarray, call_with(self.drift, available, state, role="sde: `drift`"))
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (state, rate)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"sde: `drift` must return a derivative of the shape of the state, {shapes[0]}, got {shapes[1]}."
            )
        return rate, noise_of(self.diffusion, available, state, self.noise)

    def step(self, values: dict[str, Any], path: Any, time: Any, length: Any, state: Any, z: Any) -> Any:
        """One step of Euler and Maruyama."""
        rate, kick = self.parts(values, path, time, state)
        root = jnp.sqrt(length)
        return jax.tree.map(
            lambda x, b, s: (x + length * b + root * s).astype(x.dtype), state, rate, kick.applied(state, z)
        )

    def look(self, values: dict[str, Any], path: Any, time: Any, state: Any) -> tuple[Any, Any]:
        """All records at one moment, and whether the path is still finite."""
        available = {**values, "path": path, "time": time}
        return {name: look_afresh(name, probe, available, state) for name, probe in self.probes}, is_finite(state)

    def keys(self, values: dict[str, Any], number: Any) -> Any:
        """One key, or one key for each combination of axes if they choose the seed."""
        if self.seed is None:
            return jax.random.key(number)
        made = lambda values: jax.random.key(call_with(self.seed, values, role="sde: `seed`"))  # noqa: E731
        return jax.vmap(made)(values) if self.batched else made(values)

    def euler(self, values: dict[str, Any], point: Any, number: Any, until: Any) -> tuple[Any, Any, Any]:
        """The whole ensemble, a step at a time."""
        path = None if self.paths is None else jnp.arange(self.paths)
        own = self.seed is not None
        state = self.lift(self.begin, False)(values, path, point)
        key, length = self.keys(values, number), until / self.steps
        size, dtype = self.wide(values, state)
        shape = (size,) if self.paths is None else (self.paths, size)

        def draw(key: Any, k: Any) -> Any:
            return normals(jax.random.fold_in(key, k), shape, dtype)

        draws = (lambda keys, k: lax.map(lambda key: draw(key, k), keys)) if own and self.batched else draw
        moved = self._moved(own)
        look = self.lift(self.look, False, True)

        def one_step(k: Any, state: Any) -> Any:
            return moved(values, path, k * length, length, state, draws(key, k))

        def block(state: Any, first: Any) -> tuple[Any, Any]:
            seen = look(values, path, first * length, state)
            return lax.fori_loop(first, first + self.every, one_step, state), seen

        blocks, rest = divmod(self.steps, self.every)
        state, seen = lax.scan(block, state, jnp.arange(blocks) * self.every)
        last = look(values, path, blocks * self.every * length, state)
        seen = jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), seen, last)
        if rest:
            state = lax.fori_loop(blocks * self.every, self.steps, one_step, state)
            last = look(values, path, until, state)
            seen = jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), seen, last)
        return seen[0], state, seen[1]

    def _moved(self, own: bool) -> Callable[..., Any]:
        """A step of the whole ensemble. Its noise is the same for all axes unless they have seeds of their own."""
        function: Callable[..., Any] = self.step
        if self.paths is not None:
            function = jax.vmap(function, (None, 0, None, None, 0, 0))
        if self.batched:
            function = jax.vmap(function, (0, None, None, None, 0, 0 if own else None))
        return function

    def wide(self, values: dict[str, Any], state: Any) -> tuple[int, Any]:
        """How many noises drive a path of the ensemble, and in which precision."""
        found: list[tuple[int, Any]] = []

        def look(values: dict[str, Any], state: Any) -> None:
            kick = self.parts(values, jnp.int32(0), 0.0, state)[1]
            found.append((kick.size, jnp.result_type(float, *jax.tree.leaves(state))))

        def one(tree: Any, front: int) -> Any:
            return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[front:], leaf.dtype), tree)

        jax.eval_shape(look, one(values, 1), one(state, self.batched + (self.paths is not None)))
        return found[0]

    def tree(self, values: dict[str, Any], point: Any, number: Any, until: Any) -> tuple[Any, Any, Any]:
        """Every path by diffrax, on a Brownian motion that does not depend on the steps."""
        path = None if self.paths is None else jnp.arange(self.paths)
        keys = self.keys(values, number)

        def one(values: dict[str, Any], path: Any, key: Any) -> tuple[Any, Any, Any]:
            key = jax.random.fold_in(key, 0 if path is None else path)
            state = self.begin(values, path, point)
            return solved(self, values, path, key, state, until)

        function: Callable[..., Any] = one
        if self.paths is not None:
            function = jax.vmap(function, (None, 0, None))
        if self.batched:
            function = jax.vmap(function, (0, None, 0 if self.seed is not None else None))
        records, state, finite = function(values, path, keys)
        front = self.batched + (self.paths is not None)
        records, finite = jax.tree.map(lambda rows: jnp.moveaxis(rows, front, 0), (records, finite))
        return records, state, finite


@functools.lru_cache(maxsize=16)
def _compiled(system: _System) -> Any:
    name, shared, *_ = system.how
    return jit(system.euler if name == "euler" and not shared else system.tree)


def _trajectory(
    system: _System, axes: Axes, everything: Axes, until: float, records: Any, state: Any, finite: np.ndarray
) -> Trajectory:
    """The records as a labelled dataset; all arrays are time-major."""
    import xarray as xr

    times = system.places * (until / system.steps)
    front = len(everything.shape) - len(axes.shape) + bool(axes.names)

    def flat(array: Any, lead: int) -> np.ndarray:
        array = np.asarray(array)
        own = array.shape[lead + front :]
        return array.reshape(*array.shape[:lead], -1, *own) if everything.names else array

    variables: dict[str, Any] = {}
    named = dict(system.probes)
    for owner, parts in records.items():
        for name, record in parts.items():
            variables[name] = record_variable(name, named[owner], flat(record, 1), everything, "time")
    good = flat(finite, 1)
    outcome = np.where(good[-1], Outcome.UNFINISHED, Outcome.DIVERGED).astype(np.int8)
    stopped = np.where(good.all(0), until, times[np.argmin(good, axis=0)])
    variables |= outcome_variables(everything, outcome, stopped, "time")
    coordinates = {**everything.coordinates(), "time": ("time", times, {"long_name": "time"})}
    attributes = {"solver": system.how[0], "steps": system.steps, "secant": __version__, "jax": jax.__version__}
    dataset = xr.Dataset(variables, coords=coordinates, attrs=attributes)
    last = jax.tree.map(lambda leaf: leaf.reshape(everything.shape + leaf.shape[front:]), state)
    return Trajectory(dataset, last)
