"""The mean acceleration of curvature at every size, with no limit."""

import jax
import numpy as np
import xarray as xr
from jax import Array

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, estimate, options, ratio_of_means, sheet, study
from secant.lab.registry.config import fits_memory, scaled
from secant.studies.shared.regression import draws, models
from secant.studies.shared.regression.tables import by_size
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr

KINDS = (
    ("given_J", "exact", "mean acceleration over the exact one", r"symmetric, $s = 1/2$"),
    ("unsymmetric", "unsymmetric_exact", "the same for $Q$ of independent entries", "independent entries"),
)
"""For each kind of Q: the mean given the Jacobian, the exact one, and their names in claims and figure."""


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs(
        (1, 2, 5, 10), (1, 2, 5, 10, 20, 20, 40), (1, 2, 5, 10, 20, 20, 40, 80), at_least=1
    )
    parameters: tuple[int, ...] = models.parameters(
        (5, 3, 3, 20), (5, 3, 3, 20, 10, 40, 80), (5, 3, 3, 20, 10, 40, 80, 160), at_least=1
    )
    jacobians: int = scaled(
        smoke=5_000, laptop=20_000, paper=200_000, at_least=200, at_most=10_000_000, help="random Jacobians a size"
    )
    draws: int = options.draws(20_000, 100_000, 400_000, at_least=200, at_most=10_000_000)
    sigma_z: float = models.residual_scale(0.8)
    sigma_J: float = models.jacobian_scale(0.5)

    def check(self) -> None:
        """Sizes that pair up and fit into memory."""
        draws.check_sizes(self.outputs, self.parameters, together=0)
        fits_memory(3 * 8 * max(D * P for D, P in draws.sizes(self.outputs, self.parameters)), "outputs or parameters")
        fits_memory(4 * 8 * self.jacobians * max(self.outputs), "jacobians or outputs")


@study("quadreg/acceleration", section="C.1", title="The mean acceleration of curvature, exactly", new=True)
def run(config: Config) -> xr.Dataset:
    r"""For Gaussian residuals, Jacobian and symmetric $Q_\alpha$ (variance $s$ off the diagonal, $2s$ on it) and every
    $D$ and $P$, the largest eigenvalue of $JJ^\top$ at the start of gradient flow has $$\mathbb E[\ddot\lambda] =
    2s\,\sigma_z^2\,\bigl(DP\,\mathbb E[\lambda] + \mathbb E[\lambda^2]/\sigma_J^2\bigr),$$ so that $\mathbb
    E[\ddot\lambda]/\mathbb E[\lambda] \approx 2s\,DP\,\sigma_z^2\,\{1 + (D^{-1/2} + P^{-1/2})^2\}$ for large ones. For
    a $Q$ of independent entries of unit variance, not symmetric, the mean is $2\sigma_z^2(DP + 1)\,\mathbb E[\lambda]$.

    Given $J$ the mean holds the repulsion $\sum_k(\dots)/(\lambda - \lambda_k)$ by the other eigenvalues, which has no
    variance. Integration by parts in the density of the eigenvalues removes it: with $\sigma_J = 1$, $n = \min(D, P)$
    and $t = \mathrm{tr}\,JJ^\top$, $$\mathbb E\Bigl[f\sum_{k>1}\frac{\lambda}{\lambda - \lambda_k}\Bigr] = \mathbb
    E\Bigl[f\,\frac{\lambda - |P - D| - 1}2 - \lambda\,\partial_\lambda f\Bigr]$$ over the other $n - 1$ nonzero
    eigenvalues, used for $f = t$ and $f = \lambda$; and $\mathbb E[t\lambda] = (DP + 2)\,\mathbb E[\lambda]$, because
    $t$ and $\lambda/t$ are independent.
    """

    def one(Q: Array, start: qr.Regression) -> tuple[Array, Array]:
        states = draws.mirrored(start, config.sigma_z, config.sigma_J)
        second = jax.vmap(rr.eigenvalue_derivatives, (0, None))(states, Q).second
        return second.mean(), draws.kernel(states.J[0])

    second, kernels = draws.each_draw(one, config.seed, config.draws, 3, 5, "goe", 2_000)
    own = rr.acceleration_given(np.linalg.eigvalsh(kernels), 5, config.sigma_z, 1.0)
    pairs = draws.sizes(config.outputs, config.parameters)
    return xr.concat([_jacobians(config, D, P) for D, P in pairs], "size").assign(
        direct=("all", second, {"long_name": "acceleration of single draws, (3, 5)"}),
        direct_given_J=("all", own, {"long_name": "its mean for the draw's own Jacobian"}),
        **by_size(pairs),
    )


def _jacobians(config: Config, D: int, P: int) -> xr.Dataset:
    """For each of many Jacobians: means over the rest in closed form, and what should have the same mean."""
    values = draws.kernel_eigenvalues(config.seed, config.jacobians, D, P, config.sigma_J)
    found = dict(zip(("repelled", "repelled_exact"), rr.repulsion(values, P, config.sigma_J), strict=True))
    for (given, exact, *_), variance in zip(KINDS, (0.5, None), strict=True):
        found[given] = rr.acceleration_given(values, P, config.sigma_z, variance)
        found[exact] = rr.smooth_acceleration(values[:, -1], D, P, config.sigma_z, config.sigma_J, variance)
    return xr.Dataset({name: ("draw", part) for name, part in found.items()})


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    for P in (2, 3, 8):
        for kind, label, variance in (("symmetric", "symmetric Q", 0.5), ("free", "Q of independent entries", None)):
            given, exact = rr.two_residual_acceleration(P, config.sigma_z, config.sigma_J, variance)
            sentence = f"mean acceleration over the exact one by quadrature, {label}, (D, P) = (2, {P})"
            yield claim(f"two-residuals-{kind}-{P}", sentence).equal(
                1.0, given / exact, 1e-9, "an identity: 200 nodes for a smooth function, and rounding"
            )
    rounding = Tolerance(1e-12, why="without another eigenvalue they are the same: rounding")
    for name, formula, sentence, _ in KINDS:
        for place, size in enumerate(data["size"].values):
            one = data.isel(size=place)
            found = ratio_of_means(one[name].values, one[formula].values)
            within = rounding if one.D == 1 and name == "unsymmetric" else draws.heavy_tail(found)
            yield claim(f"exact-{name}-{size}", f"{sentence}, (D, P) = {size}").equal(1.0, found, within)
    for several in np.flatnonzero(np.minimum(data.D, data.P) > 1):
        one = data.isel(size=several)
        # Both sides are measured: it is their difference that has a sampling error.
        found, size = (
            estimate(one.repelled - one.repelled_exact)._replace(value=one.repelled.mean()),
            one["size"].item(),
        )
        yield claim(f"repulsion-{size}", f"repulsion of the largest eigenvalue, (D, P) = {size}").equal(
            one.repelled_exact.mean(), found, draws.heavy_tail(found)
        )
    sentence = "acceleration of single draws over its mean for the draw's own Jacobian, (D, P) = (3, 5)"
    note = "unit variance off the diagonal; the ratio has no heavy tail"
    yield claim("single-draws", sentence).equal(
        1.0, estimate(data.direct / data.direct_given_J), 0, "exact at every size: the sampling error alone", note=note
    )
    alone = data.isel(size=np.flatnonzero(data.D == 1)[:1])
    scale = 2 * config.sigma_z**2 * config.sigma_J**2 * alone.P * (alone.P + 1)
    sentence = r"mean acceleration of a single residual over $2 \sigma_z^2 \sigma_J^2 P (P + 1)$"
    sentence += "".join(f", P = {P}" for P in alone.P.values)
    yield claim("single-residual", sentence, alone.sizes["size"], "no size has one residual").equal(
        1.0, estimate(alone.given_J / scale), 0, "the eigenvalue is chi-squared there: the sampling error alone"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    x = np.arange(data.sizes["size"])
    pairs = draws.sizes(config.outputs, config.parameters)
    limit = np.array([rr.acceleration_limit(D, P, config.sigma_z, config.sigma_J) for D, P in pairs])
    for i, (given, formula, _, label) in enumerate(KINDS):
        mean, error = data[given].mean("draw") / limit, 2 * draws.standard_error(data[given].values, axis=1) / limit
        left.errorbar(x, mean, error, fmt="o", ms=5, capsize=3, color=f"C{i}", label=label)
        look = {"marker": "_", "ms": 22, "mew": 2, "ls": "none", "zorder": 0}
        sheet.guide(left, x, data[formula].mean("draw") / limit, "exact" if i else None, **look)
    left.set_xticks(x, data["size"].values)
    look = {"ylim": (0, None), "xlim": (-0.5, len(x) - 0.5)}
    up = "over the limit of large sizes"
    sheet.label(left, "Mean acceleration, over equation (147)", "(D, P)", up, "lower right", **look)
    last, count = data.isel(size=-1), np.arange(1, data.sizes["draw"] + 1)
    keep = np.unique(np.geomspace(10, len(count), 400).astype(int)) - 1
    for name, colour, label in (
        ("given_J", "C0", "given the Jacobian: heavy tail"),
        ("exact", "C2", r"$\sigma_z^2(DP\lambda + \lambda^2/\sigma_J^2)$"),
    ):
        running = np.cumsum(last[name].values) / count / float(last.exact.mean())
        right.semilogx(count[keep], running[keep], color=colour, label=label)
    title = f"Two averages with the same mean, {last['size'].item()}"
    sheet.label(right, title, "number of Jacobians", "running average", "upper right")
    for axes in (left, right):
        sheet.mark(axes, y=1)
