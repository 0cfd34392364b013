"""Findings: what the theory predicts, what was measured, and whether the two agree."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, Literal

from secant.lab.verdicts.estimate import RISK, Estimate, evidence, miss

Relation = Literal["equal", "at most", "at least"]


class Verdict(enum.StrEnum):
    """What the numbers decide about a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    ERRATUM = "erratum"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Tolerance:
    r"""How far a measurement may lie from its prediction, and why so far.

    The allowed distance is `absolute` $+$ `relative` $\cdot\,|\text{predicted}|$. The distance comes from the theory
    (the next term, a rate) or from the sampling error, and is written down before the run.
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


def quantity(value: Any, what: str) -> Estimate:
    """A measurement with its sampling error, which is zero for a plain number.

    Raises:
        TypeError: `value` is neither one number nor an [`Estimate`][secant.lab.Estimate]. The error names `what`.
    """
    value, error, freedom = value if isinstance(value, Estimate) else (value, 0.0, math.inf)
    return Estimate(number(value, what), number(error, f"error of {what}"), number(freedom, f"freedom of {what}"))


def number(value: Any, what: str) -> float:
    """One number as a float, from any type that holds one.

    Raises:
        TypeError: `value` has no number, or more than one. The error names `what`.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be one number, got {value!r}.") from None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What findings and errata have in common: a measurement beside a prediction, and its verdict.

    [`claim`][secant.lab.claim] makes findings and errata, after it has converted and checked the numbers of the study.

    Attributes:
        key: short name, unique in its study, for links, tests and comparisons. No rewording changes the key.
        name: the claim in a few words.
        measured: what the run shows, with its sampling error.
        tolerance: how close is close enough, beyond the sampling error.
        relation: whether `measured` should equal the prediction, or be at most or at least the prediction.
        note: anything a reader should know; for a claim that fails, the reason.
    """

    key: str
    name: str
    measured: Estimate
    tolerance: Tolerance
    relation: Relation = "equal"
    note: str = ""

    @property
    def predicted(self) -> float:
        """What should be measured."""
        raise NotImplementedError

    @property
    def risk(self) -> float:
        """How often a true claim may fail: never, unless the measurement has a sampling error."""
        return RISK if self.measured.error else 0.0

    @property
    def verdict(self) -> Verdict:
        """What the numbers say."""
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why the verdict is inconclusive, if it is."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[Verdict, str]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Finding(Judged):
    r"""One claim of the theory, judged by its own numbers.

    The verdict follows from a measurement $x$ with standard error $s$, a prediction $p$ and a tolerance $\tau$. Chance
    misses by $k$ standard errors, in either direction, once in a thousand times. It clears a bound by $e$ once in a
    hundred times. Both come from Student's distribution with the degrees of freedom of $s$.

    - equal: the claim fails if $|x - p| > \tau + ks$. Otherwise it holds, provided that $\tau + ks < |p|/2$. A wider
      margin would also accept half of the prediction, so it decides nothing.
    - at most: the claim holds if $x - p \le \tau - es$, and fails if $x - p > \tau + ks$. Between the two nothing is
      decided. At least: the same with signs reversed.

    A measurement that is not a number decides nothing either.

    Attributes:
        expected: what the theory predicts.
        qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
    """

    expected: float
    qualitative: bool = False

    @property
    def predicted(self) -> float:
        """What the theory says."""
        return self.expected

    @property
    def _judged(self) -> tuple[Verdict, str]:
        if math.isnan(self.expected) or math.isnan(self.measured.value) or math.isnan(self.measured.error):
            return Verdict.INCONCLUSIVE, "there is no number to judge"
        side = _side(self.expected, self)
        if side == Verdict.HOLDS and not self.qualitative and not _informs(self):
            return Verdict.INCONCLUSIVE, "the tolerance would accept half of what is predicted"
        return side, "within the sampling error of its bound" if side == Verdict.INCONCLUSIVE else ""


@dataclass(frozen=True, kw_only=True)
class Erratum(Judged):
    r"""A printed formula that is wrong: what is printed, what is right, and the number that decides.

    The verdict is `erratum` only if the numbers refute the print and confirm the correction. The margin must exclude
    the print, and half and twice the correction. For an inequality the printed bound is violated and the corrected
    bound holds. The note says where the misprint comes from.

    Attributes:
        printed: the formula as printed, in LaTeX.
        corrected: the right formula, in LaTeX.
        printed_value: the number of the printed formula, under the source's own definitions.
        corrected_value: the number of the corrected formula.
        where: equation, page or section of the source.
        by: what decides: a run, or a derivation alone. Then `measured` is computed, not observed.
    """

    printed: str
    corrected: str
    printed_value: float
    corrected_value: float
    where: str = ""
    by: Literal["run", "derivation"] = "run"

    @property
    def predicted(self) -> float:
        """The corrected value: what should be measured."""
        return self.corrected_value

    @property
    def _judged(self) -> tuple[Verdict, str]:
        numbers = (self.measured.value, self.measured.error, self.printed_value, self.corrected_value)
        if any(map(math.isnan, numbers)):
            return Verdict.INCONCLUSIVE, "there is no number to judge"
        side = _side(self.corrected_value, self)
        if side != Verdict.HOLDS:
            return side, "within the sampling error of its bound" if side == Verdict.INCONCLUSIVE else ""
        if not _informs(self):
            return Verdict.INCONCLUSIVE, "the tolerance would accept half of the correction"
        if self.relation == "equal":
            gaps = (abs(self.printed_value - x) for x in (self.measured.value, self.corrected_value))
            refuted = min(gaps) > _allowed(self)
        else:
            refuted = _side(self.printed_value, self) == Verdict.FAILS
        return (Verdict.ERRATUM, "") if refuted else (Verdict.INCONCLUSIVE, "the print is not refuted")


def as_dict(finding: Finding | Erratum) -> dict[str, Any]:
    """A finding as plain values, for JSON."""
    row: dict[str, Any] = {
        "key": finding.key,
        "finding": finding.name,
        "predicted": plain_number(finding.predicted),
        "measured": plain_number(finding.measured.value),
        "tolerance": plain_number(finding.tolerance.around(finding.predicted)),
        "verdict": finding.verdict.value,
        "relation": finding.relation,
        "uncertainty": plain_number(finding.measured.error),
        "freedom": plain_number(finding.measured.freedom),
        "risk": finding.risk,
        "reason": finding.reason,
        "why": finding.tolerance.why,
        "note": finding.note,
    }
    if isinstance(finding, Erratum):
        row |= {
            "printed": finding.printed,
            "corrected": finding.corrected,
            "printed_value": plain_number(finding.printed_value),
            "where": finding.where,
            "by": finding.by,
        }
    elif finding.qualitative:
        row["qualitative"] = True
    return row


def plain_number(value: float) -> float | str:
    """A number that JSON can hold: infinities and NaN become text."""
    return value if math.isfinite(value) else str(value)


def _allowed(claim: Judged) -> float:
    """How far a measurement may lie from the prediction before the claim fails."""
    return claim.tolerance.around(claim.predicted) + miss(claim.measured.freedom) * claim.measured.error


def _informs(claim: Judged) -> bool:
    """Whether the margin of an equality tells the prediction from half of the prediction."""
    if claim.relation != "equal" or claim.predicted == 0 or math.isinf(claim.predicted):
        return True
    return _allowed(claim) < abs(claim.predicted) / 2


def _side(predicted: float, claim: Judged) -> Verdict:
    """Whether the measurement is inside or outside of the allowed range, if the numbers decide."""
    value, error, freedom = claim.measured
    if value == predicted and not error:
        return Verdict.HOLDS
    gap = value - predicted
    if claim.relation == "equal":
        return Verdict.HOLDS if abs(gap) <= _allowed(claim) else Verdict.FAILS
    excess = (gap if claim.relation == "at most" else -gap) - claim.tolerance.around(predicted)
    if excess <= -evidence(freedom) * error:
        return Verdict.HOLDS
    return Verdict.FAILS if excess > miss(freedom) * error else Verdict.INCONCLUSIVE
