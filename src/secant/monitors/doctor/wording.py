"""The sentences of a diagnosis, each with a number, its error and the study behind it."""

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
"""Page and heading of the documentation that explain a sentence without a study."""


UNSEEN = "No look had measured the curvature before"


@dataclass(frozen=True)
class Sentence:
    """A sentence of a diagnosis.

    Attributes:
        about: what it is about, in a word: `regime`, `spike`, `overflow`, `step`, `batch`, `kernel`,
            `units`, `remedy`, `limits`.
        text: the sentence, or a few of them.
        value: the number of the sentence.
        error: the error of the number; NaN where none is known.
        study: the id of the study behind the sentence; empty where there is none.
        guide: the page that explains a sentence without a study; empty where there is a study.
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
    """A number and its error as text: as many digits as the error allows, or three digits without an error."""
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
    """The sentences on what came before each spike, the highest spike first."""
    said, told = [], set[str]()
    for one in sorted(found, key=lambda one: (one.cause == "unknown", -one.height))[:5]:
        rise = "numbers that are not finite" if math.isinf(one.height) else f"{shown(one.height)} times its usual level"
        back = f"was back at step {one.end}" if one.end is not None else "has not come back"
        text = f"The loss began to rise at step {one.onset}, reached {rise}, and {back}. "
        load = f"{shown(one.load, one.error)} times the optimiser's edge at step {one.look}"
        trace = "" if one.harmful else " The spike left no trace."
        if one.cause == "catapult":
            text += f"The cause is a catapult: the curvature was {load}"
            text += "." if "catapult" in told else ", so a direction grew step by step."
            text += carried(one)
            said.append(Sentence("spike", text, one.load, one.error, "thesis/thm-3.3.1"))
        elif one.cause == "stale second moment":
            text += (
                f"The cause is a stale second moment: the curvature was {load}. The second moment remembered gradients "
                f"{shown(one.numbers['second_moment'])} times as large as the recent ones"
            )
            text += "." if "stale second moment" in told else ", and fell until the division by it was too much."
            text += carried(one)
            said.append(Sentence("spike", text, one.load, one.error, "quadreg/optimisers"))
        elif one.cause == "bad batch":
            known = f"A curvature of {load} does not explain that" if math.isfinite(one.load) else UNSEEN
            text += f"The cause is a bad batch: the loss became {shown(one.jump)} times as large in one step. {known}."
            said.append(Sentence("spike", text + trace, one.jump, one.explained, "thesis/fig-4.5"))
        elif one.cause == "overflow":
            fell, scale = one.numbers.get("scaler_fell", 1.0), one.numbers.get("scaler", math.nan)
            scaler = f" The scaler had divided the loss scale by {shown(fell)}." if fell > 1 else ""
            if not scaler and math.isfinite(scale):
                scaler = f" The loss scale was {shown(scale)}."
            known = f"The curvature was {load}" if one.look >= 0 else UNSEEN
            text += f"The cause is an overflow, from one step to the next. {known}.{scaler}"
            said.append(Sentence("spike", text + trace, one.load, one.error))
        else:
            known = f"The curvature was {load}" if math.isfinite(one.load) else UNSEEN
            text += f"The record shows no cause. {known}."
            said.append(Sentence("spike", text, one.load, one.error))
        told.add(one.cause)
    if len(found) > 5:
        said.append(
            Sentence("spike", f"There are {len(found)} spikes in all.", float(len(found)), 0.0, "thesis/fig-4.7")
        )
    return said


def part_of(watched: Watched, look: str) -> str:
    """The part of each batch that a look used, by the plan of a record; empty where it used the whole batch."""
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
    """The sentence on steps that a scaler of mixed precision left out, if these are most of the steps."""
    share = lost_steps(watched)
    if share <= LOST:
        return []
    _, scale = watched.column("scaler")
    text = (
        f"The run lost {shown(100 * share)} % of the last third of its steps, because their numbers were not finite. "
        f"The loss scale was {shown(float(scale[0]))} at first and {shown(float(scale[-1]))} at last."
    )
    return [Sentence("overflow", text, share, 0.0)]


def carried(spike: Spike) -> str:
    """The share of the squared gradient along the sharpest direction, as a sentence; empty where it is not known."""
    share = spike.numbers.get("sharpest_share", math.nan)
    return (
        f" The sharpest direction carried {shown(share)} of the squared gradient then." if math.isfinite(share) else ""
    )


def on_part(watched: Watched, look: str) -> str:
    """A sentence on the part of each batch that a look used; empty where it used the whole batch."""
    part = part_of(watched, look)
    return f" The looks used {part}: a part of a batch is sharper on average than the whole." if part else ""


def of_regime(state: State, watched: Watched) -> Sentence:
    """The sentence on the regime, with the number behind it."""
    load = shown(state.load.value, state.load.error)
    which = "the curvature" if state.whole else "the curvature, measured along the steps only,"
    below = f"{which} is {load} times the value at which the optimiser becomes unstable."
    below += on_part(watched, "sharpness" if state.whole else "batch_sharpness")
    edge = "quadreg/fig-2" if rule_of(watched).plain else "quadreg/optimisers"
    value, error = state.load.value, state.load.error
    if state.regime == "diverging":
        _, loss = watched.column("loss")
        return Sentence(
            "regime",
            f"The run diverges: its loss was {shown(loss[0])} and is {shown(loss[-1])} now.",
            float(loss[-1]),
            math.nan,
            "thesis/max-step",
        )
    if state.regime == "catapult":
        return Sentence("regime", f"A catapult is under way: {below}", value, error, "thesis/thm-3.3.1")
    if restless(state):
        text = (
            f"The run is at the edge and loses ground: {below} Between the second and the last quarter of the record "
            f"the loss doubled {shown(-state.halvings)} times."
        )
        return Sentence("regime", text, value, error, "thesis/fig-4.4")
    if state.regime == "edge":
        return Sentence("regime", f"The run is at the edge of stability: {below}", value, error, edge)
    if state.regime == "stochastic edge":
        text = (
            "The run is at the stochastic edge: the curvature of batches along their own gradients is on average "
            f"{shown(state.along.value, state.along.error)} times 2 over the step size."
        )
        if not len(watched.column("stable_multiple")[1]):
            text += on_part(watched, "batch_sharpness")
        return Sentence("regime", text, state.along.value, state.along.error, "lectures/11-16-stochastic-edge")
    if state.regime == "noise-dominated" and math.isinf(state.noise.value):
        text = (
            f"Noise dominates: most of the last {state.noise.looks} looks saw no gradient behind the noise of a batch "
            f"of {shown(state.batch.value)}, and {below}"
        )
        return Sentence("regime", text, float(state.noise.looks), 0.0, "lectures/11-16-noise")
    if state.regime == "noise-dominated":
        share = state.batch.value / state.noise.value
        text = f"Noise dominates: the batch size is {shown(share)} times the critical one, and {below}"
        return Sentence("regime", text, share, share * state.noise.error / state.noise.value, "lectures/11-16-noise")
    if state.regime == "lazy":
        drift = shown(state.drift.value, state.drift.error)
        text = f"The run is lazy: its tangent kernel moved by {drift} of its length while the loss fell, and {below}"
        return Sentence("regime", text, state.drift.value, state.drift.error, "thesis/fig-2.2")
    if state.regime == "step far too small":
        times = 1 / state.room
        text = (
            f"The step is far too small: nine looks of ten found the edge at least {shown(times)} times away. A step "
            f"{shown(1 / HALF_PROGRESS)} times below the edge makes half of the possible progress. Between the second "
            f"and the last quarter of the record the loss halved {shown(max(state.halvings, 0.0))} times."
        )
        return Sentence("regime", text, times, times * state.load.error / max(value, 1e-30), "lectures/09-26-rates")
    if state.regime == "unknown":
        rows = len(watched.rows)
        text = f"The regime is not known: {rows} rows have no curvature to compare with the optimiser's edge."
        return Sentence("regime", text, float(rows), 0.0)
    return Sentence("regime", f"The run is stable: {below}", value, error, edge)


def of_step(watched: Watched, safe: SafeStep, first: SafeStep) -> list[Sentence]:
    """The sentences on the largest safe step, now and for a new start, with the reasons."""
    _, lr = watched.column("lr")
    if not safe.known or not len(lr):
        return [Sentence("step", "The largest safe step is not known: no look has both a curvature and a step size.")]
    rule, now = rule_of(watched), float(lr[-1])
    text = (
        f"The largest safe step now is {shown(safe.lr, safe.error)}, {shown(safe.lr / now)} times the step in use. "
        f"At {shown(safe.edge)} the {'sharpest direction' if safe.whole else 'direction of the step'} is at the edge"
    )
    if safe.scatter > 0.001:
        text += f" on average over batches, whose curvatures scatter by {shown(math.sqrt(safe.scatter))} of their size"
    text += "."
    if rule.plain:
        text += f" Up to {DOUBLING:.2f} times that step, the loss at most doubles in one step and comes back."
    text += on_part(watched, "sharpness" if safe.whole else "batch_sharpness")
    study = "lectures/11-16-critical-step" if safe.scatter > 0.001 else "thesis/max-step"
    said = [Sentence("step", text, safe.lr, safe.error, study if rule.plain else "quadreg/optimisers")]
    if first.known and rule.b2 is None:  # a second moment is no longer what it was at the start
        text = (
            f"If the same run is begun again, its largest safe step is {shown(first.lr, first.error)}, judged by its "
            "first looks."
        )
        said.append(Sentence("step", text, first.lr, first.error, "thesis/max-step"))
    return said


def of_batch(state: State, watched: Watched) -> list[Sentence]:
    """The sentence on the batch size and the critical batch."""
    if one_batch(watched) and state.batch.known:
        text = f"Every look saw the same {shown(state.batch.value)} samples, so the steps have no batch noise."
        return [Sentence("batch", text, state.batch.value, 0.0, "lectures/11-16-noise")]
    if not (state.batch.known and state.noise.known and min(state.batch.value, state.noise.value) > 0):
        return []
    share = gain(state.batch.value, state.noise.value)
    text = (
        f"The batch size is {shown(state.batch.value)} and the critical batch size is "
        f"{shown(state.noise.value, state.noise.error)}. A step makes {shown(share)} of the progress that it would "
        "make without noise."
    )
    error = share * (1 - share) * state.noise.error / state.noise.value
    return [Sentence("batch", text, share, error, "book/prob-2.5.3")]


def of_others(watched: Watched) -> list[Sentence]:
    """The sentences on dead units and on features, where these were measured."""
    said = []
    _, dead = watched.column("dead_units")
    if len(dead) and dead[-1] > 0:
        on = part_of(watched, "batch_sharpness") or "the whole batch"
        text = f"In the last look {shown(100 * dead[-1])} % of the units were off on {on}."
        said.append(Sentence("units", text, float(dead[-1]), math.nan, "lectures/09-19-criticality"))
    _, change = watched.column("agop_change")
    if len(change):
        text = f"The features have moved by {shown(change[-1])} of their length since the first look."
        said.append(Sentence("kernel", text, float(change[-1]), math.nan, "lectures/09-28-features"))
    return said


def of_limits(watched: Watched) -> list[Sentence]:
    """The sentences on what the theory does not cover in this run."""
    facts = json.dumps({k: v for k, v in watched.about.items() if k != "plan"}, default=str).lower()
    said = []
    if fades(watched):
        share = _remaining(watched)
        text = (
            f"The loss is a cross-entropy and has fallen to {shown(share)} of its first value. Its curvature fades as "
            "samples are fitted, so a small curvature says nothing about the step. The largest safe step is therefore "
            "judged by the sharpest look."
        )
        said.append(Sentence("limits", text, share, math.nan, "lectures/11-14-max-margin"))
    if any(word in facts for word in ("batchnorm", "batch_norm", "batch norm")):
        text = (
            "Batches are normalised: the samples of a batch mix, and the weights before a norm have no scale. The edge "
            "therefore belongs to the effective step, which is the step size over the squared length of the weights."
        )
        said.append(Sentence("limits", text, 0.0, math.nan, "book/lem-13.2.3"))
    if "augment" in facts and '"augmentation": false' not in facts:
        text = (
            "Samples are augmented, so no two looks see the same loss. Every error includes the scatter between looks."
        )
        said.append(Sentence("limits", text, 0.0, math.nan, "lectures/11-16-noise"))
    return said


def restless(state: State) -> bool:
    """Whether a run at its edge loses ground: its spikes follow so closely that none stands out."""
    return state.regime == "edge" and state.halvings <= -1


def fades(watched: Watched) -> bool:
    """Whether the record names a cross-entropy as the loss, and the loss has fallen below a tenth of its start."""
    return "entropy" in str(watched.about.get("loss", "")).lower() and _remaining(watched) < 0.1


def _remaining(watched: Watched) -> float:
    """The recent loss over the first loss."""
    _, loss = watched.column("loss")
    sound = loss[np.isfinite(loss)]
    return float(np.median(sound[-5:]) / sound[0]) if len(sound) > 1 and sound[0] > 0 else 1.0


def of_remedy(watched: Watched, found: list[Spike], safe: SafeStep, verdict: str) -> list[Sentence]:
    """The advice that would have prevented the verdict, where there is one."""
    if verdict in ("catapult", "divergence") and safe.known:
        text = (
            "Use secant.control.below_critical: it keeps the step at 0.9 of the edge while the edge moves. That is "
            f"{shown(0.9 * safe.bare, 0.9 * safe.bare * safe.error / safe.lr)} now."
        )
        return [Sentence("remedy", text, 0.9 * safe.bare, 0.9 * safe.bare * safe.error / safe.lr, "thesis/controller")]
    rule = rule_of(watched)
    if verdict == "stale second moment" and rule.b2 is not None:
        memory = 1 / (1 - rule.b2)
        text = (
            f"Lower the decay of the second moment: it forgets in {shown(memory)} steps, and one that forgets sooner "
            "follows the gradients."
        )
        return [Sentence("remedy", text, memory, 0.0, "quadreg/optimisers")]
    bad = next((one for one in found if one.cause == "bad batch" and one.harmful), None)
    steps, norms = watched.column("gradient_norm")
    before = norms[(steps <= bad.onset) & np.isfinite(norms)][-WINDOW:] if bad is not None else norms[:0]
    if verdict == "bad batch" and len(before):
        usual, scatter = float(np.median(before)), float(1.4826 * np.median(np.abs(before - np.median(before))))
        text = (
            f"Clip gradients at their usual length, {shown(usual, scatter)} before the spike: the batch then moves "
            "the parameters no further than other batches do."
        )
        return [Sentence("remedy", text, usual, scatter, "thesis/fig-4.5")]
    return []
