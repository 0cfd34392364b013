"""Lemma 13.4.5: a bound on how much a scale-invariant loss grows along an orthogonal step."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, options, scaled, sheet, study
from secant.studies.shared.scale_invariant import three_losses

SCALES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
"""Lengths of steps over the length of the weights."""
SMALL = 1e-3
"""Length of the step that attains the bound."""


class Config(Seeded):
    dim: int = options.dim(5, at_least=3, at_most=30)
    samples: int = options.samples(40, at_least=10, at_most=1_000)
    points: int = scaled(smoke=2_000, laptop=50_000, at_least=10, at_most=10**6, help="random pairs of every length")


@study("book/lem-13.4.5", section="13.4", title="Orthogonal steps on a scale-invariant loss")
def run(config: Config) -> xr.Dataset:
    r"""Let $L$ be scale-invariant and twice differentiable, with $\rho = \max_{|x|=1}\|\nabla^2L(x)\|_2$. For
    orthogonal $x$ and $v$, $L(x + v) - L(x) \le \langle v, \nabla L(x)\rangle + \rho|v|^2/(2|x|^2)$. The constant is
    the best one.
    """
    random = np.random.default_rng(config.seed)
    found = three_losses(random, config.dim, config.samples)
    x = random.normal(size=(len(SCALES), config.points, config.dim)) * np.exp(random.normal(size=(config.points, 1)))
    v = random.normal(size=x.shape)
    v -= (v * x).sum(-1, keepdims=True) / (x**2).sum(-1, keepdims=True) * x
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    v *= np.array(SCALES)[:, None, None] * length / np.linalg.norm(v, axis=-1, keepdims=True)
    rise = [loss.value(x + v) - loss.value(x) - (v * loss.gradient(x)).sum(-1) for loss in found.values()]
    rho = np.array([loss.smoothness for loss in found.values()])
    allowed = rho[:, None, None] * np.array(SCALES)[:, None] ** 2 / 2
    # The quotient on the way from its lowest to its highest eigenvector attains the bound.
    quotient = found["quotient"]
    low, high = np.eye(config.dim)[[0, -1]]
    tight = (quotient.value(low + SMALL * high) - quotient.value(low)) / (rho[0] * SMALL**2 / 2)
    on_the_way = np.linalg.norm(2 * low + np.linspace(0, 1, 101)[:, None] * high, axis=1)
    return xr.Dataset(
        {
            "share": (("loss", "scale", "point"), np.array(rise) / allowed),
            "rho": ("loss", rho),
            "tight": tight,
            "rise": (("loss", "scale", "point"), np.array(rise) - allowed),
            "shortest": on_the_way.min(),
        },
        coords={"loss": list(found), "scale": list(SCALES)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in data.loss.values:
        one = data.sel(loss=name)
        rise = r"$L(x + v) - L(x) - \langle v, \nabla L\rangle$ less $\rho|v|^2/(2|x|^2)$"
        yield claim(f"{name}-bound", f"{name}: {rise}, largest").at_most(
            0.0, one.rise.max(), "an inequality, to rounding", slack=1e-12
        )
        why = "a tenth of what random directions of five weights reach; named beforehand"
        yield claim(f"{name}-share", f"{name}: the largest share of the bound that a pair uses").at_least(
            0.05, one.share.max(), why
        )
    name = "quotient, from its lowest towards its highest eigenvector: share of the bound"
    note = "The share is one for short steps, so no smaller constant works."
    yield claim("quotient-tight", name).equal(
        1 / (1 + SMALL**2), data.tight, 1e-9, r"differences of a loss at $10^{-3}$", note=note
    )
    yield claim("shortest", "least length of $x + sv$, for $|x| = 2$ and orthogonal $v$").erratum(
        (r"|x|^2", 4.0),
        (r"|x|", 2.0),
        data.shortest,
        1e-12,
        "rounding",
        relation="at least",
        where="proof of Lemma 13.4.5",
        note="The proof needs the squares of both: $|x + sv|^2$ is at least $|x|^2$, by Pythagoras.",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (8, 4.2))
    places = np.arange(len(SCALES))
    for i, name in enumerate(data.loss.values):
        share = data.share.sel(loss=name)
        low, middle, high = (share.quantile(q, "point").values for q in (0.0, 0.5, 1.0))
        error = [middle - low, high - middle]
        axes.errorbar(places + 0.15 * (i - 1), middle, error, fmt="o", ms=5, capsize=3, color=f"C{i}", label=name)
    sheet.mark(axes, y=1.0, label="the bound")
    axes.set_xticks(places, [f"{scale:g}" for scale in SCALES])
    y = r"$(L(x + v) - L(x) - \langle v, \nabla L\rangle)\,/\,\frac{\rho|v|^2}{2|x|^2}$"
    sheet.label(axes, "Orthogonal steps: least, median and largest", "$|v|/|x|$", y, "lower right")
