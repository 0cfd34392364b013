"""Section 2.6: the power method for the smoothness at a point, and step sizes that are lowered on a plateau."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant.core.device import jit
from secant.lab import Figure, Findings, Seeded, claim, option, options, scaled, sheet, study
from secant.nets import mlp
from secant.studies.shared.numerics.differences import largest

NET = mlp([5], activation="tanh", bias=True)


class Config(Seeded):
    samples: int = options.samples(10, at_least=2, at_most=1_000)
    products: int = scaled(smoke=3_000, laptop=20_000, at_least=100, at_most=10**5, help="steps of the power method")
    dim: int = options.dim(8, at_least=2, at_most=100)
    condition: float = option(20.0, at_least=2, at_most=200, help="condition number of the quadratic")
    eta_lambdas: tuple[float, ...] = options.eta_lambdas(
        (3.0, 12.0, 40.0), at_least=2.2, at_most=100, distinct=True, longest=6
    )
    factors: tuple[float, ...] = option(
        (2.0, 5.0), at_least=1.5, at_most=10, distinct=True, longest=4, help="divisors of a step size"
    )
    patience: int = option(3, at_least=1, at_most=5, help="steps in a row without descent before it is divided")


@functools.partial(jit, quick=True, static_argnames="products")
def power(start: jax.Array, x: jax.Array, y: jax.Array, vector: jax.Array, products: int) -> dict:
    """The dense Hessian of a network's loss; the power method on it, and with a multiple of 1 added."""
    flat, restore = ravel_pytree(NET.init(start, x.shape))
    slope = jax.grad(lambda w: jnp.mean((NET.apply(restore(w), x) - y) ** 2))
    product = lambda v: jax.jvp(slope, (flat,), (v,))[1]  # noqa: E731

    def walk(shift: jax.Array) -> jax.Array:
        def step(u: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            image = product(u) + shift * u
            return image / jnp.linalg.norm(image), u @ image

        return jax.lax.scan(step, vector[: len(flat)] / jnp.linalg.norm(vector[: len(flat)]), None, length=products)[1]

    dense = jax.vmap(product)(jnp.eye(len(flat)))
    size = jnp.linalg.norm(dense)
    shifts = size * jnp.array([0.0, -2.0, 1.0])
    return {"dense": dense, "shifts": shifts, "found": jax.vmap(walk)(shifts)}


def exact(dense: np.ndarray, shift: float, vector: np.ndarray, products: int) -> tuple[np.ndarray, float]:
    r"""$u_t\cdot Hu_t = \sum_i c_i^2\lambda_i^{2t+1}/\sum_i c_i^2\lambda_i^{2t}$ from all eigenvalues; its limit."""
    values, basis = np.linalg.eigh((dense + dense.T) / 2)
    values = values + shift
    weights = (basis.T @ vector[: len(values)]) ** 2
    largest = values[np.argmax(np.abs(values))]
    powers = weights * np.abs(values / largest) ** (2 * np.arange(products)[:, None])
    return powers @ values / powers.sum(1), float(largest)


def on_plateaus(scales: np.ndarray, start: np.ndarray, rate: float, factor: float, patience: int) -> np.ndarray:
    """Gradient descent on a quadratic; its step size is divided when the loss has not fallen for a few steps."""
    w, waited, path = start, 0, []
    loss = float(scales @ w**2) / 2
    # Each phase ends by itself or descends. The last phase takes this many steps to a distance of 1e-8.
    for _ in range(int(200 + 40 * factor * scales[0] / scales[-1])):
        path.append((loss, rate))
        if loss < 1e-16 * path[0][0]:
            break
        w = w - rate * scales * w
        new = float(scales @ w**2) / 2
        waited = 0 if new < loss else waited + 1
        loss = new
        if waited == patience:
            rate, waited = rate / factor, 0
    return np.array(path)


def drops(eta_lambda: float, factor: float) -> int:
    """How often a step size must be divided to lie below 2."""
    return math.ceil(math.log(eta_lambda / 2) / math.log(factor))


@study("book/sec-2.6", section="2.6", title="Smoothness at a point, and plateaus")
def run(config: Config) -> xr.Dataset:
    r"""The power method, $u \leftarrow Hu/\|Hu\|$ from a random $u$, finds the smoothness at a point with Hessian
    products alone: $u\cdot Hu$ tends to the eigenvalue of $H = \nabla^2f$ of largest magnitude. In practice people set
    a step size by trial: where gradient descent fails to lower the loss for a few iterations they divide the step size
    by 2 or 5. On a quadratic this ends at a step size between $2/(cL)$ and $2/L$, with $c$ the factor.
    """
    rng = np.random.default_rng(config.seed)
    x, y = rng.normal(size=(config.samples, 3)), rng.normal(size=config.samples)
    vector = rng.normal(size=64)
    found = power(jax.random.key(config.seed), x, y, vector, config.products)
    dense, shifts = np.asarray(found["dense"]), np.asarray(found["shifts"])
    closed = [exact(dense, shift, vector, config.products) for shift in shifts]
    scales, start = np.geomspace(1, 1 / config.condition, config.dim), rng.normal(size=config.dim)
    runs = [
        on_plateaus(scales, start, rate, factor, config.patience)
        for rate in config.eta_lambdas
        for factor in config.factors
    ]
    longest = max(map(len, runs))
    padded = np.stack([np.pad(one, ((0, longest - len(one)), (0, 0)), mode="edge") for one in runs])
    grid = padded.reshape(len(config.eta_lambdas), len(config.factors), longest, 2)
    return xr.Dataset(
        {
            "found": (("added", "product"), np.asarray(found["found"])),
            "closed": (("added", "product"), [path for path, _ in closed]),
            "largest": ("added", [end for _, end in closed]),
            "loss": (("rate", "factor", "step"), grid[..., 0]),
            "size": (("rate", "factor", "step"), grid[..., 1]),
            "top": float(np.linalg.eigvalsh(dense)[-1]),
        },
        coords={"added": shifts, "rate": list(config.eta_lambdas), "factor": list(config.factors)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    scale = np.abs(data.largest.values)
    kinds = {"plain": "Hessian", "lowered": "Hessian lowered by twice its norm", "raised": "Hessian raised by its norm"}
    for (key, name), found, closed, size in zip(kinds.items(), data.found, data.closed, scale, strict=True):
        yield claim(f"path-{key}", rf"{name}: $u\cdot Hu$ less its closed form, over the largest, all products").zero(
            largest(found, closed) / size, 1e-12, "rounding: products forget those before"
        )
    expected = np.abs(data.closed - data.largest)[:, -1].values / scale
    plain, lowered, raised = kinds.values()
    limit, close = data.found[:, -1].values, "two eigenvalues are too close for so many products"
    sentence = f"{plain}: after {config.products:,} products, distance from the eigenvalue of largest magnitude"
    yield claim("limit-plain", sentence, expected[0] < 1e-13, close).zero(
        abs(limit[0] - data.largest[0]) / scale[0], 1e-12, "rounding"
    )
    yield claim("limit-lowered", f"{lowered}: its limit, over the magnitude of the limit").at_most(
        -0.999, limit[1] / scale[1], "the eigenvalue of largest magnitude is negative"
    )
    sentence = f"{raised}: its limit less the shift, from the most positive eigenvalue"
    yield claim("limit-raised", sentence, expected[2] < 1e-13, close).zero(
        abs(limit[2] - data.added[2] - data.top) / scale[2], 1e-12, "rounding"
    )
    yield from plateaus(data, config)


def plateaus(data: xr.Dataset, config: Config) -> Findings:
    """Where step sizes end that are divided on plateaus."""
    rates, factors = np.array(config.eta_lambdas)[:, None], np.array(config.factors)
    wanted = np.array([[drops(r, f) for f in config.factors] for r in config.eta_lambdas])
    ends = data["size"][:, :, -1]
    counted = np.round(np.log(rates / ends) / np.log(factors))
    # Next to the edge a run falls for long before it rises, and may be over by then.
    tried = rates[..., None] / factors[:, None] ** np.arange(wanted.max() + 1)
    near = (np.abs(tried / 2 - 1) <= 0.05) & (np.arange(wanted.max() + 1) <= wanted[..., None])
    clear, otherwise = ~near.any(-1), "every run passes next to the edge"
    sentence = "plateaus: runs whose step size is divided exactly as often as it takes to lie below $2/L$"
    yield claim("divisions", sentence).share(
        1.0, np.asarray(counted) == wanted, clear, "the claim", otherwise=otherwise
    )
    yield claim("last-step", "plateaus: largest last step size over $2/L$").at_most(
        1.0, ends.max() / 2, "where descent is certain"
    )
    yield claim(
        "least-step", "plateaus: smallest last step size over $2/L$, times the factor", clear, otherwise
    ).at_least(1.0, lambda: (ends / 2 * data.factor).values[clear].min(), "one division less would not do", slack=1e-12)
    arrived = (data.loss[:, :, -1] < 1e-16 * data.loss[:, :, 0]).values
    yield claim("arrivals", "plateaus: runs that arrive at 1e-16 of the first loss").share(
        1.0, arrived, clear, "all of them", otherwise=otherwise
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    gap = np.maximum(np.abs(data.found - data.largest).values / np.abs(data.largest).values[:, None], 1e-17)
    exactly = np.maximum(np.abs(data.closed - data.largest).values / np.abs(data.largest).values[:, None], 1e-17)
    shown = max(10, min(config.products, 2 * int(np.argmax(gap[0] < 1e-15)) or config.products))
    left.semilogy(gap[0, :shown], ".", ms=4, label="$|u\\cdot Hu - \\lambda|/|\\lambda|$")
    sheet.guide(left, np.arange(shown), exactly[0, :shown], "from all eigenvalues")
    sheet.label(left, "Power method", "product", None, "best", ylim=(1e-17, 10))
    for i, factor in enumerate(config.factors):
        own = data.isel(rate=-1, factor=i)
        middle.semilogy(own.loss / own.loss[0], color=f"C{i}", label=f"divided by {factor:g}")
        right.semilogy(own["size"] / 2, color=f"C{i}", drawstyle="steps-post", label=f"divided by {factor:g}")
    start = config.eta_lambdas[-1]
    sheet.label(middle, f"Quadratic, from a step of {start:g}$/L$", "step", "loss over the first", "best")
    sheet.mark(right, y=1.0, label="$2/L$")
    sheet.label(right, "Step sizes", "step", r"$\eta L/2$", "best")
    settled = (data["size"] > data["size"][..., -1]).isel(rate=-1).sum("step").max()
    right.set_xlim(0, 1.5 * int(settled) + 5)
