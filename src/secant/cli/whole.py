"""Reads whole numbers as people write them: 1000, 1_000, 1e3, 2.0e3."""

from __future__ import annotations

import decimal
import typing

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

LONGEST = 30
"""Largest number of digits, because 1e999999999 would fill the memory."""


def whole(text: str) -> int:
    """The whole number that a text writes; a `ValueError` names a text that writes none."""
    try:
        number = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        number = decimal.Decimal("nan")
    if not number.is_finite() or number.adjusted() >= LONGEST or number != number.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of at most {LONGEST} digits, such as 1000, 1_000 or 1e3")
    return int(number)


registry = ConstructorRegistry()
"""Rules for whole numbers that replace those of tyro, also inside tuples and where None is allowed."""


@registry.primitive_rule
def _one(asked: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if asked.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda given: whole(given[0]),
        is_instance=_is_whole,
        str_from_instance=lambda value: [str(value)],
    )


@registry.primitive_rule
def _several(asked: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[tuple[int, ...]] | None:
    """A tuple of whole numbers, read here because tyro's error would not name the wrong number."""
    kinds = typing.get_args(asked.type)
    if asked.type_origin is not tuple or set(kinds) - {Ellipsis} != {int}:
        return None
    count = None if kinds[-1] is Ellipsis else len(kinds)
    return PrimitiveConstructorSpec(
        nargs="*" if count is None else count,
        metavar="[INT [INT ...]]" if count is None else " ".join(["INT"] * count),
        instance_from_str=lambda given: tuple(map(whole, given)),
        is_instance=lambda value: isinstance(value, tuple) and all(map(_is_whole, value)),
        str_from_instance=lambda value: list(map(str, value)),
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
