"""Sinks take the numbers of a watched run besides its record: CSV, TensorBoard, MLflow, W&B, trackio, or your own.

A sink is an object with `write(step, row)` and `close()`. It begins at its first row, so that it finds a run of the
service that the loop has opened by then, and uses this run. The run belongs to the user, and the sink does not end it.
In a shared run, quantities are called `secant/loss` and so on, and overwrite nothing.
"""

from __future__ import annotations

import csv
import importlib
import io
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from secant.core.files import replacing
from secant.monitors.records.services import PREFIX, MLflow, Trackio, WandB

SECONDS = 2.0
"""TensorBoard's file is flushed this often."""

LONGEST = 1 << 16
"""Largest length of a line of a table, in bytes."""


@runtime_checkable
class Sink(Protocol):
    """An object that takes the numbers of a run."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Takes the quantities that were measured at a step."""

    def close(self) -> None:
        """Ends the sink; nothing is written afterwards."""


class Csv:
    """A table with a line for every look, as spreadsheets and `pandas.read_csv` read it.

    A quantity gets its column when it is first measured; cells without a measurement are empty. The file of an earlier
    part of the run is continued.

    Args:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._names: list[str] = []
        self._file: Any = None

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Appends a line, whole or not at all."""
        values = {"step": str(int(step))} | {
            _cell(name): repr(float(value)) for name, value in row.items() if name != "step"
        }
        if self._file is None:
            self._open()
        if new := [name for name in values if name not in self._names]:
            self._widen(new)
        content = _line([values.get(name, "") for name in self._names])
        start = os.fstat(self._file.fileno()).st_size
        if self._file.write(content) != len(content):
            os.ftruncate(self._file.fileno(), start)
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        if self.path.is_symlink():
            raise OSError(f"{self.path} is a link. Give the path of a plain file.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size:
            with self.path.open(newline="", encoding="utf-8") as file:
                self._names = next(csv.reader(file), [])
            if self._names[:1] != ["step"]:
                raise OSError(f"{self.path} is not a table of a watched run and stays as it is. Give another path.")
        self._file = self.path.open("ab", buffering=0)
        self._cut()

    def _cut(self) -> None:
        """Removes a last line that a kill cut, because half a number is a wrong number."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            start = max(size - LONGEST, 0)
            file.seek(start)
            end = start + file.read().rfind(b"\n") + 1
        if end != size:
            os.ftruncate(self._file.fileno(), end)
            self._names = self._names if end else []

    def _widen(self, new: list[str]) -> None:
        self._names += new
        with replacing(self.path) as partial, partial.open("wb") as target:
            target.write(_line(self._names))
            with self.path.open("rb") as source:
                source.readline()  # the old header
                for line in source:
                    target.write(line.rstrip(b"\n") + b"," * len(new) + b"\n")
        self._file.close()
        self._file = self.path.open("ab", buffering=0)


class TensorBoard:
    """Scalars for TensorBoard, written by its own package; neither PyTorch nor TensorFlow is needed.

    Args:
        folder: the folder for `tensorboard --logdir`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._writer: Any = None
        self._flushed = -SECONDS

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Adds a scalar for every quantity."""
        if self._writer is None:
            from tensorboard.summary import Writer

            self._writer = Writer(str(self.folder))
        with np.errstate(over="ignore"):  # TensorBoard keeps single precision; larger numbers become infinite
            for name, value in row.items():
                self._writer.add_scalar(PREFIX + name, float(value), int(step))
        if (now := time.monotonic()) - self._flushed >= SECONDS:
            self._writer.flush()
            self._flushed = now

    def close(self) -> None:
        """Closes the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


MAKERS: dict[str, Callable[[Path, Mapping[str, Any]], Sink]] = {
    "csv": lambda folder, facts: Csv(folder / "metrics.csv"),
    "tensorboard": lambda folder, facts: TensorBoard(folder / "tensorboard"),
    "mlflow": lambda folder, facts: MLflow(folder.name, facts),
    "wandb": lambda folder, facts: WandB(folder.name, facts, folder if folder.is_dir() else None),
    "trackio": lambda folder, facts: Trackio(folder.name, facts),
}
"""Name -> the sink of a record's folder, with the facts about the run."""


class Sinks:
    """All sinks of a run. A sink that fails is dropped after one message; the run and the other sinks go on.

    Args:
        given: names (`csv`, `tensorboard`, `mlflow`, `wandb`, `trackio`), objects with `write` and `close`, or both.
        folder: the folder of the record, where CSV and TensorBoard keep their files; None without a record.
        say: called as `say(step, text)` when a sink is dropped.
        facts: facts about the run.

    Raises:
        ValueError: a name is not known, or needs a record where there is none.
        TypeError: an object has no `write` or `close`.
        ImportError: the package of a sink is not installed.

    Example:
        ```python
        import tempfile
        from pathlib import Path
        from secant.monitors.records.sinks import Sinks

        folder = Path(tempfile.mkdtemp())
        with Sinks(("csv",), folder) as sinks:
            sinks.write(0, {"loss": 2.0})
            sinks.write(10, {"loss": 1.5, "batch_sharpness": 30.0})
        print((folder / "metrics.csv").read_text())
        ```
        ```text
        step,loss,batch_sharpness
        0,2.0,
        10,1.5,30.0
        ```
    """

    def __init__(
        self,
        given: str | Sink | Sequence[str | Sink],
        folder: Path | None,
        say: Callable[[int, str], None] = lambda step, text: None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._say, self._step = say, 0
        self._open = [(_name(one), sink) for one, sink in zip(_several(given), made(given, folder, facts), strict=True)]

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Gives a row to every sink that has not failed."""
        self._step = int(step)
        kept = {name: value for name, value in row.items() if name != "step"}
        self._each(lambda sink: sink.write(self._step, kept))

    def close(self) -> None:
        """Closes all sinks; a second call does nothing."""
        self._each(lambda sink: sink.close())
        self._open = []

    def __enter__(self) -> Sinks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each(self, action: Callable[[Sink], None]) -> None:
        for pair in list(self._open):
            name, sink = pair
            try:
                action(sink)
            except Exception as error:  # somebody else's service must not cost the run
                self._open = [other for other in self._open if other is not pair]
                self._say(self._step, f"the sink {name} is dropped: {type(error).__name__}: {error}"[:500])


def made(
    given: str | Sink | Sequence[str | Sink], folder: Path | None, facts: Mapping[str, Any] | None = None
) -> list[Sink]:
    """The sinks behind names and objects; raises the errors of [`Sinks`][secant.monitors.records.sinks.Sinks]."""
    return [_made(one, folder, dict(facts or {})) for one in _several(given)]


def _several(given: str | Sink | Sequence[str | Sink]) -> Sequence[Any]:
    return given if isinstance(given, tuple | list) else (given,)


def _name(one: Any) -> str:
    return one if isinstance(one, str) else type(one).__name__


def _made(one: Any, folder: Path | None, facts: dict[str, Any]) -> Sink:
    if not isinstance(one, str):
        if not all(callable(getattr(one, method, None)) for method in ("write", "close")):
            raise TypeError(
                "monitor: `sinks` must be names of sinks, or objects with `write(step, row)` and `close()`, got "
                f"{one!r}."
            )
        return one
    if one not in MAKERS:
        raise ValueError(
            f"monitor: `sinks` has an unknown sink {one!r}. Use one of {', '.join(MAKERS)}, or an object of your own."
        )
    if folder is None and one in ("csv", "tensorboard"):
        kind = {"csv": "Csv(path)", "tensorboard": "TensorBoard(folder)"}[one]
        raise ValueError(
            f"monitor: the sink {one!r} writes into the record's folder, but there is no record. Give `record=`, or "
            f"sinks.{kind}."
        )
    if one != "csv":  # imported now, because an import takes seconds and no step should wait
        try:
            importlib.import_module("tensorboard.summary" if one == "tensorboard" else one)
        except ImportError as error:
            raise ImportError(
                f"monitor: the sink {one!r} needs the package {one}, which cannot be imported ({error}). Install it: "
                f"`pip install {one}`."
            ) from error
    return MAKERS[one](folder or Path("secant"), facts)


def _cell(name: str) -> str:
    """A name for a header: on one line, and not a formula for a spreadsheet."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", str(name)).strip()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _line(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()
