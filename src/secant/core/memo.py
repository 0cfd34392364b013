"""A cache for functions that make functions, so that compiled code is found again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


def kept(make: Callable[..., Made]) -> Callable[..., Made]:
    """Remembers the results of `make` for its latest arguments. Arguments without a hash are made anew each time."""
    remembered = functools.lru_cache(maxsize=32)(make)

    @functools.wraps(make)
    def get(*arguments: Any) -> Made:
        try:
            hash(arguments)
        except TypeError:
            return make(*arguments)
        return remembered(*arguments)

    return get
