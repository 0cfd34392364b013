"""The diagnosis of a record: what is wrong, or that nothing is, in sentences that each have a number and its error.

It reads a record alone, so it is the same for a run in JAX or PyTorch, finished or not.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import numpy as np

from secant.monitors.advice import DOUBLING, SafeStep, gain, safe_step
from secant.monitors.reading import rule_of
from secant.monitors.record import Watched, plain
from secant.monitors.regimes import HALF_PROGRESS, State, diverged, state_of
from secant.monitors.spikes import FORGETTING, Spike, spikes, staleness

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
class Sentence:
    """A sentence of a diagnosis.

    Attributes:
        about: what it is about, in a word: `regime`, `spike`, `step`, `batch`, `kernel`, `units`, `limits`.
        text: the sentence.
        value: its number.
        error: of the number; NaN where none is known.
        study: the id of the study behind it; empty where there is none.
    """

    about: str
    text: str
    value: float = math.nan
    error: float = math.nan
    study: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What a record says about its run.

    Attributes:
        verdict: one of `VERDICTS`.
        regime: one of [`REGIMES`][secant.monitors.regimes.REGIMES].
        sentences: the diagnosis in words, the gravest first.
        numbers: by name.
        spikes: each with its cause.
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
        """All of it, for a machine; numbers that JSON has no word for are text."""
        facts = {
            "verdict": self.verdict,
            "healthy": self.healthy,
            "regime": self.regime,
            "sentences": [asdict(one) for one in self.sentences],
            "numbers": self.numbers,
            "spikes": [asdict(one) for one in self.spikes],
        }
        return json.dumps(plain(facts), indent=1)


def diagnose(watched: Watched) -> Diagnosis:
    """What is wrong with a run, or that nothing is.

    Args:
        watched: its record, from [`read`][secant.monitors.read].

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
        The run is stable: its curvature is 0.6 ± 0.01 of that at which the optimiser is unstable.
        ```
    """
    found = spikes(watched)
    limits = _limits(watched)
    late = any(one.value < 0 for one in limits)
    loss = str(watched.about.get("loss", "")).lower()
    squared = any(word in loss for word in ("mse", "squar", "half_", "l2"))
    state = state_of(watched, found, late=late, squared=squared)
    safe, first = safe_step(watched, fading=late), safe_step(watched, "start")
    verdict = _verdict(watched, found, state)
    sentences = [*_of_spikes(watched, found), _of_regime(state, watched), *_of_step(watched, safe, first, state)]
    if verdict == "healthy" or not found:
        sentences.sort(key=lambda one: one.about != "regime")
    sentences += [*_of_batch(state), *_of_others(watched), *limits]
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
    if diverged(watched, found):
        if worst is None:
            return "unexplained"
        return "divergence" if worst.cause in ("catapult", "stale second moment") else worst.cause
    if worst is not None:
        return worst.cause
    if found and found[-1].end is None and found[-1].harmful:
        return "unexplained"
    if _restless(state):
        stale = staleness(watched, rule_of(watched), watched.rows[-1]["step"])
        return "stale second moment" if stale**-2 < FORGETTING else "catapult"
    return "step too small" if state.regime == "step far too small" else "healthy"


def _restless(state: State) -> bool:
    """Whether a run at its edge loses ground: spikes that follow so close that none stands out."""
    return state.regime == "edge" and state.halvings <= -1


def shown(value: float, error: float = math.nan) -> str:
    """A number and its error as a sentence has them: three digits, and the error with one or two."""
    if not math.isfinite(value):
        return "not finite" if not math.isnan(value) else "not known"
    text = f"{value:.3g}"
    return f"{text} ± {error:.2g}" if math.isfinite(error) and error > 0 else text


def _of_spikes(watched: Watched, found: list[Spike]) -> list[Sentence]:
    said = []
    for one in sorted(found, key=lambda one: (one.cause == "unknown", -one.height))[:5]:
        rise = (
            "to numbers that are not finite" if math.isinf(one.height) else f"{shown(one.height)} times what was usual"
        )
        back = f"and was back at step {one.end}" if one.end is not None else "and is not back"
        text = f"At step {one.onset} the loss began to rise, {rise}, {back}: "
        load = f"curvature {shown(one.load, one.error)} times the optimiser's edge at step {one.look}"
        if one.cause == "catapult":
            text += f"a catapult, {load}, so that a direction grew from step to step."
            said.append(Sentence("spike", text, one.load, one.error, "thesis/thm-3.3.1"))
        elif one.cause == "stale second moment":
            text += (
                f"a stale second moment, {load}. It remembered gradients {shown(one.numbers['second_moment'])} times "
                "as large as those of late, and fell until the division by it was too much."
            )
            said.append(Sentence("spike", text, one.load, one.error, "quadreg/optimisers"))
        elif one.cause == "bad batch":
            known = f"{load} does not explain it" if math.isfinite(one.load) else "no curvature was looked at"
            harm = "" if one.harmful else " It left no trace."
            text += f"a bad batch, {shown(one.jump)} times in one step; {known}.{harm}"
            said.append(Sentence("spike", text, one.jump, one.explained, "thesis/fig-4.5"))
        elif one.cause == "overflow":
            fell = one.numbers.get("scaler_fell", 1.0)
            scaler = f" The loss scale had fallen {shown(fell)} times." if fell > 1 else ""
            text += (
                f"an overflow: from one step to the next, with {load if one.look >= 0 else 'no look before'}.{scaler}"
            )
            said.append(Sentence("spike", text, one.load, one.error))
        else:
            known = load if math.isfinite(one.load) else "no curvature was looked at"
            text += f"no cause is seen; {known}."
            said.append(Sentence("spike", text, one.load, one.error))
    if len(found) > 5:
        said.append(
            Sentence("spike", f"There are {len(found)} spikes in all.", float(len(found)), 0.0, "thesis/fig-4.7")
        )
    return said


def _of_regime(state: State, watched: Watched) -> Sentence:
    load = shown(state.load.value, state.load.error)
    which = "its curvature" if state.whole else "its curvature, seen along the steps only,"
    below = f"{which} is {load} of that at which the optimiser is unstable"
    edge = "quadreg/fig-2" if rule_of(watched).plain else "quadreg/optimisers"
    value, error = state.load.value, state.load.error
    if state.regime == "diverging":
        _, loss = watched.column("loss")
        return Sentence("regime", f"The run diverges: its last loss is {shown(loss[-1])}, from {shown(loss[0])}.",
                        float(loss[-1]), math.nan, "thesis/max-step")  # fmt: skip
    if state.regime == "catapult":
        return Sentence("regime", f"A catapult is under way: {below}.", value, error, "thesis/thm-3.3.1")
    if _restless(state):
        text = (
            f"The run is at the edge and loses ground: {below}, and between the second and the last quarter the loss "
            f"doubled {shown(-state.halvings)} times."
        )
        return Sentence("regime", text, value, error, "thesis/fig-4.4")
    if state.regime == "edge":
        return Sentence("regime", f"The run is at the edge of stability: {below}.", value, error, edge)
    if state.regime == "stochastic edge":
        text = (
            "The run is at the stochastic edge: batches curve along their own gradients "
            f"{shown(state.along.value, state.along.error)} times as much as 2 over the step size."
        )
        return Sentence("regime", text, state.along.value, state.along.error, "lectures/11-16-stochastic-edge")
    if state.regime == "noise-dominated":
        share = state.batch.value / state.noise.value
        text = f"Noise dominates: the batch is {shown(share)} of the critical one, and {below}."
        return Sentence("regime", text, share, share * state.noise.error / state.noise.value, "lectures/11-16-noise")
    if state.regime == "lazy":
        drift = shown(state.drift.value, state.drift.error)
        text = f"The run is lazy: its tangent kernel has moved by {drift} of its length while the loss fell; {below}."
        return Sentence("regime", text, state.drift.value, state.drift.error, "thesis/fig-2.2")
    if state.regime == "step far too small":
        times = 1 / state.room
        text = (
            f"The step is far too small: nine looks of ten found the edge at least {shown(times)} times away, where "
            f"half of the progress is made at {shown(1 / HALF_PROGRESS)}, and between the second and the last quarter "
            f"the loss halved {shown(max(state.halvings, 0.0))} times."
        )
        return Sentence("regime", text, times, times * state.load.error / max(value, 1e-30), "lectures/09-26-rates")
    if state.regime == "unknown":
        rows = len(watched.rows)
        text = f"The regime is not known: {rows} rows have no curvature to hold against the optimiser's edge."
        return Sentence("regime", text, float(rows), 0.0)
    return Sentence("regime", f"The run is stable: {below}.", value, error, edge)


def _of_step(watched: Watched, safe: SafeStep, first: SafeStep, state: State) -> list[Sentence]:
    _, lr = watched.column("lr")
    if not safe.known or not len(lr):
        return [Sentence("step", "The largest safe step is not known: no look has a curvature and a step size.")]
    rule, now = rule_of(watched), float(lr[-1])
    why = f"at {shown(safe.edge)} the " + ("sharpest direction" if safe.whole else "direction of the step")
    why += " is at the edge"
    if safe.scatter > 0.001:
        why += f" on average over batches, whose curvatures scatter by {shown(math.sqrt(safe.scatter))} of their size"
    if rule.plain:
        why += f", and up to {DOUBLING:.2f} times that a rise at most doubles the loss in a step, and comes back"
    text = (
        f"The largest safe step now is {shown(safe.lr, safe.error)}, {shown(safe.lr / now)} times that in use: {why}."
    )
    study = "lectures/11-16-critical-step" if safe.scatter > 0.001 else "thesis/max-step"
    said = [Sentence("step", text, safe.lr, safe.error, study if rule.plain else "quadreg/optimisers")]
    if first.known:
        text = f"Begun again, the same run bears {shown(first.lr, first.error)}, by its first looks."
        said.append(Sentence("step", text, first.lr, first.error, "thesis/max-step"))
    return said


def _of_batch(state: State) -> list[Sentence]:
    if not (state.batch.known and state.noise.known):
        return []
    share = gain(state.batch.value, state.noise.value)
    text = (
        f"A batch of {shown(state.batch.value)} stands against a critical one of "
        f"{shown(state.noise.value, state.noise.error)}: a step makes {shown(share)} of the progress it would make "
        "without noise."
    )
    error = share * (1 - share) * state.noise.error / state.noise.value
    return [Sentence("batch", text, share, error, "book/prob-2.5.3")]


def _of_others(watched: Watched) -> list[Sentence]:
    said = []
    _, dead = watched.column("dead_units")
    if len(dead) and dead[-1] > 0:
        text = f"Of the units {shown(100 * dead[-1])} % are off on the whole batch."
        said.append(Sentence("units", text, float(dead[-1]), math.nan, "lectures/09-19-criticality"))
    _, change = watched.column("agop_change")
    if len(change):
        text = f"The features have moved by {shown(change[-1])} of their length."
        said.append(Sentence("kernel", text, float(change[-1]), math.nan, "lectures/09-28-features"))
    return said


def _limits(watched: Watched) -> list[Sentence]:
    """Where the theory does not apply; those that forbid a conclusion from a small load have a negative number."""
    facts = json.dumps({k: v for k, v in watched.about.items() if k != "plan"}, default=str).lower()
    _, loss = watched.column("loss")
    said = []
    sound = loss[np.isfinite(loss)]
    if "entropy" in facts and len(sound) > 1 and np.median(sound[-5:]) < 0.1 * sound[0]:
        share = float(np.median(sound[-5:]) / sound[0])
        text = (
            f"The loss is a cross-entropy at {shown(share)} of where it began: its curvature fades as samples are "
            "fitted, so a small one says nothing of the step, and the largest safe step is by the sharpest look."
        )
        said.append(Sentence("limits", text, -share, math.nan, "lectures/11-14-max-margin"))
    if any(word in facts for word in ("batchnorm", "batch_norm", "batch norm")):
        text = (
            "Batches are normalised: samples of a batch mix, and weights before a norm have no scale, so that the "
            "edge is that of the effective step, step size over squared length."
        )
        said.append(Sentence("limits", text, 0.0, math.nan, "book/lem-13.2.3"))
    if "augment" in facts and '"augmentation": false' not in facts:
        text = (
            "Samples are augmented: no two looks see the same loss, and what scatters between them is in every error."
        )
        said.append(Sentence("limits", text, 0.0, math.nan, "lectures/11-16-noise"))
    return said
