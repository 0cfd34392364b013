"""Theorem 8.3.1: gradient descent on the exponential loss turns to the largest margin."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real, separable
from secant.theory.bias.margins import max_margin

STARTS = 3
"""Starting points of each run."""

LOSSES = ("exponential", "logistic")


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="cifar10", help="random, or a data set that secant.data knows")
    samples: int = options.samples(20, 60, at_least=4, at_most=1_000)
    dim: int = options.dim(5, 60, at_least=2, at_most=100)
    gap: float = option(0.5, at_least=0.2, at_most=5, help="distance of random samples from a plane between them")
    steps: int = options.steps(4_000, 100_000, at_least=2_000, at_most=10**6)


def printed_loss(Z: np.ndarray, steps: int) -> np.ndarray:
    """Margins after descent on the loss that chapter 1 prints, the logistic function of the margin."""
    w = np.zeros(Z.shape[1])
    for _ in range(steps):
        s = 1 / (1 + np.exp(-np.clip(Z @ w, -500, 500)))
        w = w - (s * (1 - s)) @ Z
    return Z @ w


@study("book/thm-8.3.1", section="8.3", title="Gradient descent finds the largest margin")
def run(config: Config) -> xr.Dataset:
    r"""On separable data gradient descent on $L(w) = \sum_ie^{-y_iw\cdot x_i}$, from any start and with any step sizes
    that bring the loss to zero, has the limit direction $\lim w_t/\|w_t\| = \hat w/\|\hat w\|$, where
    $\hat w = \operatorname{argmin}\|w\|^2$ with $y_iw\cdot x_i \ge 1$ are the weights of the support vector machine.
    The logistic loss leads to the same direction. With steps $\eta/L$ the norm grows as $t$, and the distance from the
    limit direction falls as $1/t$; with fixed steps it falls as $1/\log t$.
    """
    random = np.random.default_rng(config.seed)
    data = separable.chosen(config, random)
    Z = data.z
    found = max_margin(Z)
    best, top = found.w * found.margin, float((Z**2).sum(1).max())
    kept = np.unique(np.geomspace(1, config.steps, 60).astype(int))
    # All runs at once: steps 1/(B^2 L) and fixed steps, each from several starts and on both losses.
    start = np.concatenate([np.zeros((1, config.dim)), random.normal(size=(STARTS - 1, config.dim))])
    W = np.tile(start, (4, 1)).reshape(2, 2, STARTS, config.dim)
    first = separable.log_loss(start @ Z.T)
    # Fixed steps are 1/(B^2 L(w_0)), and 1/(B^2 n) for the logistic loss: both losses then fall in every step.
    fixed = np.stack([first, np.full(STARTS, np.log(config.samples))])
    apart, logs, ratio = [], [], []
    for t in range(config.steps + 1):
        m = W @ Z.T
        log = np.stack([separable.log_loss(m[:, 0]), np.log(np.logaddexp(0, -m[:, 1]).sum(-1))], 1)
        if t in kept:
            logs.append(log)
            ratio.append(m.min(-1) / np.linalg.norm(W, axis=-1) / found.margin)
            apart.append(np.linalg.norm(W / np.linalg.norm(W, axis=-1, keepdims=True) - best, axis=-1))
        # -log of minus the derivative of each loss, less the logarithm of the loss where steps are divided by it.
        slope = np.stack([m[:, 0], np.logaddexp(0, m[:, 1])], 1)
        over = np.stack([log[0], fixed])
        W = W + np.exp(-slope - over[..., None]) @ Z / top
    last = separable.weights(W[0, 0] @ Z.T)
    runs = "at", "steps", "loss", "start"
    return xr.Dataset(
        {
            "x": (("sample", "feature"), data.x),
            "y": ("sample", data.y),
            "apart": (runs, np.stack(apart)),
            "first": ("start", first),
            "ratio": (runs, np.stack(ratio)),
            "log_loss": (runs, np.stack(logs)),
            "weights": (("start", "sample"), last),
            "multipliers": ("sample", found.multipliers * found.margin**2),
            "best": ("feature", best),
            "w": (("steps", "loss", "start", "feature"), W),
            "margin": found.margin,
            "residual": found.residual,
            "wrong": ("sample", printed_loss(Z, min(config.steps, 2_000))),
        },
        coords={"at": kept, "loss": list(LOSSES), "steps": ["over the loss", "fixed"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    Z = data.x.values * data.y.values[:, None]
    yield claim("solver", "largest margin: distance from its own bound, relative").zero(data.residual, 1e-9, "rounding")
    error, gamma, top = data.apart, float(data.margin), float((Z**2).sum(1).max())
    # |w_t| is at least its margin, and a step adds gamma^2/B^2 to that. What is not along the direction stays bounded.
    spare, scale = np.log(config.samples) + 2 * config.dim, top * (1 / gamma) ** 2 / config.steps
    for loss in LOSSES:
        path, words = error.sel(loss=loss, steps="over the loss"), f"{loss} loss, steps over the loss"
        ended, early = path.isel(at=-1), path.sel(at=config.steps // 10, method="nearest")
        why = "bounded, over a norm that grows by at least the squared margin a step"
        yield claim(f"direction-{loss}", f"{words}: distance of the direction at the end, all starts").at_most(
            min(2.0, spare * scale), ended.max(), why
        )
        yield claim(
            f"fall-{loss}", f"{words}: distance of the direction at the end over that at a tenth of the steps"
        ).at_most(1.0, (ended / early).max(), "it falls")
        # w.v = sum of multipliers times margins, v the best direction.
        beyond = (data.ratio - (1 - error**2 / 2)).sel(loss=loss).max()
        name = f"{loss} loss: margin over the largest, less the cosine with the best direction, all steps and starts"
        yield claim(f"margin-{loss}", name).at_most(0.0, beyond, "an inequality, to rounding", slack=1e-12)
    fixed = np.exp(data.log_loss.sel(loss="exponential", steps="fixed").isel(at=-1) - data["first"])
    # 1/L grows by at least eta gamma^2/2 in a step.
    yield claim("fixed", r"exponential loss, fixed steps: loss after $t$ steps times $t\,\eta\gamma^2/2$").at_most(
        1.0, (fixed * config.steps * gamma**2 / (2 * top)).max(), "by the descent of a step"
    )
    why = "what is left of the direction, to first order"
    yield claim("multipliers", "samples by their loss against the multipliers of the largest margin, all starts").zero(
        np.abs(data.weights - data.multipliers).max(), min(1.0, 4 * spare * scale), why
    )
    right = float(((data.w.sel(steps="fixed", loss="logistic").values @ Z.T) > 0).mean())
    printed = r"\ell = 1/(1 + e^{-yh(x)})", float((data.wrong > 0).mean())
    corrected, where = (r"\ell = \log(1 + e^{-yh(x)})", 1.0), "chapter 1, logistic loss"
    note = "the print has the logistic function of the margin, large where a sample is right: descent turns away"
    yield claim("logistic", "share of samples that descent on the logistic loss classifies").erratum(
        printed, corrected, right, 0.0, "separable data, all of it", where=where, note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i, kind in enumerate(data.steps.values):
        for j, loss in enumerate(LOSSES):
            look = {"color": f"C{2 * i + j}", "lw": 1.4, "alpha": 0.8}
            lines = data.apart.sel(steps=kind, loss=loss).transpose("start", "at")
            for k, line in enumerate(lines):
                left.loglog(data["at"], line, label=None if k else f"{loss}, steps {kind}", **look)
    last = float(data.apart.sel(steps="over the loss", loss="exponential").isel(at=-1, start=0))
    sheet.guide(left, data["at"][30:], last * config.steps / data["at"][30:], "$1/t$")
    distance = r"$|w_t/|w_t| - \hat w/|\hat w||$"
    sheet.label(left, "To the largest margin, from three starts", "step", distance, "lower left")
    order, places = np.argsort(-data.multipliers.values), np.arange(1, config.samples + 1)
    for k in range(STARTS):
        look = {"ms": 4 + 2 * k, "mfc": "none", "color": f"C{k}", "label": f"by their loss, start {k + 1}"}
        right.plot(places, data.weights.isel(start=k)[order], "o", **look)
    look = {"color": sheet.ink(), "lw": 1.2, "label": r"multipliers $\gamma^2a_i$"}
    right.vlines(places, 0, data.multipliers[order], **look)
    sheet.label(right, "Who carries the gradient in the end", "sample", "weight", "upper right")
