"""Sweeps: one study at every combination of some values of its options."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.core.progress import Progress, Silent, reporting, resolve
from secant.lab.registry import lookup
from secant.lab.registry.study import Config, Study
from secant.lab.runs.store import Record, Store, StoreError, key
from secant.lab.sweeping.engines import Engine, Here, WorkerDiedError
from secant.lab.sweeping.execute import at_scale, run
from secant.lab.sweeping.grid import Grid, grid, text
from secant.lab.sweeping.sweep_file import write
from secant.lab.trouble import in_a_line, trace

if TYPE_CHECKING:
    import xarray as xr


class SweepError(RuntimeError):
    """Some cells of a sweep failed. The others are in the store.

    Attributes:
        failed: the swept options of every failed cell, and its error.
    """

    def __init__(self, study: Study, cells: int, failed: Sequence[tuple[dict[str, Any], str]]) -> None:
        shown = "".join(f"\n  {text(cell)}: {message}" for cell, message in failed[:10])
        more = f"\n  and {len(failed) - 10} more" if len(failed) > 10 else ""
        super().__init__(
            f"{study.id}: {len(failed)} of {cells} cells failed; the others are saved, and the same sweep again "
            f"computes only what is missing.{shown}{more}"
        )
        self.failed = tuple(failed)


@dataclass(frozen=True)
class Sweep:
    """A finished sweep.

    Attributes:
        grid: the study, the values swept over and the cells they make.
        cells: the run of every cell, in the order of the product: the last option changes fastest.
    """

    grid: Grid
    cells: tuple[Record, ...]

    @property
    def study(self) -> Study:
        """The study."""
        return self.grid.study

    @property
    def over(self) -> dict[str, tuple[Any, ...]]:
        """The values of every swept option."""
        return self.grid.over

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of all cells, each with the swept options of its cell."""
        return [
            {**options, **finding}
            for options, record in zip(self.grid.cells, self.cells, strict=True)
            for finding in record.findings
        ]

    def data(self) -> xr.Dataset:
        """The data of all cells, with a dimension for every swept option in front of the study's own.

        The values label the dimension, tuples as text. If the study's data has a NAME already, the dimension is called
        `swept_NAME`. If labels or sizes differ from cell to cell, the data has all of them, with NaN where a cell has
        no value.
        """
        return self.grid.combine(record.data() for record in self.cells)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes the data as netCDF, whole or not at all, and returns the path.

        A file of the same sweep is replaced. Any other file is replaced only with `force`.

        Raises:
            FileExistsError: the path has a file of another sweep or something else. The error says what differs.
            StoreError: the file cannot be written. The old file is untouched.
        """
        return write(Path(path), self.data(), force=force)


def sweep(
    study: str | Study,
    over: Mapping[str, Iterable[Any]],
    *,
    scale: str = "laptop",
    engine: Engine | None = None,
    store: Store | None = None,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Sweep:
    """Runs a study at every combination of some values of its options.

    Each cell is an ordinary run in the store. Finished cells are read back, and an interrupted sweep resumes where it
    was, also inside a cell.

    Args:
        study: a study or its id.
        over: option name -> values to combine.
        scale: `smoke`, `laptop` or `paper`; sets all other options.
        engine: where the cells are computed: [`Here`][secant.lab.Here] by default, [`Processes`][secant.lab.Processes]
            or [`Ray`][secant.lab.Ray].
        store: where runs are kept; by default below `$SECANT_HOME`.
        force: compute again even if there is a run.
        progress: shows how many cells are done.
        **options: other options, the same in every cell.

    Raises:
        SweepError: some cells failed. All others were computed and saved first.

    Example:
        ```python
        import secant as sc

        found = sc.sweep("quadreg/limit-series", {"residual": [0.3, 0.4]}, scale="smoke")
        found.data(), found.findings
        ```
    """
    study = lookup.get(study) if isinstance(study, str) else study
    store, engine = store or Store(), engine or Here()
    cells = grid(study, over, scale, options)
    tasks = [
        _Task(_name(study, engine), config, scale, store.root.absolute(), force, key(study, config))
        for config in cells.configs
    ]
    found = [None if force else store.find(study, config) for config in cells.configs]
    missing = [number for number, record in enumerate(found) if record is None]
    read = len(tasks) - len(missing)
    note = f"{read} read back" if read else ""
    failed: dict[int, str] = {}
    progress = resolve(progress)
    progress.start(study.id, len(tasks))
    try:
        progress.update(read, note)
        with contextlib.closing(engine.each(_compute, [tasks[number] for number in missing])) as results:
            for done, (number, result) in enumerate(results, start=read + 1):
                cell = missing[number]
                if isinstance(result, str):
                    failed[cell] = result
                else:
                    found[cell] = store.adopt(study, cells.configs[cell], result)
                progress.update(done, ", ".join(filter(None, (note, f"{len(failed)} failed" if failed else ""))))
    except WorkerDiedError as error:
        failed |= {missing[number]: "its worker died every time: killed, or out of memory" for number in error.numbers}
    finally:
        progress.close()
    records = tuple(at_scale(record, scale) for record in found if record is not None)
    if failed:
        raise SweepError(study, len(tasks), [(cells.cells[number], failed[number]) for number in sorted(failed)])
    return Sweep(cells, records)


@dataclass(frozen=True)
class _Task:
    study: str | Study
    config: Config
    scale: str
    root: Path
    force: bool
    key: str


def _name(study: Study, engine: Engine) -> str | Study:
    """The study itself, or the id by which a worker in another process finds it."""
    if isinstance(engine, Here):
        return study
    with contextlib.suppress(lookup.UnknownStudyError):
        if lookup.get(study.id) is study:
            return study.id
    raise ValueError(
        f"study: {study.id} is not one of Secant's own (`secant list`), and only those can be found by the workers of "
        f"{type(engine).__name__}. Put its file below secant/studies, or use the engine Here."
    )


def _compute(task: _Task) -> dict[str, bytes] | str:
    """The files of a cell's run, or its error in a line."""
    study = lookup.get(task.study) if isinstance(task.study, str) else task.study
    if key(study, task.config) != task.key:
        raise ValueError(
            f"{study.id}: this worker has another version of Secant or of the study than the process that asks. "
            "Use the same version everywhere."
        )
    try:
        with reporting(Silent()):  # the sweep has a bar of its own
            store = Store(task.root)
            return run(study, config=task.config, scale=task.scale, store=store, force=task.force, figure=False).files()
    except StoreError:
        raise
    except Exception as error:
        trace(error)
        return in_a_line(error)
