r"""Claims in a line each: what a study says of its numbers.

Every one is a [`Finding`][secant.lab.Finding], and every one says why its tolerance is what it is. Where a run may have
nothing to judge, `given` says whether it has, and `otherwise` why not: the claim is then undecided. What is measured
may be a function, called only if there is something.

Example:
    ```python
    from secant.lab import claims

    residual = 3e-13
    claims.zero("recursion against gradient descent", residual, 1e-10, "rounding of a thousand steps").verdict
    spikes = []
    claims.at_least(
        "smallest spike", 2.0, lambda: min(spikes), "the claim", given=spikes, otherwise="no run has a spike"
    ).verdict
    ```
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr

from secant.lab.verdicts.finding import Erratum, Finding, Tolerance, significant, undecided

__all__ = ["at_least", "at_most", "count", "equal", "erratum", "share", "significant", "undecided", "zero"]


def equal(
    name: str,
    predicted: Any,
    measured: Any,
    within: Any,
    why: str = "",
    *,
    relative: Any = 0.0,
    note: str = "",
    qualitative: bool = False,
    given: Any = True,
    otherwise: str = "",
) -> Finding:
    r"""That what is measured is what is predicted.

    Args:
        name: the claim in a few words.
        predicted: what the theory says, one number.
        measured: what the run shows: one number, or an [`Estimate`][secant.lab.Estimate] with its standard error, or a
            function that gives either.
        within: how far the two may be apart, beyond the sampling error; a [`Tolerance`][secant.lab.Tolerance] brings
            its own reason.
        why: where this distance comes from.
        relative: the same as a share of what is predicted.
        note: anything a reader should know; for a claim that fails, why.
        qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
        given: whether there is anything to judge: a truth, an array with a true entry, a list that is not empty.
        otherwise: why there is nothing, if there is nothing.
    """
    return _claim("equal", name, predicted, measured, within, relative, why, note, given, otherwise, qualitative)


def zero(
    name: str, measured: Any, within: Any, why: str = "", *, note: str = "", given: Any = True, otherwise: str = ""
) -> Finding:
    """That nothing is left: an identity, up to its rounding."""
    return _claim("equal", name, 0.0, measured, within, 0.0, why, note, given, otherwise)


def count(
    name: str,
    expected: Any,
    found: Any,
    why: str = "a count",
    *,
    note: str = "",
    given: Any = True,
    otherwise: str = "",
) -> Finding:
    """That there are exactly so many."""
    return _claim("equal", name, expected, found, 0.0, 0.0, why, note, given, otherwise)


def share(
    name: str, predicted: Any, seen: Any, among: Any, why: str, *, within: Any = 0.0, note: str = "", otherwise: str
) -> Finding:
    """That of some cases a share is as is claimed, in most claims all or none.

    Args:
        name: the claim in a few words.
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
    return equal(
        name,
        predicted,
        lambda: (xr.DataArray(seen) & among).sum() / cases,
        within,
        why,
        note=note or f"of {cases}",
        given=cases,
        otherwise=otherwise,
    )


def at_most(
    name: str,
    bound: Any,
    measured: Any,
    why: str = "an inequality",
    *,
    slack: Any = 0.0,
    relative: Any = 0.0,
    note: str = "",
    given: Any = True,
    otherwise: str = "",
) -> Finding:
    """That what is measured is at most a bound.

    Args:
        name: the claim in a few words.
        bound: what it may reach.
        measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.equal].
        why: what the bound is, and where the slack comes from if there is one.
        slack: by how much the bound may be missed.
        relative: the same as a share of the bound.
        note: anything a reader should know; for a claim that fails, why.
        given: whether there is anything to judge.
        otherwise: why there is nothing, if there is nothing.
    """
    return _claim("at most", name, bound, measured, slack, relative, why, note, given, otherwise)


def at_least(
    name: str,
    bound: Any,
    measured: Any,
    why: str = "an inequality",
    *,
    slack: Any = 0.0,
    relative: Any = 0.0,
    note: str = "",
    given: Any = True,
    otherwise: str = "",
) -> Finding:
    """That what is measured is at least a bound; as [`at_most`][secant.lab.verdicts.claims.at_most]."""
    return _claim("at least", name, bound, measured, slack, relative, why, note, given, otherwise)


def erratum(
    name: str,
    printed: tuple[str, Any],
    corrected: tuple[str, Any],
    measured: Any,
    within: Any,
    why: str = "",
    *,
    note: str,
    where: str,
    relative: Any = 0.0,
    relation: Literal["equal", "at most", "at least"] = "equal",
    by: Literal["run", "derivation"] = "run",
) -> Erratum:
    r"""That a printed formula is wrong, and what is right.

    Args:
        name: what the formula is about.
        printed: the formula as printed, in LaTeX, and the number that it gives under the source's own definitions.
        corrected: the right formula, and the number that it gives.
        measured: what the run shows, as in [`equal`][secant.lab.verdicts.claims.equal].
        within: how far it may be from the corrected number; a [`Tolerance`][secant.lab.Tolerance] brings its own
            reason.
        why: where this distance comes from.
        note: where the misprint comes from, in a sentence.
        where: equation, page or section of the source.
        relative: the distance as a share of the corrected number.
        relation: whether the formulas are values or bounds.
        by: what decides, a run or a derivation alone, in which case `measured` is computed and not observed.
    """
    (formula, value), (right, number) = printed, corrected
    allowed = _tolerance(within, relative, why)
    return Erratum(name, formula, right, value, number, measured, allowed, note, where, relation=relation, by=by)


def _tolerance(within: Any, relative: Any, why: str) -> Tolerance:
    return within if isinstance(within, Tolerance) else Tolerance(float(within), float(relative), why)


def _claim(
    relation: str,
    name: str,
    predicted: Any,
    measured: Any,
    within: Any,
    relative: Any,
    why: str,
    note: str,
    given: Any,
    otherwise: str,
    qualitative: bool = False,
) -> Finding:
    if not (np.any(given) if hasattr(given, "shape") else given):
        return undecided(name, predicted, otherwise, relation)
    value = measured() if callable(measured) else measured
    allowed = _tolerance(within, relative, why)
    return Finding(name, predicted, value, allowed, relation=relation, note=note, qualitative=qualitative)
