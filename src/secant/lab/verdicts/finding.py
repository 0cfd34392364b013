"""Findings: what the theory predicts, what was measured, and whether the two agree."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from secant.lab.verdicts.estimate import LEVEL, RISK, Estimate, evidence, miss

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

    A measurement $x$ with standard error $s$, a prediction $p$ and a tolerance $\tau$ are judged so, where $k$ standard
    errors are missed by chance once in a thousand times and $e$ are exceeded by chance once in a hundred
    (Student's distribution, with the degrees of freedom of $s$):

    - equal: fails where $|x - p| > \tau + ks$. Else it holds, provided $\tau + ks < |p|/2$: a margin that would also
      accept half of what is predicted informs nobody, and decides nothing.
    - at most: holds where $x - p \le \tau - es$, fails where $x - p > \tau + ks$, and between the two nothing is
      decided. At least: the same with signs reversed.

    What is no number decides nothing either.

    Attributes:
        name: the claim in a few words.
        predicted: what the theory says.
        measured: what the run shows: a number, or an [`Estimate`][secant.lab.Estimate], which brings its uncertainty.
        tolerance: how close is close enough, beyond the sampling error.
        relation: whether `measured` should be equal to `predicted`, at most, or at least that.
        uncertainty: standard error of `measured`.
        freedom: degrees of freedom of that standard error.
        note: anything a reader should know; for a claim that fails, why.
        qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
    """

    name: str
    predicted: float
    measured: Any  # of an Estimate only the value is kept
    tolerance: Tolerance
    relation: str = "equal"
    uncertainty: float = 0.0
    freedom: float = math.inf
    note: str = ""
    qualitative: bool = False

    def __post_init__(self) -> None:
        _take_estimate(self)
        _make_numbers(self, "predicted", "measured", "uncertainty", "freedom")
        if self.relation not in ("equal", "at most", "at least"):
            raise ValueError(f"Finding: `relation` must be 'equal', 'at most' or 'at least', got {self.relation!r}.")

    @property
    def risk(self) -> float:
        """How often a true claim may fail it: never, unless the measurement has a sampling error."""
        return RISK if self.uncertainty else 0.0

    @property
    def verdict(self) -> Verdict:
        """What the numbers say."""
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why nothing is decided, if nothing is."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[Verdict, str]:
        if math.isnan(self.measured) or math.isnan(self.predicted) or math.isnan(self.uncertainty):
            return Verdict.INCONCLUSIVE, "there is no number to judge"
        side = _side(self.predicted, self.measured, self)
        if side == Verdict.HOLDS and not self.qualitative and not _informs(self.predicted, self):
            return Verdict.INCONCLUSIVE, "the tolerance would accept half of what is predicted"
        return side, "within the sampling error of its bound" if side == Verdict.INCONCLUSIVE else ""


def undecided(name: str, predicted: float, why: str, relation: str = "equal") -> Finding:
    """A claim that this run cannot decide, and why: at this scale, with these options, or because nothing came of it.

    Example:
        ```python
        from secant.lab import undecided

        undecided("spikes that lower the kernel", 1.0, "no run has a spike").verdict
        ```
    """
    return Finding(name, predicted, math.nan, Tolerance(why=why), relation=relation, note=why)


def significant(claim: str, p: float, test: str, note: str = "") -> Finding:
    r"""A claim that a statistical test decides, by its one-sided p-value.

    What is compared is the evidence in standard errors, $\Phi^{-1}(1 - p)$: the claim holds from $p \le 0.01$ on, fails
    where the test speaks against it with $1 - p \le 0.0005$, and is undecided between the two.

    Args:
        claim: what the test is for.
        p: its one-sided p-value.
        test: which test it is.
        note: what else there is to say.
    """
    from scipy import special

    smallest = 1e-16
    return Finding(
        f"{claim}: evidence in standard errors",
        predicted=0.0,
        measured=-float(special.ndtri(np.clip(p, smallest, 1 - smallest))),
        relation="at least",
        tolerance=Tolerance(why=f"a test of the level {LEVEL:g}, {test}"),
        uncertainty=1.0,
        note=f"p = {p:.2g}" + (f"; {note}" if note else ""),
    )


@dataclass(frozen=True)
class Erratum:
    r"""A printed formula that is wrong: what is printed, what is right, and the number that decides.

    It is one only if the numbers refute the print, and confirm the correction within a margin that would exclude
    the print, and half and twice the correction. For an inequality: the printed bound is violated, the corrected one
    holds.

    Attributes:
        name: what the formula is about.
        printed: the formula as printed, in LaTeX.
        corrected: the right formula, in LaTeX.
        printed_value: the number that the printed formula gives, under the source's own definitions.
        corrected_value: the number that the corrected formula gives.
        measured: what the run shows: a number, or an [`Estimate`][secant.lab.Estimate].
        tolerance: how close is close enough, beyond the sampling error.
        why: where the misprint comes from, in a sentence.
        where: equation, page or section of the source.
        uncertainty: standard error of `measured`.
        freedom: degrees of freedom of that standard error.
        relation: whether the formulas are values or bounds.
        by: what decides, a run or a derivation alone, in which case `measured` is computed and not observed.
    """

    name: str
    printed: str
    corrected: str
    printed_value: float
    corrected_value: float
    measured: Any  # of an Estimate only the value is kept
    tolerance: Tolerance
    why: str
    where: str = ""
    uncertainty: float = 0.0
    freedom: float = math.inf
    relation: Relation = "equal"
    by: Literal["run", "derivation"] = "run"

    def __post_init__(self) -> None:
        _take_estimate(self)
        _make_numbers(self, "printed_value", "corrected_value", "measured", "uncertainty", "freedom")

    @property
    def predicted(self) -> float:
        """The corrected value: what should be measured."""
        return self.corrected_value

    @property
    def note(self) -> str:
        """Why the print is wrong."""
        return self.why

    @property
    def risk(self) -> float:
        """How often a true correction may fail it."""
        return RISK if self.uncertainty else 0.0

    @property
    def verdict(self) -> Verdict:
        """Erratum when the numbers refute the print and support the correction."""
        return self._judged[0]

    @property
    def reason(self) -> str:
        """Why nothing is decided, if nothing is."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[Verdict, str]:
        numbers = (self.measured, self.printed_value, self.corrected_value, self.uncertainty)
        if any(map(math.isnan, numbers)):
            return Verdict.INCONCLUSIVE, "there is no number to judge"
        side = _side(self.corrected_value, self.measured, self)
        if side != Verdict.HOLDS:
            return side, "within the sampling error of its bound" if side == Verdict.INCONCLUSIVE else ""
        if not _informs(self.corrected_value, self):
            return Verdict.INCONCLUSIVE, "the tolerance would accept half of the correction"
        if self.relation == "equal":
            refuted = min(abs(self.printed_value - x) for x in (self.measured, self.corrected_value)) > _allowed(self)
        else:
            refuted = _side(self.printed_value, self.measured, self) == Verdict.FAILS
        return (Verdict.ERRATUM, "") if refuted else (Verdict.INCONCLUSIVE, "the print is not refuted")


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
        "freedom": plain_number(finding.freedom),
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


def _allowed(claim: Finding | Erratum) -> float:
    """How far a measurement may lie from what is predicted before it fails."""
    return claim.tolerance.around(claim.predicted) + miss(claim.freedom) * claim.uncertainty


def _informs(predicted: float, claim: Finding | Erratum) -> bool:
    """Whether an equality is tested sharply enough to tell what is predicted from half of it."""
    if claim.relation != "equal" or predicted == 0 or math.isinf(predicted):
        return True
    return _allowed(claim) < abs(predicted) / 2


def _side(predicted: float, measured: float, claim: Finding | Erratum) -> Verdict:
    """On which side of what is allowed a measurement lies, if it is known."""
    if measured == predicted and not claim.uncertainty:
        return Verdict.HOLDS
    gap = measured - predicted
    if claim.relation == "equal":
        return Verdict.HOLDS if abs(gap) <= _allowed(claim) else Verdict.FAILS
    excess = (gap if claim.relation == "at most" else -gap) - claim.tolerance.around(predicted)
    if excess <= -evidence(claim.freedom) * claim.uncertainty:
        return Verdict.HOLDS
    return Verdict.FAILS if excess > miss(claim.freedom) * claim.uncertainty else Verdict.INCONCLUSIVE


def _take_estimate(claim: Any) -> None:
    """A measurement that brings its standard error with it."""
    if isinstance(claim.measured, Estimate):
        for name, value in zip(("measured", "uncertainty", "freedom"), claim.measured, strict=True):
            object.__setattr__(claim, name, value)


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
