r"""Claims: what a study says about its numbers, each in a line.

A claim has a short key, for links, tests and comparisons, and a sentence, for readers. A method then compares the
numbers. Every method makes a [`Finding`][secant.lab.Finding] or an [`Erratum`][secant.lab.Erratum], and asks for the
reason of the tolerance. If a run may have nothing to judge, pass `given` and `otherwise`. Without anything to judge the
claim is undecided, and `otherwise` is the reason. The measurement may be a function, which is called only if there is
something to judge.

Example:
    ```python
    from secant.lab import claim

    residual = 3e-13
    claim("rounding", "recursion against gradient descent").zero(residual, 1e-10, "rounding of the steps").verdict
    spikes = []
    smallest = claim("spike", "smallest spike", given=spikes, otherwise="no run has a spike")
    smallest.at_least(2.0, lambda: min(spikes), "the claim").verdict
    ```
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from secant.lab.verdicts.estimate import LEVEL, Estimate
from secant.lab.verdicts.finding import Erratum, Finding, Relation, Tolerance, number, quantity

LONGEST_KEY = 80


def claim(key: str, name: str, given: Any = True, otherwise: str = "") -> Claim:
    """A claim without its numbers. One of its methods compares them and makes the finding.

    Args:
        key: short name, unique in its study. Letters become lower case, and every character that is not a letter,
            digit, dot, plus or minus becomes a hyphen. A key may therefore contain the value of an option.
        name: the claim in a few words, with LaTeX between dollars.
        given: whether there is anything to judge: true, an array with a true entry, or a list that is not empty.
        otherwise: why there is nothing to judge.
    """
    short = re.sub(r"[^a-z0-9.+-]", "-", key.lower()).strip("-")
    if not short or len(short) > LONGEST_KEY:
        raise ValueError(
            f"claim: `key` must have 1 to {LONGEST_KEY} characters, one of them a letter or a digit, got {key!r}."
        )
    if not name.strip():
        raise ValueError(f"claim: `name` of {short!r} is empty. Say in a few words what is claimed.")
    return Claim(short, name, bool(np.any(given) if hasattr(given, "shape") else given), otherwise)


@dataclass(frozen=True)
class Claim:
    """A claim with its key and its sentence, made by [`claim`][secant.lab.claim]."""

    key: str
    name: str
    given: bool = True
    otherwise: str = ""

    def equal(
        self,
        predicted: Any,
        measured: Any,
        within: Any,
        why: str = "",
        *,
        relative: Any = 0.0,
        note: str = "",
        qualitative: bool = False,
    ) -> Finding:
        r"""The measurement equals the prediction.

        Args:
            predicted: what the theory predicts, one number.
            measured: what the run shows: one number, an [`Estimate`][secant.lab.Estimate] with its standard error, or a
                function that returns either.
            within: allowed distance of the two, beyond the sampling error. A [`Tolerance`][secant.lab.Tolerance] brings
                its own reason.
            why: where this distance comes from.
            relative: further allowed distance, as a share of the prediction.
            note: anything a reader should know; for a claim that fails, the reason.
            qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
        """
        return self._found("equal", predicted, measured, within, relative, why, note, qualitative)

    def zero(self, measured: Any, within: Any, why: str = "", *, note: str = "") -> Finding:
        """The measurement is zero: an identity, up to rounding."""
        return self._found("equal", 0.0, measured, within, 0.0, why, note)

    def count(self, expected: Any, found: Any, why: str = "a count", *, note: str = "") -> Finding:
        """A count is exactly the expected one."""
        return self._found("equal", expected, found, 0.0, 0.0, why, note)

    def share(
        self, predicted: Any, seen: Any, among: Any, why: str, *, within: Any = 0.0, note: str = "", otherwise: str = ""
    ) -> Finding:
        """Something happens in a given share of the cases: in most claims in all, or in none.

        Args:
            predicted: the share.
            seen: in which cases it happens, over the same axes as `among`.
            among: which cases count.
            why: the claim's own reason for this share.
            within: allowed distance from the share.
            note: anything a reader should know; by default the number of cases.
            otherwise: why there is no case, if there is none.
        """
        among = xr.DataArray(among)
        cases = int(among.sum())
        judged = Claim(self.key, self.name, self.given and bool(cases), otherwise or self.otherwise)
        measured = lambda: (xr.DataArray(seen) & among).sum() / cases  # noqa: E731
        return judged._found("equal", predicted, measured, within, 0.0, why, note or f"of {cases}")

    def at_most(
        self,
        bound: Any,
        measured: Any,
        why: str = "an inequality",
        *,
        slack: Any = 0.0,
        relative: Any = 0.0,
        note: str = "",
    ) -> Finding:
        """The measurement is at most a bound.

        Args:
            bound: the largest allowed value.
            measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.Claim.equal].
            why: what the bound is, and where a slack comes from.
            slack: by how much the measurement may exceed the bound.
            relative: further slack, as a share of the bound.
            note: anything a reader should know; for a claim that fails, the reason.
        """
        return self._found("at most", bound, measured, slack, relative, why, note)

    def at_least(
        self,
        bound: Any,
        measured: Any,
        why: str = "an inequality",
        *,
        slack: Any = 0.0,
        relative: Any = 0.0,
        note: str = "",
    ) -> Finding:
        """The measurement is at least a bound; see [`at_most`][secant.lab.verdicts.claims.Claim.at_most]."""
        return self._found("at least", bound, measured, slack, relative, why, note)

    def significant(self, p: float, test: str, note: str = "") -> Finding:
        r"""A statistical test decides the claim, by its one-sided p-value.

        The finding shows the evidence in standard errors, $\Phi^{-1}(1 - p)$. The claim holds for $p \le 0.01$. It
        fails for $1 - p \le 0.0005$, where the test speaks against it. Between the two it is undecided.

        Args:
            p: one-sided p-value of the test.
            test: name of the test.
            note: anything else a reader should know.
        """
        from scipy import special

        smallest, sentence = 1e-16, f"{self.name}: evidence in standard errors"
        if not self.given:
            return replace(self, name=sentence).undecided(0.0, self.otherwise, "at least")
        return Finding(
            key=self.key,
            name=sentence,
            expected=0.0,
            measured=Estimate(-float(special.ndtri(np.clip(p, smallest, 1 - smallest))), 1.0),
            relation="at least",
            tolerance=Tolerance(why=f"a test of the level {LEVEL:g}, {test}"),
            note=f"p = {p:.2g}" + (f"; {note}" if note else ""),
        )

    def undecided(self, predicted: Any, why: str, relation: Relation = "equal") -> Finding:
        """This run cannot decide the claim: at this scale, with these options, or because there is nothing to judge."""
        return Finding(
            key=self.key,
            name=self.name,
            expected=number(predicted, f"{self.key}: what is predicted"),
            measured=Estimate(math.nan, 0.0),
            tolerance=Tolerance(why=why),
            relation=relation,
            note=why,
        )

    def erratum(
        self,
        printed: tuple[str, Any],
        corrected: tuple[str, Any],
        measured: Any,
        within: Any,
        why: str = "",
        *,
        note: str,
        where: str,
        relative: Any = 0.0,
        relation: Relation = "equal",
        by: Literal["run", "derivation"] = "run",
    ) -> Erratum:
        r"""A printed formula is wrong, and here is the right one.

        Args:
            printed: the formula as printed, in LaTeX, and its number under the source's own definitions.
            corrected: the right formula, and its number.
            measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.Claim.equal].
            within: allowed distance from the corrected number. A [`Tolerance`][secant.lab.Tolerance] brings its own
                reason.
            why: where this distance comes from.
            note: where the misprint comes from, in a sentence.
            where: equation, page or section of the source.
            relative: further allowed distance, as a share of the corrected number.
            relation: whether the formulas are values or bounds.
            by: what decides: a run, or a derivation alone. Then `measured` is computed, not observed.
        """
        (formula, value), (right, corrected_value) = printed, corrected
        return Erratum(
            key=self.key,
            name=self.name,
            printed=formula,
            corrected=right,
            printed_value=number(value, f"{self.key}: the number that the print gives"),
            corrected_value=number(corrected_value, f"{self.key}: the number that the correction gives"),
            measured=quantity(measured, f"{self.key}: what is measured"),
            tolerance=_tolerance(within, relative, why),
            relation=relation,
            note=note,
            where=where,
            by=by,
        )

    def _found(
        self,
        relation: Relation,
        predicted: Any,
        measured: Any,
        within: Any,
        relative: Any,
        why: str,
        note: str,
        qualitative: bool = False,
    ) -> Finding:
        if not self.given:
            return self.undecided(predicted, self.otherwise, relation)
        return Finding(
            key=self.key,
            name=self.name,
            expected=number(predicted, f"{self.key}: what is predicted"),
            measured=quantity(measured() if callable(measured) else measured, f"{self.key}: what is measured"),
            tolerance=_tolerance(within, relative, why),
            relation=relation,
            note=note,
            qualitative=qualitative,
        )


def _tolerance(within: Any, relative: Any, why: str) -> Tolerance:
    return within if isinstance(within, Tolerance) else Tolerance(float(within), float(relative), why)
