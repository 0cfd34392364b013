"""Short keys of findings: for a link, a test or a machine, where the whole sentence is too long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_SMALL = {
    "a", "all", "an", "and", "are", "as", "at", "by", "for", "from", "has", "in", "is", "it", "its", "no", "of", "on",
    "or", "over", "so", "than", "that", "the", "to", "with",
}  # fmt: skip
"""Words that tell no two claims apart."""

_FEWEST, _MOST = 3, 16


def keys_of(names: Sequence[str]) -> list[str]:
    """One key a name, all different: the first words that say something, as many as it takes.

    Example:
        ```python
        from secant.lab.verdicts.keys import keys_of

        print(keys_of(["Mean of the loss at 0.5 of the edge", "Mean of the loss at the edge", "Peak"]))
        ```
        ```text
        ['mean-loss-0.5', 'mean-loss-edge', 'peak']
        ```
    """
    words = [[word for word in _split(name) if word not in _SMALL] or ["finding"] for name in names]
    keys: dict[int, str] = {}
    for many in range(_FEWEST, _MOST + 1):
        short = {place: "-".join(words[place][:many]) for place in range(len(names)) if place not in keys}
        counts = Counter(short.values())
        keys |= {place: key for place, key in short.items() if counts[key] == 1 and key not in keys.values()}
    for place in range(len(names)):
        if place not in keys:
            same, number = "-".join(words[place][:_MOST]), 1
            while f"{same}-{number}" in keys.values():
                number += 1
            keys[place] = f"{same}-{number}"
    return [keys[place] for place in range(len(names))]


def _split(name: str) -> list[str]:
    """Words and numbers, in small letters."""
    return [word.strip(".") for word in re.findall(r"[a-z0-9.]*[a-z0-9]", name.lower())]
