"""Reads the options of commands and of studies from typed dataclasses."""

from __future__ import annotations

import dataclasses
import sys
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from secant.cli.whole import registry
from secant.core.names import closest
from secant.lab.registry.config import SCALES, Scale, allowed, fields_of
from secant.lab.registry.study import Config, Study

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def flag(help: str, metavar: str | None = None) -> Any:
    """The help of an option; it shows the default unless the default is off or none."""
    return tyro.conf.arg(help=help, metavar=metavar, help_behavior_hint=_default)


def _default(value: str) -> str:
    return "" if value in ("", "None", "False") else f"(default: {value})"


Json = Annotated[bool, flag("print JSON for a machine to read")]
RunScale = Annotated[Scale, flag("smoke: seconds; laptop: minutes; paper: the source's own sizes")]
Force = Annotated[bool, flag("compute again even if it has been run")]

TRACEBACK = "Set SECANT_TRACEBACK=1 in the environment to see the traceback of an error."

Flags = TypeVar("Flags", bound="DataclassInstance")


class UsageError(ValueError):
    """A command line that cannot be understood."""


@dataclass(frozen=True)
class RunFlags:
    """The options of `secant run` besides those of the study."""

    scale: RunScale = "laptop"
    force: Force = False
    no_figure: Annotated[bool, flag("do not draw the figure")] = False
    json: Json = False


def parse(kind: Any, arguments: list[str], command: str, description: str = "", default: Any = None) -> Any:
    """The arguments as the dataclass `kind`; exits with 2 and the nearest names if they do not fit."""
    extra = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        args=arguments,
        prog=f"secant {command}",
        description=description,
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=registry,
        **extra,
    )


def parse_run(study: Study, arguments: list[str]) -> tuple[RunFlags, Config]:
    """The flags of a run and the study's configuration."""
    flags, options = parse_options(RunFlags, study, arguments, "run")
    try:
        return flags, study.config(flags.scale, **options)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def parse_options(kind: type[Flags], study: Study, arguments: list[str], command: str) -> tuple[Flags, dict[str, Any]]:
    """The flags of a command, and those options of the study that the arguments give.

    The help shows the defaults of the options, which depend on the scale.
    """
    scale = _scale_of(arguments, kind)
    try:
        defaults = study.config(scale)
    except ValueError as error:
        raise UsageError(str(error)) from None
    fields = [
        (
            field.name,
            Annotated[hint(study, field.name), flag(_help(field))],
            getattr(defaults, field.name),
        )
        for field in fields_of(study.config_type).values()
    ]
    clash = {name for name, *_ in fields} & {field.name for field in dataclasses.fields(kind)}
    if clash:
        raise TypeError(f"{study.id}: the configuration may not have fields called {', '.join(clash)}.")
    flags = [
        (field.name, typing.get_type_hints(kind, include_extras=True)[field.name], field.default)
        for field in dataclasses.fields(kind)
    ]
    combined = dataclasses.make_dataclass("Options", flags + fields, frozen=True)
    parsed = parse(combined, arguments, f"{command} {study.id}", f"{study.title}\n\n{TRACEBACK}")
    given = {argument.partition("=")[0].replace("-", "_").lstrip("_") for argument in arguments if argument[:2] == "--"}
    return (
        kind(**{name: getattr(parsed, name) for name, *_ in flags}),
        {name: getattr(parsed, name) for name, *_ in fields if name in given},
    )


def take_id(arguments: list[str], command: str) -> tuple[str, list[str]]:
    """The study's id, which comes first, and the other arguments."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print(f"usage: secant {command} ID [options]\n\n`secant list` shows the ids. {TRACEBACK}")
            sys.exit(0)
        raise UsageError(
            f"{command}: name a study first, as in `secant {command} quadreg/fig-2`. `secant list` shows all of them."
        )
    return arguments[0], arguments[1:]


def _scale_of(arguments: list[str], kind: Any) -> str:
    """The scale among the arguments, which is needed before the others can be read."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--scale":
            value = value if equals else (arguments[position + 1] if position + 1 < len(arguments) else "")
            if value not in SCALES:
                raise UsageError(
                    f"scale: unknown scale {value!r}.{closest(value, SCALES)} Use one of {', '.join(SCALES)}."
                )
            return value
    return kind.scale


def hint(study: Study, name: str) -> Any:
    """The type of one of the study's options."""
    return typing.get_type_hints(study.config_type)[name]


def _help(field: dataclasses.Field[Any]) -> str:
    limits = allowed(field)
    return ", ".join(part for part in (field.metadata.get("help", ""), limits) if part)
