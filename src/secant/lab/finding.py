"""Findings: what the theory predicts, what was measured, and whether the two agree."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, Literal

Relation = Literal["equal", "at most", "at least"]


class Verdict(enum.StrEnum):
    """What the numbers say."""

    HOLDS = "holds"
    FAILS = "fails"
    ERRATUM = "erratum"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Tolerance:
    r"""How far a measurement may lie from its prediction, and why so far.

    The allowed distance is `absolute` $+$ `relative` $\cdot\,|\text{predicted}|$. It comes from the theory (the next
    term, a rate) or from the sampling error, and is written down before the run.
    """

    absolute: float = 0.0
    relative: float = 0.0
    why: str = ""

    def __post_init__(self) -> None:
        for name in ("absolute", "relative"):
            value = float(getattr(self, name))
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"Tolerance: `{name}` must be a finite number of at least 0, got {value!r}.")
            object.__setattr__(self, name, value)
        if not self.why.strip():
            raise ValueError("Tolerance: `why` must say where the tolerance comes from.")

    def around(self, predicted: float) -> float:
        """The allowed distance from `predicted`."""
        return self.absolute + self.relative * abs(predicted)


@dataclass(frozen=True)
class Finding:
    r"""One claim of the theory, judged by its own numbers.

    Attributes:
        name: the claim in a few words.
        predicted: what the theory says.
        measured: what the run shows.
        tolerance: how close is close enough.
        relation: whether `measured` should be equal to `predicted`, at most, or at least that.
        uncertainty: standard error of `measured`. A miss by less than three of them decides nothing.
        note: anything a reader should know.
    """

    name: str
    predicted: float
    measured: float
    tolerance: Tolerance
    relation: Relation = "equal"
    uncertainty: float = 0.0
    note: str = ""

    def __post_init__(self) -> None:
        _make_numbers(self, "predicted", "measured", "uncertainty")
        if self.relation not in ("equal", "at most", "at least"):
            raise ValueError(f"Finding: `relation` must be 'equal', 'at most' or 'at least', got {self.relation!r}.")

    @property
    def verdict(self) -> Verdict:
        """Holds within the tolerance, fails clearly outside it, is inconclusive between."""
        excess = _excess(self.predicted, self.measured, self.tolerance, self.relation)
        if excess <= 0:
            return Verdict.HOLDS
        return Verdict.INCONCLUSIVE if excess <= 3 * self.uncertainty else Verdict.FAILS


@dataclass(frozen=True)
class Erratum:
    r"""A printed formula that is wrong: what is printed, what is right, and the number that decides.

    Attributes:
        name: what the formula is about.
        printed: the formula as printed, in LaTeX.
        corrected: the right formula, in LaTeX.
        printed_value: the number that the printed formula gives.
        corrected_value: the number that the corrected formula gives.
        measured: what the run shows.
        tolerance: how close is close enough.
        why: where the misprint comes from, in a sentence.
        where: equation, page or section of the source.
    """

    name: str
    printed: str
    corrected: str
    printed_value: float
    corrected_value: float
    measured: float
    tolerance: Tolerance
    why: str
    where: str = ""
    uncertainty: float = 0.0
    relation: Relation = "equal"

    def __post_init__(self) -> None:
        _make_numbers(self, "printed_value", "corrected_value", "measured", "uncertainty")

    @property
    def predicted(self) -> float:
        """The corrected value: what should be measured."""
        return self.corrected_value

    @property
    def note(self) -> str:
        """Why the print is wrong."""
        return self.why

    @property
    def verdict(self) -> Verdict:
        """Erratum when the numbers refute the print and support the correction."""
        slack = 3 * self.uncertainty
        corrected = _excess(self.corrected_value, self.measured, self.tolerance, self.relation)
        printed = _excess(self.printed_value, self.measured, self.tolerance, self.relation)
        if corrected > slack:
            return Verdict.FAILS
        if corrected > 0 or printed <= slack:
            return Verdict.INCONCLUSIVE
        return Verdict.ERRATUM


def as_dict(finding: Finding | Erratum) -> dict[str, Any]:
    """A finding as plain values, for JSON."""
    row: dict[str, Any] = {
        "finding": finding.name,
        "predicted": plain_number(finding.predicted),
        "measured": plain_number(finding.measured),
        "tolerance": plain_number(finding.tolerance.around(finding.predicted)),
        "verdict": finding.verdict.value,
        "relation": finding.relation,
        "uncertainty": plain_number(finding.uncertainty),
        "why": finding.tolerance.why,
        "note": finding.note,
    }
    if isinstance(finding, Erratum):
        row |= {
            "printed": finding.printed,
            "corrected": finding.corrected,
            "printed_value": plain_number(finding.printed_value),
            "where": finding.where,
        }
    return row


def plain_number(value: float) -> float | str:
    """A number that JSON can hold: infinities and NaN become text."""
    return value if math.isfinite(value) else str(value)


def _excess(predicted: float, measured: float, tolerance: Tolerance, relation: Relation) -> float:
    """By how much `measured` oversteps what is allowed; infinite for a measurement that is no number."""
    if math.isnan(measured) or math.isnan(predicted):
        return math.inf
    if measured == predicted:
        return 0.0
    gap = measured - predicted
    distance = {"equal": abs(gap), "at most": gap, "at least": -gap}[relation]
    return distance - tolerance.around(predicted)


def _make_numbers(target: Any, *names: str) -> None:
    for name in names:
        value = getattr(target, name)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(target).__name__} {target.name!r}: `{name}` must be one number, got {value!r}."
            ) from None
        object.__setattr__(target, name, number)
