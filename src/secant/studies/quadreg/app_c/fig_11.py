"""Figure 11: the mean initial acceleration of curvature grows as the variance of the residuals."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, sheet, study
from secant.studies.shared.regression import models
from secant.studies.shared.regression.draws import check_sizes, each_draw, heavy_tail, mirrored, sizes, standard_error
from secant.studies.shared.regression.tables import by_size
from secant.theory.regression import quadratic_regression as qr
from secant.theory.regression import random_regression as rr


class Config(Seeded):
    outputs: tuple[int, ...] = models.outputs((10, 20), (10, 30, 60))
    parameters: tuple[int, ...] = models.parameters((20, 40), (20, 60, 120))
    draws: int = options.draws(400, 400, 100, at_least=20, at_most=100_000)
    low: float = option(0.03, at_least=1e-3, at_most=1e3, help="smallest standard deviation of the residuals")
    high: float = option(3.0, at_least=1e-3, at_most=1e3, help="largest standard deviation of the residuals")
    points: int = option(7, at_least=2, at_most=100, help="standard deviations, equally spaced in the logarithm")
    sigma_J: float = models.jacobian_scale(1.0)

    def check(self) -> None:
        """Sizes that pair up and fit into memory, and a range."""
        check_sizes(self.outputs, self.parameters, together=20)
        if self.high < 1.1 * self.low:
            raise ValueError(f"high: must be at least 1.1 times low, {self.low:g}, got {self.high:g}.")


@study("quadreg/fig-11", section="C.1", title="Acceleration grows as the square of the residuals")
def run(config: Config) -> xr.Dataset:
    r"""The mean of $\ddot\lambda_{\max}(0)$ under gradient flow is
    $\sigma_z^2\sigma_J^2\,DP\cdot P(1 + \sqrt{D/P})^2$ for large $D$ and $P$ (equation (147), with
    $Q_\alpha = \tfrac12(A + A^\top)$): a line of slope two against $\sigma_z$, doubly logarithmic. One draw has a term
    linear in $\sigma_z$ as well, $-2v_1^\top Q(J^\top\dot z, \cdot)J^\top v_1$, which is odd in $z$ and has mean zero:
    averaged over $z$ and $-z$ every draw has slope two exactly. Without that average, small $\sigma_z$ show only the
    sampling error of the odd term.
    """
    sigmas = np.geomspace(config.low, config.high, config.points)
    pairs = sizes(config.outputs, config.parameters)

    def one(Q: Array, start: qr.Regression) -> tuple[Array, Array]:
        def at(sigma: Array) -> Array:
            return jax.vmap(rr.eigenvalue_derivatives, (0, None))(mirrored(start, sigma, config.sigma_J), Q).second

        return jax.vmap(at)(jnp.asarray(sigmas)), config.sigma_J * start.J

    drawn = [each_draw(one, config.seed, config.draws, D, P, together=20) for D, P in pairs]
    found = np.stack([accelerations for accelerations, _ in drawn])
    mean = jax.jit(jax.vmap(lambda J: rr.mean_acceleration(J, 1.0)))
    given_J = np.stack([mean(J) for _, J in drawn])[..., None] * sigmas**2
    dims = ("size", "seed", "sigma_z")
    line = [[rr.acceleration_limit(D, P, sigma, config.sigma_J) for sigma in sigmas] for D, P in pairs]
    return xr.Dataset(
        {
            "acceleration": (dims, found.mean(axis=-1), {"long_name": "acceleration, averaged over z and -z"}),
            "one_sign": (dims, found[..., 0], {"long_name": "acceleration, one sign of z"}),
            "given_J": (dims, given_J, {"long_name": "mean acceleration for the draw's Jacobian"}),
            "line": (("size", "sigma_z"), np.array(line)),
        },
        coords={**by_size(pairs), "sigma_z": sigmas},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    slopes = np.diff(np.log(np.abs(data.acceleration)), axis=-1) / np.diff(np.log(data.sigma_z))
    enlarged = float(np.abs(data.one_sign / data.acceleration).max())
    sentence = r"slope against $\sigma_z$ of every draw, averaged over $z$ and $-z$: largest distance from two"
    why = f"an identity: rounding, {enlarged:.0f} times larger where the odd part cancels"
    yield claim("slope", sentence).zero(np.abs(slopes - 2).max(), 1e-12 * max(1.0, enlarged), why)
    for i, size in enumerate(data.size.values):
        one = data.isel(size=i)
        last, D, P = one.isel(sigma_z=-1), int(one.D), int(one.P)
        found = estimate(last.acceleration / last.line)
        tail, top = heavy_tail(found), rr.mean_top(D, P)
        yield claim(f"line-{size}", f"mean acceleration over the line, (D, P) = {size}").equal(
            (1 + top / (D * P)) * top / rr.edge(D, P),
            found,
            tail.absolute,
            rf"predicted with its next order, up to $\min(D, P)^{{-4/3}}$; {tail.why}",
            relative=min(D, P) ** (-4 / 3),
            note="the line is the limit of large sizes",
        )
        own = estimate(last.acceleration / last.given_J)
        sentence = f"acceleration over its mean for the draw's own Jacobian, (D, P) = {size}"
        yield claim(f"own-jacobian-{size}", sentence).equal(
            1.0, own, 0, "exact at every size, without a heavy tail: the sampling error alone"
        )
        odd = (one.one_sign - one.acceleration).isel(sigma_z=0)
        sentence = f"mean of the part odd in $z$, over its root mean square, (D, P) = {size}"
        yield claim(f"odd-part-{size}", sentence).zero(
            estimate(odd / np.sqrt(np.mean(odd**2))), 0, "zero: the sampling error alone"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    sheet.mark(right, y=1)
    for i, size in enumerate(data["size"].values):
        one, colour = data.isel(size=i), f"C{i}"
        mean, error = one.acceleration.mean("seed"), 2 * standard_error(one.acceleration.values)
        sheet.guide(left, data.sigma_z, one.line, "equation (147)" if i == 0 else None)
        left.loglog(data.sigma_z, mean, "o", ms=6, color=colour, label=f"(D, P) = {size}")
        beside = data.sigma_z * (1 + 0.06 * (i - 1))  # not on top of each other
        right.errorbar(beside, mean / one.line, error / one.line, fmt="o", ms=5, color=colour, capsize=2)
        right.plot(beside, one.one_sign.mean("seed") / one.line, "x", ms=6, color=colour, alpha=0.8)
    for marker, label in (("o", r"$z$ and $-z$, two standard errors"), ("x", r"$z$ alone")):
        right.plot([], [], marker, color=sheet.ink(), label=label)
    left.set(title="Mean acceleration at the start", ylabel=r"$\mathbb{E}\,\ddot\lambda_{\max}(0)$")
    right.set(title="Over the line", xscale="log", ylim=(0, 2))
    for axes, place in ((left, "upper left"), (right, "upper right")):
        sheet.label(axes, x=r"$\sigma_z$", legend=place)
