"""Studies that stand on another study's run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from secant.lab.store import Store
from secant.lab.study import Study

if TYPE_CHECKING:
    import xarray as xr

_ambient: ContextVar[tuple[Store | None, str]] = ContextVar("secant_store", default=(None, "laptop"))


@contextlib.contextmanager
def using(store: Store, scale: str) -> Iterator[None]:
    """Runs that are reused inside this block are kept in `store`, as of this scale."""
    token = _ambient.set((store, scale))
    try:
        yield
    finally:
        _ambient.reset(token)


def reuse(study: str | Study, config: Any) -> xr.Dataset:
    """The data of another study's run, computed if it has not been run yet: several figures of one experiment.

    For use in a study's own function. Both studies must be in one source, and share what computes the run in a file
    whose name begins with an underscore, so that each is run again when it changes.

    Args:
        study: the other study or its id.
        config: a configuration; what the other study's configuration has of it is used.
    """
    from secant.lab import registry
    from secant.lab.execute import run

    other = registry.get(study) if isinstance(study, str) else study
    names = (field.name for field in dataclasses.fields(other.config_type))
    shared = other.config_type(**{name: getattr(config, name) for name in names})
    store, scale = _ambient.get()
    return run(other, config=shared, store=store, scale=scale, figure=False).data()
