"""The diagnosis of a record: what is wrong, if anything, in sentences that each have a number and its error.

A diagnosis needs nothing but the record. It is therefore the same for a run in JAX or PyTorch, finished or not.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import numpy as np

from secant.monitors.doctor import wording
from secant.monitors.doctor.advice import safe_step
from secant.monitors.doctor.reading import rule_of, sound
from secant.monitors.doctor.regimes import State, diverged, state_of
from secant.monitors.doctor.spikes import FORGETTING, LOST, Spike, lost_steps, spikes, staleness
from secant.monitors.doctor.trial import of_trial
from secant.monitors.doctor.wording import Sentence
from secant.monitors.records.record import Watched, plain

VERDICTS = (
    "healthy",
    "catapult",
    "divergence",
    "stale second moment",
    "bad batch",
    "overflow",
    "step too small",
    "unexplained",
)


@dataclass(frozen=True)
class Diagnosis:
    """What a record says about its run.

    Attributes:
        verdict: one of `VERDICTS`.
        regime: one of [`REGIMES`][secant.monitors.doctor.regimes.REGIMES].
        sentences: the diagnosis in words, the most serious first.
        numbers: the numbers of the diagnosis, by name.
        spikes: the spikes of the loss, each with its cause.
        healthy: whether nothing is wrong.
    """

    verdict: str
    regime: str
    sentences: list[Sentence]
    numbers: dict[str, float]
    spikes: list[Spike]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict == "healthy"

    def as_json(self) -> str:
        """The whole diagnosis as JSON; NaN and infinity, which JSON lacks, are text."""
        facts = {
            "verdict": self.verdict,
            "healthy": self.healthy,
            "regime": self.regime,
            "sentences": [asdict(one) for one in self.sentences],
            "numbers": self.numbers,
            "spikes": [asdict(one) for one in self.spikes],
        }
        return json.dumps(plain(facts), indent=1)


@np.errstate(all="ignore")  # a record may hold any number
def diagnose(watched: Watched) -> Diagnosis:
    """What is wrong with a run, if anything.

    Args:
        watched: the record of the run, from [`read`][secant.monitors.read].

    Example:
        ```python
        from pathlib import Path
        from secant.monitors import Watched, diagnose

        rows = [{"step": t, "lr": 0.1, "loss": 0.97**t} for t in range(200)]
        for row in rows[::10]:
            row |= {"sharpness": 12.0, "sharpness_error": 0.2, "threshold": 20.0}
        found = diagnose(Watched(Path("run"), {"optimiser": "sgd"}, rows, []))
        print(found.verdict, "|", found.regime)
        print(found.sentences[0].text)
        ```
        ```text
        healthy | stable
        The run is stable: the curvature is 0.60 ± 0.01 times the value at which the optimiser becomes unstable.
        ```
    """
    watched = sound(watched)
    found = spikes(watched)
    late = wording.fades(watched)
    loss = str(watched.about.get("loss", "")).lower()
    squared = any(word in loss for word in ("mse", "squar", "half_", "l2"))
    state = state_of(watched, found, late=late, squared=squared)
    safe, first = safe_step(watched, fading=late), safe_step(watched, "start")
    verdict = _verdict(watched, found, state)
    regime, seen = [wording.of_regime(state, watched)], wording.of_spikes(found) + wording.of_lost(watched)
    sentences = regime + seen if verdict == "healthy" else seen + regime
    sentences += [*wording.of_step(watched, safe, first), *of_trial(watched)]
    sentences += wording.of_remedy(watched, found, safe, verdict)
    sentences += [*wording.of_batch(state, watched), *wording.of_others(watched), *wording.of_limits(watched)]
    numbers = {
        "steps": float(watched.rows[-1]["step"]) if watched.rows else math.nan,
        "load": state.load.value,
        "load_error": state.load.error,
        "along": state.along.value,
        "along_error": state.along.error,
        "batch": state.batch.value,
        "critical_batch": state.noise.value,
        "critical_batch_error": state.noise.error,
        "safe_lr": safe.lr,
        "safe_lr_error": safe.error,
        "edge_lr": safe.edge,
        "safe_lr_from_start": first.lr,
        "safe_lr_from_start_error": first.error,
        "scatter": safe.scatter,
        "spikes": float(len(found)),
    }
    return Diagnosis(verdict, state.regime, sentences, {k: v for k, v in numbers.items() if not math.isnan(v)}, found)


def _verdict(watched: Watched, found: list[Spike], state: State) -> str:
    if not watched.column("loss")[1].size:
        return "unexplained"
    grave = [one for one in found if one.harmful and one.cause != "unknown"]
    worst = max(grave, key=lambda one: (one.height, one.end is None), default=None)
    lost = lost_steps(watched) > LOST
    if diverged(watched, found):
        if worst is None:
            return "overflow" if lost else "divergence"
        return worst.cause if worst.cause in ("bad batch", "overflow") else "divergence"
    if worst is not None:
        return worst.cause
    if lost:
        return "overflow"
    if found and found[-1].end is None and found[-1].harmful:
        return "unexplained"
    if wording.restless(state):
        stale = staleness(watched, rule_of(watched), watched.rows[-1]["step"])
        return "stale second moment" if stale**-2 < FORGETTING else "catapult"
    return "step too small" if state.regime == "step far too small" else "healthy"
