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
        """Interpolation."""
        if self.samples >= self.parameters:
            raise ValueError(f"samples must be below parameters, {self.parameters}, got {self.samples}")


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
    \phi_k^2$ are weights of a linear model, $f(x_i) = \frac12\sum_k\lambda_{ik}p_k$, and of all that fit the flow ends
    in those of least relative entropy $\sum_kp_k\log(p_k/p_k(0)) - p_k$ to the start: the potential that the lecture
    asks for. A diagonal network is the case of eigenvalues in pairs $\pm x$. Where the $\Psi(x_i)$ do not commute there
    is no such potential: the end depends on how the samples are weighed.
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
    # Others that fit, all positive: the relative entropy is larger there.
    spare = np.linalg.svd(eigenvalues)[2][config.samples :]
    aside = rng.normal(size=(20, len(spare))) @ spare
    aside = aside * 0.5 * (least[:, None] / np.maximum(np.abs(aside), 1e-300)).min(-1)[..., None]
    entropy = lambda q: (q * np.log(q / squares.reshape(-1, *[1] * (q.ndim - 2), p)) - q).sum(-1)  # noqa: E731
    # Samples that weigh unequally change the history of the residuals; then the same where nothing commutes.
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
    scale = float(np.abs(data.least).max())
    for alpha, end, least in zip(config.alphas, data.end, data.least, strict=True):
        yield claim(
            f"end-flow-{alpha:g}-squares",
            f"end of the flow from {alpha:g}: squares less those of least relative entropy, over the largest",
        ).zero(np.abs(end - least).max() / scale, 1e-7, "tolerance of the integration")
    yield claim("relative-entropy-others", "relative entropy of others that fit less that of the end, least").at_least(
        0.0, data.above.min(), "a least value", slack=1e-12
    )
    yield claim("coordinates-whose-sign", "coordinates whose sign has changed").count(
        0, (data.sign != data.start_sign).sum()
    )
    yield claim("what-samples-unequal", "what samples of unequal weight change of the end, largest entry").zero(
        data.changed[0] / np.sqrt(scale), 1e-7, "tolerance of the integration"
    )
    yield claim(
        "same-where-every",
        "the same where every sample has eigenvectors of its own",
        given=config.samples > 1,
        otherwise="one sample only",
    ).at_least(1e-4, data.changed[1] / np.sqrt(scale), "a thousand times what is allowed where they are shared")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (8, 4.2))
    for i, alpha in enumerate(config.alphas):
        axes.semilogy(
            data.k + 0.12 * (i - 1),
            data.end.sel(alpha=alpha),
            "o",
            color=f"C{i % 10}",
            label=rf"flow from $\alpha = {alpha:g}$",
        )
        axes.plot(
            data.k + 0.12 * (i - 1),
            data.least.sel(alpha=alpha),
            "_",
            ms=14,
            color=sheet.ink(),
            label="least relative entropy" if not i else None,
        )
    sheet.label(axes, "Squares along the common eigenvectors, at the end", "eigenvector", None, "best")
