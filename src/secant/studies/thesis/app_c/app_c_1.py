"""Appendix C.1: the tangent kernel knows the critical step size of a wide network."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import losses, nets
from secant.core.types import Params
from secant.curvature import gauss_newton, hessian
from secant.curvature.tangent.tangent_kernel import pair_kernel
from secant.data import regression
from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.linalg.norm import spectral_norm
from secant.nets import Network
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.width import direction, drawn, law, mark_widths, next_order, refuse_oversized, stacked

GROUPS = 32
"""Groups of networks. The mean square within each group is one measurement of the distance."""

LANCZOS = 16
"""Products with the Hessian of the loss that its largest eigenvalue may cost."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (32, 160), (64, 128, 256, 512), (64, 128, 256, 512, 1_024, 2_048), at_least=8, shortest=2, ascending=True
    )
    depths: tuple[int, ...] = option((2, 3), at_least=2, at_most=20, distinct=True, help="layers of weights")
    draws: int = options.draws(128, 96, at_least=2 * GROUPS, at_most=10_000)
    samples: int = options.samples(16, at_least=2, at_most=2_000)
    dim: int = options.dim(10, at_least=2, at_most=10_000)


@study("thesis/app-C.1", section="C.1", title="The kernel knows the critical step", precision="float32")
def run(config: Config) -> xr.Dataset:
    r"""For $\mathcal L = \frac1n \sum_i (f_i - y_i)^2$ the Hessian is $H_{\mathcal L} = \mathcal A + \mathcal B$ with
    $\mathcal A = \frac2n J^\top J$ and $\mathcal B = \frac2n \sum_i (f_i - y_i)\,\nabla^2 f_i$. The first has
    $\lambda_{\max}(\mathcal A) = \frac2n \lambda_{\max}(K)$, the second $\|\mathcal B\| = \tilde O(1/\sqrt m)$. So
    $$|\eta_{\mathrm{crit}} - \tilde\eta_{\mathrm{crit}}| = \Big|\frac{2}{\lambda_{\max}(H_{\mathcal L})}
    - \frac{n}{\lambda_{\max}(K)}\Big| = \tilde O(1/\sqrt m).$$
    In fact the distance falls faster, as $1/m$. Let $u$ be the first eigenvector of $\mathcal A$. The first-order term
    $u^\top \mathcal B u$ is an average over neurons of terms with random signs, a further $1/\sqrt m$ smaller than
    $\|\mathcal B\|$. The second-order term is of order $\|\mathcal B\|^2$. The expansion needs a first eigenvalue
    that stays away from the second by more than $\|\mathcal B\|$. In a ReLU network it does, because all entries of
    its kernel are positive. The networks are those of chapter 4, with ReLU.
    """
    key_data, _ = jax.random.split(jax.random.key(config.seed))
    task = regression("rank-2", key_data, samples=config.samples, test_samples=1, dim=config.dim)
    x, y = map(jnp.asarray, task.train)
    # In memory are a norm, the gradients of all samples in a kernel, and all networks of one width.
    copies = 10 + 2 * config.samples + config.draws
    for depth in config.depths:
        make = partial(_network, depth)
        refuse_oversized("thesis/app-C.1", make, config.dim, config.widths, copies=copies, itemsize=8)
    found = np.array([[_curvatures(depth, m, x, y, config) for m in config.widths] for depth in config.depths])
    loss, kernel, residual = np.moveaxis(found, -1, 0)
    dims = ("depth", "width", "network")
    return xr.Dataset(
        {
            "exact": (dims, 2 / loss, {"long_name": "critical step size"}),
            "estimate": (dims, 2 / kernel, {"long_name": "critical step size by the tangent kernel"}),
            "gauss_newton": ("depth", [_gauss_newton(depth, x, y, config) for depth in config.depths]),
            "kernel": (dims, kernel, {"long_name": "2/n times the largest eigenvalue of the tangent kernel"}),
            "residual": (dims, residual / loss, {"long_name": "relative residual of the Hessian's eigenvector"}),
        },
        coords={"depth": list(config.depths), "width": list(config.widths)},
    )


def _network(depth: int, width: int) -> Network:
    return nets.mlp([width] * (depth - 1), activation="relu")


def _curvatures(depth: int, width: int, x: jax.Array, y: jax.Array, config: Config) -> np.ndarray:
    """Largest eigenvalues of the loss's Hessian and of the scaled kernel, and the residual of the first."""
    net = _network(depth, width)

    @jax.jit
    def measure(networks: Params, start: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        def one(params: Params) -> jax.Array:
            bend = hessian(net.apply, params, x, y, losses.mean_mse)
            top = spectral_norm(bend.flat_product(), start, LANCZOS)
            kernel = jnp.linalg.eigvalsh(pair_kernel(net.apply)(params, x, None))[-1]
            return jnp.stack([top.value, 2 / len(x) * kernel, top.residual])

        return jax.lax.map(one, networks)

    networks = drawn(net, x, (config.seed, depth, width), config.draws)
    return np.asarray(measure(stacked(networks), direction(networks[0]), x, y))


def _gauss_newton(depth: int, x: jax.Array, y: jax.Array, config: Config) -> float:
    """Largest eigenvalue of the Gauss-Newton matrix of the first of the narrowest networks."""
    net = _network(depth, config.widths[0])
    (params,) = drawn(net, x, (config.seed, depth, config.widths[0]), 1)

    @jax.jit
    def measure(params: Params, start: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        # The matrix has rank n, so n + 1 products find all of it.
        flat = gauss_newton(net.apply, params, x, y, losses.mean_mse)
        return spectral_norm(flat.flat_product(), start, len(x) + 1).value

    return float(measure(params, direction(params), x, y))


def _distances(data: xr.Dataset, depth: int) -> xr.DataArray:
    """Root mean square over each group of networks; a group is one `network` of the result."""
    gap = (data.exact - data.estimate).sel(depth=depth).transpose("width", "network").values
    groups = [np.sqrt((group**2).mean(axis=1)) for group in np.array_split(gap, GROUPS, axis=1)]
    return xr.DataArray(np.stack(groups, axis=1), {"width": data.width}, ("width", "network"))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    gap = np.abs(data.gauss_newton / data.kernel[:, 0, 0] - 1).max()
    name = r"largest eigenvalue of $\frac2n J^\top J$ over that of $\frac2n K$: largest difference from 1"
    yield claim("gauss-newton", name).zero(gap, 1e-5, "rounding of sums over all weights, in float32")
    distance = np.sqrt(((data.exact / data.estimate - 1) ** 2).mean("network"))
    name = "squared residual of the Hessian's eigenvector over the distance, both relative: largest"
    why = "the square is the error of the eigenvalue, up to a gap; a fiftieth moves no exponent by 0.02"
    yield claim("residual", name).zero((data.residual**2 / distance).max(), 0.02, why)
    name = "exponent in the width of the distance between the two step sizes"
    for depth in config.depths:
        found = exponent(_distances(data, depth))
        yield claim(f"bound-{depth}", f"{depth} layers: {name}").at_most(-0.5, found, "the bound of the appendix")
        yield claim(f"rate-{depth}", f"{depth} layers: {name}, against $1/m$").equal(
            -1.0, found, next_order(config.widths, 0.5, depth)
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.4), 2)
    depth, widths = config.depths[-1], data.width.values.astype(float)
    one = data.sel(depth=depth)
    for i, m in enumerate(data.width.values):
        look = {"ms": 5, "alpha": 0.8, "color": f"C{i}", "label": f"$m = {m}$"}
        left.plot(one.estimate.sel(width=m), one.exact.sel(width=m), "o", **look)
    ends = [float(one.exact.min()), float(one.estimate.max())]
    sheet.guide(left, ends, ends)
    kernel = r"$\tilde\eta_{\mathrm{crit}} = n/\lambda_{\max}(K)$"
    exact = r"$\eta_{\mathrm{crit}} = 2/\lambda_{\max}(H_{\mathcal{L}})$"
    sheet.label(left, f"{depth} layers: exact against estimated", kernel, exact, "best")
    for i, depth in enumerate(config.depths):
        distances = _distances(data, depth)
        logs = np.log(distances.values)
        gap, error = np.exp(logs.mean(axis=1)), logs.std(axis=1, ddof=1) / np.sqrt(GROUPS)
        bars = [gap - gap * np.exp(-2 * error), gap * np.exp(2 * error) - gap]
        right.errorbar(widths, gap, bars, fmt="o", color=f"C{i}", capsize=3, lw=1.2, label=f"{depth} layers, and a fit")
        right.plot(widths, law(distances)(widths), color=f"C{i}", lw=1)
    for power, style, label in ((-0.5, {"ls": ":", "lw": 1.6}, r"$1/\sqrt{m}$, the bound"), (-1.0, {}, r"$1/m$")):
        sheet.guide(right, widths, 1.6 * float(gap[0]) * (widths / widths[0]) ** power, label, **style)
    mark_widths(right, data.width)
    distance = r"$|\eta_{\mathrm{crit}} - \tilde\eta_{\mathrm{crit}}|$"
    sheet.label(right, "Their distance, mean over groups", y=distance, legend={"fontsize": 8})
