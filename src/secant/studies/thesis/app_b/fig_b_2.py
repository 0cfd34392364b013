"""Figures B.2 and B.3: what a large loss does to the top direction of the tangent kernel."""

from typing import NamedTuple

import jax
import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, options, scaled, sheet, study
from secant.studies.shared.about import about
from secant.studies.shared.numerics.exponents import rate
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
"""Panels by name. Fashion-MNIST stands where the thesis has SVHN; the digits, for smoke runs, are 0 and 1."""

LARGE = 2.0
"""A loss is large if it is at least this many times the loss at the start."""


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
        """Refuses unknown panels, and what no memory holds."""
        if unknown := set(self.panels) - set(PANELS):
            raise ValueError(f"panels: there is no {', '.join(sorted(unknown))}. Panels: {', '.join(PANELS)}.")
        neurons = max(self.width, self.channels * 1_024)
        fits_memory(64.0 * self.draws * self.samples * (neurons + self.samples), "width, channels, samples or draws")


@study("thesis/fig-B.2", section="B.14", title="The remainders along the top direction grow with the loss")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent trains two-layer ReLU networks (figure B.3) and their quadratic models (figure B.2), fully
    connected and convolutional, above the critical step size on two classes of images. Along the top eigenvector $p_1$
    of the tangent kernel, (B.13) and (B.14) with $$f' - y = (I - \eta K + R_f)(f - y), \qquad K' = K - R_K$$ say that
    $p_1^\top R_fp_1$ slows the growth of the loss and $p_1^\top R_Kp_1$ lowers the curvature. Both scale with the loss
    and are positive while it is large, and the loss along $p_1$ almost captures the spike.

    Quadratic models have closed forms, $R_f = \frac{\eta^2}{2}GJ^\top$ and $R_K = \eta(GJ^\top + JG^\top) -
    \eta^2GG^\top$ with $G_i = H_iJ^\top(f - y)$. For networks $R_K$ is what the kernel loses, and $R_f$ is read off
    $\langle p_1, f' - y\rangle = (1 - \eta\lambda_1 + \rho)\langle p_1, f - y\rangle$. With several samples $\rho =
    p_1^\top R_f(f - y)/\langle p_1, f - y\rangle$ is not quite $p_1^\top R_fp_1$, because $\rho$ also contains what
    the other directions put into $p_1$.

    A *large* loss is at least twice the loss at the start, with $|\langle p_1, f - y\rangle| > \frac{4}{4 -
    \eta\lambda_1} |\langle p_1, y\rangle|$, which makes both remainders of one sample positive. The eigenvector is
    followed by overlap: past the peak its eigenvalue falls below others and is no longer the top one.
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
    """Where the loss is large, as the statement defines it; never after the last step, which has no next."""
    room = 4 - data.lr * data.curvature
    tall = (np.abs(data.along) * room > 4 * np.abs(data.label)) & (room > 0)
    return tall & (data.loss > LARGE * data.loss.isel(step=0)) & np.isfinite(data.rest_k)


def _exponent(loss: np.ndarray, remainder: np.ndarray) -> float:
    """Exponent of a remainder in the loss, where it is positive; none from fewer than three steps."""
    positive = remainder > 0
    return rate(loss[positive], remainder[positive]) if positive.sum() >= 3 else np.nan


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    quadratic = data.sel(model="quadratic")
    alive, along = np.isfinite(quadratic.rest_k), np.abs(quadratic.along)
    lost = np.abs(quadratic.closed_k - quadratic.rest_k) / quadratic.largest.isel(step=0)
    missed = np.abs((quadratic.closed_whole - quadratic.rest_f) * along) / along.max("step")
    for key, sentence, gap, rounded in (
        ("kernel", r"$p_1 R_K p_1$ against what the kernel loses, largest gap over $\lambda_1$", lost, "kernels"),
        ("residual", r"$p_1 R_f (f - y)$ against the next residual, largest gap over the peak", missed, "residuals"),
    ):
        yield claim(f"{key}-closed-form", f"quadratic models: closed form of {sentence}").zero(
            gap.where(alive).max(), 1e-10, f"an identity: rounding of {rounded} and eigenvectors"
        )
    one = quadratic.isel(panel=0, trial=0)
    one, name = one.isel(step=int(one.loss.argmax("step"))), config.panels[0]
    printed = r"\langle p_1, f' - y\rangle = (I - \eta\lambda_1 + p_1^\top R_fp_1)\,\langle p_1, f - y\rangle"
    right = r"\langle p_1, f' - y\rangle = (1 - \eta\lambda_1)\,\langle p_1, f - y\rangle + p_1^\top R_f(f - y)"
    growth = rf"{name}, quadratic: growth of the residual along $p_1$ at the peak, beyond $1 - \eta\lambda_1$"
    yield claim("growth", growth).erratum(
        (printed, float(one.closed_f)),
        (right, float(one.closed_whole)),
        one.rest_f,
        0,
        "an identity: rounding",
        relative=1e-8,
        note="$R_f$ does not share its eigenvectors with $K$; the residual in other directions comes into $p_1$ by it.",
        where="appendix B.14, below (B.14)",
    )
    for panel in config.panels:
        for kind in KINDS:
            yield from _claims(data.sel(panel=panel, model=kind), f"{panel}-{kind}", f"{panel}, {kind}")


def _claims(data: xr.Dataset, key: str, name: str) -> Findings:
    large, rise = is_large(data), data.loss / data.loss.isel(step=0)
    peak, steps = data.loss.argmax("step"), large.sum("step")
    height = f"the loss rises {float(rise.isel(step=peak).mean()):.0f} times"
    few = "the loss of some draw is large at fewer than three steps"
    of, tall_enough = about(key, name), about(key, name, given=steps.min() >= 3, otherwise=few)
    yield of("spike", "share of the loss along $p_1$ at the peak").at_least(
        0.9,
        estimate((data.within / data.loss).isel(step=peak)),
        "'almost captures the spike'",
        note=f"{height}; it is large for {int(steps.min())} to {int(steps.max())} steps",
    )
    drops = r"while the loss grows tenfold, $4 - \eta\lambda$ grows by a quarter and the label drops out"
    for what, values in (("R_f", data.rest_f), ("R_K", data.rest_k)):
        tall, form = values.where(large), rf"$p_1^\top {what} p_1$"
        yield tall_enough(f"sign-{what}", f"smallest {form} while the loss is large, over the largest").at_least(
            0.0,
            (tall.min("step") / tall.max("step")).min(),
            "the claim: positive",
            note=_exceptions(data, large & (values <= 0), int(large.sum())),
        )
        slopes = [_exponent(*rows) for rows in zip(data.within.values, tall.values, strict=True)]
        yield tall_enough(f"law-{what}", f"exponent of {form} in the loss along $p_1$ while it is large").equal(
            1.0,
            estimate(slopes),
            0.2,
            f"{drops}, which is up to 0.4 of the residual: 0.1 each",
            note="" if np.isfinite(slopes).all() else few,
        )
    back = not (data.loss.isel(step=-1) > data.loss.isel(step=0)).any()
    late = "the loss has not come back to where it was in time"
    yield of("end", r"largest curvature at the end, over $2/\eta$", given=back, otherwise=late).at_most(
        1.0, (data.largest.isel(step=-1) * data.lr / 2).max(), "the catapult ends below the edge"
    )


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
