"""Book, theorem 8.1.7: where gradient flow on a difference of squares ends, from rich to lazy."""

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from secant.lab import Figure, Findings, claim, option, options, scaled, sheet, study
from secant.studies.shared import real
from secant.theory.bias import potentials
from secant.theory.bias.interpolants import bregman_projection, min_norm


class Config(real.Chosen):
    data: str = scaled(smoke="random", laptop="breast-cancer", help="random, or a data set that secant.data knows")
    samples: int = options.samples(4, 10, at_most=20)
    dimension: int = scaled(smoke=8, laptop=30, at_least=2, at_most=50, help="weights, more than samples")
    alphas: tuple[float, ...] = option(
        (2.0, 0.5, 0.1, 0.01), at_least=1e-3, at_most=10, help="sizes of the start of flows that are run"
    )

    def check(self) -> None:
        """Interpolation."""
        super().check()
        if self.samples >= self.dimension:
            raise ValueError(f"samples must be below dimension, {self.dimension}, got {self.samples}")


def flow(X: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """The weights at the end of gradient flow on the 2d parameters, followed until the loss is down to rounding."""
    n, d = X.shape

    def field(_: float, theta: np.ndarray) -> np.ndarray:
        g = 2 / n * X.T @ (X @ (theta[:d] ** 2 - theta[d:] ** 2) - y)
        return np.concatenate([-2 * theta[:d] * g, 2 * theta[d:] * g])

    def jacobian(_: float, theta: np.ndarray) -> np.ndarray:
        u, v = theta[:d], theta[d:]
        g = 2 / n * X.T @ (X @ (u**2 - v**2) - y)
        moved = np.concatenate([-2 * u, 2 * v])
        bend = 2 / n * X.T @ X
        slope = np.block([[bend * 2 * u, -bend * 2 * v]] * 2) * moved[:, None]
        return slope + np.diag(np.concatenate([-2 * g, 2 * g]))

    start = alpha * np.concatenate([np.ones(d), -np.ones(d)])
    end = solve_ivp(field, (0, 1e6), start, method="LSODA", jac=jacobian, rtol=1e-11, atol=1e-14).y[:, -1]
    return end[:d] ** 2 - end[d:] ** 2


@study("book/thm-8.1.7", section="8.1", title="From the least l2 norm to the least l1 norm by the size of the start")
def run(config: Config) -> xr.Dataset:
    r"""Gradient flow on $\frac1n\sum_i(w\cdot x^{(i)} - y^{(i)})^2$ with $w = \theta_+^{\odot2} - \theta_-^{\odot2}$
    from $(\alpha 1, -\alpha 1)$, if it reaches zero loss, ends in the least $R_\alpha$ of all $w$ with $Xw = y$. For
    $\alpha \to \infty$ this is the solution of least $\ell_2$ norm, for $\alpha \to 0$ that of least $\ell_1$ norm.
    """
    rng = np.random.default_rng(config.seed)
    if config.data == real.RANDOM:
        X = rng.normal(size=(config.samples, config.dimension))
        y = X @ (rng.normal(size=config.dimension) * (np.arange(config.dimension) < max(1, config.samples // 2)))
    else:
        X, y = real.few(config.data, config.classes, config.samples, rng, config.dimension)
    fine = np.geomspace(1e-6, 100, 33)
    least = bregman_projection(X, y, potentials.hypentropy(fine[:, None])).weights
    ends = bregman_projection(X, y, potentials.hypentropy(np.array(config.alphas)[:, None]))
    l1, l2 = min_norm(X, y, 1), min_norm(X, y, 2)
    value = lambda w, a: potentials.hypentropy(a).value(w)  # noqa: E731
    # Other weights that fit: the potential is larger at all of them.
    spare = np.linalg.svd(X)[2][config.samples :]
    other = ends.weights[:, None] + 0.1 * rng.normal(size=(len(config.alphas), 20, len(spare))) @ spare
    above = [
        [value(w, a) - value(end, a) for w in some]
        for some, end, a in zip(other, ends.weights, config.alphas, strict=True)
    ]
    return xr.Dataset(
        {
            "flow": (("alpha", "i"), [flow(X, y, a) for a in config.alphas]),
            "least": (("alpha", "i"), ends.weights),
            "above": (("alpha", "other"), above),
            "l1": ("i", l1),
            "l2": ("i", l2),
            "path": (("fine", "i"), least),
        },
        coords={"alpha": list(config.alphas), "fine": fine},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    scale = np.abs(data.l2).max()
    for alpha, end, least in zip(config.alphas, data.flow, data.least, strict=True):
        yield claim(
            f"end-{alpha:g}",
            f"end of the flow from {alpha:g}: distance to the least potential, over the largest weight",
        ).zero(np.abs(end - least).max() / scale, 1e-7, "tolerance of the integration")
    name = "potential at other weights that fit, less that at the end: least"
    yield claim("least", name).at_least(0.0, data.above.min(), "a least value", slack=1e-12)
    norms, room = np.abs(data.path).sum("i"), float((np.abs(data.path[-1]).max() / 2e4) ** 2)
    yield claim("lazy", r"size 100: distance to the least $\ell_2$ norm, over the largest weight").zero(
        np.abs(data.path[-1] - data.l2).max() / scale, room, "the next term of the series"
    )
    # R_alpha is (|w| log(|w|/alpha^2) - |w|)/4 up to alpha^2, and an entropy lies between 0 and log d.
    least = float(np.abs(data.l1).sum())
    for alpha in (1e-3, 1e-6):
        room = np.log(least / alpha**2) - np.log(config.dimension) - 1
        yield claim(f"rich-{alpha:g}", rf"size {alpha:g}: excess of the $\ell_1$ norm over the least").at_most(
            np.log(config.dimension) / room if room > 0 else np.inf,
            norms.sel(fine=alpha, method="nearest") / least - 1,
            r"the least potential; two entropies differ by at most $\log d$",
            slack=1e-6,
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    for i in range(data.sizes["i"]):
        left.semilogx(data.fine, data.path[:, i], color=f"C{i % 10}", label=None if i else "least potential")
        left.plot(data.alpha, data.flow[:, i], "o", color=f"C{i % 10}", label=None if i else "end of a flow")
    sheet.label(left, "Weights", r"size of the start $\alpha$", None, "best")
    right.semilogx(data.fine, np.abs(data.path).sum("i"), color="C0", label="least potential")
    right.plot(data.alpha, np.abs(data.flow).sum("i"), "o", color="C1", label="end of a flow")
    sheet.mark(right, y=[float(np.abs(data.l1).sum())], label=r"least $\ell_1$ norm")
    sheet.mark(right, y=[float(np.abs(data.l2).sum())], label=r"of the least $\ell_2$ norm", ls=":")
    sheet.label(right, r"$\ell_1$ norm of the weights", r"size of the start $\alpha$", None, "best")
