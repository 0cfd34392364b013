"""What the doctor says of runs whose regime is known: a table.

`python -m bench.doctor.regime_tables` makes it for 20 seeds; the rules were made with others.
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
    """What was said of the runs of a kind.

    Attributes:
        verdicts: how often each.
        regimes: how often each.
        right: how many are what they should be.
        sharpness: of all samples over 2 over the step size, median over runs; NaN where parameters of one are.
        batch: the batch over the critical one of all samples, median over runs.
        lost: share of late steps whose numbers are not finite, median over runs.
    """

    verdicts: Counter[str]
    regimes: Counter[str]
    right: int
    sharpness: float
    batch: float
    lost: float


def row(kind: str, seeds: Iterable[int] = range(20)) -> Row:
    """Runs of a kind, and what the doctor says of them.

    Args:
        kind: one of `KINDS`.
        seeds: of the runs.
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
