r"""An activation together with the layer that reads it, in one pass over the memory of a GPU.

Between two images all pairs of positions are carried: a million numbers for 32 x 32 pixels. Moving them takes most of
the time. The compiler makes a pass of every axis of a window, and computes the activation anew for each of its places.
But a window that moves over both images at once stays on a diagonal, $q - p$ fixed. So every group of threads goes
down a strip of diagonals, each thread for a pair of images of its own, and keeps the parts of the last rows that it
needs in registers. Diagonals that leave the second image come in again on its other side, so that all are equally
long; sums stop there.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array

from secant.kernels.arc_cosine import arc, coefficients, evaluated, gap_of
from secant.kernels.layers.windows import cell_means, window_sums
from secant.kernels.propagation.signal import Signal

LANES = (128, 64, 32)
"""Pairs of images to a group of threads: the first of these numbers that divides all pairs."""

STRIP = 4
"""Neighbouring places of a strip of diagonals, at most: with twice as many it compiles four times as long, and runs no
faster."""

WINDOW = (3, 3)
"""The one window that there is a program for."""


class Bend(NamedTuple):
    r"""An activation $\max(z, 0) + a \min(z, 0)$ by the weights of the identity and of the absolute value, squared."""

    odd: float
    even: float


def can_take(cov: Array) -> bool:
    """Whether covariances `(*positions, *positions, pairs)` can be taken in one pass."""
    sides = cov.ndim == 5 and cov.shape[:2] == cov.shape[2:4]
    return sides and on_gpu() and cov.dtype == jnp.float32 and cov.shape[-1] % LANES[-1] == 0


@functools.cache
def on_gpu() -> bool:
    """Whether there is a GPU that the compiler for such programs knows: NVIDIA's, from compute capability 8 on."""
    if jax.default_backend() != "gpu" or importlib.util.find_spec("jax.experimental.pallas.triton") is None:
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "")
    return "NVIDIA" in jax.devices()[0].device_kind and float(capability or 0) >= 8


def sizes_of(signal: Signal) -> tuple[Array, Array]:
    """Standard deviations of the first and of the second images of listed pairs, shape `(*positions, pairs)`."""
    first, second = (size.reshape(*signal.positions, size.shape[-1]) for size in signal.sizes)
    return first, second


def bent_windows(
    bend: Bend, cov: Array, ntk: Array | None, sizes: tuple[Array, Array], numbers: Array, only_cov: bool = False
) -> tuple[Array, Array | None]:
    r"""Covariances and tangent kernels behind an activation and a convolution of 3 x 3, stride 1, padded with zeros.

    Args:
        bend: the activation.
        cov: covariances in front of both, shape `(s1, s2, s1, s2, pairs)`.
        ntk: tangent kernels; without them they are $c_5 k + c_6$.
        sizes: standard deviations of the first images and of the second, each of shape `(s1, s2, pairs)`.
        numbers: $c_0$ to $c_6$. Covariances behind are $c_0 \sum k' + c_1$, and tangent kernels are
            $\sum (c_2 \Theta' + c_3 k') + c_4$.
        only_cov: whether no tangent kernels are wanted.
    """
    given = [cov, *sizes, numbers, *([] if ntk is None or only_cov else [ntk])]
    found = _bent_windows(bend, not only_cov, *given)
    return (found[0], None) if only_cov else (found[0], found[1])


def bent_cells(
    bend: Bend, cells: tuple[int, int], cov: Array, ntk: Array | None, sizes: tuple[Array, Array]
) -> tuple[Array, Array | None]:
    """Means of covariances and tangent kernels behind an activation, over cells that lie side by side."""
    found = _bent_cells(bend, cells, cov, *sizes, *([] if ntk is None else [ntk]))
    return (found[0], None) if ntk is None else (found[0], found[1])


def _activated(bend: Bend, cov: Array, ntk: Array | None, scale: Array) -> tuple[Array, Array | None]:
    """Behind an activation. Digits of small angles, which `arc` keeps, are lost in covariances anyway."""
    positive = scale > 0
    cosine = jnp.where(positive, cov / jnp.where(positive, scale, 1.0), 1.0)
    gap = 1 - jnp.abs(cosine)
    gap = jnp.where(gap > 4 * float(jnp.finfo(cov.dtype).eps), gap, 0.0)  # what coincides stays so
    sine = jnp.sqrt(gap * (2 - gap)) * (1 / math.pi)
    angle = sine * evaluated(coefficients(cov.dtype), gap)
    on_both = jnp.where(cosine > 0, 1 - angle, angle)
    bent = 2 * bend.even * (sine + cosine * on_both)
    slope = 2 * bend.even * on_both
    if bend.odd != bend.even:
        bent, slope = bent + (bend.odd - bend.even) * cosine, slope + (bend.odd - bend.even)
    return scale * bent, None if ntk is None else ntk * slope


def _plain(bend: Bend, cov: Array, ntk: Array | None, first: Array, second: Array) -> tuple[Array, Array | None]:
    """Behind an activation, by means that the compiler has and can differentiate."""
    scale = first[:, :, None, None] * second
    gap = gap_of(cov, scale)
    bent, on_both = arc(gap)
    odd, even = bend
    bent = (odd * gap + even * (2 * bent - gap)) / (odd + even)
    behind = (odd + even) * scale * (1 - bent)
    return behind, None if ntk is None else ntk * (odd - even + 2 * even * on_both)  # type: ignore[operator]


def _lanes(pairs: int) -> int:
    return next(count for count in LANES if pairs % count == 0)


def _strip(places: int) -> int:
    return next(size for size in range(min(STRIP, places), 0, -1) if places % size == 0)


def _called(kernel: Callable[..., None], shapes: Sequence[Any], grid: tuple[int, ...], lanes: int, given: Any) -> Any:
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=lanes // 32, num_stages=1)
    call = pl.pallas_call(
        kernel, tuple(shapes), grid=grid, compiler_params=parameters, interpret=jax.default_backend() != "gpu"
    )
    return call(*given)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _bent_windows(bend: Bend, tangent: bool, cov: Array, *others: Array) -> tuple[Array, ...]:
    lanes, (s1, s2) = _lanes(cov.shape[-1]), cov.shape[:2]
    strip = _strip(s2)
    kernel = functools.partial(_walk, bend, tangent, len(others) == 4, s1, s2, strip, lanes)
    shapes = [jax.ShapeDtypeStruct(cov.shape, cov.dtype)] * (2 if tangent else 1)
    grid = (cov.shape[-1] // lanes, s1, s2 // strip * s2)
    return _called(kernel, shapes, grid, lanes, (cov, *others))


@_bent_windows.defjvp
def _slope_of_windows(bend: Bend, tangent: bool, given: Any, tangents: Any) -> Any:
    def plain(cov: Array, first: Array, second: Array, numbers: Array, ntk: Array | None = None) -> tuple[Array, ...]:
        before = (numbers[5] * cov + numbers[6] if ntk is None else ntk) if tangent else None
        behind, passed = _plain(bend, cov, before, first, second)
        sums = functools.partial(window_sums, axes=2, full=True, window=WINDOW, steps=(1, 1), padding="SAME")
        found = (numbers[0] * sums(behind) + numbers[1],)
        if passed is None:
            return found
        return (*found, sums(numbers[2] * passed + numbers[3] * behind) + numbers[4])

    return _bent_windows(bend, tangent, *given), jax.jvp(plain, given, tangents)[1]


def _walk(bend: Bend, tangent: bool, has_ntk: bool, s1: int, s2: int, strip: int, lanes: int, *refs: Any) -> None:
    """One strip of diagonals, from the first row of the first images to the last."""
    cov_ref, first_ref, second_ref, numbers_ref, *rest = refs
    ntk_ref, outs = (rest[0], rest[1:]) if has_ntk else (None, rest)
    pairs = pl.ds(pl.program_id(0) * lanes, lanes)
    apart, start, other = pl.program_id(1), pl.program_id(2) // s2 * strip, pl.program_id(2) % s2
    number = [numbers_ref[index] for index in range(7)]
    # Places of the strip, and one more on either side; where there is none, its number counts nothing.
    reach = range(-1, strip + 1)
    across = [jnp.clip(start + step, 0, s2 - 1) for step in reach]
    beside = [(other + step + s2) % s2 for step in reach]
    joined = [_as_number((start > 0) & (other > 0))]
    joined += [_as_number(beside[step + 1] != 0) for step in range(1, strip)]
    joined += [_as_number((start + strip < s2) & (beside[-1] != 0))]

    def row(down: Any, below: Any) -> list[Any]:
        """Sums along the strip in one row of both images."""
        found: list[list[Any]] = [[], []]
        for left, right in zip(across, beside, strict=True):
            cov = cov_ref[down, left, below, right, pairs]
            ntk = None
            if tangent:
                ntk = number[5] * cov + number[6] if ntk_ref is None else ntk_ref[down, left, below, right, pairs]
            scale = first_ref[down, left, pairs] * second_ref[below, right, pairs]
            behind, passed = _activated(bend, cov, ntk, scale)
            found[0].append(behind)
            if passed is not None:
                found[1].append(number[2] * passed + number[3] * behind)
        return [
            part[step] + joined[step - 1] * part[step - 1] + joined[step] * part[step + 1]
            for part in found[: len(outs)]
            for step in range(1, strip + 1)
        ]

    def put(down: Any, below: Any, sums: list[Any]) -> None:
        for index, out in enumerate(outs):
            factor, shift = ((number[0], number[1]), (1.0, number[4]))[index]
            for step in range(strip):
                value = factor * sums[index * strip + step] + shift
                out[down, across[step + 1], below, beside[step + 1], pairs] = value

    def one(down: Any, kept: Any) -> Any:
        unfinished, last = kept
        below = (down + apart) % s1
        sums = row(down, below)
        link = _as_number(below != 0)
        put(down - 1, (down - 1 + apart) % s1, [a + link * b for a, b in zip(unfinished, sums, strict=True)])
        return [b + link * a for a, b in zip(last, sums, strict=True)], sums

    top = row(0, apart)
    unfinished, _ = jax.lax.fori_loop(1, s1, one, (top, top))
    put(s1 - 1, (s1 - 1 + apart) % s1, unfinished)


def _as_number(truth: Any) -> Any:
    return truth.astype(jnp.float32)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _bent_cells(bend: Bend, cells: tuple[int, int], cov: Array, *others: Array) -> tuple[Array, ...]:
    lanes, (s1, s2) = _lanes(cov.shape[-1]), (cov.shape[0] // cells[0], cov.shape[1] // cells[1])
    kernel = functools.partial(_mean, bend, cells, s1, s2, lanes)
    shapes = [jax.ShapeDtypeStruct((s1, s2, s1, s2, cov.shape[-1]), cov.dtype)] * (len(others) - 1)
    return _called(kernel, shapes, (cov.shape[-1] // lanes, s1 * s2, s1), lanes, (cov, *others))


@_bent_cells.defjvp
def _slope_of_cells(bend: Bend, cells: tuple[int, int], given: Any, tangents: Any) -> Any:
    def plain(cov: Array, first: Array, second: Array, ntk: Array | None = None) -> tuple[Array, ...]:
        found = _plain(bend, cov, ntk, first, second)
        return tuple(cell_means(part, cells * 2) for part in found if part is not None)

    return _bent_cells(bend, cells, *given), jax.jvp(plain, given, tangents)[1]


def _mean(bend: Bend, cells: tuple[int, int], s1: int, s2: int, lanes: int, *refs: Any) -> None:
    """Cells of one row of the second images, with one cell of the first."""
    cov_ref, first_ref, second_ref, *rest = refs
    ntk_ref, outs = (rest[0], rest[1:]) if len(rest) == 3 else (None, rest)
    pairs = pl.ds(pl.program_id(0) * lanes, lanes)
    down, across, below = pl.program_id(1) // s2, pl.program_id(1) % s2, pl.program_id(2)
    inside = [(i, j) for i in range(cells[0]) for j in range(cells[1])]
    share = 1 / len(inside) ** 2

    def one(beside: Any, _: Any) -> None:
        sums: list[Any] = [0.0, 0.0]
        for i, j in inside:
            size = first_ref[down * cells[0] + i, across * cells[1] + j, pairs]
            for k, m in inside:
                at = (down * cells[0] + i, across * cells[1] + j, below * cells[0] + k, beside * cells[1] + m, pairs)
                scale = size * second_ref[at[2], at[3], pairs]
                behind, passed = _activated(bend, cov_ref[at], None if ntk_ref is None else ntk_ref[at], scale)
                sums = [sums[0] + behind, None if passed is None else sums[1] + passed]
        for out, total in zip(outs, sums, strict=False):
            out[down, across, below, beside, pairs] = share * total

    jax.lax.fori_loop(0, s2, one, None)
