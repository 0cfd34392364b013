"""What a diagnosis says: sentences, each with a number, its error and the study behind it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from secant.monitors.doctor.advice import DOUBLING, SafeStep, gain
from secant.monitors.doctor.reading import one_batch, rule_of
from secant.monitors.doctor.regimes import HALF_PROGRESS, State
from secant.monitors.doctor.spikes import LOST, WINDOW, Spike, lost_steps
from secant.monitors.records.record import Watched

GUIDE = "guide/runs/doctor.md#sentences-without-a-study"
"""What is to be read where no study stands behind a sentence: a page of the documentation and its heading."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a diagnosis.

    Attributes:
        about: what it is about, in a word: `regime`, `spike`, `overflow`, `step`, `batch`, `kernel`,
            `units`, `remedy`, `limits`.
        text: the sentence.
        value: its number.
        error: of the number; NaN where none is known.
        study: the id of the study behind it; empty where there is none.
        guide: what is to be read there; empty where there is a study.
    """

    about: str
    text: str
    value: float = math.nan
    error: float = math.nan
    study: str = ""
    guide: str = ""

    def __post_init__(self) -> None:
        if not self.study and not self.guide:
            object.__setattr__(self, "guide", GUIDE)


def shown(value: float, error: float = math.nan) -> str:
    """A number and its error as a sentence has them: as many digits as the error leaves, or three without one."""
    if not math.isfinite(value):
        return "not finite" if not math.isnan(value) else "not known"
    if not (math.isfinite(error) and error > 0):
        return f"{float(f'{value:.3g}'):,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    size = max(abs(value), error)
    digits = -math.floor(math.log10(error))
    if 1e-4 <= size < 1e6 and digits <= 6:
        places = max(digits, 0)
        return f"{value:,.{places}f} ± {error:,.{places}f}"
    return f"{value:.3g} ± {error:.1g}"


def of_spikes(found: list[Spike]) -> list[Sentence]:
    """What came before each spike, the highest first."""
    said, told = [], set[str]()
    for one in sorted(found, key=lambda one: (one.cause == "unknown", -one.height))[:5]:
        rise = (
            "to numbers that are not finite" if math.isinf(one.height) else f"{shown(one.height)} times what was usual"
        )
        back = f"and was back at step {one.end}" if one.end is not None else "and is not back"
        text = f"At step {one.onset} the loss began to rise, {rise}, {back}: "
        load = f"curvature {shown(one.load, one.error)} times the optimiser's edge at step {one.look}"
        if one.cause == "catapult":
            text += f"a catapult, {load}" + ("." if "catapult" in told else ", so that a direction grew step by step.")
            text += carried(one)
            said.append(Sentence("spike", text, one.load, one.error, "thesis/thm-3.3.1"))
        elif one.cause == "stale second moment":
            text += (
                f"a stale second moment, {load}. It remembered gradients {shown(one.numbers['second_moment'])} times "
                "as large as those of late"
            )
            text += ", and fell until the division by it was too much." if "stale second moment" not in told else "."
            text += carried(one)
            said.append(Sentence("spike", text, one.load, one.error, "quadreg/optimisers"))
        elif one.cause == "bad batch":
            known = f"{load} does not explain it" if math.isfinite(one.load) else "no curvature was looked at"
            harm = "" if one.harmful else " It left no trace."
            text += f"a bad batch, {shown(one.jump)} times in one step; {known}.{harm}"
            said.append(Sentence("spike", text, one.jump, one.explained, "thesis/fig-4.5"))
        elif one.cause == "overflow":
            fell, scale = one.numbers.get("scaler_fell", 1.0), one.numbers.get("scaler", math.nan)
            scaler = f" The loss scale had been divided by {shown(fell)}." if fell > 1 else ""
            if not scaler and math.isfinite(scale):
                scaler = f" The loss was multiplied by {shown(scale)}."
            text += (
                f"an overflow: from one step to the next, with {load if one.look >= 0 else 'no look before'}.{scaler}"
            )
            said.append(Sentence("spike", text + ("" if one.harmful else " It left no trace."), one.load, one.error))
        else:
            known = load if math.isfinite(one.load) else "no curvature was looked at"
            text += f"no cause is seen; {known}."
            said.append(Sentence("spike", text, one.load, one.error))
        told.add(one.cause)
    if len(found) > 5:
        said.append(
            Sentence("spike", f"There are {len(found)} spikes in all.", float(len(found)), 0.0, "thesis/fig-4.7")
        )
    return said


def part_of(watched: Watched, look: str) -> str:
    """On which part of a batch a look was taken, by the plan of a record; empty where it was taken on all of it."""
    plan = watched.about.get("plan")
    looks = plan.get("looks") if isinstance(plan, dict) else None
    facts = looks.get(look) if isinstance(looks, dict) else None
    if not isinstance(facts, dict):
        return ""
    _, batch = watched.column("batch")
    samples, of = facts.get("samples"), facts.get("of", batch[-1] if len(batch) else None)
    if isinstance(samples, int | float) and isinstance(of, int | float) and 0 < samples < of < 2**53:
        return f"{samples:.0f} of {of:.0f} samples"
    return ""


def of_lost(watched: Watched) -> list[Sentence]:
    """How many steps a scaler of mixed precision left out, where it is most of them."""
    share = lost_steps(watched)
    if share <= LOST:
        return []
    _, scale = watched.column("scaler")
    text = (
        f"Of the last third of the steps {shown(100 * share)} % are lost, as their numbers are not finite; the loss "
        f"was multiplied by {shown(float(scale[0]))} at first and by {shown(float(scale[-1]))} at last."
    )
    return [Sentence("overflow", text, share, 0.0)]


def carried(spike: Spike) -> str:
    """Whether the sharpest direction carried a spike, where that was looked at."""
    share = spike.numbers.get("sharpest_share", math.nan)
    return f" Of the squared gradient {shown(share)} lay along it then." if math.isfinite(share) else ""


def of_regime(state: State, watched: Watched) -> Sentence:
    """In which regime the run is, and by which number."""
    load = shown(state.load.value, state.load.error)
    which = "its curvature" if state.whole else "its curvature, seen along the steps only,"
    if part := part_of(watched, "sharpness" if state.whole else "batch_sharpness"):
        which = f"{which.rstrip(',')}, on {part}, where it is larger on average,"
    below = f"{which} is {load} of that at which the optimiser is unstable"
    edge = "quadreg/fig-2" if rule_of(watched).plain else "quadreg/optimisers"
    value, error = state.load.value, state.load.error
    if state.regime == "diverging":
        _, loss = watched.column("loss")
        return Sentence("regime", f"The run diverges: its last loss is {shown(loss[-1])}, from {shown(loss[0])}.",
                        float(loss[-1]), math.nan, "thesis/max-step")  # fmt: skip
    if state.regime == "catapult":
        return Sentence("regime", f"A catapult is under way: {below}.", value, error, "thesis/thm-3.3.1")
    if restless(state):
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
        part = part_of(watched, "batch_sharpness")
        if part and not len(watched.column("stable_multiple")[1]):
            text = f"{text[:-1]}, on {part}, where it is more on average."
        return Sentence("regime", text, state.along.value, state.along.error, "lectures/11-16-stochastic-edge")
    if state.regime == "noise-dominated" and math.isinf(state.noise.value):
        text = (
            f"Noise dominates: most of the last {state.noise.looks} looks saw no gradient behind the noise of a batch "
            f"of {shown(state.batch.value)}, and {below}."
        )
        return Sentence("regime", text, float(state.noise.looks), 0.0, "lectures/11-16-noise")
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


def of_step(watched: Watched, safe: SafeStep, first: SafeStep) -> list[Sentence]:
    """The largest safe step, now and from the start, and why."""
    _, lr = watched.column("lr")
    if not safe.known or not len(lr):
        return [Sentence("step", "The largest safe step is not known: no look has a curvature and a step size.")]
    rule, now = rule_of(watched), float(lr[-1])
    why = f"at {shown(safe.edge)} the " + ("sharpest direction" if safe.whole else "direction of the step")
    part = part_of(watched, "sharpness" if safe.whole else "batch_sharpness")
    why += (f" of {part}, sharper on average than all of them," if part else "") + " is at the edge"
    if safe.scatter > 0.001:
        why += f" on average over batches, whose curvatures scatter by {shown(math.sqrt(safe.scatter))} of their size"
    if rule.plain:
        why += f", and up to {DOUBLING:.2f} times that a rise at most doubles the loss in a step, and comes back"
    text = (
        f"The largest safe step now is {shown(safe.lr, safe.error)}, {shown(safe.lr / now)} times that in use: {why}."
    )
    study = "lectures/11-16-critical-step" if safe.scatter > 0.001 else "thesis/max-step"
    said = [Sentence("step", text, safe.lr, safe.error, study if rule.plain else "quadreg/optimisers")]
    if first.known and rule.b2 is None:  # a second moment is no longer what it was at the start
        text = f"Begun again, the same run bears {shown(first.lr, first.error)}, by its first looks."
        said.append(Sentence("step", text, first.lr, first.error, "thesis/max-step"))
    return said


def of_batch(state: State, watched: Watched) -> list[Sentence]:
    """The batch against the critical one."""
    if one_batch(watched) and state.batch.known:
        text = f"Every look saw the same {shown(state.batch.value)} samples: steps have no noise of batches."
        return [Sentence("batch", text, state.batch.value, 0.0, "lectures/11-16-noise")]
    if not (state.batch.known and state.noise.known and min(state.batch.value, state.noise.value) > 0):
        return []
    share = gain(state.batch.value, state.noise.value)
    text = (
        f"A batch of {shown(state.batch.value)} stands against a critical one of "
        f"{shown(state.noise.value, state.noise.error)}: a step makes {shown(share)} of the progress it would make "
        "without noise."
    )
    error = share * (1 - share) * state.noise.error / state.noise.value
    return [Sentence("batch", text, share, error, "book/prob-2.5.3")]


def of_others(watched: Watched) -> list[Sentence]:
    """Dead units and features, where they were looked at."""
    said = []
    _, dead = watched.column("dead_units")
    if len(dead) and dead[-1] > 0:
        on = part_of(watched, "batch_sharpness") or "the whole batch"
        text = f"Of the units {shown(100 * dead[-1])} % are off on {on}."
        said.append(Sentence("units", text, float(dead[-1]), math.nan, "lectures/09-19-criticality"))
    _, change = watched.column("agop_change")
    if len(change):
        text = f"The features have moved by {shown(change[-1])} of their length."
        said.append(Sentence("kernel", text, float(change[-1]), math.nan, "lectures/09-28-features"))
    return said


def of_limits(watched: Watched) -> list[Sentence]:
    """Where the theory does not apply, so that less is said."""
    facts = json.dumps({k: v for k, v in watched.about.items() if k != "plan"}, default=str).lower()
    said = []
    if fades(watched):
        share = _remaining(watched)
        text = (
            f"The loss is a cross-entropy at {shown(share)} of where it began: its curvature fades as samples are "
            "fitted, so a small one says nothing of the step, and the largest safe step is by the sharpest look."
        )
        said.append(Sentence("limits", text, share, math.nan, "lectures/11-14-max-margin"))
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


def restless(state: State) -> bool:
    """Whether a run at its edge loses ground: spikes that follow so close that none stands out."""
    return state.regime == "edge" and state.halvings <= -1


def fades(watched: Watched) -> bool:
    """Whether the loss is said to be a cross-entropy, and has fallen to a tenth of where it began."""
    return "entropy" in str(watched.about.get("loss", "")).lower() and _remaining(watched) < 0.1


def _remaining(watched: Watched) -> float:
    """The loss of late over the first."""
    _, loss = watched.column("loss")
    sound = loss[np.isfinite(loss)]
    return float(np.median(sound[-5:]) / sound[0]) if len(sound) > 1 and sound[0] > 0 else 1.0


def of_remedy(watched: Watched, found: list[Spike], safe: SafeStep, verdict: str) -> list[Sentence]:
    """What would have kept it from happening, where that is known."""
    if verdict in ("catapult", "divergence") and safe.known:
        text = (
            f"secant.control.below_critical keeps a step at 0.9 of the edge as it moves, now "
            f"{shown(0.9 * safe.bare, 0.9 * safe.bare * safe.error / safe.lr)}."
        )
        return [Sentence("remedy", text, 0.9 * safe.bare, 0.9 * safe.bare * safe.error / safe.lr, "thesis/controller")]
    rule = rule_of(watched)
    if verdict == "stale second moment" and rule.b2 is not None:
        memory = 1 / (1 - rule.b2)
        text = f"The second moment forgets in {shown(memory)} steps; one that forgets sooner follows the gradients."
        return [Sentence("remedy", text, memory, 0.0, "quadreg/optimisers")]
    bad = next((one for one in found if one.cause == "bad batch" and one.harmful), None)
    steps, norms = watched.column("gradient_norm")
    before = norms[(steps <= bad.onset) & np.isfinite(norms)][-WINDOW:] if bad is not None else norms[:0]
    if verdict == "bad batch" and len(before):
        usual, scatter = float(np.median(before)), float(1.4826 * np.median(np.abs(before - np.median(before))))
        text = (
            f"Gradients had a length of {shown(usual, scatter)} before; clipped there, the batch would have moved the "
            "parameters no further than others."
        )
        return [Sentence("remedy", text, usual, scatter, "thesis/fig-4.5")]
    return []
