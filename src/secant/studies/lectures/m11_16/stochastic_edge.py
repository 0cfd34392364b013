"""Beyond the lecture of 11/16: the curvature that batches meet, along SGD, against two over the step size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from secant import data as datasets
from secant import nets
from secant.core.device import jit
from secant.curvature.tangent.tangent_kernel import ntk, pair_kernel
from secant.lab import Figure, Findings, Seeded, claim, options, scaled, sheet, study
from secant.linalg.norm import spectral_norm
from secant.theory.noise.mean_square import critical_step

LARGE = 200
"""Samples from which claims about networks are judged."""


class Config(Seeded):
    data: str = scaled(smoke="digits", laptop="digits", paper="cifar10", help="images, even classes against odd ones")
    samples: int = options.samples(48, 256, 5_000, at_least=16, at_most=5_000)
    width: int = options.width(64, 64, 200, at_least=4, at_most=1_024)
    batches: tuple[int, ...] = options.batches(
        (4, 16), (4, 16, 64), (4, 16, 64, 256), at_least=2, at_most=1_024, longest=6, ascending=True, distinct=True
    )
    flipped: float = scaled(
        smoke=0.5, laptop=0.5, paper=0.0, at_least=0, at_most=0.5, help="share of wrong labels, for a longer training"
    )
    ratio: float = options.ratio(0.4, at_least=0.01, at_most=0.9)
    looks: int = scaled(smoke=6, laptop=24, paper=32, at_least=2, at_most=200, help="measurements along a run")
    kernels: int = scaled(smoke=6, laptop=24, paper=2, at_least=1, at_most=200, help="last looks with a kernel")
    every: int = scaled(smoke=20, laptop=100, paper=200, at_least=1, at_most=5_000, help="steps between looks")
    draws: int = options.draws(16, at_least=4, at_most=200)

    def check(self) -> None:
        """Refuses images that do not exist, and batches that are not smaller than the data."""
        if self.data not in datasets.NAMES:
            raise ValueError(f"data: must be one of {', '.join(datasets.NAMES)}; got {self.data!r}.")
        if max(self.batches) >= self.samples:
            raise ValueError(f"batches: must be below samples, {self.samples}, got {max(self.batches)}.")


def tables(random: np.random.Generator, n: int, batch: int, *shape: int) -> np.ndarray:
    """Weights of the samples in random batches, 1/B or 0: one program then serves all sizes."""
    return (random.random((*shape, n)).argsort(-1) < batch) / batch


def follower(net: nets.Network) -> Any:
    """`(params, x, y, lr, steps, draws, start) -> records`, over looks with steps between them."""

    def run(params: Any, x: Any, y: Any, lr: Any, steps: Any, draws: Any, start: Any) -> dict[str, jax.Array]:
        flat, unravel = ravel_pytree(params)

        def loss(at: jax.Array, weights: jax.Array) -> jax.Array:
            return jnp.sum(weights * (net.apply(unravel(at), x) - y) ** 2) / 2

        def quotient(at: jax.Array, weights: jax.Array) -> jax.Array:
            slope, bend = jax.linearize(jax.grad(lambda p: loss(p, weights)), at)
            return slope @ bend(slope) / jnp.maximum(slope @ slope, jnp.finfo(at.dtype).tiny)

        def look(at: jax.Array, between: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
            all_of = jnp.full(len(x), 1 / len(x))
            bend = jax.linearize(jax.grad(lambda p: loss(p, all_of)), at)[1]
            found = {
                "loss": loss(at, all_of),
                "sharpness": spectral_norm(bend, start, 16).value,
                "quotient": jax.lax.map(lambda weights: quotient(at, weights), draws),
                "place": at,
            }
            after, _ = jax.lax.scan(lambda p, weights: (p - lr * jax.grad(loss)(p, weights), None), at, between)
            return after, found

        return jax.lax.scan(look, flat, steps)[1]

    return jit(run)


def kernel(net: nets.Network, like: Any) -> Any:
    """`(place, x) -> K`, the tangent kernel at parameters in one row."""
    unravel = ravel_pytree(like)[1]
    return jit(lambda at, x: pair_kernel(net.apply)(unravel(at), x, None))


@study("lectures/11-16-stochastic-edge", section="11-16", title="The edge of stochastic stability", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Full-batch descent sharpens until $\lambda_{\max} = 2/\eta$. With batches a step meets the curvature of its
    batch along the batch's own gradient, the batch sharpness $E_b[g_b^\top H_bg_b/|g_b|^2]$. Published runs find that
    the batch sharpness settles at $2/\eta$ while the sharpness stays below. The study follows both along SGD for
    several batch sizes, and beside them $2/\eta_2(B)$, where $\eta_2(B)$ is the step that second moments of the
    linearised dynamics bear. Labels are drawn by a coin, so that training is long. The result is shown as it comes out.
    """
    task = datasets.load(
        config.data, samples=config.samples, test_samples=1, labels="one-hot", seed=config.seed, dtype=np.float64
    )
    x = jnp.asarray(task.train.x)
    label = np.asarray(task.train.y).argmax(1)
    net = nets.mlp([config.width, config.width], activation="tanh", parametrization="standard")
    params = net.init(jax.random.key(config.seed), x.shape, x.dtype)
    random, n = np.random.default_rng(config.seed), config.samples
    signs, coins = np.where(label % 2 == 0, 1.0, -1.0), random.random(n) < 2 * config.flipped
    y = jnp.asarray(np.where(coins, random.choice([-1.0, 1.0], n), signs))
    start = jnp.asarray(random.normal(size=sum(leaf.size for leaf in jax.tree.leaves(params))))
    follow, kernel_at, sizes = follower(net), kernel(net, params), [*config.batches, n]
    lr = config.ratio * 2 * n / float(np.linalg.eigvalsh(np.asarray(ntk(net.apply, params, x).dense()))[-1])
    found = []
    for batch in sizes:
        steps, draws = tables(random, n, batch, config.looks, config.every), tables(random, n, batch, config.draws)
        records = {name: np.asarray(value) for name, value in follow(params, x, y, lr, steps, draws, start).items()}
        borne = np.full(config.looks, np.nan)
        for look in range(config.looks)[-config.kernels :]:
            K = np.asarray(kernel_at(records["place"][look], x))
            if np.isfinite(K).all():
                borne[look] = 2 / critical_step(K, batch, tol=1e-4).step
        rows = {name: ("step", records[name]) for name in ("loss", "sharpness")} | {"bearable": ("step", borne)}
        found.append(xr.Dataset({**rows, "quotient": (("step", "draw"), records["quotient"])}))
    coords = {"batch": sizes, "step": config.every * np.arange(config.looks)}
    return xr.concat(found, "batch").assign_coords(coords).assign(lr=lr)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    edge, last = 2 / float(data.lr), {"step": slice(-max(1, config.looks // 4), None)}
    whole, diverges = data.sel(batch=config.samples), "the run diverges"
    finite = np.isfinite(whole.quotient).all()
    name = "full batches: curvature along the gradient over batches that are all the same, spread"
    yield claim("full-spread", name, given=finite, otherwise=diverges).zero(
        whole.quotient.std("draw").max() / np.abs(whole.quotient).max(), 1e-9, "an identity: rounding"
    )
    name = "full batches: curvature along the gradient over the sharpness, largest"
    ratio = (whole.quotient.max("draw") / whole.sharpness).max()
    yield claim("full-quotient", name, given=finite, otherwise=diverges).at_most(
        1.0, ratio, "a Rayleigh quotient; 16 Lanczos steps", slack=0.02
    )
    ends = data.isel(last)
    sharpness = ends.sharpness.mean("step") / edge
    large, reached = config.samples >= LARGE, float(sharpness[-1]) > 0.9
    few = f"a claim about networks, judged from {LARGE} samples on"
    why = "the run on all samples ends below the edge" if large else few
    for batch in data.batch.values:
        met, borne = (float((ends[name].sel(batch=batch) / edge).mean()) for name in ("quotient", "bearable"))
        fine = bool(np.isfinite(met) and np.isfinite(borne))
        judged, reason = large and reached and fine, why if fine else diverges
        below = "where second moments are neutral the mean quotient of a batch is less than 2/eta"
        note = "" if abs(met - 1) <= 0.2 else "the run still sharpens" if borne < 0.8 else below
        name = rf"batch {batch}: batch sharpness over $2/\eta$, last quarter"
        yield claim(f"batch-{batch}-sharpness", name, given=judged, otherwise=reason).equal(
            1.0, met, 0.2, "published runs settle within a fifth", note=note
        )
        name = f"batch {batch}: step size over the one that second moments bear, last quarter"
        yield claim(f"batch-{batch}-bearable", name, given=judged, otherwise=reason).equal(
            1.0, borne, 0.2, "our guess: the run settles where its linearisation is neutral in the mean square"
        )
    name = r"sharpness over $2/\eta$ with the smallest batch less the same with all samples, last quarter"
    seen = large and reached and np.isfinite(sharpness).all()
    yield claim("flatter", name, given=seen, otherwise=why).at_most(
        0.0, sharpness[0] - sharpness[-1], "small batches stay where it is flatter"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = np.atleast_1d(sheet.panels(figure, (3.6 * len(data.batch), 4.2), len(data.batch), sharey=True))
    edge, few = 2 / float(data.lr), "o" if config.kernels < 4 else None
    for panel, batch in zip(axes, data.batch.values, strict=True):
        one = data.sel(batch=batch) / edge
        mean, error = one.quotient.mean("draw"), one.quotient.std("draw") / np.sqrt(config.draws)
        panel.plot(one.step, one.sharpness, color="C0", label="sharpness")
        panel.plot(one.step, mean, color="C1", label="batch sharpness")
        panel.fill_between(one.step, mean - error, mean + error, color="C1", alpha=0.25, lw=0)
        panel.plot(one.step, one.bearable, color="C2", ls="--", marker=few, label=r"$2/\eta_2(B)$")
        sheet.mark(panel, y=1.0)
        name = "all samples" if batch == config.samples else f"batches of {batch}"
        sheet.label(panel, name, "step", ylim=(0, None))
    sheet.label(axes[0], y=r"over $2/\eta$")
    axes[-1].legend(loc="lower right")
