"""Section 12.3: the linear scaling rule on a network, and whether theory predicts its end."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.curvature import ntk
from secant.data import load
from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, scaled, sheet, study
from secant.theory.noise.mean_square import critical_step

LARGE = 200
"""Claims about networks are judged from this many samples on."""

CLOSE = 0.2
"""Losses within a fifth count as the same, as in the scaling test."""

LOOKS = 4
"""Times of a run at which loss and test error are seen, besides the start."""


class Config(Seeded):
    samples: int = options.samples(64, 256, at_least=16, at_most=1_024)
    width: int = options.width(64, at_least=8, at_most=512)
    batch: int = options.batch(2, at_most=16)
    factors: tuple[int, ...] = scaled(
        smoke=(4,),
        laptop=(2, 4, 8, 16, 32),
        at_least=2,
        at_most=256,
        longest=8,
        ascending=True,
        help="factors of step size and batch, powers of two; all samples come on top",
    )
    share: float = option(0.25, at_least=0.01, at_most=0.5, help="step size of small batches over their critical one")
    steps: int = options.steps(256, laptop=2_048, at_least=64, at_most=2**15)
    draws: int = options.draws(4, 12, at_least=3, at_most=64)

    def check(self) -> None:
        """Whole steps between the times at which losses are seen."""
        whole = self.samples // self.batch
        if self.samples % self.batch or any(k & (k - 1) or k >= whole for k in self.factors):
            raise ValueError(f"factors: must be powers of two below samples/batch, {whole}, got {self.factors}.")
        if self.steps % (LOOKS * max(*self.factors, whole)) or whole & (whole - 1):
            need = f"{LOOKS} times each factor and {LOOKS} times {whole}, a power of two"
            raise ValueError(f"steps: must be a multiple of {need}, got {self.steps}.")


def epochs(random: np.random.Generator, n: int, batch: int, rows: int, draws: int) -> np.ndarray:
    """Numbers of samples in the order of shuffled epochs, `(draws, rows, n)`.

    A row holds a batch and repeats it to the end. So all sizes have one shape, and one program serves them.
    """
    count = -(-rows * batch // n)
    order = random.random((draws, count, n)).argsort(-1).reshape(draws, -1)[:, : rows * batch]
    return np.tile(order.reshape(draws, rows, batch), (1, 1, n // batch))


def trainer(net: nets.Network, x: np.ndarray, y: np.ndarray, tx: np.ndarray, ty: np.ndarray) -> Any:
    """`(params, lr, rows, steps) -> (draw, look, 2)`: loss and test error, at the start and after every `steps`."""

    def loss(params: Any, inputs: Any, targets: Any) -> jax.Array:
        return jnp.mean((net.apply(params, inputs) - targets) ** 2) / 2

    def run(params: Any, lr: Any, rows: Any, steps: Any) -> jax.Array:
        def step(t: Any, params: Any) -> Any:
            slope = jax.grad(loss)(params, jnp.asarray(x)[rows[t]], jnp.asarray(y)[rows[t]])
            return jax.tree.map(lambda p, g: p - lr * g, params, slope)

        def look(params: Any, first: Any) -> tuple[Any, jax.Array]:
            seen = jnp.stack([loss(params, x, y), jnp.mean(net.apply(params, jnp.asarray(tx)) * ty <= 0)])
            return jax.lax.fori_loop(first, first + steps, step, params), seen

        return jax.lax.scan(look, params, jnp.arange(LOOKS + 1) * steps)[1]

    return jit(jax.vmap(run, (None, None, 0, None)))


@study("book/scaling-network", section="12.3", title="The linear scaling rule on a network", new=True)
def run(config: Config) -> xr.Dataset:
    r"""By the rule, step size $\kappa\eta$ with batches of $\kappa B$ trains as $\eta$ with $B$ does, at equal times
    $\eta t$. The study tries the rule on a network for $\kappa$ up to full batches, with the loss on all samples and
    the test error at four times. Theory knows an end: beyond the critical step $\eta_c(\kappa B)$ of the tangent kernel
    at the start, second moments grow. Up to half of this step the runs should agree to a fifth; beyond it they should
    not.
    """
    sizes: dict[str, Any] = {"samples": config.samples, "test_samples": 200, "seed": config.seed}
    task = load("digits", labels="one-hot", dtype=np.float64, **sizes)
    (x, y), (tx, ty) = (
        (np.asarray(part.x), np.where(np.asarray(part.y).argmax(1) % 2 == 0, 1.0, -1.0))
        for part in (task.train, task.test)
    )
    net = nets.mlp([config.width], activation="tanh")
    start = net.init(jax.random.key(config.seed), x.shape, x.dtype)
    kernel = np.asarray(ntk(net.apply, start, x).dense())
    n, random = config.samples, np.random.default_rng(config.seed)
    factors = [1, *config.factors, n // config.batch]
    critical = np.array([critical_step(kernel, k * config.batch, tol=1e-6).step for k in factors])
    lr, train = config.share * critical[0], trainer(net, x, y, tx, ty)
    found = []
    for k in factors:
        rows = epochs(random, n, k * config.batch, config.steps, config.draws)
        found.append(train(start, k * lr, rows, config.steps // (k * LOOKS)))
    return xr.Dataset(
        {
            "seen": (("factor", "draw", "look", "what"), np.stack(found)),
            "share": ("factor", lr * np.array(factors) / critical),
            "critical": ("factor", critical),
            "top": np.linalg.eigvalsh(kernel)[-1],
        },
        coords={"factor": factors, "what": ["loss", "wrong"]},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    bound = data.critical[-1] * data.top / config.samples
    yield claim("critical-step", "critical step of all samples times the largest eigenvalue, over the samples").equal(
        2.0, bound, 1e-5, "the critical step is found to 1e-6"
    )
    given: dict[str, Any] = {
        "given": config.samples >= LARGE,
        "otherwise": f"a claim about networks, judged from {LARGE} samples on",
    }
    late = data.seen.isel(look=slice(1, None))
    small = late.sel(factor=1)
    for k in data.factor.values[1:]:
        share = float(data.share.sel(factor=k))
        key, name = ("all", "all samples") if k == data.factor[-1] else (f"factor-{k}", f"factor {k}")
        ratio = (late.sel(factor=k, what="loss") / small.sel(what="loss").mean("draw")).mean("look")
        wrong = (late.sel(factor=k, what="wrong") - small.sel(what="wrong")).mean("look")
        loss = claim(f"{key}-loss", f"{name}: loss over the loss of small batches, mean of three times", **given)
        if share <= 0.5:
            why = "below half of the critical step the rule holds to a fifth"
            yield loss.equal(1.0, estimate(ratio), CLOSE, why)
            yield claim(f"{key}-test-error", f"{name}: test error less the error of small batches", **given).equal(
                0.0, estimate(wrong), 0.05, "five percent of the images"
            )
        elif share >= 1:
            grown = float(ratio.mean()) if np.isfinite(ratio).all() else np.inf
            yield loss.at_least(1 + CLOSE, grown, "beyond the critical step second moments grow")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10.5, 4.2), 2)
    shown = ((left, "loss", "Training loss", "upper left", "log"), (right, "wrong", "Test error", None, "linear"))
    for axes, what, title, legend, scale in shown:
        for look in range(1, data.sizes["look"]):
            rows = data.seen.isel(look=look).sel(what=what)
            mean, error = rows.mean("draw"), rows.std("draw") / config.draws**0.5
            label = rf"$t = {look}/{LOOKS}$ of the run"
            axes.errorbar(data.factor, mean, 2 * error, fmt="o-", ms=4, color=f"C{look - 1}", label=label)
        for share, style in ((0.5, ":"), (1.0, "--")):
            if float(data.share[0]) < share < float(data.share[-1]):
                place = np.exp(np.interp(np.log(share), np.log(data.share), np.log(data.factor)))
                sheet.mark(axes, x=place, ls=style)
        sheet.label(axes, title, r"$\kappa$", None, legend, xscale="log", yscale=scale)
        axes.set_xticks(data.factor.values, data.factor.values)
        axes.minorticks_off()
    # Runs beyond the end grow without bound: their lines leave the panel.
    first = float(data.seen.isel(look=0).sel(what="loss").max())
    left.set_ylim(float(data.seen.sel(what="loss").min()) / 2, 3 * first)
