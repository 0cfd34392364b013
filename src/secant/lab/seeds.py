"""Whether a verdict hangs on the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from secant.lab.estimate import LEVEL


@dataclass(frozen=True)
class Wavering:
    """A finding whose verdict is not the same with every seed.

    Attributes:
        study: id of its study.
        finding: what it claims.
        verdicts: how often each verdict came.
        risk: how often a true claim may fail it, by its own word.
    """

    study: str
    finding: str
    verdicts: Counter[str]
    risk: float

    @property
    def beyond(self) -> bool:
        """Whether it fails more often than it says: so many failures have a chance of less than a percent."""
        fails, runs = self.verdicts["fails"], self.verdicts.total()
        if not fails:
            return False
        from scipy import special

        return self.risk == 0 or bool(special.bdtrc(fails - 1, runs, self.risk) < LEVEL)


def wavering(rows: Iterable[dict[str, Any]]) -> list[Wavering]:
    """The findings whose verdict changes from seed to seed, from the rows of [`verify`][secant.lab.verify].

    Findings of one study are the same if they come in the same place; a name may hold a number that was drawn.

    Example:
        ```python
        import secant as sc
        from secant.lab import wavering

        wavering(sc.verify(["quadreg/fig-1"], seeds=2))
        ```
    """
    runs: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault((row["study"], row.get("seed")), []).append(row)
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for (study, _), findings in runs.items():
        for place, row in enumerate(findings):
            found.setdefault((study, place), []).append(row)
    kept = []
    for (study, _), same in found.items():
        verdicts = Counter(row["verdict"] for row in same)
        if len(verdicts) > 1:
            kept.append(Wavering(study, same[0]["finding"], verdicts, max(row.get("risk", 0.0) for row in same)))
    return kept
