r"""Claims in a line each: what a study says of its numbers.

Every one is a [`Finding`][secant.lab.Finding], and every one says why its tolerance is what it is.

Example:
    ```python
    from secant.lab import claims

    residual = 3e-13
    claims.zero("recursion against gradient descent", residual, 1e-10, "rounding of a thousand steps").verdict
    ```
"""

from __future__ import annotations

from typing import Any

from secant.lab.finding import Finding, Tolerance


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
) -> Finding:
    r"""That what is measured is what is predicted.

    Args:
        name: the claim in a few words.
        predicted: what the theory says, one number.
        measured: what the run shows: one number, or an [`Estimate`][secant.lab.Estimate] with its standard error.
        within: how far the two may be apart, beyond the sampling error; a [`Tolerance`][secant.lab.Tolerance] brings
            its own reason.
        why: where this distance comes from.
        relative: the same as a share of what is predicted.
        note: anything a reader should know; for a claim that fails, why.
        qualitative: a claim about the order of magnitude, for which a factor of two counts as agreement.
    """
    return _claim("equal", name, predicted, measured, within, relative, why, note, qualitative)


def zero(name: str, measured: Any, within: Any, why: str = "", *, note: str = "") -> Finding:
    """That nothing is left: an identity, up to its rounding."""
    return _claim("equal", name, 0.0, measured, within, 0.0, why, note)


def count(name: str, expected: Any, found: Any, why: str = "a count", *, note: str = "") -> Finding:
    """That there are exactly so many."""
    return _claim("equal", name, expected, found, 0.0, 0.0, why, note)


def at_most(
    name: str,
    bound: Any,
    measured: Any,
    why: str = "an inequality",
    *,
    slack: Any = 0.0,
    relative: Any = 0.0,
    note: str = "",
) -> Finding:
    """That what is measured is at most a bound.

    Args:
        name: the claim in a few words.
        bound: what it may reach.
        measured: what the run shows: one number, or an [`Estimate`][secant.lab.Estimate] with its standard error.
        why: what the bound is, and where the slack comes from if there is one.
        slack: by how much the bound may be missed.
        relative: the same as a share of the bound.
        note: anything a reader should know; for a claim that fails, why.
    """
    return _claim("at most", name, bound, measured, slack, relative, why, note)


def at_least(
    name: str,
    bound: Any,
    measured: Any,
    why: str = "an inequality",
    *,
    slack: Any = 0.0,
    relative: Any = 0.0,
    note: str = "",
) -> Finding:
    """That what is measured is at least a bound; as [`at_most`][secant.lab.claims.at_most]."""
    return _claim("at least", name, bound, measured, slack, relative, why, note)


def _claim(
    relation: str,
    name: str,
    predicted: Any,
    measured: Any,
    within: Any,
    relative: Any,
    why: str,
    note: str,
    qualitative: bool = False,
) -> Finding:
    allowed = within if isinstance(within, Tolerance) else Tolerance(float(within), float(relative), why)
    return Finding(name, predicted, measured, allowed, relation=relation, note=note, qualitative=qualitative)
