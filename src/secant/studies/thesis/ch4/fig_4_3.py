"""Figures 4.2, 4.3 and C.2 to C.5: a catapult happens in the first few directions of the tangent kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Estimate, Figure, Finding, Findings, Tolerance, claims, option, scaled, sheet, study
from secant.setups.catapults.panels import DENSE, PANELS, Networks, Panel, check_panels, network, start_of
from secant.setups.catapults.runs import Looks, descend, until_its_end


@dataclass(frozen=True)
class Config(Networks):
    """Networks, data and the run."""

    panels: tuple[str, ...] = scaled(
        smoke=("shallow",), laptop=("fcn", "rank-2"), paper=("fcn", "cnn", "rank-2", "wide-resnet", "fcn-10", "cnn-10"),
        distinct=True, help=f"some of {', '.join(PANELS)}",
    )  # fmt: skip
    width: int = scaled(smoke=256, laptop=1_024, at_least=4, help="neurons a layer, fully connected")
    top: int = option(5, at_least=1, help="directions at the top of the kernel, times the outputs")
    ratio: float | None = option(
        None, at_least=1e-2, at_most=20, help="step size over the critical one; by default the printed one over its own"
    )
    steps: int = scaled(smoke=30, laptop=40, paper=150, at_least=10, at_most=10**6, help="gradient-descent steps")
    draws: int = scaled(smoke=2, laptop=2, paper=5, at_least=1, at_most=1_000, help="draws of data and weights")
    starts: int = option(12, at_least=2, at_most=1_000, help="draws of the critical step at the start, where printed")

    def check(self) -> None:
        """Panels that there are."""
        super().check()
        check_panels("panels", self.panels)

    def within(self, panel: Panel) -> int:
        """Directions at the top of a panel's kernel, which has others too."""
        return min(self.top * panel.outputs, self.samples * panel.outputs - 1)


@study(
    "thesis/fig-4.3", section="4.3.1", title="A catapult happens at the top of the kernel",
    statement=r"""
    Gradient descent with a constant step above the critical one, $\eta > n/\|K\|_2$, on 128 images of two classes of
    CIFAR-10 or 128 samples of $f^*(x) = x_1x_2$. Split the loss between the first $s$ eigenvectors of the current
    tangent kernel and the rest: the spike is in $\mathcal L_{\le 5}$ alone, $\mathcal L_{>5}$ falls almost
    monotonically (figures 4.3, C.3 and C.4; for ten outputs 10, 30 or 50 directions, figure C.5), and $\|K\|_2$ is
    smaller after the catapult than before (figures 4.2 and C.2).

    If $\mathcal L_{>s}$ does not rise, the rise of $\mathcal L_{\le s}$ up to the peak is at least that of the loss.
    The step size is the printed one over the printed critical one, times the critical one that is measured here.""",
    precision="float32",
)
def run(config: Config) -> xr.Dataset:
    found = []
    for name in config.panels:
        panel = PANELS[name]
        net = network(panel, config)
        starts = [start_of(name, config, config.seed + i, net) for i in range(config.draws)]
        ratio = panel.ratio if config.ratio is None else config.ratio
        run = descend(
            starts, [ratio * start.critical for start in starts], steps=config.steps,
            looks=Looks(split=(config.within(panel),)), together=panel.network in DENSE and panel.outputs == 1,
            label=panel.title,
        )
        criticals = np.full(config.starts, np.nan)
        if _full_size(name, config):
            seeds = range(config.seed + config.draws, config.seed + config.starts)
            more = [start_of(name, config, seed, net).critical for seed in seeds]
            criticals[:] = [*(start.critical for start in starts), *more][: config.starts]
        found.append(run.isel(s=0, drop=True).assign(start=("run", [start.critical for start in starts])))
        found[-1]["criticals"] = ("seed", criticals)
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


def ended(data: xr.Dataset) -> xr.Dataset:
    """One run, without the steps that others of another panel made."""
    return until_its_end(data.dropna("step", subset=["loss"]))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        panel, runs = PANELS[name], data.sel(panel=name)
        rows = [_judged(ended(runs.isel(run=i))) for i in range(runs.sizes["run"])]
        yield claims.zero(
            f"{panel.title}: runs that diverge", (runs.outcome == Outcome.DIVERGED).sum(), 0, "a catapult comes back"
        )
        yield claims.at_least(
            f"{panel.title}: largest loss over the smallest before, the least of all draws", 2.0,
            min(row["height"] for row in rows), "a catapult: the loss at least doubles",
        )
        yield from _of_spike(panel.title, config.within(panel), [row for row in rows if row["height"] > 1])
        if panel.critical is not None:
            yield _against_the_print(name, runs.criticals.values, config)


def _of_spike(title: str, s: int, rows: list[dict[str, float]]) -> Findings:
    """Of the draws whose loss rises at all: a loss that only falls has no spike to split."""
    tenth = "'almost' monotone: the rest may add a tenth of the spike"
    for key, what, predicted, relation, tolerance in (
        ("share", f"rise of the loss within {s} directions over that of the loss, to the peak", 1.0, "at least",
         Tolerance(0.1, why=tenth)),
        ("rises", f"all rises of the loss beyond {s} directions, over the height of the spike", 0.0, "equal",
         Tolerance(0.1, why=tenth)),
        ("kernel", "norm of the kernel after over before, the most of all draws", 1.0, "at most",
         Tolerance(why="the catapult lowers it")),
    ):  # fmt: skip
        name = f"{title}: {what}"
        if not rows:
            yield claims.undecided(name, predicted, "the loss of no draw rises", relation)
            continue
        worst = min if relation == "at least" else max
        yield Finding(name, predicted, worst(row[key] for row in rows), tolerance, relation)


def _against_the_print(name: str, criticals: np.ndarray, config: Config) -> Finding:
    """The critical step size at the start, of which the thesis has one draw."""
    panel, count = PANELS[name], len(criticals)
    claim = f"{panel.title}: critical step size at the start, against the printed one"
    printed = panel.critical or np.nan
    if not _full_size(name, config):
        return claims.undecided(claim, printed, "the thesis has other data or a network of another size")
    spread = float(criticals.std(ddof=1) * np.sqrt(1 + 1 / count))
    unsaid = "depth and width of this network are not said" if panel.target else "how pixels are scaled is not said"
    return claims.equal(
        claim, printed, Estimate(float(criticals.mean()), spread, count - 1), 0, "the rounding of the printed number",
        relative=0.02,
        note=f"from {criticals.min():.3g} to {criticals.max():.3g} over {count} draws. The error is that of one draw,"
        f" for the thesis has one; {unsaid}",
    )


def _full_size(name: str, config: Config) -> bool:
    """Whether data and network are those of the thesis, whose critical step is printed."""
    panel = PANELS[name]
    if panel.critical is None or config.parametrization != "ntk" or config.samples != 128:
        return False
    if panel.target is None and config.data != "cifar10":
        return False
    if panel.network == "fcn":
        return config.width == 1_024
    return config.side == 32 and (config.channels == 512 if panel.network == "cnn" else config.widen == 10)


def _judged(one: xr.Dataset) -> dict[str, float]:
    loss, within, beyond = (one[key].values.astype(float) for key in ("loss", "within", "beyond"))
    # Finite values only: the last of a run that diverges may not be.
    good = np.isfinite(loss) & np.isfinite(within) & np.isfinite(beyond)
    loss, within, beyond = loss[good], within[good], beyond[good]
    peak = int(np.argmax(loss))
    before = int(np.argmin(loss[: peak + 1]))
    height = max(loss[peak] - loss[before], np.finfo(float).tiny)
    return {
        "height": loss[peak] / loss[before], "share": (within[peak] - within[before]) / height,
        "rises": float(np.clip(np.diff(beyond), 0, None).sum() / height),
        "kernel": float(one.critical[0] / one.critical.values[good][-1]),
    }


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    ink = sheet.ink()
    count = len(config.panels)
    grid = sheet.panels(figure, (max(5.0, 3.7 * count), 5.6), count, 2, sharex="col", squeeze=False)
    for top, bottom, name in zip(grid[0], grid[1], config.panels, strict=True):
        one, panel = ended(data.sel(panel=name).isel(run=0)), PANELS[name]
        s = config.within(panel)
        top.semilogy(one.step, one.loss, "--", color=ink, lw=1, label=r"$\mathcal{L}$")
        top.semilogy(one.step, one.within, color="C0", lw=1.6, label=rf"$\mathcal{{L}}_{{\leq {s}}}$")
        top.semilogy(one.step, one.beyond, color="C1", lw=1.6, label=rf"$\mathcal{{L}}_{{> {s}}}$")
        top.set_title(f"{panel.title}\n{float(one.lr[0] / one.start):.2f} critical steps", loc="left")
        bottom.plot(one.step, float(one.critical[0]) / one.critical, color="C2", lw=1.6)
        bottom.axhline(float(one.critical[0] / one.lr[0]), color=ink, ls="--", lw=1)
        bottom.set_ylim(0, None)
        bottom.set_xlabel("step")
    grid[0][0].set_ylabel("loss")
    grid[1][0].set_ylabel(r"$\|K_t\|_2 / \|K_0\|_2$")
    grid[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    grid[1][-1].plot([], [], color="C2", lw=1.6, label=r"$\|K_t\|_2$")
    grid[1][-1].plot([], [], "--", color=ink, lw=1, label="critical")
    grid[1][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
