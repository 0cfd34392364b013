"""The thesis's statements about test loss and accuracy against step size, as findings and as figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from secant.lab import Estimate, Finding, Tolerance, claim, estimate, sheet
from secant.lab.verdicts.claims import Claim
from secant.lab.verdicts.significance import falling_trend
from secant.studies.shared.step_sizes.generalization import MODELS, comparable, settled
from secant.theory.catapult import scaling as cs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEARNERS = ("network", "quadratic")


class Gain(NamedTuple):
    """The gain of a step beyond the critical one over every step below it.

    Attributes:
        mean: difference, averaged over seeds; negative is better.
        error: its standard error.
        p: one-sided p-value of a paired t-test over seeds.
        ratio: the step that is best on average.
    """

    mean: float
    error: float
    p: float
    ratio: float


def gain_beyond(values: xr.DataArray) -> Gain:
    """Tests whether some step beyond the critical one gives a smaller value than every step below it.

    For each seed the step beyond is the best step on average over the *other* seeds. The choice is therefore
    independent of the values under test. The value at this step is compared with the seed's own smallest value below,
    which favours steps below. A step at which any seed diverges is no candidate.

    Args:
        values: over `seed` and `ratio`; NaN where a run diverged.
    """
    table, ratios = values.transpose("seed", "ratio").values, values.ratio.values
    steps = (ratios > 1) & np.isfinite(table).all(axis=0)
    below, beyond = table[:, ratios < 1], table[:, steps]
    if not np.isfinite(below).any(axis=1).all() or not steps.any():
        return Gain(np.nan, np.nan, 1.0, np.nan)
    others = (beyond.sum(axis=0) - beyond) / (len(table) - 1)
    chosen = np.take_along_axis(beyond, others.argmin(axis=1)[:, None], axis=1)[:, 0]
    found = chosen - np.nanmin(below, axis=1)
    mean, error = float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))
    p = float(stats.t.cdf(mean / error, len(found) - 1)) if error else float(mean >= 0)
    return Gain(mean, error, p, float(ratios[steps][beyond.mean(axis=0).argmin()]))


def falls_beyond(values: xr.DataArray) -> tuple[float, float]:
    """Tests whether values fall with the step over a range beyond the critical one.

    The thesis does not state the range, and the range must not depend on the values under test. It begins at the last
    step below. For each seed it ends at the step beyond that is best on average over the *other* seeds. A step at which
    any seed diverges is no candidate. See [`falling_trend`][secant.lab.verdicts.significance.falling_trend].

    Args:
        values: over `seed` and `ratio`; NaN where a run diverged.

    Returns:
        Mean correlation with the step and its one-sided p-value; NaN and 1 if no range has three steps.
    """
    table, ratios = values.transpose("seed", "ratio").values, values.ratio.values
    steps = (ratios > 1) & np.isfinite(table).all(axis=0)
    if not steps.any():
        return np.nan, 1.0
    beyond = table[:, steps]
    ends = ratios[steps][(beyond.sum(axis=0) - beyond).argmin(axis=1)]
    inside = (ratios >= ratios[ratios < 1].max()) & (ratios <= ends[:, None])
    return falling_trend(values.transpose("seed", "ratio").copy(data=np.where(inside, table, np.nan)))


def loss_findings(data: xr.Dataset, width: int, where: str = "", key: str = "") -> Iterator[Finding]:
    """The four claims about the best test loss of one panel."""
    begin, key = f"{where}: " if where else "", key or where
    logs = xr.apply_ufunc(np.log, comparable(data.best_loss, data))
    below = logs.sel(ratio=logs.ratio < 1)
    for kind in ("quadratic", "linear"):
        found = _furthest(below.sel(model=kind) - below.sel(model="network"))
        name = f"{begin}below the critical step: best test loss of the {kind} model over the network's, furthest from 1"
        judged = claim(f"{key}-below-{kind}", name)
        if found is None:
            yield judged.undecided(1.0, TOO_SHORT)
            continue
        log, error, freedom = estimate(found)
        yield judged.equal(
            1.0,
            Estimate(float(np.exp(log)), float(np.exp(log)) * error, freedom),
            1 / np.sqrt(width),
            r"the models differ by $O(1/\sqrt m)$",
            note=f"at {float(found.ratio):g} critical steps; {_converged(data)} of the runs below converge in time",
        )
    yield _linear_diverges(data, where, key)
    for kind in LEARNERS:
        sentence = f"{begin}{kind}: a smaller best test loss beyond the critical step than at all steps below"
        gain = gain_beyond(logs.sel(model=kind))
        note = (
            f"{np.exp(gain.mean):.3f} of the smallest loss below, standard error {gain.error:.3f} of its "
            f"logarithm; on average best at {gain.ratio:g} critical steps"
        )
        yield _tested(f"{key}-gain-{kind}", sentence, gain.mean).significant(gain.p, "paired over seeds", note)
    for kind in LEARNERS:
        sentence = f"{begin}{kind}: a best test loss that falls with the step over a range beyond the critical one"
        rho, p = falls_beyond(logs.sel(model=kind))
        note = f"Spearman correlation {rho:.2f} up to the best step of the other seeds, mean over seeds"
        yield _tested(f"{key}-falls-{kind}", sentence, rho).significant(p, "by permutation within seeds", note)


def accuracy_findings(data: xr.Dataset, tests: int, width: int, where: str = "", key: str = "") -> Iterator[Finding]:
    r"""The claims about the best test accuracy of one panel.

    Models whose outputs differ by $\Delta = O(1/\sqrt m)$ differ on samples with an output within $\Delta$ of zero.
    Were $yf \sim \mathcal N(1, \sigma^2)$, a share $\Phi(-z)$ would be wrong, $z = 1/\sigma$, and its density at zero
    be $z\varphi(z)$.
    """
    begin, key = f"{where}: " if where else "", key or where
    wrong = 1 - comparable(data.best_accuracy, data)
    below = wrong.sel(ratio=wrong.ratio < 1)
    for kind in ("quadratic", "linear"):
        found = _furthest(below.sel(model="network") - below.sel(model=kind))
        name = f"best test accuracy of the {kind} model less the network's, furthest from zero"
        judged = claim(f"{key}-below-{kind}", f"{begin}below the critical step: {name}")
        if found is None:
            yield judged.undecided(0.0, TOO_SHORT)
            continue
        yield judged.zero(estimate(found), _alike(float(below.sel(model="network").mean()), tests, width))
    yield _linear_diverges(data, where, key)
    for kind in LEARNERS:
        sentence = f"{begin}{kind}: a higher best test accuracy beyond the critical step than at all steps below"
        gain = gain_beyond(wrong.sel(model=kind))
        note = (
            f"higher by {-100 * gain.mean:.2f} percent, standard error {100 * gain.error:.2f}, {tests} test samples; "
            f"on average best at {gain.ratio:g} critical steps"
        )
        yield _tested(f"{key}-gain-{kind}", sentence, gain.mean).significant(gain.p, "paired over seeds", note)


TOO_SHORT = "there is no step below the critical one at which the runs of all seeds converge in time"


def _alike(wrong: float, tests: int, width: int) -> Tolerance:
    """How far the accuracies of models with nearly equal outputs may lie apart."""
    # One more sample of either kind is counted, so that a share of zero has a sampling error, too.
    share = (wrong * tests + 1) / (tests + 2)
    quantile = abs(float(stats.norm.ppf(share)))
    apart = quantile * float(stats.norm.pdf(quantile)) / np.sqrt(width)
    return Tolerance(
        apart + np.sqrt(share * (1 - share) / tests),
        why=rf"outputs that differ by $O(1/\sqrt m)$ near zero, and a sampling error of {tests} samples",
    )


def _tested(key: str, sentence: str, size: float) -> Claim:
    """A claim that a test decides; undecided if there was nothing to test."""
    return claim(key, sentence, not np.isnan(size), f"{TOO_SHORT}, or none beyond at which none diverges")


def _linear_diverges(data: xr.Dataset, where: str, key: str) -> Finding:
    beyond = data.regime.sel(model="linear", ratio=data.ratio >= 1.1 - 1e-9)
    sentence = f"{where}: linear" if where else "linear"
    return claim(
        f"{key}-linear-diverges", f"{sentence}: share of the runs from 1.1 critical steps on that diverge"
    ).equal(1.0, (beyond == cs.DIVERGENT).mean(), 0, "its top mode grows by at least 1.2 at every step")


def _furthest(apart: xr.DataArray) -> xr.DataArray | None:
    """Differences at the step where they are largest on average, among steps at which every seed has a difference."""
    means = np.abs(apart.mean("seed", skipna=False).values)
    return None if np.isnan(means).all() else apart.isel(ratio=int(np.nanargmax(means)))


def _converged(data: xr.Dataset) -> str:
    share = (data.outcome.sel(ratio=data.ratio < 1) == 1).mean()
    return f"{100 * float(share):.0f} percent"


def draw_panels(data: xr.Dataset, figure: Figure, values: str, label: str, titles: dict[str, str]) -> None:
    """Draws best loss or accuracy against step size: means over seeds, with a band of one standard error."""
    count = len(titles)
    columns = min(count, 3) if count != 4 else 2
    rows = -(-count // columns)
    panels = sheet.panels(figure, (max(6.5, 3.7 * columns), 3.3 * rows + 0.5), columns, rows, squeeze=False)
    for axes, (name, title) in zip(panels.flat, titles.items(), strict=False):
        draw_panel(data.sel(panel=name) if "panel" in data.dims else data, axes, values)
        axes.set_title(title, loc="left")
    for axes in panels.flat[count:]:
        axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel(r"step size $\eta/\eta_{\mathrm{crit}}$")
    for axes in panels[:, 0]:
        axes.set_ylabel(label)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def draw_panel(data: xr.Dataset, axes: Axes, values: str) -> None:
    """Draws one panel. Where some seeds diverge there is no mean, and the curve ends."""
    names: dict[str, Any] = {"network": "network", "quadratic": "quadratic model", "linear": "linear model"}
    kept = settled(data[values], data)
    for i, kind in enumerate(MODELS):
        one = kept.sel(model=kind).transpose("ratio", "seed")
        mean, error = one.mean("seed", skipna=False), one.std("seed", ddof=1) / np.sqrt(one.sizes["seed"])
        axes.plot(data.ratio, mean, "o-", ms=4, lw=1.5, color=f"C{i}", zorder=4 - i, label=names[kind])
        axes.fill_between(data.ratio, mean - error, mean + error, color=f"C{i}", alpha=0.13, lw=0)
        largest = float(data.largest.sel(model=kind).min())
        if largest < float(data.ratio[-1]):
            axes.axvline(largest, color=f"C{i}", ls=":", lw=1.2)
    axes.axvline(1, color=sheet.ink(), ls="--", lw=1)
