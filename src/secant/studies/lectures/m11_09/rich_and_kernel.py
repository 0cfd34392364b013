"""Lecture of 11/9: the diagonal network between the rich and the kernel regime."""

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, option, options, sheet, study
from secant.theory.bias import potentials
from secant.theory.bias.interpolants import bregman_projection, min_norm


class Config(Seeded):
    samples: int = options.samples(3, at_most=20)
    dimension: int = option(6, at_least=2, at_most=50, help="weights, more than samples")
    alphas: tuple[float, ...] = option(
        (5.0, 1.0, 0.3, 0.05), at_least=0.01, at_most=20, help="sizes of the start of flows that are run"
    )

    def check(self) -> None:
        """Refuses data that cannot all be fitted."""
        if self.samples >= self.dimension:
            raise ValueError(f"samples: must be below dimension, {self.dimension}, got {self.samples}.")


def flow(X: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both halves at the end of gradient flow on half the sum of squares, and the time integral of the residual."""
    d = X.shape[1]

    def field(_: float, state: np.ndarray) -> np.ndarray:
        r = X @ (state[:d] ** 2 - state[d : 2 * d] ** 2) - y
        g = X.T @ r
        return np.concatenate([-2 * state[:d] * g, 2 * state[d : 2 * d] * g, r])

    begin = np.concatenate([start, start, np.zeros(len(y))])
    end = solve_ivp(field, (0, 1e5), begin, method="LSODA", rtol=1e-11, atol=1e-14).y[:, -1]
    return end[: 2 * d].reshape(2, d), end[2 * d :]


def penalty(beta: np.ndarray, alpha: float, theta0: np.ndarray) -> float:
    r"""$Q = \sum_i\alpha^2\theta_{0,i}^2\,q(\beta_i/\alpha^2\theta_{0,i}^2)$, four times the hypentropy."""
    return float(4 * potentials.hypentropy(alpha * theta0).value(beta))


@study("lectures/11-09-rich-and-kernel", section="11-09", title="Rich and kernel regimes of a diagonal network")
def run(config: Config) -> xr.Dataset:
    r"""For $z = \langle\beta, x\rangle$ with $\beta = \theta_+^2 - \theta_-^2$, gradient flow on $\frac12\sum(z - y)^2$
    from $\theta_\pm = \alpha\theta_0$ has $\beta(t) = 2\alpha^2\theta_0^2\sinh(-4X^\top\int_0^tr)$. Let
    $q(z) = 2 - \sqrt{4 + z^2} + z\operatorname{arcsinh}(z/2)$. The flow ends in the $\beta$ with
    $X\beta = y$ that has the least $Q = \sum_i\alpha^2\theta_{0,i}^2\,q(\beta_i/\alpha^2\theta_{0,i}^2)$.

    - The rich regime is $\alpha \to 0$, where $Q/\log(1/\alpha^2) \to \|\beta\|_1$.
    - The kernel regime is $\alpha \to \infty$, where $\alpha^2Q \to \frac14\sum_i\beta_i^2/\theta_{0,i}^2$.
    """
    rng = np.random.default_rng(config.seed)
    X = rng.normal(size=(config.samples, config.dimension))
    y = X @ rng.normal(size=config.dimension)
    theta0 = rng.uniform(0.5, 1.5, config.dimension)
    flows = [flow(X, y, alpha * theta0) for alpha in config.alphas]
    fine = np.geomspace(1e-8, 1e3, 45)
    path = bregman_projection(X, y, potentials.hypentropy(fine[:, None] * theta0))
    least = bregman_projection(X, y, potentials.hypentropy(np.array(config.alphas)[:, None] * theta0))
    return xr.Dataset(
        {
            "theta": (("alpha", "half", "i"), np.stack([end for end, _ in flows])),
            "least": (("alpha", "i"), least.weights),
            "integral": (("alpha", "sample"), np.stack([total for _, total in flows])),
            "path": (("fine", "i"), path.weights),
            "l1": ("i", min_norm(X, y, 1)),
            "kernel": ("i", theta0 * min_norm(X * theta0, y, 2)),  # the least weighted l2 norm, by a change of units
            "theta0": ("i", theta0),
            "X": (("sample", "i"), X),
        },
        coords={"alpha": list(config.alphas), "fine": fine},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    beta, theta0, one = data.theta[:, 0] ** 2 - data.theta[:, 1] ** 2, data.theta0.values, data.kernel.values
    scale, why = np.abs(data.kernel).max(), "tolerance of the integration"
    for alpha, end, least in zip(config.alphas, beta, data.least, strict=True):
        name = f"end of the flow from {alpha:g}: distance to the least Q, over the largest weight"
        yield claim(f"end-{alpha:g}", name).zero(np.abs(end - least).max() / scale, 1e-7, why)
    ratio, order = penalty(one, 1e3, theta0) * 1e6, r"the next term, of the order $(\beta/\alpha^2)^2$"
    name = r"kernel regime, $\alpha = 1000$: $\alpha^2 Q$ over a quarter of the squared weighted $\ell_2$ norm"
    yield claim("kernel-penalty", name).equal(1.0, ratio / (np.sum(one**2 / theta0**2) / 4), 1e-9, order)
    name = r"kernel regime, $\alpha = 1000$: distance to the least weighted $\ell_2$ norm, over the largest weight"
    yield claim("kernel-weights", name).zero(np.abs(data.path[-1] - data.kernel).max() / scale, 1e-9, order)
    norms, least = np.abs(data.path).sum("i"), float(np.abs(data.l1).sum())
    spread = np.log(config.dimension) + 2 * np.log(theta0.max() / theta0.min())
    room = np.log(least / (1e-8 * theta0.max()) ** 2) - spread - 1
    name = r"rich regime, $\alpha = 10^{-8}$: excess of the $\ell_1$ norm over the least"
    yield claim("rich-norm", name).at_most(
        spread / room, norms[0] / least - 1, "the least Q, and the spread of its entropies"
    )
    yield from errata(data, config, beta)


def errata(data: xr.Dataset, config: Config, beta: xr.DataArray) -> Findings:
    """Three displays of the lecture, as printed and corrected."""
    theta0, one = data.theta0.values, data.kernel.values
    integration = Tolerance(1e-6, why="tolerance of the integration")
    growth = (penalty(one, 1e-9, theta0) - penalty(one, 1e-8, theta0)) / np.log(100)
    yield claim("rich-limit", r"growth of Q with $\log(1/\alpha^2)$, between $10^{-8}$ and $10^{-9}$").erratum(
        (r"Q \to \|\beta\|_1", 0.0),
        (r"Q/\log(1/\alpha^2) \to \|\beta\|_1", np.abs(one).sum()),
        growth,
        Tolerance(0.0, 1e-6, r"terms of the order $\alpha^2$"),
        note="Q itself has no limit: it grows as the logarithm.",
        where="lecture 11/9, limit of small alpha",
    )
    i = int(np.abs(beta[0].values).argmax())
    at = float(np.sinh(-4 * data.X[:, i] @ data.integral[0])) * (config.alphas[0] * theta0[i]) ** 2
    name = r"largest weight at the end over $\alpha^2\theta_0^2 \sinh(-4 X^\top \int r)$"
    yield claim("flow-solution", name).erratum(
        (r"\beta = \alpha^2\theta_0^2\sinh(\cdot)", 1.0),
        (r"\beta = 2\alpha^2\theta_0^2\sinh(\cdot)", 2.0),
        float(beta[0][i]) / at,
        integration,
        note="The last display has lost a factor of 2.",
        where="lecture 11/9, solution of the flow",
    )
    first, plus, minus = data.X[0].values, data.theta[-1, 0].values, data.theta[-1, 1].values
    target = first @ data.path[0].values
    yield claim("second-block", "output at the first sample at the end, over its target").erratum(
        (r"\Psi = \mathrm{diag}(\mathrm{Diag}(x), \mathrm{Diag}(x))", first @ (plus**2 + minus**2) / target),
        (r"\Psi = \mathrm{diag}(\mathrm{Diag}(x), -\mathrm{Diag}(x))", 1.0),
        first @ (plus**2 - minus**2) / target,
        integration,
        note="The second block has the other sign.",
        where="lecture 11/9, the model as a quadratic one",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    beta, size = data.theta[:, 0] ** 2 - data.theta[:, 1] ** 2, r"size of the start $\alpha$"
    for i in range(data.sizes["i"]):
        left.semilogx(data.fine, data.path[:, i], color=f"C{i % 10}", label=None if i else "least Q")
        left.plot(data.alpha, beta[:, i], "o", color=f"C{i % 10}", label=None if i else "end of a flow")
    sheet.label(left, "Weights, from rich to kernel", size, None, "best")
    norms = {
        r"$\ell_1$ norm": lambda weights: np.abs(weights).sum("i"),
        r"weighted $\ell_2$ norm": lambda weights: np.sqrt((weights**2 / data.theta0**2).sum("i")),
    }
    for i, (name, norm) in enumerate(norms.items()):
        right.semilogx(data.fine, norm(data.path), color=f"C{i}", label=name)
        sheet.mark(right, y=norm((data.l1, data.kernel)[i]), label=None if i else "least of each")
    sheet.label(right, "Norms of the end", size, None, "best")
