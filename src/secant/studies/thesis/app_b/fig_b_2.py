"""Figures B.2 and B.3: what a large loss does to the top direction of the tangent kernel."""

from typing import NamedTuple

import jax
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, options, scaled, sheet, study
from secant.studies.shared.panels import patches, shrunk
from secant.studies.shared.two_layer.remainders import KINDS, Trial, draw_trial, follow, signed_images, spanned


class Panel(NamedTuple):
    """Two classes of a data set, and whether the network is convolutional."""

    title: str
    data: str
    classes: tuple[int, int]
    images: bool = False


PANELS = {
    "digits": Panel("8 by 8 digits", "digits", (0, 1)),
    "mnist": Panel("MNIST", "mnist", (0, 1)),
    "cifar-2": Panel("CIFAR-2", "cifar10", (0, 2)),
    "cifar-2-cnn": Panel("CIFAR-2, convolutional", "cifar10", (0, 2), True),
    "fashion-mnist": Panel("Fashion-MNIST", "fashion-mnist", (0, 2)),
    "fashion-mnist-cnn": Panel("Fashion-MNIST, convolutional", "fashion-mnist", (0, 2), True),
}
"""Panels by name. Fashion-MNIST stands where the thesis has SVHN; of digits, for smoke runs, the first two classes."""


LARGE = 2.0
"""A loss so many times that at the start is large."""


class Config(Seeded):
    panels: tuple[str, ...] = scaled(
        smoke=("digits",),
        laptop=("cifar-2", "cifar-2-cnn"),
        paper=("cifar-2", "cifar-2-cnn", "fashion-mnist", "fashion-mnist-cnn"),
        distinct=True,
        help=f"some of {', '.join(PANELS)}",
    )
    samples: int = options.samples(24, 128, at_least=4)
    width: int = options.width(2_048, 2_048, at_least=16)
    channels: int = scaled(smoke=64, laptop=1_024, at_least=4, help="channels, convolutional")
    shrink: int = scaled(
        smoke=4, laptop=8, paper=1, at_least=1, at_most=8, help="pixels a side averaged into one, convolutional"
    )
    ratio: float = options.ratio(1.2, at_least=1.05, at_most=1.9)
    draws: int = options.draws(8, 6, at_least=2, at_most=10_000)
    steps: int = options.steps(26, 30, 120, at_least=20, at_most=10**5)

    def check(self) -> None:
        """Refuses panels that there are not, and what no memory holds."""
        if unknown := set(self.panels) - set(PANELS):
            raise ValueError(f"panels: there is no {', '.join(sorted(unknown))}. Panels: {', '.join(PANELS)}.")
        neurons = max(self.width, self.channels * 1_024)
        fits_memory(64.0 * self.draws * self.samples * (neurons + self.samples), "width, channels, samples or draws")


@study("thesis/fig-B.2", section="B.14", title="The remainders along the top direction grow with the loss")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent above the critical step size on two-layer ReLU networks (figure B.3) and on their quadratic
    models (figure B.2), fully connected and convolutional, two classes of images. Along the top eigenvector $p_1$ of
    the tangent kernel, (B.13) and (B.14) with $$f' - y = (I - \eta K + R_f)(f - y), \qquad K' = K - R_K$$ say that
    $p_1^\top R_fp_1$ slows the growth of the loss and $p_1^\top R_Kp_1$ lowers the curvature. Both scale with the loss
    and are positive while it is large, and the loss along $p_1$ almost captures the spike.

    Quadratic models have closed forms, $R_f = \frac{\eta^2}{2}GJ^\top$ and $R_K = \eta(GJ^\top + JG^\top) -
    \eta^2GG^\top$ with $G_i = H_iJ^\top(f - y)$. For networks $R_K$ is what the kernel loses, and $R_f$ is read off
    $\langle p_1, f' - y\rangle = (1 - \eta\lambda_1 + \rho)\langle p_1, f - y\rangle$. With several samples $\rho =
    p_1^\top R_f(f - y)/\langle p_1, f - y\rangle$ is not quite $p_1^\top R_fp_1$: what the other directions put into
    $p_1$ comes with it.

    *Large* is a loss of at least twice that at the start, with $|\langle p_1, f - y\rangle| > \frac{4}{4 -
    \eta\lambda_1} |\langle p_1, y\rangle|$, which makes both remainders of one sample positive. The eigenvector is
    followed by overlap: past the peak its eigenvalue falls below others, and the top one is another.
    """
    found = []
    for name in config.panels:
        drawn = [_draw(PANELS[name], config, seed) for seed in range(config.seed, config.seed + config.draws)]
        trials = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
        found.append(follow(trials, config.steps).assign(lr=("trial", trials.lr)))
    return xr.concat(found, "panel", join="outer").assign_coords(panel=list(config.panels))


def _draw(panel: Panel, config: Config, seed: int) -> Trial:
    x, y = signed_images(panel.data, panel.classes, config.samples, seed, flat=not panel.images)
    width = config.channels if panel.images else config.width
    x = patches(shrunk(x, config.shrink)) if panel.images else spanned(x)
    return draw_trial(x, y, width, config.ratio, np.random.default_rng(seed))


def is_large(data: xr.Dataset) -> xr.DataArray:
    """Where the loss is large, as the statement says; never after the last step, which has no next."""
    room = 4 - data.lr * data.curvature
    tall = (np.abs(data.along) * room > 4 * np.abs(data.label)) & (room > 0)
    return tall & (data.loss > LARGE * data.loss.isel(step=0)) & np.isfinite(data.rest_k)


def _slope(loss: np.ndarray, remainder: np.ndarray) -> float:
    """Exponent of a remainder in the loss, where it is positive; none from fewer than three steps."""
    positive = remainder > 0
    if positive.sum() < 3:
        return np.nan
    return float(np.polyfit(np.log(loss[positive]), np.log(remainder[positive]), 1)[0])


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    quadratic = data.sel(model="quadratic")
    alive, along = np.isfinite(quadratic.rest_k), np.abs(quadratic.along)
    lost = np.abs(quadratic.closed_k - quadratic.rest_k) / quadratic.largest.isel(step=0)
    missed = np.abs((quadratic.closed_whole - quadratic.rest_f) * along) / along.max("step")
    for what, gap, rounded in (
        ("p_1 R_K p_1 against what the kernel loses, largest difference over lambda_1", lost, "kernels"),
        ("p_1 R_f (f - y) against the next residual, largest difference over the peak", missed, "residuals"),
    ):
        name, why = f"quadratic models: closed form of {what}", f"an identity: rounding of {rounded} and eigenvectors"
        yield claim(name, name).zero(gap.where(alive).max(), 1e-10, why)
    one = quadratic.isel(panel=0, trial=0)
    one = one.isel(step=int(one.loss.argmax("step")))
    yield claim(
        f"{config.panels[0]}-quadratic-growth-residual",
        f"{config.panels[0]}, quadratic: growth of the residual along p_1 at the peak, beyond 1 - eta lambda_1",
    ).erratum(
        (
            r"\langle p_1, f' - y\rangle = (I - \eta\lambda_1 + p_1^\top R_fp_1)\,\langle p_1, f - y\rangle",
            float(one.closed_f),
        ),
        (
            r"\langle p_1, f' - y\rangle = (1 - \eta\lambda_1)\,\langle p_1, f - y\rangle + p_1^\top R_f(f - y)",
            float(one.closed_whole),
        ),
        one.rest_f,
        0,
        "an identity: rounding",
        relative=1e-8,
        note="R_f does not share its eigenvectors with K; the residual in other directions comes into p_1 through it.",
        where="appendix B.14, below (B.14)",
    )
    for panel in config.panels:
        for kind in KINDS:
            yield from _claims(data.sel(panel=panel, model=kind), f"{panel}, {kind}")


def _claims(data: xr.Dataset, name: str) -> Findings:
    large, rise = is_large(data), data.loss / data.loss.isel(step=0)
    peak, steps = data.loss.argmax("step"), large.sum("step")
    yield claim(f"{name}-share-loss-along", f"{name}: share of the loss along p_1 at the peak").at_least(
        0.9,
        estimate((data.within / data.loss).isel(step=peak)),
        "'almost captures the spike'",
        note=f"the loss rises {float(rise.isel(step=peak).mean()):.0f} times; it is large for {int(steps.min())} to "
        f"{int(steps.max())} steps",
    )
    enough, few = steps.min() >= 3, "the loss of some draw is large at fewer than three steps"
    for label, values in (("R_f", data.rest_f), ("R_K", data.rest_k)):
        tall = values.where(large)
        yield claim(
            f"{name}-smallest-p-1-{label}",
            f"{name}: smallest p_1 {label} p_1 while the loss is large, over the largest",
            given=enough,
            otherwise=few,
        ).at_least(
            0.0,
            (tall.min("step") / tall.max("step")).min(),
            "the claim: positive",
            note=_exceptions(data, large & (values <= 0), int(large.sum())),
        )
        slopes = [_slope(*rows) for rows in zip(data.within.values, tall.values, strict=True)]
        yield claim(
            f"{name}-exponent-p-1-{label}",
            f"{name}: exponent of p_1 {label} p_1 in the loss along p_1 while it is large",
            given=enough,
            otherwise=few,
        ).equal(
            1.0,
            estimate(slopes),
            0.2,
            "while the loss grows tenfold, 4 - eta lambda grows by a quarter and the label, up to 0.4 of the "
            "residual, drops out: 0.1 each",
            note="" if np.isfinite(slopes).all() else few,
        )
    yield claim(
        f"{name}-curvature-end-2",
        f"{name}: largest curvature at the end, over 2 / eta",
        given=not (data.loss.isel(step=-1) > data.loss.isel(step=0)).any(),
        otherwise="the loss has not come back to where it was in time",
    ).at_most(1.0, (data.largest.isel(step=-1) * data.lr / 2).max(), "the catapult ends below the edge")


def _exceptions(data: xr.Dataset, bad: xr.DataArray, total: int) -> str:
    """How many steps break a claim, and how large the loss is there."""
    if not bad.any():
        return ""
    rise = float((data.loss / data.loss.isel(step=0)).where(bad).max())
    share = float((data.within / data.loss).where(bad).max())
    many = f"not at {int(bad.sum())} of {total} steps"
    return f"{many}: loss up to {rise:.1f} times the start, {share:.0%} of it along p_1"


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    rows = [(panel, kind) for panel in config.panels for kind in KINDS]
    grid = sheet.panels(figure, (11, 2.9 * len(rows)), 3, len(rows), squeeze=False)
    for (left, middle, right), (panel, kind) in zip(grid, rows, strict=True):
        one = data.sel(panel=panel, model=kind).isel(trial=0)
        shown = slice(0, 2 * int(one.loss.argmax("step")) + 8)
        one, large = one.isel(step=shown), is_large(one).isel(step=shown)
        left.semilogy(one.step, one.loss, "o-", ms=3.5, color="C0", label="loss")
        left.semilogy(one.step, one.within, "s--", ms=3, lw=1, color="C1", label="along $p_1$")
        top = one.loss.max()
        left.set(title=f"{PANELS[panel].title}: {kind}", ylabel="loss", ylim=(1e-3 * top, 3 * top))
        left.legend(fontsize=8, loc="lower right")
        unit = one.curvature[0]
        for axes, measured, closed, label in (
            (middle, one.rest_f, one.closed_f, r"$p_1^\top R_f\,p_1$"),
            (right, one.rest_k / unit, one.closed_k / unit, r"$p_1^\top R_K\,p_1/\lambda_1(0)$"),
        ):
            if kind == "quadratic":
                sheet.guide(axes, one.step, closed, "closed form", ls="-", lw=1)
            axes.plot(one.step, measured.where(large), "o", ms=5, color="C2", label="loss large")
            axes.plot(one.step, measured.where(~large), "o", ms=4, mfc="none", color="C2", label="small")
            tall = measured.where(large).max()
            sheet.mark(axes, y=0, lw=0.8, ls=":")
            sheet.label(axes, label, legend={"fontsize": 8, "loc": "upper right"}, ylim=(-0.25 * tall, 1.15 * tall))
    for axes in grid[-1]:
        axes.set_xlabel("step")
