"""Figures 4.2, 4.3 and C.2 to C.5: a catapult happens in the first few directions of the tangent kernel."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from secant.dynamics import Outcome
from secant.lab import Estimate, Figure, Finding, Findings, option, options, scaled, study
from secant.lab.verdicts.claims import Claim
from secant.studies.shared.about import about
from secant.studies.shared.catapults.panels import DENSE, PANELS, Networks, Panel, check_panels, start_of, starts_of
from secant.studies.shared.catapults.runs import Looks, descend, ended
from secant.studies.shared.catapults.splits_drawn import draw_splits, legends_beside


class Config(Networks):
    panels: tuple[str, ...] = scaled(
        smoke=("shallow",),
        laptop=("fcn", "rank-2"),
        paper=("fcn", "cnn", "rank-2", "wide-resnet", "fcn-10", "cnn-10"),
        distinct=True,
        help=f"some of {', '.join(PANELS)}",
    )
    width: int = options.width(256, 1_024, at_least=4)
    top: int = option(5, at_least=1, help="directions at the top of the kernel, for each output")
    ratio: float | None = options.ratio(None, at_least=1e-2, at_most=20)
    steps: int = options.steps(30, 40, 150, at_least=10, at_most=10**6)
    draws: int = options.draws(2, 2, 5, at_most=1_000)
    starts: int = option(12, at_least=2, at_most=1_000, help="draws of the critical step at the start, where printed")

    def check(self) -> None:
        """Refuses unknown panels."""
        super().check()
        check_panels("panels", self.panels)

    def within(self, panel: Panel) -> int:
        """Directions at the top of a panel's kernel: fewer than there are in all."""
        return min(self.top * panel.outputs, self.samples * panel.outputs - 1)


@study("thesis/fig-4.3", section="4.3.1", title="A catapult happens at the top of the kernel", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent has a constant step above the critical one, $\eta > n/\|K\|_2$, on 128 images of two classes of
    CIFAR-10 or 128 samples of $f^*(x) = x_1x_2$. Split the loss between the first $s$ eigenvectors of the current
    tangent kernel and the rest: the spike is in $\mathcal L_{\le 5}$ alone, $\mathcal L_{>5}$ falls almost
    monotonically (figures 4.3, C.3 and C.4; for ten outputs 10, 30 or 50 directions, figure C.5), and $\|K\|_2$ is
    smaller after the catapult than before (figures 4.2 and C.2).

    If $\mathcal L_{>s}$ does not rise, the rise of $\mathcal L_{\le s}$ up to the peak is at least that of the loss.
    The step size is the printed one over the printed critical one, times the critical one that is measured here.
    """
    found = []
    for name in config.panels:
        panel = PANELS[name]
        starts, critical = starts_of(name, config, config.draws)
        run = descend(
            starts,
            (panel.ratio if config.ratio is None else config.ratio) * critical,
            steps=config.steps,
            looks=Looks(split=(config.within(panel),)),
            together=panel.network in DENSE and panel.outputs == 1,
            label=panel.title,
        )
        criticals = np.full(config.starts, np.nan)
        if _full_size(panel, config):
            seeds = range(config.seed + config.draws, config.seed + config.starts)
            more = [start_of(name, config, seed, starts[0].net).critical for seed in seeds]
            criticals[:] = [*critical, *more][: config.starts]
        found.append(run.isel(s=0, drop=True).assign(start=("run", critical), criticals=("seed", criticals)))
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in config.panels:
        panel, runs = PANELS[name], data.sel(panel=name)
        title, s = panel.title, config.within(panel)
        rows = [_judged(ended(runs.isel(run=i))) for i in range(runs.sizes["run"])]
        of = about(name, title)
        yield of("diverge", "runs that diverge").zero(
            (runs.outcome == Outcome.DIVERGED).sum(), 0, "a catapult comes back"
        )
        yield of("height", "largest loss over the smallest before, the least of all draws").at_least(
            2.0, min(row["height"] for row in rows), "a catapult: the loss at least doubles"
        )
        # A loss that only falls has no spike to split.
        spikes = {key: [row[key] for row in rows if row["height"] > 1] for key in rows[0]}
        split = about(name, title, given=spikes["height"], otherwise="the loss of no draw rises")
        tenth = "'almost' monotone: the rest may add a tenth of the spike"
        yield split("share", f"rise of the loss within {s} directions over that of the loss, to the peak").at_least(
            1.0, min(spikes["share"], default=np.nan), tenth, slack=0.1
        )
        yield split("rest", f"all rises of the loss beyond {s} directions, over the height of the spike").zero(
            max(spikes["rises"], default=np.nan), 0.1, tenth
        )
        yield split("kernel", "norm of the kernel after over before, the most of all draws").at_most(
            1.0, max(spikes["kernel"], default=np.nan), "the catapult lowers it"
        )
        if panel.critical is not None:
            yield _printed(of, panel, runs.criticals.values, config)


def _printed(of: Callable[..., Claim], panel: Panel, drawn: np.ndarray, config: Config) -> Finding:
    """The critical step size at the start, for which the thesis has one draw."""
    count = config.starts
    spread = float(drawn.std(ddof=1) * np.sqrt(1 + 1 / count))
    unsaid = "depth and width of this network" if panel.target else "how pixels are scaled"
    return of(
        "critical",
        "critical step size at the start, against the printed one",
        given=_full_size(panel, config),
        otherwise="the thesis has other data or a network of another size",
    ).equal(
        panel.critical,
        Estimate(float(drawn.mean()), spread, count - 1),
        0,
        "the rounding of the printed number",
        relative=0.02,
        note=f"from {drawn.min():.3g} to {drawn.max():.3g} over {count} draws. The error is that of one draw, because"
        f" the thesis has one. The thesis does not state {unsaid}",
    )


def _full_size(panel: Panel, config: Config) -> bool:
    """Whether data and network are those of the thesis, whose critical step is printed."""
    if panel.critical is None or config.parametrization != "ntk" or config.samples != 128:
        return False
    if panel.target is None and config.data != "cifar10":
        return False
    if panel.network == "fcn":
        return config.width == 1_024
    return config.side == 32 and (config.channels == 512 if panel.network == "cnn" else config.widen == 10)


def _judged(one: xr.Dataset) -> dict[str, float]:
    loss, within, beyond = (one[key].values.astype(float) for key in ("loss", "within", "beyond"))
    good = np.isfinite([loss, within, beyond]).all(axis=0)  # the last of a run that diverges may not be
    loss, within, beyond = loss[good], within[good], beyond[good]
    peak = int(np.argmax(loss))
    before = int(np.argmin(loss[: peak + 1]))
    height = max(loss[peak] - loss[before], np.finfo(float).tiny)
    return {
        "height": loss[peak] / loss[before],
        "share": (within[peak] - within[before]) / height,
        "rises": float(np.clip(np.diff(beyond), 0, None).sum() / height),
        "kernel": float(one.critical[0] / one.critical.values[good][-1]),
    }


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    runs = []
    for name in config.panels:
        panel, one = PANELS[name], ended(data.sel(panel=name).isel(run=0))
        title = f"{panel.title}\n{float(one.lr[0] / one.start):.2f} critical steps"
        runs.append((title, config.within(panel), one))
    legends_beside(draw_splits(figure, runs, 3.7))
