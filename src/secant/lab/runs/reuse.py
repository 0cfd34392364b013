"""Studies that stand on another study's run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from secant.lab.registry.study import Study

if TYPE_CHECKING:
    import xarray as xr

    Run = Callable[[Study, Any], xr.Dataset]

_run: ContextVar[Run] = ContextVar("secant_run", default=lambda study, config: study(config))


@contextlib.contextmanager
def using(run: Run) -> Iterator[None]:
    """Inside this block other studies' runs come from `run(study, config)`; outside of one they are computed."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def reuse(study: Study, config: Any) -> xr.Dataset:
    """The data of another study's run, computed if it has not been run yet: several figures of one experiment.

    For use in a study's own function. The other study is imported, so that its code counts as this one's.

    Args:
        study: the other study.
        config: a configuration; what the other study's configuration has of it is used.
    """
    names = (field.name for field in dataclasses.fields(study.config_type))
    return _run.get()(study, study.config_type(**{name: getattr(config, name) for name in names}))
