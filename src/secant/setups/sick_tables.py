"""How often the diagnosis of a sick run is right, and how good its largest safe step is: two tables.

`python -m secant.setups.sick_tables` makes both for 20 seeds; the diagnosis was made with others.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from secant.monitors.doctor import diagnose
from secant.setups import sick_runs as runs

HALVINGS = 5
"""Of the bracket of the largest step that does not diverge, in powers."""
CASES = tuple((rule, entropy, whole) for rule in runs.RULES for entropy in (False, True) for whole in (True, False))


def confusion(seeds: Iterable[int] = range(20)) -> dict[str, Counter[str]]:
    """Kind of run -> how often which verdict; healthy runs for every optimiser."""
    found: dict[str, Counter[str]] = {}
    seeds = list(seeds)
    kinds = [("healthy", rule) for rule in runs.RULES] + [(kind, None) for kind in runs.KINDS[1:]]
    for kind, rule in kinds:
        name = kind if rule is None else f"{kind}, {rule}"
        found[name] = Counter(diagnose(runs.watch(runs.plan(kind, seed, rule))).verdict for seed in seeds)
    return found


class SafeRow(NamedTuple):
    """How the doctor's safe step does on runs of one sort, each entry an array over seeds.

    Attributes:
        diverges: whether the run diverges with it, from the start.
        share: it over the largest step that does not diverge.
        switched: whether the run diverges that takes the safe step of its first half from there on.
    """

    diverges: np.ndarray
    share: np.ndarray
    switched: np.ndarray


def safe_steps(rule: str, entropy: bool, whole: bool, seeds: Iterable[int] = range(20)) -> SafeRow:
    """The doctor's safe step, from the record of a healthy run, given to the same run.

    Args:
        rule: one of `RULES`.
        entropy: whether the loss is the cross-entropy.
        whole: whether every step sees the same samples.
        seeds: of runs.
    """
    found = []
    for seed in seeds:
        base = _base(rule, entropy, whole, seed)
        said = diagnose(runs.watch(base)).numbers
        half = runs.watch(base, runs.STEPS // 2)
        later = np.where(np.arange(runs.STEPS) < runs.STEPS // 2, base.lr, diagnose(half).numbers["safe_lr"])
        first = said["safe_lr_from_start"]
        found.append((_diverges(base, first), first / largest(base), _diverges(base, later)))
    return SafeRow(*map(np.array, zip(*found, strict=True)))


def _base(rule: str, entropy: bool, whole: bool, seed: int) -> runs.Plan:
    random = np.random.default_rng([77, seed])
    shape = (runs.STEPS, runs.BATCH)
    rows = np.tile(np.arange(runs.BATCH), (runs.STEPS, 1)) if whole else random.integers(0, runs.SAMPLES, shape)
    share = 0.5 if whole or rule == "gd" else 0.2
    lr = 0.01 if rule == "adam" else share * runs.edge(rule, seed, rows, entropy)
    return runs.Plan("healthy", rule, rows, np.full(runs.STEPS, lr), np.ones(runs.STEPS), entropy, seed)


def _diverges(base: runs.Plan, lr: float | np.ndarray) -> bool:
    """Whether it ends with numbers that are not finite, or no better than it began."""
    loss = runs.losses(dataclasses.replace(base, lr=np.broadcast_to(lr, base.lr.shape)))
    return not (np.isfinite(loss[-1]) and np.median(loss[-20:]) < loss[0])


def largest(base: runs.Plan) -> float:
    """The largest step size that does not diverge, by doubling and then bisecting its logarithm."""
    low, high = float(base.lr[0]) / 10, float(base.lr[0])
    while not _diverges(base, high) and high < 1e3 * base.lr[0]:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if _diverges(base, middle) else (middle, high)
    return low


def main() -> None:
    """Prints both tables, as Markdown."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    for kind, counts in confusion(seeds).items():
        print(f"| {kind} | " + ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()) + " |")
        sys.stdout.flush()
    for rule, entropy, whole in CASES:
        row = safe_steps(rule, entropy, whole, seeds)
        name = f"{rule}, {'cross-entropy' if entropy else 'squared error'}, {'all samples' if whole else 'batches'}"
        share = f"{np.median(row.share):.2f} ({row.share.min():.2f} to {row.share.max():.2f})"
        print(f"| {name} | {row.diverges.sum()} of {len(seeds)} | {share} | {row.switched.sum()} of {len(seeds)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
