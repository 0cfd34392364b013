"""Two tables: how often the diagnosis of a sick run is right, and how good its largest safe step is.

`python -m bench.doctor.sick_tables` prints both for 20 seeds; the diagnosis was made with other seeds.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import optax

from bench.doctor import sick_runs as runs
from secant.monitors import largest_step
from secant.monitors.doctor.diagnosis import diagnose

HALVINGS = 4
"""How often the bracket of the largest step that does not diverge is halved, on a logarithmic scale."""
CASES = tuple((rule, entropy, whole) for rule in runs.RULES for entropy in (False, True) for whole in (True, False))


def confusion(seeds: Iterable[int] = range(20)) -> dict[str, Counter[str]]:
    """Kind of run -> how often each verdict was given; healthy runs for every optimiser."""
    found: dict[str, Counter[str]] = {}
    seeds = list(seeds)
    kinds = [("healthy", rule) for rule in runs.RULES] + [(kind, None) for kind in runs.KINDS[1:]]
    for kind, rule in kinds:
        name = kind if rule is None else f"{kind}, {rule}"
        watched = runs.watch([runs.plan(kind, seed, rule) for seed in seeds])
        found[name] = Counter(diagnose(one).verdict for one in watched)
    return found


class SafeRow(NamedTuple):
    """The quality of the doctor's safe step on runs of one sort, each entry an array over seeds.

    Attributes:
        diverges: whether the run diverges with the safe step, from the start.
        share: the safe step over the largest step that does not diverge.
        switched: whether the run diverges if it takes the safe step of its first half in its second half.
        tried: whether the run diverges with the step that is safe by trial.
        tried_share: the step that is safe by trial over the largest step that does not diverge.
    """

    diverges: np.ndarray
    share: np.ndarray
    switched: np.ndarray
    tried: np.ndarray
    tried_share: np.ndarray


def safe_steps(rule: str, entropy: bool, whole: bool, seeds: Iterable[int] = range(20), tried: int = 200) -> SafeRow:
    """The doctor's safe step, from the record of a healthy run, given to the same run.

    Args:
        rule: one of `RULES`.
        entropy: whether the loss is the cross-entropy.
        whole: whether every step sees the same samples.
        seeds: seeds of the runs.
        tried: steps of a trial.
    """
    bases = [_base(rule, entropy, whole, seed) for seed in seeds]
    half = runs.STEPS // 2
    records = runs.watch(bases)
    first = np.array([diagnose(one).numbers["safe_lr_from_start"] for one in records])
    halves = [dataclasses.replace(one, rows=one.rows[:half]) for one in records]
    now = [diagnose(one).numbers["safe_lr"] for one in halves]
    later = [np.where(np.arange(runs.STEPS) < half, base.lr, lr) for base, lr in zip(bases, now, strict=True)]
    best, most = np.array([by_trial(base, tried) for base in bases]), largest(bases)
    return SafeRow(_diverge(bases, first), first / most, _diverge(bases, later), _diverge(bases, best), best / most)


def by_trial(base: runs.Plan, steps: int) -> float:
    """The step size of a run that is safe by trial, on the run's first `steps` steps."""
    _, x, y = runs.digits()

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        return x[base.rows[step]], y[base.rows[step]]

    rules: dict[str, Callable[[float], optax.GradientTransformation]] = {
        "gd": optax.sgd,
        "momentum": lambda lr: optax.sgd(lr, runs.BETA),
        "adam": lambda lr: optax.adam(lr, runs.BETA, runs.B2),
    }

    def loss(params: object, batch: tuple[np.ndarray, np.ndarray]) -> object:
        return runs.loss(params, *batch, base.entropy)

    return largest_step(loss, runs.start(base.seed), batch, rules[base.rule](float(base.lr[0])), steps=steps).safe


def _base(rule: str, entropy: bool, whole: bool, seed: int) -> runs.Plan:
    random = np.random.default_rng([77, seed])
    shape = (runs.STEPS, runs.BATCH)
    rows = np.tile(np.arange(runs.BATCH), (runs.STEPS, 1)) if whole else random.integers(0, runs.SAMPLES, shape)
    share = 0.5 if whole or rule == "gd" else 0.2
    lr = 0.01 if rule == "adam" else share * runs.edge(rule, seed, rows, entropy)
    return runs.Plan("healthy", rule, rows, np.full(runs.STEPS, lr), np.ones(runs.STEPS), entropy, seed)


def _diverge(bases: Sequence[runs.Plan], lr: Sequence[float | np.ndarray] | np.ndarray) -> np.ndarray:
    """Truth values: whether a run with this step size ends with numbers that are not finite, or no better."""
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


def _spread(share: np.ndarray) -> str:
    return f"{np.median(share):.2f} ({share.min():.2f} to {share.max():.2f}), {(share >= 0.5).sum()}"


def main() -> None:
    """Prints both tables, as Markdown."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    for kind, counts in confusion(seeds).items():
        print(f"| {kind} | " + ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()) + " |")
        sys.stdout.flush()
    for rule, entropy, whole in CASES:
        # Adam comes back from far, and late, which a short trial does not see.
        row = safe_steps(rule, entropy, whole, seeds, runs.STEPS if rule == "adam" else 200)
        name = f"{rule}, {'cross-entropy' if entropy else 'squared error'}, {'all samples' if whole else 'batches'}"
        cells = [f"{row.diverges.sum()} of {len(seeds)}", _spread(row.share), f"{row.switched.sum()} of {len(seeds)}"]
        cells += [f"{row.tried.sum()} of {len(seeds)}", _spread(row.tried_share)]
        print(f"| {name} | " + " | ".join(cells) + " |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
