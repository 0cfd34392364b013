"""Theorem 3.1: at a random start the largest kernel eigenvalue accelerates upwards on average."""

import numpy as np
import xarray as xr

from secant.lab import (
    Estimate,
    Figure,
    Findings,
    Seeded,
    Tolerance,
    claim,
    estimate,
    options,
    ratio_of_means,
    sheet,
    study,
)
from secant.lab.registry.config import fits_memory, scaled
from secant.studies.shared.regression import accelerations, draws, models
from secant.studies.shared.regression.tables import by_size, measured
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr

CONVENTIONS: tuple[qr.Convention, ...] = ("averaged", "goe", "independent")
FIXED = (8, 16)
"""Size of the gradient flows and of the one Jacobian."""


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs((10, 20, 30), (10, 20, 30, 60, 60), (10, 20, 30, 60, 60, 120))
    parameters: tuple[int, ...] = models.parameters((20, 40, 60), (20, 40, 60, 120, 60), (20, 40, 60, 120, 60, 240))
    jacobians: int = scaled(
        smoke=2_000, laptop=5_000, paper=20_000, at_least=200, at_most=1_000_000, help="random Jacobians a size"
    )
    draws: int = options.draws(2_000, 8_000, 40_000, at_least=200, at_most=1_000_000)
    direct: int = scaled(
        smoke=128, laptop=400, paper=2_000, at_least=30, at_most=100_000, help="draws of everything, at the third size"
    )
    runs: int = scaled(smoke=16, laptop=400, paper=1_000, at_least=2, at_most=100_000, help="gradient flows, (8, 16)")
    sigma_z: float = models.residual_scale(1.0)
    sigma_J: float = models.jacobian_scale(0.3)

    def check(self) -> None:
        """Sizes that pair up and fit into memory."""
        draws.check_sizes(self.outputs, self.parameters)
        fits_memory(4 * 8 * self.jacobians * max(self.outputs), "jacobians or outputs")


@study("quadreg/thm-3.1", section="3.2", title="Curvature accelerates upwards on average")
def run(config: Config) -> xr.Dataset:
    r"""Let residuals, Jacobian and second derivative be random and independent with variances $\sigma_z^2$,
    $\sigma_J^2$ and, off the diagonal of every symmetric $Q_\alpha$, $s$. Under gradient flow, at the start, $\mathbb
    E[\dot\lambda_{\max}] = 0$ and for large $D$ and $P$ $$\mathbb E[\ddot\lambda_{\max}] / \mathbb E[\lambda_{\max}]
    \to 2s\,DP\,\sigma_z^2.$$ The constant depends on which $Q$ is meant. If its entries are independent with unit
    variance, the model sees only $Q_\alpha = \tfrac12(A + A^\top)$, $s = \tfrac12$, and equation (147) is right. If it
    is symmetric with unit variance, $s = 1$, equations (140) and (146) on the largest singular value are right, and
    (147) has lost the 2 of (138). Most of the acceleration is the repulsion of the eigenvalues below and the motion of
    the Jacobian in all $P$ directions.
    """
    pairs = draws.sizes(config.outputs, config.parameters)
    scales = config.sigma_z, config.sigma_J
    moments = [_random_jacobians(config, D, P) for D, P in pairs]
    table = xr.Dataset(coords=by_size(pairs))
    for name in moments[0]:
        value, error, _ = np.array([one[name] for one in moments]).T
        table[name], table[f"{name}_error"] = ("size", value), ("size", error)
    drawn = [
        accelerations.along_flows(config.seed, config.runs, *FIXED, *scales),
        accelerations.of_one_jacobian(config.seed, config.draws, *FIXED, *scales, CONVENTIONS),
        accelerations.all_at_random(config.seed, config.direct, *pairs[min(2, len(pairs) - 1)], *scales),
    ]
    return xr.merge([table, *drawn])


def _random_jacobians(config: Config, D: int, P: int) -> dict[str, Estimate]:
    """Mean acceleration over many Jacobians, each averaged over the rest in closed form."""
    values = draws.kernel_eigenvalues(config.seed, config.jacobians, D, P, config.sigma_J)
    means, unsymmetric = (rr.acceleration_given(values, P, config.sigma_z, s) for s in (0.5, None))
    limit = rr.acceleration_limit(D, P, config.sigma_z, config.sigma_J)
    # lambda'' = 2 (sigma'^2 + sigma sigma''), and with unit variance everything is twice as large as averaged.
    singular = means - rr.mean_square_velocity(values, config.sigma_z, 1.0)
    return {
        "ratio": estimate(means / limit),
        "unsymmetric": estimate(unsymmetric / limit),
        "singular": estimate(singular / limit),
        "relative": ratio_of_means(means / config.sigma_z**2, values[:, -1]),
        "top": estimate(values[:, -1] / config.sigma_J**2),
    }


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = "fourth power of the differences' step, 4e-7, times ratios of derivatives; over the rms"
    for order, name in enumerate(("first", "second")):
        sentence = f"{name} derivative of the largest eigenvalue against differences along the flow, median"
        yield claim(f"{name}-derivative", sentence).zero(data.gap.isel(order=order).median(), 1e-4, why)
    exact = Tolerance(why="exact at every size: the sampling error alone")
    for name, key, mean in (
        ("given_J", "acceleration", "mean acceleration"),
        ("speed", "velocity", "mean square velocity of the singular value"),
    ):
        for convention in CONVENTIONS:
            one = data.sel(convention=convention)
            found = measured(one, name, config.draws, float(one[f"{name}_formula"]))
            sentence = f"{mean} for one Jacobian over the formula, {convention} Q"
            yield claim(f"{key}-{convention}", sentence).equal(1.0, found, exact)
    note = f"odd in the residuals: z and -z cancel to {float(data.parity.max()):.0e} of it in every draw"
    still = estimate(data.velocity / np.sqrt((data.velocity**2).mean()))
    yield claim("mean-velocity", "mean velocity of the largest eigenvalue, over its root mean square").zero(
        still, 0, "zero: the sampling error alone", note=note
    )
    upwards, note = draws.share(data.acceleration > 0), f"without that average: {float((data.one_sign > 0).mean()):.3f}"
    sentence = f"share of {data.sizes['draw']} draws that accelerate upwards, averaged over $z$ and $-z$"
    yield claim("upwards", sentence).at_least(0.9, upwards, "an inequality: nearly always", note=note)
    for i in range(data.sizes["size"]):
        yield from _over_the_limit(data.isel(size=i), config)
    yield from _errata(data, config)


def _over_the_limit(one: xr.Dataset, config: Config) -> Findings:
    """How far means are from their limits at one size; the next order is known, so that little is left."""
    D, P = int(one.D), int(one.P)
    # The variance of the eigenvalue, and all that the Tracy-Widom mean leaves out, is n^(-4/3) of it, n = min(D, P).
    rest = min(D, P) ** (-4 / 3)
    top, edge, size = rr.mean_top(D, P), rr.edge(D, P), f"(D, P) = ({D}, {P})"
    singular = r"mean of $\sigma_0\ddot\sigma_0$ over (146), unit variance off the diagonal"
    for name, sentence, limit, next_order in (
        ("ratio", "mean acceleration over (147), symmetric part of independent entries", 1, 1 + top / (D * P)),
        ("unsymmetric", "the same if the flow is (22) with independent entries as they are", 2, 2 + 2 / (D * P)),
        ("singular", singular, 1, 1 + (top - 1) / (D * P) - 1 / top),
    ):
        found = measured(one, name, config.jacobians)
        tail = draws.heavy_tail(found)
        note = f"the limit of large sizes is {limit}; averaged over z and Q in closed form, over Jacobians by draws"
        reason = rf"predicted with its next order, up to $\min(D, P)^{{-4/3}}$; {tail.why}"
        yield claim(f"{name}-{D}-{P}", f"{sentence}, {size}").equal(
            next_order * (top / edge), found, tail.absolute, reason, relative=rest, note=note
        )
    why = r"the next order is $\min(D, P)^{-4/3}$ of it"
    yield claim(f"tracy-widom-{D}-{P}", f"mean largest eigenvalue over the Tracy-Widom mean, {size}").equal(
        1.0, measured(one, "top", config.jacobians, top), rest, why
    )
    below = (1.21 * (P**-0.5 + D**-0.5) ** (1 / 3) + P**-0.5) / (P**0.5 + D**0.5)
    why = "the Tracy-Widom mean is below it, and the parameters count for one less"
    yield claim(f"marchenko-pastur-{D}-{P}", f"mean largest eigenvalue over the Marchenko-Pastur edge, {size}").equal(
        1.0, measured(one, "top", config.jacobians, edge), below + rest, why
    )


def _errata(data: xr.Dataset, config: Config) -> Findings:
    largest = data.isel(size=int((data.D * data.P).argmax("size")))
    D, P = int(largest.D), int(largest.P)
    found = measured(largest, "relative", config.jacobians)
    tail = draws.heavy_tail(found)
    next_order = (D**-0.5 + P**-0.5) ** 2
    yield claim("relative", rf"relative acceleration over $\sigma_z^2$, (D, P) = ({D}, {P})").erratum(
        (r"\mathbb E[\ddot\lambda_{\max}]/\mathbb E[\lambda_{\max}] = \sigma_z^2", 1.0),
        (r"\mathbb E[\ddot\lambda_{\max}]/\mathbb E[\lambda_{\max}] \to DP\,\sigma_z^2", D * P),
        found,
        tail.absolute,
        rf"the next order, $\lambda_{{\max}}$ over the trace; {tail.why}",
        relative=next_order,
        note="(147) divided by the mean eigenvalue leaves the factor DP (for Q of independent entries; twice that for "
        "a symmetric Q of unit variance)",
        where="Theorem 3.1, equations (23) and (148)",
    )
    sentence = "median acceleration of the eigenvalue along the flow, over the two terms with the means (140) and (146)"
    yield claim("factor-two", sentence).erratum(
        (r"\mathbb E[\ddot\lambda_{\max}] = \mathbb E[\dot\sigma_0^2] + \mathbb E[\sigma_0\ddot\sigma_0]", 1.0),
        (r"\mathbb E[\ddot\lambda_{\max}] = 2\,(\mathbb E[\dot\sigma_0^2] + \mathbb E[\sigma_0\ddot\sigma_0])", 2.0),
        (data.by_eigenvalues / data.by_singular_values).median(),
        1e-3,
        "an identity of every flow; the differences along it, as above",
        note="(147) is the sum of (140) and (146), without the factor 2 of (138): the three cannot all be right. "
        "(140) and (146) are for a symmetric Q of unit variance. (147) is for independent entries: the model sees "
        "their symmetric part, of variance 1/2",
        where="equation (147)",
        by="derivation",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (12, 4.0), 3)
    growth, error = data.growth, data.growth_error
    left.fill_between(data.time, growth - 2 * error, growth + 2 * error, color="C0", alpha=0.25, lw=0)
    left.plot(data.time, growth, color="C0", label=f"gradient flow, {config.runs} draws")
    D, P = FIXED
    early = data.time[data.time <= 0.8]
    parabola = 1 + (1 + rr.mean_top(D, P) / (D * P)) * early**2 / 2
    sheet.guide(left, early, parabola, r"$1 + \frac{1}{2}\ddot\lambda t^2$")
    along, up = r"time $\cdot\ \sigma_z\sqrt{DP}$", r"$\mathbb{E}\,\lambda_{\max}(t)/\mathbb{E}\,\lambda_{\max}(0)$"
    sheet.label(left, f"Mean curvature, ({D}, {P})", along, up, "upper left")
    x, points = np.arange(data.sizes["size"]), {"fmt": "o", "capsize": 3}
    sheet.mark(middle, y=(1.0, 2.0))
    for name, colour, label in (("ratio", "C0", r"symmetric, $s = 1/2$"), ("unsymmetric", "C1", "independent entries")):
        middle.errorbar(x, data[name], 2 * data[f"{name}_error"], ms=6, color=colour, label=label, **points)
    sheet.label(middle, "Mean acceleration", y="over equation (147)", legend="lower left", ylim=(0, 2.5))
    pairs = list(zip(data.D.values.tolist(), data.P.values.tolist(), strict=True))
    edges, means = (np.array([of(*pair) for pair in pairs]) for of in (rr.edge, rr.mean_top))
    sheet.mark(right, y=1.0)
    right.plot(x, means / edges, "_", ms=22, mew=2, color="C2", label="Tracy-Widom mean")
    right.errorbar(x, data.top / edges, 2 * data.top_error / edges, ms=5, color="C0", label="draws", **points)
    sheet.label(right, "Largest eigenvalue", y="over the Marchenko-Pastur edge", legend="lower right", ylim=(0.8, 1.02))
    for axes in (middle, right):
        axes.set_xticks(x, data.size.values, fontsize=8)
        axes.set(xlabel="(D, P)", xlim=(-0.5, len(x) - 0.5))
