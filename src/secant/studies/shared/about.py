"""Claims about one of several cases, such as the panels of a figure: each has the case in its key and its sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from secant.lab import claim
from secant.lab.verdicts.claims import Claim


def about(key: str, title: str, given: Any = True, otherwise: str = "") -> Callable[..., Claim]:
    """A `claim` whose key begins with the key of the case, and whose sentence begins with its title.

    Args:
        key: short name of the case.
        title: the case in words.
        given: as in [`claim`][secant.lab.claim], for every claim that does not say otherwise.
        otherwise: as in [`claim`][secant.lab.claim].
    """

    def made(own: str, sentence: str, **condition: Any) -> Claim:
        return claim(f"{key}-{own}", f"{title}: {sentence}", **{"given": given, "otherwise": otherwise} | condition)

    return made
