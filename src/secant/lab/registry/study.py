"""The Study: an executable statement of the theory."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from secant.lab.registry import config as configs
from secant.lab.verdicts.finding import Erratum, Finding

if TYPE_CHECKING:
    import xarray as xr

Figure = Any
"""What a function decorated with `@run.figure` draws on: a figure of matplotlib, imported when a study is drawn."""

Findings = Iterator[Finding | Erratum]
"""What a function decorated with `@run.findings` yields."""

Config = Any
"""A frozen dataclass whose fields are made with `option` and `scaled`."""

Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class Source:
    """A document whose theory the studies run.

    Attributes:
        key: its short name, the first part of its studies' ids.
        title: its title.
        authors: who wrote it.
        year: the year, if the document has one.
        chapters: title of each chapter, by the part of the section number before the first dot.
        folders: the folder for the studies of a section. The longest key that begins the section number decides.
    """

    key: str
    title: str
    authors: str
    year: int | None = None
    chapters: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)

    def module(self, id: str, section: str) -> str:
        """The module of a study of this source: `quadreg/fig-2`, section 2.2, is `secant.studies.quadreg.sec2.fig_2`.

        Raises:
            KeyError: the section has no folder.
        """
        key, _, name = id.partition("/")
        fitting = [part for part in self.folders if f"{section}.".startswith(f"{part}.")]
        if not fitting:
            raise KeyError(f"{id}: section {section} has no folder in SOURCE.folders of {self.key!r}.")
        file = re.sub(r"[-.]", "_", name.lower().removeprefix(f"{section}-"))
        return f"secant.studies.{key}.{self.folders[max(fitting, key=len)]}.{file}"


@dataclass
class Study:
    """A statement of the theory: its place in the source, its text, and how to run and judge it.

    The decorator [`study`][secant.lab.study] makes a study. Calling the study runs it.
    """

    id: str
    section: str
    title: str
    statement: str
    precision: Precision
    new: bool
    compute: Callable[[Any], xr.Dataset]
    config_type: type
    _findings: Callable[..., Findings] | None = None
    _figure: Callable[..., None] | None = None

    @property
    def source(self) -> Source:
        """The document that the study belongs to: `SOURCE` of the nearest package around its file."""
        package = self.compute.__module__
        while package := package.rpartition(".")[0]:
            if found := getattr(sys.modules.get(package), "SOURCE", None):
                return found
        key = self.id.split("/")[0]
        return Source(key, title=key, authors="")

    @property
    def chapter(self) -> str:
        """The chapter of its section."""
        return self.section.split(".")[0]

    @property
    def module(self) -> str:
        """The file that defines the study. A study made at a prompt has no such file."""
        return self.compute.__code__.co_filename

    def config(self, scale: str = "laptop", **options: Any) -> Config:
        """The configuration of the study at a scale, with some options changed."""
        try:
            return configs.configure(self.config_type, scale, **options)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.id}: {error}") from None

    def __call__(self, config: Config | None = None) -> xr.Dataset:
        """Runs the study."""
        config = self.config() if config is None else config
        configs.validate_to_run(config)
        with self.arithmetic():
            return self.compute(config)

    def findings(self, function: Callable[..., Findings]) -> Callable[..., Any]:
        """Decorates the function `(data, config)` that yields the findings."""
        self._findings = function
        return function

    def figure(self, function: Callable[..., None]) -> Callable[..., None]:
        """Decorates the function `(data, figure, config)` that draws the figure."""
        self._figure = function
        return function

    def judge(self, data: xr.Dataset, config: Config) -> list[Finding | Erratum]:
        """The findings of the study on some data.

        Raises:
            TypeError: the study yields no finding, or two findings with one key.
        """
        if self._findings is None:
            raise TypeError(f"{self.id}: the study has no findings. Add a function decorated with `@run.findings`.")
        with self.arithmetic():
            findings = list(self._findings(data, config))
        if not findings:
            raise TypeError(
                f"{self.id}: the study found nothing to judge. Yield at least one claim from `@run.findings`."
            )
        return list(self._told_apart(findings))

    def _told_apart(self, findings: list[Finding | Erratum]) -> Iterator[Finding | Erratum]:
        """The findings with keys of their own.

        One claim at two values of an option that read alike, such as 2 and 2.0000001, is told apart by a number.

        Raises:
            TypeError: two claims that say different things have one key.
        """
        names: dict[str, list[str]] = {}
        for finding in findings:
            same = names.setdefault(finding.key, [])
            same.append(finding.name)
            if finding.name != same[0]:
                raise TypeError(
                    f"{self.id}: several findings have the key {finding.key!r}. Give each claim a key of its own."
                )
            yield finding if len(same) == 1 else replace(finding, key=f"{finding.key}-{len(same)}")

    def draw(self, data: xr.Dataset, figure: Figure, config: Config) -> None:
        """Draws the figure of the study."""
        if self._figure is None:
            raise TypeError(f"{self.id}: the study has no figure. Add a function decorated with `@run.figure`.")
        with self.arithmetic():
            self._figure(data, figure, config)

    @contextlib.contextmanager
    def arithmetic(self) -> Iterator[None]:
        """A block in which JAX computes in the study's precision, on every device.

        Without this block a GPU multiplies float32 matrices with ten bits of mantissa.
        """
        import jax

        with jax.enable_x64(self.precision == "float64"), jax.default_matmul_precision("float32"):
            yield


def study(
    id: str,
    *,
    section: str,
    title: str,
    precision: Precision = "float64",
    new: bool = False,
) -> Callable[[Callable[[Any], xr.Dataset]], Study]:
    """Makes a study of a function from a typed configuration to data.

    The docstring of the function is the statement of the theory: plain text with LaTeX between dollars.

    Args:
        id: source and name, such as `quadreg/fig-2`.
        section: the section of the source that has the statement.
        title: a short headline.
        precision: the arithmetic that the study needs.
        new: whether the result is Secant's own and not in the source.
    """

    def decorate(function: Callable[[Any], xr.Dataset]) -> Study:
        source, _, name = id.partition("/")
        if not source or not name:
            raise ValueError(f"study: an id reads like 'quadreg/fig-2', got {id!r}.")
        if not function.__doc__:
            raise TypeError(f"{id}: the study's function has no docstring. Say there what the theory claims.")
        hints = typing.get_type_hints(function)
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) != 1 or parameters[0] not in hints:
            raise TypeError(f"{id}: the study's function takes one argument, annotated with its configuration class.")
        return Study(
            id=id,
            section=section,
            title=title,
            statement=inspect.cleandoc(function.__doc__),
            precision=precision,
            new=new,
            compute=function,
            config_type=hints[parameters[0]],
        )

    return decorate
