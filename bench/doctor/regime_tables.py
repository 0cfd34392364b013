"""A table of the doctor's answers for runs in known regimes.

`python -m bench.doctor.regime_tables` prints the table for 20 seeds; the rules were made with other seeds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bench.doctor import regime_runs as runs
from secant.monitors.doctor.diagnosis import diagnose


class Row(NamedTuple):
    """The doctor's answers for the runs of a kind.

    Attributes:
        verdicts: how often each verdict was given.
        regimes: how often each regime was given.
        right: how many answers are right.
        sharpness: the sharpness on all samples divided by 2 over the step size, median over runs; NaN if parameters of
            one run are.
        batch: the batch over the critical batch of all samples, median over runs.
        lost: share of late steps with numbers that are not finite, median over runs.
    """

    verdicts: Counter[str]
    regimes: Counter[str]
    right: int
    sharpness: float
    batch: float
    lost: float


def row(kind: str, seeds: Iterable[int] = range(20)) -> Row:
    """Makes runs of a kind, and counts the doctor's answers.

    Args:
        kind: one of `KINDS`.
        seeds: seeds of the runs.
    """
    made = [runs.make(runs.plan(kind, seed), seed) for seed in seeds]
    found = [diagnose(one.watched) for one in made]
    return Row(
        Counter(one.verdict for one in found),
        Counter(one.regime for one in found),
        sum(runs.is_right(kind, one.verdict, one.regime) for one in found),
        float(np.median([one.sharpness for one in made])),
        float(np.median([one.batch / np.sqrt(np.prod(one.critical_batch)) for one in made])),
        float(np.median([one.lost for one in made])),
    )


def main() -> None:
    """Prints the table, as Markdown."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    for kind in sys.argv[2:] or runs.KINDS:
        found = row(kind, seeds)
        said = [", ".join(f"{name} {count}" for name, count in one.most_common()) for one in found[:2]]
        known = " | ".join("–" if np.isnan(one) else f"{one:.2g}" for one in found[3:])
        print(f"| {kind} | {known} | {said[0]} | {said[1]} | {found.right} of {len(seeds)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
