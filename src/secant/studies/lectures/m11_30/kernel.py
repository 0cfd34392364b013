"""Lecture of 11/30 and its appendix: tangent kernels of random ReLU networks of finite width."""

import math

import numpy as np
import xarray as xr

from secant.kernels import dual
from secant.lab import Figure, Findings, claim, estimate, fits_memory, option, options, sheet, study
from secant.studies.shared.relu_networks import Shallow
from secant.theory.wide import relu_kernel as rk
from secant.theory.wide import relu_paths as rp

COSINE = 0.5
"""Cosine of the angle between two inputs of length 1."""

SAMPLES, DIM = 30, 10
"""Random inputs and their entries: the appendix bounds the largest eigenvalue of their kernel."""

RATIO = 0.1
"""Depth over width where the kernel's mean square is compared with its limit."""


class Config(Shallow):
    inputs: int = option(4, at_least=2, at_most=100, help="entries of an input")
    wide: int = option(64, at_least=32, at_most=500, help="neurons of a layer in networks that compare two inputs")
    draws: int = options.draws(10_000, 100_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Kernels that a machine holds, with squares that so many draws can measure."""
        super().check()
        fits_memory(32.0 * self.layers * (self.width**2 + self.wide**2) * 1_000, "width, wide or layers")
        fits_memory(100.0 * self.draws * self.layers, "draws")


@study("lectures/11-30-kernel", section="11-30", title="The tangent kernel of a random ReLU network")
def run(config: Config) -> xr.Dataset:
    r"""Over the weights of all $L + 1$ layers in units of their standard deviation, the tangent kernel of an input with
    itself has the mean $2(L + 1)|x|^2/n_0$ at every width, as much from each layer. Its mean square is the square of
    the mean times $e^{5\beta}$, $\beta = \sum_l 1/n_l$, up to a factor between $\frac13$ and 1: at a ratio $T = L/n$
    $$\frac{\mathbb E\,\Theta^2}{(\mathbb E\,\Theta)^2}
    \to \frac{e^{5T}}3\Big[1 + \frac2{3T} - \frac{1 - e^{-6T}}{9T^2}\Big].$$
    For two inputs gates and weights are not independent. Their mean kernel follows the recursion
    $\Theta' = K' + 2\,\mathbb E\,\sigma'\sigma'\,\Theta$. It is no product of the gates' probabilities, and no bound on
    the largest eigenvalue follows from such a product.
    """
    random = np.random.default_rng(config.seed)
    x = np.full(config.inputs, 1 / math.sqrt(config.inputs))
    pair = np.zeros((2, config.inputs))
    pair[:, 0], pair[1, :2] = 1, (COSINE, math.sqrt(1 - COSINE**2))
    X = random.standard_normal((SAMPLES, DIM))
    top = np.linalg.eigh(_limit(X, 1)[1])[1][:, -1]

    def drawn(widths: tuple[int, ...], draws: int, what: str) -> np.ndarray:
        found = []
        for first in range(0, draws, 1_000):
            weights = rp.draw_weights(random, widths, min(1_000, draws - first))
            if what == "shares":
                found.append(rk.kernel_draws(weights, x))
            elif what == "pair":
                found.append(rk.layer_kernels(weights, pair)[..., 0, 1].sum(1))
            else:
                found.append(np.einsum("a,dlab,b->d", top, rk.layer_kernels(weights, X), top))
        return np.concatenate(found)

    open_ = rp.draw_weights(random, (config.inputs, 1), 10 * config.draws)[0][:, 0] @ pair.T > 0
    sizes = np.array([50, 100, 200, 400, 800])
    widths = (config.inputs, *[config.width] * config.layers)
    return xr.Dataset(
        {
            "share": (("draw", "layer"), drawn(widths, config.draws, "shares")),
            "both": ("gate", open_.all(1)),
            "shallow": ("draw", drawn((config.inputs, config.width), config.draws, "pair")),
            "deep": ("few", drawn((config.inputs, *[config.wide] * 3), config.draws // 10, "pair")),
            "top": ("few", drawn((DIM, 16), config.draws // 10, "top")),
            "X": (("sample", "input"), X),
            "spread": ("size", [_spread(n, round(RATIO * n)) for n in sizes]),
        },
        coords={"size": sizes, "layer": np.arange(1, config.layers + 2)},
    )


def _spread(width: int, layers: int) -> float:
    """Mean square over squared mean, by the exact recursion."""
    widths = (1, *[width] * layers)
    return float(rk.kernel_square(widths) / rk.kernel_mean(widths) ** 2)


def _limit(X: np.ndarray, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariances and tangent kernel at infinite width; with one hidden layer they are means at every width."""
    K = Theta = 2 * X @ X.T / X.shape[1]
    for _ in range(layers):
        sizes = np.diag(K)
        found = dual("relu", sizes[:, None], sizes[None], K)
        K = 2 * np.asarray(found.value)
        Theta = K + 2 * np.asarray(found.slope) * Theta
    return K, Theta


def _printed(X: np.ndarray, layers: int) -> np.ndarray:
    """Means of kernels as the appendix has them, with the probabilities of its last layers bounded by a half."""
    sizes = np.linalg.norm(X, axis=1)
    angles = np.arccos(np.clip(X @ X.T / np.outer(sizes, sizes), -1, 1))
    return 2 * layers / X.shape[1] * X @ X.T * (1 - angles / math.pi)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    widths, exact = (config.inputs, *[config.width] * config.layers), "exact at every width"
    kernel, mean, appendix = data.share.sum("layer"), float(rk.kernel_mean(widths)), "lecture of 11/30, appendix"
    printed, corrected = (r"2L\,|x|^2/n_0", 2 * config.layers / config.inputs), (r"2(L + 1)|x|^2/n_0", mean)
    where, note = (
        "lecture of 11/30, lemma on the kernel's mean",
        "There are $L + 1$ layers of weights; the sum in the proof",
    )
    yield claim("mean", "mean of the kernel").erratum(
        printed, corrected, estimate(kernel), 0, exact, where=where, note=f"{note} ends at $L$."
    )
    for layer in (1, config.layers + 1):
        found = estimate(data.share.sel(layer=layer))
        yield claim(f"layer-{layer}", f"mean share of layer {layer}").equal(2 / config.inputs, found, 0, exact)
    yield claim("square", "mean square of the kernel").equal(rk.kernel_square(widths), estimate(kernel**2), 0, exact)
    size, limit = int(data["size"][-1]), float(rk.kernel_spread(RATIO))
    yield claim("spread", f"mean square over squared mean at width {size}, $L/n = {RATIO:g}$").equal(
        limit, data.spread[-1], 0, "corrections are of order $1/n$", relative=5 / size
    )
    gaps, why = (limit - data.spread).values, "of order $1/n$, with corrections of order $1/L$"
    yield claim("spread-order", "its distance from the limit at half the width, over that at the width").equal(
        2.0, gaps[-2] / gaps[-1], 2 * 2 / (RATIO * size), why
    )
    orthant, found = 0.5 - math.acos(COSINE) / (2 * math.pi), estimate(data.both)
    yield claim("gates", "share of neurons that two inputs open").equal(orthant, found, 0, "an orthant")
    two = np.array([[1.0, 0.0], [COSINE, math.sqrt(1 - COSINE**2)]]) * math.sqrt(2 / config.inputs)
    limits = {layers: _limit(two, layers)[1][0, 1] for layers in (1, 3)}
    printed = r"L\frac{x_a\cdot x_b}{n_0}2^{L+1}\prod_l\mathbb E\,\xi_a\xi_b", _printed(two, 1)[0, 1]
    corrected, found = (r"K' + 2\,\mathbb E\,\xi_a\xi_b\,\Theta", limits[1]), estimate(data.shallow)
    note = "With two inputs gates and squared weights are not independent: a neuron that both open has larger weights."
    yield claim("pair", "mean of the kernel between two inputs, one hidden layer").erratum(
        printed, corrected, found, 0, exact, note=note, where=appendix
    )
    deep = f"mean of the kernel between two inputs, three layers of {config.wide}, in the limit"
    yield claim("pair-deep", deep).equal(
        limits[3], estimate(data.deep), 0, "corrections are of order $L/n$", relative=3 / config.wide
    )
    X = data.X.values
    true, wrong = np.abs(_limit(X, 1)[1]), np.abs(_printed(X, 1))
    bounds = [min(matrix.sum(0).max(), np.linalg.norm(matrix)) for matrix in (wrong, true)]
    printed, corrected = (r"C_0", bounds[0]), (r"\min(\|\mathbb E\,\Theta\|_1, \|\mathbb E\,\Theta\|_F)", bounds[1])
    found, note = estimate(data.top), "The bound sums the formula for two inputs, which is too small."
    yield claim("eigenvalue", f"largest eigenvalue of the mean kernel of {SAMPLES} inputs, one hidden layer").erratum(
        printed, corrected, found, 0, "an inequality", note=note, where=appendix, relation="at most"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    ratios = np.linspace(0.005, 0.6, 60)
    for i, width in enumerate((20, 50, 200)):
        depths = np.unique(np.maximum(np.round(ratios * width).astype(int), 1))
        left.semilogy(depths / width, [_spread(width, n) for n in depths], ".-", color=f"C{i}", label=f"width {width}")
    sheet.guide(left, ratios, rk.kernel_spread(ratios), "limit")
    spread = "mean square over squared mean"
    sheet.label(left, "How random the kernel is", "depth over width, $L/n$", spread, "upper left")
    cosines = np.linspace(-0.999, 0.999, 101)
    pairs = [np.array([[1.0, 0.0], [c, math.sqrt(1 - c * c)]]) * math.sqrt(2 / config.inputs) for c in cosines]
    right.plot(cosines, [_limit(two, 1)[1][0, 1] for two in pairs], color="C0", label="recursion")
    right.plot(cosines, [_printed(two, 1)[0, 1] for two in pairs], color="C3", label="as printed")
    right.plot(cosines, [_printed(two, 2)[0, 1] for two in pairs], color="C3", ls=":", label="with $L + 1$ for $L$")
    found = estimate(data.shallow)
    right.errorbar([COSINE], [found.value], 2 * found.error, fmt="o", color=sheet.ink(), label="networks")
    sheet.label(right, "Two inputs, one hidden layer", "cosine of their angle", "mean kernel", "upper left")
