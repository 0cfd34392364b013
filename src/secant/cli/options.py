"""Options of commands and of studies, from typed dataclasses."""

from __future__ import annotations

import dataclasses
import sys
import typing
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from secant.lab.config import SCALES, Scale, allowed
from secant.lab.names import closest
from secant.lab.study import Config, Study

Json = Annotated[bool, tyro.conf.arg(help="print JSON for a machine to read")]
Force = Annotated[bool, tyro.conf.arg(help="compute again even if it has been run")]


class UsageError(ValueError):
    """A command line that cannot be understood."""


@dataclass(frozen=True)
class RunFlags:
    """What `secant run` takes besides the options of the study."""

    scale: Annotated[Scale, tyro.conf.arg(help="smoke: seconds; laptop: minutes; paper: the source's own sizes")] = (
        "laptop"
    )
    force: Force = False
    no_figure: Annotated[bool, tyro.conf.arg(help="do not draw the figure")] = False
    json: Json = False


def parse(kind: Any, arguments: list[str], command: str, description: str = "", default: Any = None) -> Any:
    """Reads `arguments` into the dataclass `kind`; exits with 2 and the nearest names when it cannot."""
    extra = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        args=arguments,
        prog=f"secant {command}",
        description=description,
        config=(tyro.conf.FlagCreatePairsOff,),
        **extra,
    )


def parse_run(study: Study, arguments: list[str]) -> tuple[RunFlags, Config]:
    """Reads the flags of a run and the study's own options, whose defaults depend on the scale."""
    scale = _scale_of(arguments)
    try:
        defaults = study.config(scale)
    except ValueError as error:
        raise UsageError(str(error)) from None
    fields = [
        (
            field.name,
            Annotated[_hint(study, field.name), tyro.conf.arg(help=_help(field))],
            getattr(defaults, field.name),
        )
        for field in dataclasses.fields(study.config_type)
    ]
    clash = {name for name, *_ in fields} & {field.name for field in dataclasses.fields(RunFlags)}
    if clash:
        raise TypeError(f"{study.id}: the configuration may not have fields called {', '.join(clash)}.")
    flags = [
        (field.name, typing.get_type_hints(RunFlags, include_extras=True)[field.name], field.default)
        for field in dataclasses.fields(RunFlags)
    ]
    kind = dataclasses.make_dataclass("Options", flags + fields, frozen=True)
    parsed = parse(kind, arguments, f"run {study.id}", study.title)
    values = {name: getattr(parsed, name) for name, *_ in fields}
    try:
        return RunFlags(**{name: getattr(parsed, name) for name, *_ in flags}), study.config(parsed.scale, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def take_id(arguments: list[str], command: str) -> tuple[str, list[str]]:
    """The study's id, which comes first, and the rest."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print(f"usage: secant {command} ID [options]\n\n`secant list` shows the ids.")
            sys.exit(0)
        raise UsageError(
            f"{command}: name a study first, as in `secant {command} quadreg/fig-2`. `secant list` shows all."
        )
    return arguments[0], arguments[1:]


def _scale_of(arguments: list[str]) -> str:
    """The scale asked for, needed before the rest can be read."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--scale":
            value = value if equals else (arguments[position + 1] if position + 1 < len(arguments) else "")
            if value not in SCALES:
                raise UsageError(
                    f"scale: unknown scale {value!r}.{closest(value, SCALES)} Use one of {', '.join(SCALES)}."
                )
            return value
    return RunFlags.scale


def _hint(study: Study, name: str) -> Any:
    return typing.get_type_hints(study.config_type)[name]


def _help(field: dataclasses.Field[Any]) -> str:
    limits = allowed(field)
    return ", ".join(part for part in (field.metadata.get("help", ""), limits) if part)
