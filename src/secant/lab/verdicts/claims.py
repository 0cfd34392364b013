r"""Claims in a line each: what a study says of its numbers.

A claim has a short key, which links, tests and comparisons use, and a sentence, which readers read. What it says of the
numbers is a method: every one makes a [`Finding`][secant.lab.Finding] or an [`Erratum`][secant.lab.Erratum], and every
one says why its tolerance is what it is. Where a run may have nothing to judge, `given` says whether it has, and
`otherwise` why not: the claim is then undecided. What is measured may be a function, called only if there is something.

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
    """A claim, still without its numbers: say what it claims by one of its methods.

    Args:
        key: short name, unique in its study. Every character that is no letter, digit, dot, plus or minus becomes a
            hyphen, so that a key may hold the value of an option.
        name: the claim in a few words, with LaTeX between dollars.
        given: whether there is anything to judge: a truth, an array with a true entry, a list that is not empty.
        otherwise: why there is nothing, if there is nothing.
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
    """A claim by its key and its sentence; see [`claim`][secant.lab.claim]."""

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
        r"""What is measured is what is predicted.

        Args:
            predicted: what the theory says, one number.
            measured: what the run shows: one number, an [`Estimate`][secant.lab.Estimate] with its standard error, or a
                function that gives either.
            within: how far the two may be apart, beyond the sampling error; a [`Tolerance`][secant.lab.Tolerance]
                brings its own reason.
            why: where this distance comes from.
            relative: the same as a share of what is predicted.
            note: anything a reader should know; for a claim that fails, the reason.
            qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
        """
        return self._found("equal", predicted, measured, within, relative, why, note, qualitative)

    def zero(self, measured: Any, within: Any, why: str = "", *, note: str = "") -> Finding:
        """Nothing is left: an identity, up to its rounding."""
        return self._found("equal", 0.0, measured, within, 0.0, why, note)

    def count(self, expected: Any, found: Any, why: str = "a count", *, note: str = "") -> Finding:
        """There are exactly so many."""
        return self._found("equal", expected, found, 0.0, 0.0, why, note)

    def share(
        self, predicted: Any, seen: Any, among: Any, why: str, *, within: Any = 0.0, note: str = "", otherwise: str = ""
    ) -> Finding:
        """A share of some cases is as is claimed; in most claims all of them, or none.

        Args:
            predicted: the share.
            seen: in which cases it is so, over the same axes as `among`.
            among: which cases count.
            why: the claim's own reason for so many.
            within: how far the share may be off.
            note: anything a reader should know; without one, how many cases there are.
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
        """What is measured is at most a bound.

        Args:
            bound: what it may reach.
            measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.Claim.equal].
            why: what the bound is, and where the slack comes from if there is one.
            slack: by how much the bound may be missed.
            relative: the same as a share of the bound.
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
        """What is measured is at least a bound; as [`at_most`][secant.lab.verdicts.claims.Claim.at_most]."""
        return self._found("at least", bound, measured, slack, relative, why, note)

    def significant(self, p: float, test: str, note: str = "") -> Finding:
        r"""A statistical test decides, by its one-sided p-value.

        What is compared is the evidence in standard errors, $\Phi^{-1}(1 - p)$: the claim holds from $p \le 0.01$ on,
        fails where the test speaks against it with $1 - p \le 0.0005$, and is undecided between the two.

        Args:
            p: its one-sided p-value.
            test: which test it is.
            note: what else there is to say.
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
        """This run cannot decide the claim: at this scale, with these options, or because nothing came of it."""
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
        r"""A printed formula is wrong, and this is right.

        Args:
            printed: the formula as printed, in LaTeX, and the number that it gives under the source's own definitions.
            corrected: the right formula, and the number that it gives.
            measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.Claim.equal].
            within: how far it may be from the corrected number; a [`Tolerance`][secant.lab.Tolerance] brings its own
                reason.
            why: where this distance comes from.
            note: where the misprint comes from, in a sentence.
            where: equation, page or section of the source.
            relative: the distance as a share of the corrected number.
            relation: whether the formulas are values or bounds.
            by: what decides, a run or a derivation alone, in which case `measured` is computed and not observed.
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
