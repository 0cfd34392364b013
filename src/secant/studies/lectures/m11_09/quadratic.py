"""Lecture of 11/9, open question: the bias of quadratic models whose second derivatives share their eigenvectors."""

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.theory.bias import potentials
from secant.theory.bias.interpolants import bregman_projection


class Config(Seeded):
    samples: int = options.samples(3, at_most=10)
    parameters: int = option(8, at_least=2, at_most=30, help="parameters, more than samples")
    alphas: tuple[float, ...] = option((2.0, 0.5, 0.1), at_least=0.03, at_most=10, help="sizes of the start")

    def check(self) -> None:
        """Refuses data that cannot all be fitted."""
        if self.samples >= self.parameters:
            raise ValueError(f"samples: must be below parameters, {self.parameters}, got {self.samples}.")


def flow(psi: np.ndarray, y: np.ndarray, start: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
    r"""The end of gradient flow on $\frac12\sum_ic_i(\frac12\theta^\top\Psi_i\theta - y_i)^2$, $c$ the `weights`."""

    def field(_: float, theta: np.ndarray) -> np.ndarray:
        pull = psi @ theta
        return -(weights * (pull @ theta / 2 - y)) @ pull

    return solve_ivp(field, (0, 1e4), start, method="LSODA", rtol=1e-11, atol=1e-14).y[:, -1]


@study("lectures/11-09-quadratic", section="11-09", title="Quadratic models that share their eigenvectors", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Let $f(x) = \frac12\theta^\top\Psi(x)\theta$ with $\Psi(x_i) = V\operatorname{diag}(\lambda_i)V^\top$ for all
    samples. Along the eigenvectors, $\phi = V^\top\theta$, gradient flow is $\dot\phi_k =
    -\phi_k\sum_ir_i\lambda_{ik}$, so that $\phi_k = \phi_k(0)e^{s_k}$ with $s = \Lambda^\top\nu$. The squares $p_k =
    \phi_k^2$ are weights of a linear model, $f(x_i) = \frac12\sum_k\lambda_{ik}p_k$. The flow ends in the squares that
    fit and have the least relative entropy $\sum_kp_k\log(p_k/p_k(0)) - p_k$ to the start. This entropy is the
    potential that the lecture asks for.

    In a diagonal network eigenvalues come in pairs $\pm x$. Where the $\Psi(x_i)$ do not commute there is no such
    potential: the end depends on how the samples are weighed.
    """
    rng, p = np.random.default_rng(config.seed), config.parameters
    V = np.linalg.qr(rng.normal(size=(p, p)))[0]
    eigenvalues = rng.normal(size=(config.samples, p))
    psi = np.einsum("ak,ik,bk->iab", V, eigenvalues, V)
    y = eigenvalues @ rng.exponential(size=p) / 2  # positive squares that fit
    direction = rng.choice([-1.0, 1.0], p) * rng.uniform(0.5, 1.5, p)
    starts = np.array(config.alphas)[:, None] * direction @ V.T
    ends = np.stack([flow(psi, y, start) for start in starts])
    squares = (starts @ V) ** 2
    least = bregman_projection(eigenvalues / 2, y, potentials.entropy(), start=squares).weights
    # The relative entropy is larger at other squares that fit and are positive.
    spare = np.linalg.svd(eigenvalues)[2][config.samples :]
    aside = rng.normal(size=(20, len(spare))) @ spare
    aside = aside * 0.5 * (least[:, None] / np.maximum(np.abs(aside), 1e-300)).min(-1)[..., None]
    entropy = lambda q: (q * np.log(q / squares.reshape(-1, *[1] * (q.ndim - 2), p)) - q).sum(-1)  # noqa: E731
    # Unequal weights of the samples change the history of the residuals, here with and without common eigenvectors.
    unequal = np.geomspace(0.2, 5, config.samples) if config.samples > 1 else np.array([5.0])
    turned = np.stack([np.linalg.qr(rng.normal(size=(p, p)))[0] for _ in range(config.samples)])
    mixed = np.einsum("iak,ik,ibk->iab", turned, eigenvalues, turned)
    wanted = np.einsum("a,iab,b->i", direction, mixed, direction) / 2
    begin = starts[len(starts) // 2]
    changed = [
        flow(kind, values, begin, unequal) - flow(kind, values, begin) for kind, values in ((psi, y), (mixed, wanted))
    ]
    return xr.Dataset(
        {
            "end": (("alpha", "k"), (ends @ V) ** 2),
            "least": (("alpha", "k"), least),
            "sign": (("alpha", "k"), np.sign(ends @ V)),
            "start_sign": ("k", np.sign(direction)),
            "above": (("alpha", "other"), entropy(least[:, None] + aside) - entropy(least)[:, None]),
            "outputs": (("alpha", "sample"), (ends @ V) ** 2 @ eigenvalues.T / 2),
            "y": ("sample", y),
            "changed": ("kind", [np.abs(one).max() for one in changed]),
        },
        coords={"alpha": list(config.alphas)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    scale, why = float(np.abs(data.least).max()), "tolerance of the integration"
    for alpha, end, least in zip(config.alphas, data.end, data.least, strict=True):
        name = f"end of the flow from {alpha:g}: squares less the squares of least relative entropy, over the largest"
        yield claim(f"end-{alpha:g}", name).zero(np.abs(end - least).max() / scale, 1e-7, why)
    name = "least relative entropy of others that fit less that of the end"
    yield claim("entropy", name).at_least(0.0, data.above.min(), "a least value", slack=1e-12)
    yield claim("signs", "coordinates whose sign has changed").count(0, (data.sign != data.start_sign).sum())
    shared, own = data.changed / np.sqrt(scale)
    name = "largest change of the end when samples weigh unequally"
    yield claim("weighed", name).zero(shared, 1e-7, why)
    name, few = f"{name}, if each sample has eigenvectors of its own", "one sample only"
    yield claim("weighed-mixed", name, given=config.samples > 1, otherwise=few).at_least(
        1e-4, own, "a thousand times what is allowed where they are shared"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (8, 4.2))
    for i, alpha in enumerate(config.alphas):
        one, places = data.sel(alpha=alpha), data.k + 0.12 * (i - 1)
        axes.semilogy(places, one.end, "o", color=f"C{i % 10}", label=rf"flow from $\alpha = {alpha:g}$")
        label = None if i else "least relative entropy"
        axes.plot(places, one.least, "_", ms=14, color=sheet.ink(), label=label)
    sheet.label(axes, "Squares along the common eigenvectors, at the end", "eigenvector", None, "best")
