"""Whether a verdict depends on the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from secant.lab.verdicts.estimate import LEVEL


@dataclass(frozen=True)
class Wavering:
    """A finding whose verdict changes with the seed.

    Attributes:
        study: id of the study.
        finding: the claim.
        verdicts: how often each verdict came.
        risk: how often a true claim may fail, as the finding states.
        among: how many findings may fail by chance, this one included. Among many true claims a few fail once, so a
            single finding must fail more often to be beyond chance.
    """

    study: str
    finding: str
    verdicts: Counter[str]
    risk: float
    among: int = 1

    @property
    def beyond(self) -> bool:
        """Whether the finding fails more often than `risk` explains.

        Chance alone would do this to any of `among` findings in less than one percent of all checks.
        """
        fails, runs = self.verdicts["fails"], self.verdicts.total()
        if not fails:
            return False
        from scipy import special

        return self.risk == 0 or bool(special.bdtrc(fails - 1, runs, self.risk) < LEVEL / self.among)


def wavering(rows: Iterable[dict[str, Any]]) -> list[Wavering]:
    """The findings whose verdict changes from seed to seed, from the rows of [`verify`][secant.lab.verify].

    Two findings of a study are the same if they have the same key. Their sentences may contain random numbers.

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
