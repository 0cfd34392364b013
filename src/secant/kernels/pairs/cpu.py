"""Kernels on a processor: blocks of samples, a thread a core."""

from __future__ import annotations

import collections
import functools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from threadpoolctl import ThreadpoolController

from secant.core.device import jit
from secant.kernels.arc_cosine import gap_of_products
from secant.kernels.pairs.angle_series import Curve, along, curve
from secant.kernels.pairs.blocks import How, all_pairs, is_finite, pair, sides_of
from secant.kernels.propagation.inputs import unit
from secant.kernels.propagation.needs import planned
from secant.kernels.propagation.place import held, never


@functools.lru_cache(maxsize=64)
def _compiled_parts(how: How, series: Curve | None) -> tuple[Any, Any, dict[Any, Any]]:
    """Both sets of samples cut into blocks, the kernels between two of the blocks, and programs of that by shapes."""

    def cut(x1: Array, x2: Array, variances: Any) -> list[list[Any]]:
        *sides, _ = sides_of(how, x1, x2, variances, sized=series is None, divided=False)
        sides = sides[:1] if how.symmetric else sides
        if x1.ndim == 2 and sides[0][2].owners:  # few large arguments are handed over sooner than many small ones
            sides = [(x, own, replace(sizes, arrays=jnp.stack(sizes.arrays, 1))) for x, own, sizes in sides]
        found = [[jax.tree.map(lambda part, i=i: part[i], side) for i in range(len(side[0]))] for side in sides]
        if x1.ndim > 2 or is_plain(how, series):
            return found
        # Of each block by itself, so that it is written once, and not once more to be cut off.
        return [[(unit(x), *rest) for x, *rest in side] for side in found]

    def between(first: Any, second: Any, same: Array, variances: Any, products: Array | None) -> Any:
        (xa, ra, sa), (xb, rb, sb) = first, second
        if series is None or products is None:
            if xa.ndim == 2:
                sa, sb = (replace(sizes, arrays=tuple(sizes.arrays)) for sizes in (sa, sb))
            return pair(how, (xa, ra, sa), (xb, rb, sb), same, variances, products)
        none = (ra == 0)[:, None] | (rb == 0)
        none = none | (jnp.eye(len(xa), dtype=bool) & same) if how.symmetric else none
        gap = gap_of_products(products, xa, xb, none)
        return *along(series, gap, (ra, rb), functools.partial(held, never(xa))), jnp.zeros((), xa.dtype)

    return jit(cut), jit(between, alone=True), {}


def is_plain(how: How, series: Curve | None) -> bool:
    """Whether products of vectors are taken as they are, and not of those divided by their lengths."""
    return series is None and not planned(how.net).bent


def rows_of(x: np.ndarray, block: int) -> list[np.ndarray]:
    """Rows in blocks of equal size, the last filled up with the first row."""
    short = -len(x) % block
    whole = np.concatenate([x, np.broadcast_to(x[:1], (short, x.shape[1]))]) if short else x
    return [whole[start : start + block] for start in range(0, len(whole), block)]


@functools.lru_cache(maxsize=1)
def _threads(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "kernels")


@functools.lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def by_threads(how: How, x1: Array, x2: Array, variances: Any, workers: int) -> tuple[Any, Any, Any]:
    """Both kernels of all pairs between blocks of samples on a processor, a thread a core, and the largest error.

    The error is that of a quadrature, and infinite where a kernel is not finite. A block is the same, to the bit,
    whichever thread computes it. Memory holds the result and two blocks a thread.
    """
    vectors = x1.ndim == 2
    series = curve(how.net, x1.shape[1], how.ntk, x1.dtype.itemsize) if vectors and variances is None else None
    cut, between, programs = _compiled_parts(how, series)
    sides = cut(x1, x2, variances)
    first, second = sides[0], sides[-1]
    rows: list[list[np.ndarray]] = []
    if vectors and is_plain(how, series):  # nothing has to be waited for
        rows = [rows_of(np.asarray(x), len(first[0][0])) for x in ((x1,) if how.symmetric else (x1, x2))]
    elif vectors:
        rows = [[np.asarray(part[0]) for part in side] for side in sides]

    def product(i: int, j: int) -> np.ndarray | None:
        """The products of the rows of two blocks: NumPy's library is faster, and takes half the time for one block."""
        return rows[0][i] @ rows[-1][j].T if rows else None

    # A program and not a compiled function: settings of JAX are those of the calling thread.
    double, block = x1.dtype == jnp.float64, len(first[0][0])
    key = (block, x1.shape[1:], x1.dtype, *(jax.typeof(leaf) for leaf in jax.tree.leaves(variances)))
    if key not in programs:
        programs[key] = between.lower(first[0], second[0], np.bool_(True), variances, product(0, 0)).compile()
    program = programs[key]
    filled = (len(first) * block, len(second) * block)
    wholes: list[np.ndarray | None] = [np.empty(filled, x1.dtype), np.empty(filled, x1.dtype) if how.ntk else None]

    def started(at: tuple[int, int]) -> Any:
        i, j = at
        with jax.enable_x64(double):  # as in the calling thread
            return program(first[i], second[j], np.bool_(i == j), variances, product(i, j))

    def ended(at: tuple[int, int], found: Any) -> float:
        *parts, error = found
        down, across = (slice(index * block, (index + 1) * block) for index in at)
        for whole, part in zip(wholes, parts, strict=True):
            if whole is not None:
                found = np.asarray(part)
                whole[down, across] = found
                if how.symmetric and at[0] != at[1]:
                    whole[across, down] = found.T
                if not is_finite(found):
                    return math.inf
        return float(error)

    def some(_: int) -> float:
        """Takes blocks as long as there are any. The next product is computed while a program is at the last block."""
        errors, running = [0.0], None
        while True:
            try:
                at = left.popleft()
            except IndexError:  # another thread has taken the last
                return max([*errors, *([] if running is None else [ended(*running)])])
            began = (at, started(at))
            errors += [] if running is None else [ended(*running)]
            running = began

    # Blocks with themselves are the quickest and come last, so that all threads end at about the same time.
    pairs = zip(*(at.tolist() for at in all_pairs(how, len(first), len(second))), strict=True)
    left = collections.deque(sorted(pairs, key=lambda at: at[0] == at[1]))
    with _libraries().limit(limits=1, user_api="blas"):  # every core has a thread already
        error = max(_threads(workers).map(some, range(workers)))
    nngp, ntk = (None if whole is None else jax.device_put(whole[: len(x1), : len(x2)]) for whole in wholes)
    return nngp, ntk, jnp.asarray(error, x1.dtype)
