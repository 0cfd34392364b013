"""Functions made of functions, made once: so that what was compiled for them is found again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


def kept(make: Callable[..., Made]) -> Callable[..., Made]:
    """Remembers what `make` gave for its last arguments; for those without a hash it is made anew."""
    remembered = functools.lru_cache(maxsize=32)(make)

    @functools.wraps(make)
    def get(*arguments: Any) -> Made:
        try:
            hash(arguments)
        except TypeError:
            return make(*arguments)
        return remembered(*arguments)

    return get
