"""Equation (27): how nonlinear the first step of gradient descent is."""

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from secant.lab import (
    Estimate,
    Figure,
    Findings,
    Seeded,
    Tolerance,
    claim,
    options,
    ratio_of_means,
    scaled,
    sheet,
    study,
)
from secant.studies.shared.regression import draws, models
from secant.studies.shared.regression.tables import by_size, measured
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr

SMALL = (2, 2)
"""The smallest size with two of each, where every term of the exact formula counts."""
FLAT = (30, 1_200)
"""Many residuals and far more parameters: the printed limit is at most five percent away."""
BATCH = 2_000_000
"""Entries of tensors that are drawn at a time."""


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs((8, 10, 20), (8, 15, 20, 30, 40), (8, 15, 60, 60, 30), at_least=1)
    parameters: tuple[int, ...] = models.parameters(
        (80, 20, 20), (160, 60, 40, 30, 20), (160, 60, 120, 60, 300), at_least=1
    )
    draws: int = options.draws(400, 1_000, 2_000, at_least=100, at_most=1_000_000)
    small: int = scaled(
        smoke=200_000, laptop=1_000_000, paper=4_000_000, at_least=1_000, at_most=10_000_000, help="draws of (2, 2)"
    )
    lr: float = options.lr(0.7, at_least=1e-6, at_most=1e6)
    sigma_z: float = models.residual_scale(0.4, at_least=1e-6, at_most=1e6)
    sigma_J: float = models.jacobian_scale(0.3, at_least=1e-6, at_most=1e6)

    def check(self) -> None:
        """Sizes that pair up and fit into memory."""
        draws.check_sizes(self.outputs, self.parameters, together=1)


@study("quadreg/eq-27", section="3.3", title="How nonlinear the first step is")
def run(config: Config) -> xr.Dataset:
    r"""The second-order term of a step of gradient descent over the first-order one, each as a root mean square at a
    random start, is for Gaussian entries and $Q_\alpha = \tfrac12(A + A^\top)$ exactly $$r_{NL} =
    \frac{\eta\sigma_z}2\sqrt{\frac{D(D+2)(P+2)}{P+D+1}} \approx \frac{\eta\sigma_zD}{2\sqrt{1 + D/P}}.$$ The printed
    $\tfrac12\eta\sigma_zD$ is its limit for $D \ll P$. In the rescaled start $\sigma_z = \tilde\sigma_z/D$ it is
    $\tfrac12\eta\tilde\sigma_z/\sqrt{1 + D/P}$.
    """
    pairs = [*draws.sizes(config.outputs, config.parameters), SMALL]
    counts = [config.draws] * len(config.outputs) + [config.small]

    def one(Q: Array, start: qr.Regression) -> dict[str, Array]:
        z, J = config.sigma_z * start.z, config.sigma_J * start.J
        w = J.T @ z
        return {
            "curved": jnp.sum(jnp.square(config.lr**2 / 2 * (Q @ w) @ w)),
            "linear": jnp.sum(jnp.square(config.lr * J @ w)),
            "kernel": jnp.sum(jnp.square(start.J @ start.J.T)),
        }

    rows = []
    for (D, P), count in zip(pairs, counts, strict=True):
        most = 100 if (D, P) != SMALL else 20_000
        found = draws.each_draw(one, config.seed, count, D, P, together=max(1, min(most, BATCH // (D * P * P))))
        kernel = found["kernel"] / (D * P * P)
        rows.append((*_root(found["curved"], found["linear"]), kernel.mean(), draws.standard_error(kernel)))
    ratio, ratio_error, kernel_mean, kernel_error = np.array(rows).T
    flat, flat_error = _root(*_averaged_over_tensors(config, *FLAT))
    return xr.Dataset(
        {
            "ratio": ("size", ratio, {"long_name": "measured r_NL"}),
            "ratio_error": ("size", ratio_error),
            "exact": ("size", [rr.nonlinearity_ratio(D, P, config.sigma_z, config.lr) for D, P in pairs]),
            "printed": ("size", [config.lr * config.sigma_z * D / 2 for D, _ in pairs]),
            "kernel": ("size", kernel_mean, {"long_name": "E tr (JJ^T)^2 over sigma_J^4 D P^2"}),
            "kernel_error": ("size", kernel_error),
            "flat": flat,
            "flat_error": flat_error,
        },
        coords={**by_size(pairs), "draws": ("size", counts)},
    )


def _root(curved: np.ndarray, linear: np.ndarray) -> tuple[float, float]:
    """The root of a ratio of two means over the same draws, and its error to first order."""
    ratio = ratio_of_means(curved, linear)
    return np.sqrt(ratio.value), ratio.error / (2 * np.sqrt(ratio.value))


def _averaged_over_tensors(config: Config, D: int, P: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Both squares with the mean over $Q$ taken: a form $Q_\alpha(w, w)$ of averaged entries has variance $|w|^4$."""
    random = np.random.default_rng([config.seed, D, P])
    curved, linear = np.empty((2, config.draws))
    for i in range(config.draws):
        J, z = config.sigma_J * random.normal(size=(D, P)), config.sigma_z * random.normal(size=D)
        w = J.T @ z
        curved[i], linear[i] = config.lr**4 / 4 * D * np.sum(w**2) ** 2, config.lr**2 * np.sum((J @ w) ** 2)
    return curved, linear


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    known = Tolerance(why="exact at every size; the sampling error comes from exact moments of the two squares")
    for i, size in enumerate(data.size.values):
        one, small = data.isel(size=i), i == data.sizes["size"] - 1
        key, last = ("exact-small", ", where every term counts") if small else (f"exact-{i}-{size}", "")
        error = rr.nonlinearity_spread(int(one.D), int(one.P)) / float(one.draws) ** 0.5
        found = Estimate(float(one.ratio / one.exact), error)
        yield claim(key, f"measured over exact $r_{{NL}}$, (D, P) = {size}{last}").equal(1.0, found, known)
    D, P = FLAT
    found = measured(data, "flat", config.draws, config.lr * config.sigma_z * D / 2)
    why = r"the next orders $1/D$ and $-D/(2P)$ of the exact formula"
    note = "the mean over Q in closed form, over residuals and Jacobian by draws"
    sentence = rf"measured over printed $r_{{NL}}$ where $D \ll P$, (D, P) = ({D}, {P})"
    yield claim("printed", sentence).equal(1.0, found, 1 / D + D / (2 * P), why, note=note)
    yield from _errata(data.isel(size=int((data.D / data.P)[:-1].argmax("size"))), config)


def _errata(tall: xr.Dataset, config: Config) -> Findings:
    """Misprints, at the size with the most residuals for each parameter."""
    D, P, printed = int(tall.D), int(tall.P), float(tall.printed)
    slack = Tolerance(relative=1 / D + 1 / P, why="the next orders 1/D and 1/P of the exact formula")
    yield claim("ratio", f"$r_{{NL}}$ at (D, P) = ({D}, {P})").erratum(
        (r"r_{NL} = \frac{1}{2}\eta\sigma_zD", printed),
        (r"r_{NL} = \frac{1}{2}\eta\sigma_zD/\sqrt{1 + D/P}", printed / np.sqrt(1 + D / P)),
        measured(tall, "ratio", tall.draws),
        slack,
        note=r"for Q as in (153), of independent entries: the mean square of $JJ^\top z$ has a second term of the same "
        "order, see below; at fixed D/P it stays",
        where="equations (27), (149) and (159), which also drops the step size",
    )
    sentence = rf"$r_{{NL}}$ of the rescaled start over $\eta\tilde\sigma_z$, (D, P) = ({D}, {P})"
    wrong = (r"r_{NL} = \tilde\sigma_z", 1.0)
    right = (r"r_{NL} = \frac{1}{2}\eta\tilde\sigma_z/\sqrt{1 + D/P}", 0.5 / np.sqrt(1 + D / P))
    note = "the factor 1/2 of (27) is forgotten, and the factor that depends on D/P as in (27)"
    where = "after equation (29)"
    yield claim("ratio-rescaled", sentence).erratum(
        wrong, right, measured(tall, "ratio", tall.draws, config.lr * config.sigma_z * D), slack, note=note, where=where
    )
    sentence = rf"mean of $\mathrm{{tr}}(JJ^\top)^2$ over $\sigma_J^4 D P^2$, (D, P) = ({D}, {P})"
    yield claim("trace", sentence).erratum(
        (r"\sigma_J^4P(P-1)D + C_4DP", (P + 2) / P),
        (r"\sigma_J^4DP\,(D + P + 1)", (D + P + 1) / P),
        measured(tall, "kernel", tall.draws),
        0,
        "exact at every size: the sampling error alone",
        note="the D(D - 1)P terms with two different outputs and one parameter are left out (the fourth moment C_4 is "
        r"$3\sigma_J^4$ for Gaussian entries)",
        where="equations (151) and (152)",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    data = data.isel(size=slice(0, -1))  # limits of large sizes
    aspect = data.D / data.P
    c = np.geomspace(0.7 * aspect.min(), 1.4 * aspect.max(), 100)
    for axes, formula, label in ((left, 1 / np.sqrt(1 + c), r"$1/\sqrt{1 + D/P}$"), (right, 1 + c, r"$1 + D/P$")):
        sheet.mark(axes, y=1.0, ls=":", color="C5", lw=1.6, label="printed")
        sheet.guide(axes, c, formula, label)
        axes.set(xlabel=r"$D/P$", xscale="log", xlim=(c[0], c[-1]))
    left.plot(aspect, data.exact / data.printed, "_", ms=18, mew=2, color="C2", label="exact at this size")
    for axes, mean, error, label in (
        (left, data.ratio / data.printed, data.ratio_error / data.printed, "draws, two standard errors"),
        (right, data.kernel, data.kernel_error, "draws"),
    ):
        axes.errorbar(aspect, mean, 2 * error, fmt="o", ms=5, color="C0", capsize=3, label=label)
    up = r"$r_{NL}\,/\,\frac{1}{2}\eta\sigma_zD$"
    sheet.label(left, "Nonlinearity of the first step", y=up, legend="lower left", ylim=(0, 1.35))
    up = r"$\mathbb{E}\,\mathrm{tr}(JJ^\top)^2\,/\,\sigma_J^4DP^2$"
    sheet.label(right, "The term that is left out", y=up, legend="upper left", ylim=(0, None))
    for x, size in zip(aspect.values, data.size.values, strict=True):
        right.annotate(size, (x, 0.02), xycoords=("data", "axes fraction"), ha="center", fontsize=8)
