"""Proposition 2.4.4: the gradient of a random network is not small."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.lab import Estimate, Figure, Findings, Seeded, claim, estimate, fits_memory, options, scaled, sheet, study
from secant.linalg.spaces import size_of, unravel_like
from secant.theory.wide import relu_gradients as rg

DEPTHS = (2, 3, 4, 5, 6)


class Config(Seeded):
    width: int = options.width(64, 256, 1024, at_least=8, at_most=10**5)
    draws: int = options.draws(40, 200, 1_000, at_least=10, at_most=10**6)
    chains: int = scaled(
        smoke=100_000, laptop=1_000_000, paper=4_000_000, at_least=1_000, at_most=10**9, help="chains of neurons"
    )

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(4 * 8 * max(DEPTHS) * self.width**2, "width")
        fits_memory(8 * 8 * len(DEPTHS) * self.chains, "chains")


@study("thesis/prop-2.4.4", section="2.4", title="The gradient at the start, and how narrow is too narrow")
def run(config: Config) -> xr.Dataset:
    r"""For an input $x \sim \mathcal N(0, I)$ and homogeneous activations of degree $r$ with
    $C_\sigma = \inf \mathbb E_z\, \sigma(z)^2 > 0$, the proposition bounds the mean gradient of a random network from
    below: $\mathbb E \|\nabla_w f\| \ge \big(\min(1, \min_{j \le L} C_\sigma^{1 + r + \dots + r^{j-1}})\big)^{1/2}$,
    which is $2^{-L/2}$ for ReLU. Wide networks satisfy it: there $\mathbb E \|\nabla_w f\| \to \sqrt{L\, 2^{-(L-1)}}$.

    The proof bounds $\mathbb E \|\cdot\|^2$ and then takes the root, which is the wrong direction of Jensen's
    inequality. It proves $\mathbb E \|\nabla_w f\|^2 \ge 2^{-L}$; in fact $\mathbb E \|\nabla_w f\|^2 = L\, 2^{-(L-1)}$
    at every width. The mean of the norm depends on the width: with one neuron a layer the printed bound fails from
    $L = 3$ on.
    """
    key_wide, key_narrow = jax.random.split(jax.random.key(config.seed))
    wide = np.stack([_wide(jax.random.fold_in(key_wide, L), L, config) for L in DEPTHS])
    mean, error = jax.jit(_chains, static_argnums=1)(key_narrow, config.chains)
    found = {
        "wide": (("depth", "network"), wide, {"long_name": "norm of the gradient, wide networks"}),
        "narrow_mean": (("depth", "moment"), np.asarray(mean)),
        "narrow_error": (("depth", "moment"), np.asarray(error)),
    }
    return xr.Dataset(found, {"depth": list(DEPTHS), "moment": ["norm", "square", "last layer", "fourth"]})


def _wide(key: jax.Array, depth: int, config: Config) -> np.ndarray:
    """Gradient norms of random networks, each on its own random input."""
    net = nets.mlp([config.width] * (depth - 1), activation="relu")
    shapes = jax.eval_shape(lambda key: net.init(key, (1, config.width)), key)

    def norm(key: jax.Array) -> jax.Array:
        # Inputs and weights are all standard normal, so one draw makes the network.
        drawn = jax.random.normal(key, (config.width + size_of(shapes),))
        x, params = drawn[None, : config.width], unravel_like(shapes)(drawn[config.width :])
        gradient = jax.grad(lambda p: net.apply(p, x)[0])(params)
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))

    return np.asarray(jax.jit(lambda keys: jax.lax.map(norm, keys))(jax.random.split(key, config.draws)))


def _chains(key: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    r"""Means and standard errors over networks of one neuron a layer, where $f = x \prod_l w_l$ behind the gates."""
    draws = jax.random.normal(key, (count, max(DEPTHS) + 1))
    x, w = draws[:, 0], draws[:, 1:]
    found = []
    for depth in DEPTHS:
        slopes = rg.chain_gradient(x, w[:, :depth])
        square = jnp.sum(slopes**2, axis=1)
        found.append(jnp.stack([jnp.sqrt(square), square, slopes[:, -1], square**2]))
    values = jnp.stack(found)
    return values.mean(axis=-1), values.std(axis=-1) / np.sqrt(count)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    moments = jit(lambda depth: (rg.mean_square_gradient(depth), rg.chain_fourth_moment(depth)), quick=True)
    second, fourth = (np.asarray(moment).tolist() for moment in moments(np.array(DEPTHS, float)))
    squares, fourths = dict(zip(DEPTHS, second, strict=True)), dict(zip(DEPTHS[:3], fourth[:3], strict=True))
    for depth, square in squares.items():
        norms, name = data.wide.sel(depth=depth), f"width {config.width}, L = {depth}: mean"
        bound = claim(f"wide-{depth}-bound", f"{name} norm of the gradient is at least the bound")
        yield bound.at_least(2 ** (-depth / 2), estimate(norms), "the claim")
        # Relative variance of the squared norm: 5 for every layer's 1/width, inputs included.
        why, spread = "an eighth of the variance of the squared norm, about $5L/m$", np.expm1(5 * depth / config.width)
        mean = claim(f"wide-{depth}-norm", f"{name} norm of the gradient against infinite width")
        yield mean.equal(np.sqrt(square), estimate(norms), 0, why, relative=spread / 8)
        mean = claim(f"wide-{depth}-square", f"{name} square of the gradient")
        yield mean.equal(square, estimate(norms**2), 0, "exact at every width")

    def chain(depth: int, moment: str, variance: float) -> Estimate:
        """A mean over networks of one neuron a layer, with the sampling error of an exact variance."""
        mean = data.narrow_mean.sel(depth=depth, moment=moment).item()
        return Estimate(mean, float(np.sqrt(variance / config.chains)))

    why = "exact; the sampling error comes from the exact {} moment"
    for depth, fourth in fourths.items():
        found = chain(depth, "square", fourth - squares[depth] ** 2)
        yield claim(f"chain-{depth}-square", f"one neuron a layer, L = {depth}: mean square of the gradient").equal(
            squares[depth], found, 0, why.format("fourth")
        )
    eighth = 105 * 384 / 2  # x^8, a chi-square to the fourth, and a gate
    yield claim("chain-2-fourth", "one neuron a layer, L = 2: mean fourth power of the gradient").equal(
        fourths[2], chain(2, "fourth", eighth - fourths[2] ** 2), 0, why.format("eighth")
    )
    depth, last = 4, float(rg.chain_last_gradient(4))
    note = "The last display of appendix A.7 bounds this mean from below by $2^{-L/2}$, with the same wrong root."
    found = chain(depth, "last layer", 2.0 ** (1 - depth) - last**2)
    yield claim("chain-last-layer", f"one neuron a layer, L = {depth}: mean norm of the last layer's gradient").equal(
        last, found, 0, why.format("second"), note=note
    )
    at, lower = {"depth": depth, "moment": "norm"}, float(rg.mean_from_moments(squares[depth], fourths[depth]))
    printed = r"\mathbb E \|\nabla_w f\| \ge 2^{-L/2}", 2 ** (-depth / 2)
    right = r"\mathbb E X \ge (\mathbb E X^2)^{3/2}\,(\mathbb E X^4)^{-1/2}, \quad X = \|\nabla_w f\|", lower
    found = Estimate(data.narrow_mean.sel(at).item(), data.narrow_error.sel(at).item(), config.chains - 1)
    note = "The mean is at most the root of the mean square. A fourth moment, finite at every width, bounds it below."
    where: dict[str, Any] = {"where": "Proposition 2.4.4, equation (2.18), and Appendix A.7", "relation": "at least"}
    norm = claim("chain-norm", f"one neuron a layer, L = {depth}: mean norm of the gradient")
    yield norm.erratum(printed, right, found, 0, "both are lower bounds", note=note, **where)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2)
    depths, look = np.array(DEPTHS), {"fmt": "s", "color": "C1", "capsize": 3, "lw": 1.2}
    for axes, power, moment, limit, bound in (
        (left, 1, "norm", r"$\sqrt{L\,2^{-(L-1)}}$, infinite width", r"$2^{-L/2}$, the bound"),
        (right, 2, "square", r"$L\,2^{-(L-1)}$, every width", r"$2^{-L}$, the bound"),
    ):
        sheet.guide(axes, depths, np.sqrt(depths * 2.0 ** (1 - depths)) ** power, limit)
        mean, narrow = (data.wide**power).mean("network"), data.sel(moment=moment)
        axes.plot(depths, mean, "o", color="C0", label=f"{config.width} neurons a layer")
        sheet.guide(axes, depths, 2.0 ** (-power * depths / 2), bound, ls=":", lw=1.6)
        axes.errorbar(depths, narrow.narrow_mean, 2 * narrow.narrow_error, label="one neuron a layer", **look)
        sheet.label(axes, x="depth $L$", legend={"fontsize": 8}, yscale="log", xticks=depths)
    sheet.label(left, "Mean norm of the gradient", y=r"$\mathbb{E}\,\|\nabla_w f\|$")
    sheet.label(right, "Mean square of the gradient", y=r"$\mathbb{E}\,\|\nabla_w f\|^2$")
