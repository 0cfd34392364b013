"""Reads the values of `--over NAME=VALUES` by the type of the option."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from secant.cli.options import UsageError, hint
from secant.cli.whole import whole
from secant.core.names import closest
from secant.lab.registry.study import Study
from secant.lab.sweeping.grid import count, refuse_too_many


def read_over(study: Study, given: tuple[str, ...]) -> dict[str, list[Any]]:
    """Option -> values, from texts such as `seed=0:10`, `epsilon=0.01,0.02` or `sizes=64,128;256,512`."""
    known = typing.get_type_hints(study.config_type)
    over: dict[str, list[Any]] = {}
    for argument in given:
        written, equals, values = argument.partition("=")
        name = written.strip().lstrip("-").replace("-", "_")
        if not equals:
            raise UsageError(f"over: expected NAME=VALUES, such as seed=0,1,2, got {argument!r}.")
        if name not in known:
            raise UsageError(
                f"over: {study.id} has no option {name!r}.{closest(name, known)} Options: {', '.join(known) or 'none'}."
            )
        if name in over:
            raise UsageError(f"over: {name} is given twice. Give all its values together, as in --over {argument},...")
        over[name] = _values(name, values, hint(study, name))
    return over


def _values(name: str, text: str, expected: Any) -> list[Any]:
    try:
        parts = list(_parts(text, expected))
    except ValueError:
        raise UsageError(f"over: {name}: cannot read {text!r}. Write {_example(name, expected)}.") from None
    try:
        refuse_too_many({name: sum(map(count, parts))})
    except ValueError as error:
        raise UsageError(str(error)) from None
    return [value for part in parts for value in part]


def _parts(text: str, expected: Any) -> Iterator[Sequence[Any]]:
    """The values in their order; a range stays a range, because it may be longer than any list."""
    if _is_tuple(expected):
        yield [_tuple(part, expected) for part in text.split(";")]
        return
    for part in map(str.strip, text.split(",")):
        yield _range(part) if ":" in part and int in _kinds(expected) else [_one(part, expected)]


def _range(text: str) -> range:
    """The range `first:end` or `first:end:step`, without its end, as in Python."""
    limits = [whole(part) for part in text.split(":")]
    if not 2 <= len(limits) <= 3:
        raise ValueError
    return range(*limits)


def _tuple(text: str, expected: Any) -> tuple[Any, ...]:
    entries = [part.strip() for part in text.split(",")]
    kinds = typing.get_args(expected)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(entries)
    return tuple(_one(entry, kind) for entry, kind in zip(entries, kinds, strict=True))


def _one(text: str, expected: Any) -> Any:
    for kind in _kinds(expected):
        if kind is type(None) and text.lower() == "none":
            return None
        if kind is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if typing.get_origin(kind) is Literal:
            chosen = [value for value in typing.get_args(kind) if str(value) == text]
            if chosen:
                return chosen[0]
        if kind in (int, float, str):
            return whole(text) if kind is int else kind(text)
    raise ValueError


def _kinds(expected: Any) -> tuple[Any, ...]:
    """The types that a value may have; None comes first, because only the text `none` means None."""
    if typing.get_origin(expected) in (typing.Union, types.UnionType):
        return tuple(sorted(typing.get_args(expected), key=lambda kind: kind is not type(None)))
    return (expected,)


def _is_tuple(expected: Any) -> bool:
    return typing.get_origin(expected) is tuple


def _example(name: str, expected: Any) -> str:
    if _is_tuple(expected):
        first = typing.get_args(expected)[0]
        return f"'{name}=64,128;256,512'" if first is int else f"'{name}=0.5,1.5;0.25,0.75'"
    if int in _kinds(expected):
        return f"{name}=0,1,2, or {name}=0:100:10 for every tenth"
    if typing.get_origin(expected) is Literal:
        return f"{name}={','.join(map(str, typing.get_args(expected)))}, or some of them"
    return {float: f"{name}=0.1,0.2", bool: f"{name}=true,false"}.get(expected, f"{name}=first,second")
