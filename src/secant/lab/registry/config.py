"""Typed configurations of studies, with three scales."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from contextvars import ContextVar
from typing import Any, Literal

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = typing.get_args(Scale)

_LIMITS = {
    "above": (lambda value, limit: value > limit, "above {}"),
    "at_least": (lambda value, limit: value >= limit, "at least {}"),
    "below": (lambda value, limit: value < limit, "below {}"),
    "at_most": (lambda value, limit: value <= limit, "at most {}"),
}


def option(
    default: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    shortest: int = 1,
    longest: int | None = None,
    distinct: bool = False,
    ascending: bool = False,
    help: str = "",
) -> Any:
    """A field of a study's configuration: its default, its limits and a line of help.

    The limits of a tuple apply to each of its entries.

    Fields that depend on each other are checked by a method `check(self)` of the configuration, which raises a
    `ValueError` that names the field, what was given and what works. `check` is called after all limits.

    Args:
        default: the value if none is given.
        above: values are larger than this.
        at_least: values are this or larger.
        below: values are smaller than this.
        at_most: values are this or smaller.
        shortest: entries that a tuple has at least.
        longest: entries that a tuple has at most.
        distinct: no two entries of a tuple are the same.
        ascending: every entry of a tuple is larger than the one before.
        help: what the field means.

    Example:
        ```python
        from secant.lab import Options, option

        class Config(Options):
            epsilon: float = option(0.005, above=0, at_most=1, help="minus the second eigenvalue")
        ```
    """
    limits = {"above": above, "at_least": at_least, "below": below, "at_most": at_most}
    lengths = {"shortest": shortest, "longest": longest, "distinct": distinct, "ascending": ascending}
    metadata = {
        "limits": {k: v for k, v in limits.items() if v is not None},
        "tuple": lengths,
        "help": help,
        "scales": {},
    }
    return dataclasses.field(default=default, metadata=metadata)


def scaled(*, smoke: Any, laptop: Any, paper: Any = ..., **limits: Any) -> Any:
    """A field whose default depends on the scale: seconds, minutes on two cores, or the source's own size.

    If `paper` is left out, that scale has the default of `laptop`.
    """
    field = option(laptop, **limits)
    field.metadata["scales"].update(smoke=smoke, laptop=laptop, paper=laptop if paper is ... else paper)
    return field


def fields_of(kind: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a configuration by name, the seed last."""
    fields = sorted(dataclasses.fields(kind), key=lambda field: field.name == "seed")
    return {field.name: field for field in fields}


def check_scale(scale: str) -> None:
    """Refuses an unknown scale."""
    if scale not in SCALES:
        raise ValueError(f"scale: unknown scale {scale!r}. Use one of {', '.join(SCALES)}.")


def configure(kind: type, scale: str = "laptop", **values: Any) -> Any:
    """The configuration of the given scale, with `values` in place of its defaults, checked.

    Raises:
        ValueError: an unknown scale, or a value outside its limits. The error names the field, what was given and what
            is allowed.
        TypeError: an unknown field or a value of the wrong type.
    """
    from secant.core.names import closest

    check_scale(scale)
    fields = fields_of(kind)
    for name in values:
        if name not in fields:
            hint = closest(name, fields)
            raise TypeError(f"unknown option {name!r}.{hint} Options: {', '.join(fields) or 'none'}.")
    chosen = {
        name: field.metadata["scales"][scale]
        for name, field in fields.items()
        if scale in field.metadata.get("scales", {})
    }
    types = typing.get_type_hints(kind)
    config = kind(**(chosen | {name: _converted(value, types[name]) for name, value in values.items()}))
    validate(config)
    return config


_running: ContextVar[bool] = ContextVar("secant_running", default=False)


def validate_to_run(config: Any) -> None:
    """Checks a configuration, and whether this machine has enough memory for it."""
    token = _running.set(True)
    try:
        validate(config)
    finally:
        _running.reset(token)


def validate(config: Any) -> None:
    """Checks every field against its type and its limits, and then the fields against each other."""
    types = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, expected = getattr(config, field.name), types[field.name]
        if not _fits(value, expected):
            raise TypeError(f"{field.name}: expected {_type_name(expected)}, got {value!r}.")
        limits = field.metadata.get("limits", {})
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, float) and not math.isfinite(entry):
                raise ValueError(f"{field.name}: must be a finite number, got {entry!r}.")
            # None means no value, so no limit applies to it.
            if entry is not None and not all(_LIMITS[name][0](entry, limit) for name, limit in limits.items()):
                raise ValueError(f"{field.name}: must be {allowed(field)}, got {entry!r}.")
        if isinstance(value, tuple):
            _check_tuple(field, value)
    if hasattr(config, "check"):
        config.check()


def _check_tuple(field: dataclasses.Field[Any], value: tuple[Any, ...]) -> None:
    rules = field.metadata.get("tuple", {})
    shortest, longest = rules.get("shortest", 1), rules.get("longest")
    if len(value) < shortest:
        values = f"at least {shortest} value{'s' * (shortest > 1)}"
        raise ValueError(f"{field.name}: needs {values}, got {' '.join(map(str, value)) or 'none'}.")
    if longest is not None and len(value) > longest:
        raise ValueError(f"{field.name}: takes at most {longest} value{'s' * (longest > 1)}, got {len(value)}.")
    if rules.get("distinct") and len(set(value)) < len(value):
        twice = next(entry for entry in value if value.count(entry) > 1)
        raise ValueError(f"{field.name}: every value once, got {twice!r} twice.")
    if rules.get("ascending") and any(b <= a for a, b in itertools.pairwise(value)):
        raise ValueError(f"{field.name}: every value must be larger than the one before, got {value!r}.")


def fits_memory(needed: float, what: str) -> None:
    """Refuses to run a configuration that needs more bytes than the machine has free.

    Call this function in the method `check` of a configuration that may not fit. The configuration itself stays valid,
    because a larger machine may run it. Only a run on this machine is refused.

    Args:
        needed: bytes.
        what: the fields to make smaller, such as "width or samples".

    Raises:
        ValueError: the error says how much memory is needed, how much is free, and which fields to make smaller.
    """
    from secant.core.device import available_bytes

    free = available_bytes() if _running.get() and needed > 2**30 else None
    if free is not None and needed > free:
        raise ValueError(
            f"{what}: this would need {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} are free. "
            f"Make {what} smaller."
        )


def allowed(field: dataclasses.Field[Any]) -> str:
    """The limits of a field in words, such as "above 0 and at most 1"."""
    return " and ".join(_LIMITS[name][1].format(limit) for name, limit in field.metadata.get("limits", {}).items())


def content(config: Any) -> dict[str, Any]:
    """The configuration as plain values, for JSON and for keys."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(config).items()}


def _converted(value: Any, expected: Any) -> Any:
    """A whole number as a float where a float is expected, so that 1 and 1.0 are the same run."""
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, tuple) and set(typing.get_args(expected)) - {Ellipsis} == {float}:
        return tuple(_converted(entry, float) for entry in value)
    return value


def _fits(value: Any, expected: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if arguments[-1] is Ellipsis:
            return all(_fits(entry, arguments[0]) for entry in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if origin is Literal:
        return value in arguments
    if origin is not None and type(None) in arguments:
        return value is None or any(_fits(value, a) for a in arguments if a is not type(None))
    if expected is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)


def _type_name(expected: Any) -> str:
    return expected.__name__ if isinstance(expected, type) and not typing.get_args(expected) else str(expected)
