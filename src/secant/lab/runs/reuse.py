"""Studies that use the run of another study."""

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
    """A block in which `run(study, config)` supplies the runs of other studies. Outside they are computed."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def reuse(study: Study, config: Any) -> xr.Dataset:
    """The data of another study's run, computed if it has not been run yet.

    Several figures of one experiment share a run in this way. Call `reuse` in a study's own function. The study imports
    the other study, so the other study's code counts as its own.

    Args:
        study: the other study.
        config: a configuration of this study. The other study takes the fields that it has too.
    """
    names = (field.name for field in dataclasses.fields(study.config_type))
    return _run.get()(study, study.config_type(**{name: getattr(config, name) for name in names}))
