"""Unknown names: the nearest known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """A sentence such as " Did you mean 'quadreg/fig-2'?", or nothing."""
    known = list(known)
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    matches += [k for k in known if name and name in k and k not in matches][: 3 - len(matches)]
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""
