"""How often the diagnosis of a sick run is right, and how good its largest safe step is: two tables.

`python -m secant.setups.sick_tables` makes both for 20 seeds; the diagnosis was made with others.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from secant.monitors.doctor.diagnosis import diagnose
from secant.setups import sick_runs as runs

HALVINGS = 4
"""Of the bracket of the largest step that does not diverge, in powers."""
CASES = tuple((rule, entropy, whole) for rule in runs.RULES for entropy in (False, True) for whole in (True, False))


def confusion(seeds: Iterable[int] = range(20)) -> dict[str, Counter[str]]:
    """Kind of run -> how often which verdict; healthy runs for every optimiser."""
    found: dict[str, Counter[str]] = {}
    seeds = list(seeds)
    kinds = [("healthy", rule) for rule in runs.RULES] + [(kind, None) for kind in runs.KINDS[1:]]
    for kind, rule in kinds:
        name = kind if rule is None else f"{kind}, {rule}"
        watched = runs.watch([runs.plan(kind, seed, rule) for seed in seeds])
        found[name] = Counter(diagnose(one).verdict for one in watched)
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
    bases = [_base(rule, entropy, whole, seed) for seed in seeds]
    half = runs.STEPS // 2
    first = np.array([diagnose(one).numbers["safe_lr_from_start"] for one in runs.watch(bases)])
    now = [diagnose(one).numbers["safe_lr"] for one in runs.watch(bases, half)]
    later = [np.where(np.arange(runs.STEPS) < half, base.lr, lr) for base, lr in zip(bases, now, strict=True)]
    return SafeRow(_diverge(bases, first), first / largest(bases), _diverge(bases, later))


def _base(rule: str, entropy: bool, whole: bool, seed: int) -> runs.Plan:
    random = np.random.default_rng([77, seed])
    shape = (runs.STEPS, runs.BATCH)
    rows = np.tile(np.arange(runs.BATCH), (runs.STEPS, 1)) if whole else random.integers(0, runs.SAMPLES, shape)
    share = 0.5 if whole or rule == "gd" else 0.2
    lr = 0.01 if rule == "adam" else share * runs.edge(rule, seed, rows, entropy)
    return runs.Plan("healthy", rule, rows, np.full(runs.STEPS, lr), np.ones(runs.STEPS), entropy, seed)


def _diverge(bases: Sequence[runs.Plan], lr: Sequence[float | np.ndarray] | np.ndarray) -> np.ndarray:
    """Which runs end with numbers that are not finite, or no better than they began, with these step sizes."""
    changed = [
        dataclasses.replace(base, lr=np.broadcast_to(one, base.lr.shape)) for base, one in zip(bases, lr, strict=True)
    ]
    loss = runs.losses(changed)
    with np.errstate(invalid="ignore"):
        return ~(np.isfinite(loss[:, -1]) & (np.median(loss[:, -20:], axis=1) < loss[:, 0]))


def largest(bases: Sequence[runs.Plan]) -> np.ndarray:
    """The largest step sizes that do not diverge, by doubling and then bisecting their logarithms."""
    usual = np.array([float(base.lr[0]) for base in bases])
    low, high, open_ = usual / 10, usual.copy(), np.ones(len(usual), bool)
    while open_.any() and (high < 1e3 * usual).all():
        open_ &= ~_diverge(bases, high)
        low, high = np.where(open_, high, low), np.where(open_, 2 * high, high)
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        lost = _diverge(bases, middle)
        low, high = np.where(lost, low, middle), np.where(lost, middle, high)
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
