"""Lectures of 9/14 and 9/21: random networks are Gaussian processes as they grow wide, and how they get there."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import stats

from secant.core.device import jit
from secant.kernels import next_covariance, next_variance
from secant.lab import Estimate, Figure, Findings, Seeded, claim, estimate, fits_memory, options, sheet, study
from secant.studies.shared.numerics.orbits import orbit

EXACT = "exact at every width"

INPUTS = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.75**0.5, 0.0, 0.0], [-0.3, 0.2, 1.2, 0.4]])
"""Three inputs."""

BLOCK = 1_000
"""Networks held in memory at once."""

TANH = {"weights": 1.5, "biases": 0.1}
"""Variances of weights, over the fan-in, and of biases, in the networks of tanh."""


class Config(Seeded):
    width: int = options.width(32, at_least=16, at_most=500)
    widths: tuple[int, ...] = options.widths((20, 40, 80), at_least=20, at_most=500, longest=6, ascending=True)
    layers: int = options.layers(2, at_most=6)
    draws: int = options.draws(4_000, 50_000, at_least=1_000, at_most=10**6)

    def check(self) -> None:
        """Refuses networks that do not fit the memory, and fourth powers that no number of draws can measure."""
        if self.layers > self.widths[0] // 10:
            raise ValueError(
                f"layers: must be at most a tenth of the first of widths, {self.widths[0] // 10}, got {self.layers}. "
                "In deeper networks a few rare draws make up the mean of fourth powers."
            )
        fits_memory(16.0 * max(self.width, *self.widths) ** 2 * BLOCK, "width or widths")


@study("lectures/09-14-gaussian", section="09-14", title="Wide random networks are Gaussian processes")
def run(config: Config) -> xr.Dataset:
    r"""With weights of variance $C_w$ over the fan-in and biases of variance $C_b$, the outputs of a random network at
    finitely many inputs are Gaussian as the widths grow, $\mathrm{Cov}(z_i(x_a), z_j(x_b)) \to \delta_{ij}K_{ab}$ with
    $K^{(1)} = C_b + \frac{C_w}{n_0}\,x_a\cdot x_b$ and $K_{ab} \mapsto C_b + C_w\,\mathbb E\,\sigma(z_a)\sigma(z_b)$.
    Given a layer, the next layer is Gaussian at every width, with a random covariance. This covariance is a mean over
    neurons, a collective observable, and its variance is of order $1/n$. For ReLU the kurtosis of an output is
    $3\prod_l(1 + 5/n_l)$.
    """
    random = np.random.default_rng(config.seed)
    blocks = [min(BLOCK, config.draws - first) for first in range(0, config.draws, BLOCK)]
    tanh = [_tanh(random, config.width, draws) for draws in blocks]
    first, second, output = (np.concatenate(part) for part in zip(*tanh, strict=True))
    relu = [np.concatenate([_relu(random, n, config.layers, draws) for draws in blocks]) for n in config.widths]

    def limit(K: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Covariances of three layers, and mean squares of tanh and of its square in the first."""
        layer = lambda K: next_covariance("tanh", jnp.diag(K)[:, None], jnp.diag(K)[None], K, **TANH)[2]  # noqa: E731
        powers = jnp.tanh, lambda z: jnp.tanh(z) ** 2
        moments = [next_variance(power, K[0, 0], weights=1.0, biases=0.0) for power in powers]
        return jnp.stack(orbit(layer, K, 2)), jnp.stack(moments)

    K, moments = jit(limit, quick=True)(TANH["biases"] + TANH["weights"] / INPUTS.shape[1] * INPUTS @ INPUTS.T)
    return xr.Dataset(
        {
            "first": (("draw", "a", "b"), first),
            "second": (("draw", "a", "b"), second),
            "output": (("draw", "neuron", "a"), output),
            "K": (("layer", "a", "b"), np.asarray(K)),
            "moment": ("power", np.asarray(moments)),
            "relu": (("width", "draw", "hidden"), np.stack(relu)),
        },
        coords={"width": list(config.widths), "layer": [1, 2, 3]},
    )


def _tanh(random: np.random.Generator, n: int, draws: int) -> tuple[np.ndarray, ...]:
    """Random covariances behind both hidden layers of tanh, and two outputs."""
    h, found = np.broadcast_to(INPUTS.T, (draws, *INPUTS.T.shape)), []
    for size in (n, n, 2):
        m = h.shape[1]
        found.append(TANH["biases"] + TANH["weights"] / m * h.transpose(0, 2, 1) @ h)
        weights = math.sqrt(TANH["weights"] / m) * random.standard_normal((draws, size, m))
        z = weights @ h + math.sqrt(TANH["biases"]) * random.standard_normal((draws, size, 1))
        h = np.tanh(z)
    return found[1], found[2], z


def _relu(random: np.random.Generator, n: int, layers: int, draws: int) -> np.ndarray:
    """Mean squares of signals before the gates of each hidden layer, and the variance of the output given the last."""
    h, rows = np.ones((draws, 4)), []
    for _ in range(layers):
        z = (math.sqrt(2 / h.shape[1]) * random.standard_normal((draws, n, h.shape[1])) @ h[..., None])[..., 0]
        rows.append(np.mean(z**2, 1))
        h = np.maximum(z, 0)
    return np.stack([*rows, 2 * np.mean(h**2, 1)], 1)


def _spread(values: xr.DataArray) -> Estimate:
    """The variance of repeats."""
    return estimate((values - values.mean()) ** 2 * values.size / (values.size - 1))


def _collective(width: int, layer: int) -> float:
    """Variance of the mean square of a ReLU layer's signals, of mean 2: given the layer below, a mean of squares."""
    return 4 * ((1 + 2 / width) * (1 + 5 / width) ** (layer - 1) - 1)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    n, K, order = config.width, data.K, "corrections are of order 1/n"
    for a, b in ((0, 0), (0, 1), (1, 2)):
        key = f"{a + 1}-{b + 1}"
        name = f"covariance of inputs {a + 1} and {b + 1}" if a < b else "variance at an input"
        one, two = estimate(data["first"][:, a, b]), estimate(data.second[:, a, b])
        yield claim(f"one-layer-{key}", f"tanh, one layer of {n}: {name}").equal(K.sel(layer=2)[a, b], one, 0, EXACT)
        yield claim(f"two-layers-{key}", f"tanh, two layers of {n}: {name}").equal(
            K.sel(layer=3)[a, b], two, 0, order, relative=1 / n
        )
    size = float(K.sel(layer=3)[0, 0])
    z = data.output[:, :, 0] / math.sqrt(size)
    yield claim("two-outputs", "tanh: variance of two outputs together").equal(
        2.0, estimate((z**2).sum("neuron")), 0, order, relative=1 / n
    )
    product = estimate(z[:, 0] * z[:, 1])
    yield claim("independence", "tanh: covariance of two outputs").zero(product, 0, "zero at every width")
    apart = estimate(np.cos(z[:, 0]) - np.exp(-data.second[:, 0, 0] / size / 2))
    name = "tanh: characteristic function of an output, less that of its random variance"
    yield claim("characteristic-function", name).zero(apart, 0, EXACT)
    second, fourth = (float(moment) for moment in data.moment)
    yield claim("mean-over-neurons", f"tanh: variance of a mean over the {n} neurons of the first layer").equal(
        TANH["weights"] ** 2 * (fourth - second**2) / n, _spread(data["first"][:, 0, 0]), 0, EXACT
    )
    for width in config.widths:
        found = data.relu.sel(width=width)
        name = f"ReLU, {config.layers} layers of {width}: kurtosis of an output"
        yield claim(f"relu-kurtosis-{width}", name).equal(
            3 * (1 + 5 / width) ** config.layers, estimate(3 * (found[:, -1] / 2) ** 2), 0, EXACT
        )
        for layer in sorted({1, config.layers}):
            name = f"ReLU, width {width}: variance of the mean square in layer {layer}"
            yield claim(f"relu-square-{width}-{layer}", name).equal(
                _collective(width, layer), _spread(found[:, layer - 1]), 0, EXACT
            )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    z, title = np.linspace(0, 6, 100), f"An output of ReLU, {config.layers} layers"
    for i, width in enumerate(config.widths):
        scale = np.sqrt(data.relu.sel(width=width)[:, -1].values / 2)
        scale = scale[scale > 0][:, None]
        left.semilogy(z, np.mean(stats.norm.pdf(z / scale) / scale, 0), color=f"C{i}", label=f"width {width}")
    sheet.guide(left, z, stats.norm.pdf(z), "Gaussian")
    sheet.label(left, title, "output over its deviation", "density", "lower left", ylim=(1e-7, 1))
    sizes = np.geomspace(config.widths[0], config.widths[-1] + 1, 50)
    for i, layer in enumerate(sorted({1, config.layers})):
        found = [_spread(data.relu.sel(width=width)[:, layer - 1]) for width in config.widths]
        sheet.errors(right, config.widths, found, f"layer {layer}", color=f"C{i}")
        sheet.guide(right, sizes, [_collective(size, layer) for size in sizes], color=f"C{i}")
    sheet.label(right, "Mean squares of signals", "width", "variance", "upper right", xscale="log", yscale="log")
    sheet.ticks(right, config.widths)
