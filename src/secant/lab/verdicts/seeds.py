"""Whether a verdict hangs on the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from secant.lab.verdicts.estimate import LEVEL


@dataclass(frozen=True)
class Wavering:
    """A finding whose verdict is not the same with every seed.

    Attributes:
        study: id of its study.
        finding: what it claims.
        verdicts: how often each verdict came.
        risk: how often a true claim may fail it, by its own word.
        among: how many findings chance may fail, this one included. Of many true claims a few fail once, so each must
            fail all the more often to be more than chance.
    """

    study: str
    finding: str
    verdicts: Counter[str]
    risk: float
    among: int = 1

    @property
    def beyond(self) -> bool:
        """Whether it fails more often than it says: the chance that any of `among` findings does is under a percent."""
        fails, runs = self.verdicts["fails"], self.verdicts.total()
        if not fails:
            return False
        from scipy import special

        return self.risk == 0 or bool(special.bdtrc(fails - 1, runs, self.risk) < LEVEL / self.among)


def wavering(rows: Iterable[dict[str, Any]]) -> list[Wavering]:
    """The findings whose verdict changes from seed to seed, from the rows of [`verify`][secant.lab.verify].

    Findings of one study are the same if they have the same key; a name may hold a number that was drawn.

    Example:
        ```python
        import secant as sc
        from secant.lab import wavering

        wavering(sc.verify(["quadreg/fig-1"], seeds=2))
        ```
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["study"], row["key"]), []).append(row)
    risks = {which: max(row.get("risk", 0.0) for row in same) for which, same in found.items()}
    among = sum(risk > 0 for risk in risks.values())
    kept = []
    for which, same in found.items():
        verdicts = Counter(row["verdict"] for row in same)
        if len(verdicts) > 1:
            kept.append(Wavering(which[0], same[0]["finding"], verdicts, risks[which], max(among, 1)))
    return kept
