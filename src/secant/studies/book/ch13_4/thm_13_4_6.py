"""Theorem 13.4.6: a lower bound on how much a step with weight decay lowers a scale-invariant loss."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.scale_invariant import descend, three_losses
from secant.theory.normalization.weight_decay import least_descent

LENGTHS = np.geomspace(0.3, 10, 12)
"""Lengths of the weights at the start."""
SMALL = 1e-4
"""Distance from the minimum where the sharper bound is attained."""


class Config(Seeded):
    dim: int = options.dim(5, at_least=3, at_most=30)
    samples: int = options.samples(40, at_least=10, at_most=1_000)
    lr: float = options.lr(0.2, at_least=1e-3, at_most=10)
    products: tuple[float, ...] = option(
        (0.001, 0.05, 0.5), above=0, at_most=0.5, ascending=True, longest=4, help="step size times decay"
    )
    steps: int = options.steps(100, 400, at_least=5, at_most=400)


@study("book/thm-13.4.6", section="13.4", title="The descent of a step with weight decay")
def run(config: Config) -> xr.Dataset:
    r"""For $w_{t+1} = (1 - \eta\lambda)w_t - \eta\nabla L(w_t)$ on a scale-invariant loss and $\eta\lambda \le
    \frac12$, $L(w_t) - L(w_{t+1}) \ge \eta(1 - 2\rho\eta/|w_t|^2)|\nabla L(w_t)|^2$. The proof gives more: $\eta|\nabla
    L|^2\bigl(\frac1{1-\eta\lambda} - \frac{\rho\eta}{2(1-\eta\lambda)^2|w_t|^2}\bigr)$. This bound is attained near the
    minimum of a Rayleigh quotient.
    """
    random = np.random.default_rng(config.seed)
    found = three_losses(random, config.dim, config.samples)
    start = random.normal(size=(len(LENGTHS), config.dim))
    start *= LENGTHS[:, None] / np.linalg.norm(start, axis=1, keepdims=True)
    plain, sharp, drop, lengths = [], [], [], []
    decays = [product / config.lr for product in config.products]
    for loss in found.values():
        paths = [descend(loss, start, config.lr, decay, config.steps) for decay in decays]
        square = np.stack([path.square[:-1] for path in paths])
        slope = np.sqrt(np.stack([path.gradient[:-1] for path in paths]) / square)  # at w itself
        drop.append(np.stack([-np.diff(path.loss, axis=0) for path in paths]))
        rho = loss.smoothness
        plain.append(config.lr * (1 - 2 * rho * config.lr / square) * slope**2)
        each = zip(square, slope, decays, strict=True)
        sharp.append(np.stack([least_descent(np.sqrt(s), g, config.lr, decay, rho) for s, g, decay in each]))
        lengths.append(square / (rho * config.lr))
    quotient = found["quotient"]
    near = np.eye(config.dim)[0] + SMALL * np.eye(config.dim)[-1]
    near = near * np.sqrt(2 * quotient.smoothness * config.lr) / np.linalg.norm(near)
    tight = []
    for decay in decays:
        path = descend(quotient, near[None], config.lr, decay, 1)
        slope = float(np.sqrt(path.gradient[0, 0] / path.square[0, 0]))
        bound = least_descent(np.sqrt(path.square[0, 0]), slope, config.lr, decay, quotient.smoothness)
        tight.append(float(path.loss[0, 0] - path.loss[1, 0]) / float(bound))
    axes = ("loss", "product", "step", "start")
    return xr.Dataset(
        {"drop": (axes, drop), "plain": (axes, plain), "sharp": (axes, sharp), "length": (axes, lengths)}
        | {"tight": ("product", tight)},
        coords={"loss": list(found), "product": list(config.products), "start": LENGTHS},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for name in data.loss.values:
        one = data.sel(loss=name)
        for kind, what in (("plain", "the theorem's bound"), ("sharp", "the sharper bound")):
            yield claim(f"{name}-{kind}", f"{name}: descent of a step less {what}, least").at_least(
                0.0, (one["drop"] - one[kind]).min(), "an inequality, to rounding", slack=1e-12
            )
    yield claim("sharper", "sharper bound less the theorem's, least").at_least(
        0.0, (data.sharp - data.plain).min(), r"for $\eta\lambda$ up to $1/2$", slack=1e-12
    )
    why = r"the next order in a distance of $10^{-4}$, and rounding of losses $10^{-8}$ above the least"
    for product in config.products:
        name = rf"$\eta\lambda = {product:g}$: descent near the minimum of the quotient over the sharper bound"
        yield claim(f"tight-{product:g}", name).equal(1.0, data.tight.sel(product=product), 1e-6, why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3, sharey=True)
    for axes, name in zip(panels, data.loss.values, strict=True):
        for i, product in enumerate(config.products):
            one = data.sel(loss=name, product=product)
            # In units of eta |g|^2, where the descent is more than rounding.
            unit = one.plain / (1 - 2 / one.length)
            share = (one["drop"] / unit).where(one["drop"] > 1e-10)
            axes.plot(one.length.values.ravel(), share.values.ravel(), ".", ms=3, color=f"C{i}", label=f"{product:g}")
        at = np.geomspace(0.5, 100, 200)
        sheet.guide(axes, at, 1 - 2 / at, "bound")
        sheet.label(axes, f"{name}".capitalize(), r"$|w|^2/(\rho\eta)$", xscale="log", ylim=(-2, 2.5), xlim=(0.5, 100))
    sheet.label(panels[0], None, None, r"descent$\,/\,\eta|\nabla L|^2$")
    sheet.label(panels[1], legend={"title": r"$\eta\lambda$", "loc": "lower right"})
