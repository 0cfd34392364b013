"""Section 9.4: the tangent kernel of deep networks of ReLU."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.curvature import ntk
from secant.kernels import kernel
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study

DEPTHS = (1, 2, 3, 5)


class Config(Seeded):
    correlations: tuple[float, ...] = option(
        (-1.0, -0.5, 0.0, 0.5, 0.9, 1.0), at_least=-1, at_most=1, help="correlations of two unit inputs"
    )
    width: int = options.width(128, 1_000, at_least=16, at_most=10**4)
    draws: int = options.draws(40, 100, at_least=10, at_most=10**4)

    def check(self) -> None:
        """Networks that a machine holds."""
        fits_memory(40.0 * self.width**2 * max(DEPTHS), "width")


def network(depth: int, width: int) -> nets.Network:
    r"""The book's network: all weights $N(0, 1)$, $g^{(h)} = \sqrt{2/d_h}\,\sigma(f^{(h)})$, inputs as they are."""
    first, other = nets.Parametrization("ntk"), nets.Parametrization("ntk", gain=2**0.5)
    return nets.mlp([width] * depth, activation="relu", parametrization=[first, *[other] * depth])


def by_angles(rho: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The recursion by arc cosines: an independent way to both kernels of unit inputs."""
    sigma, theta = rho.astype(float), rho.astype(float)
    for _ in range(depth):
        angle = np.arccos(np.clip(sigma, -1, 1))
        sigma = (np.sin(angle) + sigma * (np.pi - angle)) / np.pi
        theta = theta * (np.pi - angle) / np.pi + sigma
    return sigma, theta


@study("book/sec-9.4", section="9.4", title="The tangent kernel of a deep network of ReLU")
def run(config: Config) -> xr.Dataset:
    r"""Take a network with $f^{(h)} = W^{(h)} g^{(h-1)}$ and $g^{(h)} = \sqrt{2/d_h}\,\sigma(f^{(h)})$ of infinite
    width. Two inputs have $\Sigma^{(h)} = 2\,\mathbb E\,\sigma(u)\sigma(v)$ and $\dot\Sigma^{(h)} = 2\,\mathbb
    E\,\sigma'(u)\sigma'(v)$ over Gaussians of covariance $\Sigma^{(h-1)}$. The tangent kernel is $\Theta =
    \sum_{h=1}^{L+1} \Sigma^{(h-1)} \prod_{h'=h}^{L+1} \dot\Sigma^{(h')}$ with $\dot\Sigma^{(L+1)} = 1$. For unit inputs
    $\Theta(x, x) = L + 1$.
    """
    rho = np.array(config.correlations)
    # Two features: the first layer divides by their root.
    others = np.sqrt(2) * np.stack([rho, np.sqrt(1 - rho**2)], 1)
    one = np.sqrt(2) * np.array([[1.0, 0.0]])
    limits = [kernel(network(depth, 1), jnp.asarray(one), jnp.asarray(others)) for depth in DEPTHS]
    pair = jnp.asarray(np.sqrt(2) * np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]]))
    net = network(2, config.width)

    def sample(key: jax.Array) -> jax.Array:
        return ntk(net.apply, net.init(key, pair.shape), pair).dense()[0]

    keys = jax.random.split(jax.random.key(config.seed), config.draws)
    drawn = jit(lambda keys: jax.lax.map(sample, keys), quick=True)(keys)
    found = {"nngp": [k.nngp[0] for k in limits], "ntk": [k.ntk[0] for k in limits]}
    return xr.Dataset(
        {name: (("depth", "rho"), np.stack(rows)) for name, rows in found.items()}
        | {"drawn": (("draw", "side"), np.asarray(drawn))},
        coords={"depth": list(DEPTHS), "rho": rho},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    rho = data.rho.values
    for depth in DEPTHS:
        for name, exact in zip(("nngp", "ntk"), by_angles(rho, depth), strict=True):
            left = np.abs(data[name].sel(depth=depth) - exact).max()
            yield claim(
                f"{name}-{depth}", f"{depth} hidden layers: {name.upper()} kernel against the recursion by angles"
            ).zero(left, 1e-9, "an arc cosine near coincidence keeps half its digits")
    same, exact = rho == 1, by_angles(np.array([0.5]), 2)[1][0]
    itself = "tangent kernel of an input with itself"
    for depth in DEPTHS:
        name, otherwise = f"{depth} hidden layers: {itself}", "no correlation of 1 is among them"
        yield claim(f"diagonal-{depth}", name, given=same, otherwise=otherwise).equal(
            depth + 1.0, lambda depth=depth: data.ntk.sel(depth=depth).values[same][0], 1e-12, "exact"
        )
    networks, drawn = f"random networks of width {config.width}, two hidden layers", estimate(data.drawn.isel(side=0))
    yield claim("networks-diagonal", f"{networks}: {itself}").equal(3.0, drawn, 0, "exact at every width")
    why = "what is left at a finite width: some layers over it"
    yield claim("networks-half", f"{networks}: tangent kernel at a correlation of 0.5").equal(
        exact, estimate(data.drawn.isel(side=1)), 10 / config.width, why
    )
    name, otherwise = (
        "orthogonal inputs, one hidden layer: only the part of the readout",
        "there is no correlation of 0",
    )
    yield claim("orthogonal", name, given=rho == 0, otherwise=otherwise).equal(
        1 / np.pi, lambda: data.ntk.sel(depth=1, rho=0.0), 1e-12, "exact"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    rho = np.linspace(-1, 1, 201)
    for color, depth in enumerate(DEPTHS):
        sigma, theta = by_angles(rho, depth)
        left.plot(rho, sigma, color=f"C{color}", label=f"{depth}")
        left.plot(data.rho, data.nngp.sel(depth=depth), "o", ms=4, color=f"C{color}")
        right.plot(rho, theta / (depth + 1), color=f"C{color}")
        right.plot(data.rho, data.ntk.sel(depth=depth) / (depth + 1), "o", ms=4, color=f"C{color}")
    inputs = "correlation of two unit inputs"
    sheet.label(left, "Covariance of the outputs", inputs, r"$\Sigma^{(L)}$", {"title": "hidden layers"})
    sheet.label(right, "Tangent kernel over its diagonal", inputs, r"$\Theta/(L+1)$")
