"""Running studies: compute, judge, draw and save, or read a saved run back."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secant.core.cores import cores
from secant.lab.drawing import figure_files
from secant.lab.registry import lookup
from secant.lab.registry.config import check_scale
from secant.lab.registry.shelf import Entry
from secant.lab.registry.study import Config, Study
from secant.lab.runs.reuse import using
from secant.lab.runs.store import Record, Store, StoreError
from secant.lab.sweeping.engines import Engine, Here, Processes, in_order
from secant.lab.trouble import in_a_line, trace
from secant.lab.verdicts.finding import as_dict

if TYPE_CHECKING:
    import xarray as xr


APART = 10_000
"""Distance of two seeds of `verify`. A study may use the seeds that follow its own, and no two runs share a seed."""


def run(
    study: str | Study,
    *,
    scale: str = "laptop",
    store: Store | None = None,
    force: bool = False,
    figure: bool = True,
    config: Config | None = None,
    waiting: Callable[[], None] | None = None,
    **options: Any,
) -> Record:
    """Runs a study, or reads the run back if this configuration has been run before.

    An interrupted or killed run resumes where it was. Two processes that ask for the same run compute it once.

    Args:
        study: a study or its id.
        scale: `smoke` (seconds), `laptop` (minutes) or `paper` (the source's own sizes).
        store: where runs are kept; by default below `$SECANT_HOME`.
        force: compute again even if there is a run.
        figure: draw the figure as well.
        config: a whole configuration, instead of a scale and options.
        waiting: called if another process is computing the same run.
        **options: fields of the study's configuration to change.

    Example:
        ```python
        import secant as sc

        record = sc.run("quadreg/fig-2", scale="smoke", epsilon=0.01, figure=False)
        record.findings, record.data()
        ```
    """
    study = lookup.get(study) if isinstance(study, str) else study
    store = store or Store()
    config = study.config(scale, **options) if config is None else config
    record = None if force else store.find(study, config)
    if record is None:
        with store.lock(study, config, waiting):
            record = None if force else store.find(study, config)
            record = record or _compute(study, config, scale, store)
    if figure:
        draw(study, record, config, store)
    return at_scale(record, scale)


def verify(
    ids: Iterable[str] = (),
    *,
    source: str | None = None,
    scale: str = "smoke",
    store: Store | None = None,
    force: bool = False,
    seeds: int = 1,
    jobs: int = 1,
    prepare: Callable[[], None] | None = None,
    on_end: Callable[[Entry | Study, list[dict[str, Any]]], None] | None = None,
) -> list[dict[str, Any]]:
    """Every finding of the chosen studies, predicted against measured.

    If a study raises an error, this is one failing finding, and the other studies go on.

    Args:
        ids: the studies; by default all.
        source: only the studies of this source.
        scale: `smoke`, `laptop` or `paper`.
        store: where runs are kept.
        force: compute again even if there is a run.
        seeds: run every study that has a `seed` with this many seeds, its own first.
        jobs: how many studies to run at once, each in a process of its own.
        prepare: called first in every such process.
        on_end: called with each study and its findings, in reading order.

    Example:
        ```python
        import secant as sc

        [row["verdict"] for row in sc.verify(["quadreg/fig-1"])]
        ```
    """
    check_scale(scale)  # once, before any study runs
    chosen = lookup.chosen(ids, source)
    store = store or Store()
    rows: list[dict[str, Any]] = []
    runs = [(entry, turn) for entry in chosen for turn in range(turns_of(entry, scale, seeds))]
    tasks = [(entry.id, scale, store.root, force, turn) for entry, turn in runs]
    if jobs > 1:  # a run that is only read back needs no process of its own
        fresh = (run for run in runs if force or not _was_run(store, *run, scale))
        jobs = len(list(itertools.islice(fresh, jobs)))
    # Each process has its own cores. Threads of several processes on one core would wait for each other in loops.
    share = max(1, cores() // max(jobs, 1))
    engine: Engine = Processes(jobs, prepare, share) if jobs > 1 else Here()
    with contextlib.closing(engine.each(_verify_one, tasks)) as results:
        for (entry, _), found in zip(runs, in_order(results), strict=True):
            if on_end is not None:
                on_end(entry, found)
            rows.extend(found)
    return rows


def seeds_of(study: Study, scale: str, count: int) -> list[int | None]:
    """The seeds to verify a study with: its own and others far from it. A study without randomness has `[None]`."""
    if count < 1:
        raise ValueError(f"seeds: must be at least 1, got {count!r}.")
    config = study.config(scale)
    return [config.seed + k * APART for k in range(count)] if hasattr(config, "seed") else [None]


def turns_of(entry: Entry | Study, scale: str, count: int) -> int:
    """How often `verify` runs a study. For one seed the study need not be imported."""
    return 1 if count == 1 else len(seeds_of(lookup.get(entry.id), scale, count))


def _at_turn(study: Study, scale: str, turn: int) -> tuple[Config, int | None]:
    """The configuration of one of the runs of `verify`, and its seed."""
    seed = seeds_of(study, scale, turn + 1)[-1]
    return study.config(scale, **({} if seed is None else {"seed": seed})), seed


def _was_run(store: Store, entry: Entry | Study, turn: int, scale: str) -> bool:
    study = lookup.get(entry.id)
    return store.has(study, _at_turn(study, scale, turn)[0])


def draw(study: Study, record: Record, config: Config, store: Store) -> None:
    """Draws the figure of a run if the figure is missing or has been changed."""
    if not figure_files.is_drawn(record):
        with store.explained("write the figure"):
            figure_files.save(study, record, config)


def at_scale(record: Record, scale: str) -> Record:
    """The record with this scale, because several scales can have the same configuration."""
    return record if record.scale == scale else Record(record.directory, {**record.facts, "scale": scale})


def _compute(study: Study, config: Config, scale: str, store: Store) -> Record:
    from secant.dynamics import CheckpointWriteError, resumable

    def kept(other: Study, shared: Config) -> xr.Dataset:
        return run(other, config=shared, store=store, scale=scale, figure=False).data()

    work = store.work(study, config)
    began = time.perf_counter()
    try:
        with resumable(work), using(kept):
            data = study(config)
    except CheckpointWriteError as error:
        with store.explained("save the unfinished run"):
            raise error from None
    findings = [as_dict(finding) for finding in study.judge(data, config)]
    record = store.save(study, config, scale, data, findings, time.perf_counter() - began)
    shutil.rmtree(work, ignore_errors=True)
    return record


def _verify_one(task: tuple[str, str, Path, bool, int]) -> list[dict[str, Any]]:
    id, scale, root, force, turn = task
    study, store = lookup.get(id), Store(root)
    head: dict[str, Any] = {"study": study.id, "source": study.source.key, "seed": None}
    began = time.perf_counter()
    try:
        config, head["seed"] = _at_turn(study, scale, turn)
        record = run(study, config=config, scale=scale, store=store, force=force, figure=False)
    except StoreError:
        raise
    except Exception as error:
        trace(error)
        broken = {
            "key": "runs",
            "finding": "the study runs to its end",
            "predicted": 1.0,
            "measured": 0.0,
            "tolerance": 0.0,
            "verdict": "fails",
            "note": in_a_line(error),
        }
        return [{**head, **broken, "scale": scale, "seconds": time.perf_counter() - began}]
    tail = {"scale": scale, "seconds": record.seconds}
    return [{**head, **finding, **tail} for finding in record.findings]
