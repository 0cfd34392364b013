"""What layers refuse: sizes below 1, unknown choices, windows that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from secant.nets.network import Shape

PADDINGS = ("SAME", "VALID", "CIRCULAR")
"""What lies beyond the edge of an image: zeros, nothing, or the other side."""


def at_least_one(name: str, **options: int) -> None:
    """Refuses sizes that are not whole numbers of at least 1."""
    for option, value in options.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: `{option}` must be a whole number of at least 1, got {value!r}.")


def one_of(name: str, option: str, value: object, known: Sequence[str]) -> None:
    """Refuses a choice that the layer does not know."""
    if value not in known:
        *most, last = map(repr, known)
        raise ValueError(f"{name}: `{option}` must be {', '.join(most)} or {last}, got {value!r}.")


def lengths(name: str, window: int | tuple[int, ...]) -> tuple[int, ...]:
    """The lengths of a window; one number stands for a square."""
    window = (window, window) if isinstance(window, int) else tuple(window)
    if len(window) not in (1, 2):
        raise ValueError(f"{name}: `window` must have one or two lengths, got {window}.")
    for size in window:
        at_least_one(name, window=size)
    return window


def fits(name: str, shape: Shape, window: Shape) -> None:
    """Refuses samples that have other axes than the window."""
    if len(shape) != len(window) + 1:
        wanted = "(length, channels)" if len(window) == 1 else "(height, width, channels)"
        raise ValueError(f"{name}: with window {window} one sample must have shape {wanted}, got {shape}.")


def places(name: str, shape: Shape, window: Shape, steps: Shape, padding: str) -> Shape:
    """At how many positions a window is put along every axis."""
    lost = tuple(size - 1 if padding == "VALID" else 0 for size in window)
    found = tuple(-(-(size - less) // step) for size, less, step in zip(shape, lost, steps, strict=False))
    if min(found) < 1:
        raise ValueError(f"{name}: window {window} does not fit into samples of shape {shape}. Use padding='SAME'.")
    return found
