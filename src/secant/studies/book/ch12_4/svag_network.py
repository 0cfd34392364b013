"""Section 12.4: does amplified noise on a network converge, and does SGD agree with the limit?"""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.data import load
from secant.dynamics import Probe, simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, options, scaled, sheet, study
from secant.losses import half_mean
from secant.optim import Batches, Problem, svag

WHAT = {"loss": "train loss", "wrong": "test error", "square": r"$|\theta|^2$"}
CLOSE = 0.05
"""Curves within five percent of each other are one curve to the eye."""


class Config(Seeded):
    width: int = options.width(64, at_least=8, at_most=512)
    samples: int = options.samples(64, 256, at_least=32, at_most=1_000)
    batch: int = options.batch(8, at_most=32)
    lr: float = options.lr(2.0, at_least=0.01, at_most=10)
    steps: int = options.steps(16, 128, at_least=8, at_most=1_024)
    amplify: tuple[int, ...] = scaled(
        smoke=(1, 2, 4),
        laptop=(1, 2, 4, 8, 16),
        at_least=1,
        at_most=64,
        shortest=3,
        longest=7,
        ascending=True,
        help="amplifications: powers of 2 from 1 on",
    )
    draws: int = options.draws(4, 8, at_least=3, at_most=64)

    def check(self) -> None:
        """All amplifications reach common times."""
        if any(ell & (ell - 1) for ell in self.amplify) or self.amplify[0] != 1:
            raise ValueError(f"amplify: must be powers of 2 from 1 on, got {self.amplify}.")
        if self.steps % self.amplify[-1]:
            most = self.amplify[-1]
            raise ValueError(f"steps: must be a multiple of the largest amplification, {most}, got {self.steps}.")


@study("book/svag-network", section="12.4", title="Amplified noise on a network")
def run(config: Config) -> xr.Dataset:
    r"""Whether SGD at a finite step size follows its equation can be tested without solving the equation, because SVAG
    tends to it as $\ell \to \infty$. In units of $t = k\eta/\ell$ the curves of train loss, test error and $|\theta|^2$
    should converge in $\ell$. Where SGD ($\ell = 1$) has the same curves, the equation describes it. The source reports
    that they appear to converge and match for computable $\ell$, and gives no numbers.
    """
    task = load("digits", samples=config.samples, seed=config.seed)
    net = nets.mlp([config.width], outputs=10)
    x, y = task.train
    problem = Problem(net.apply, x, y, half_mean)
    start = net.init(jax.random.key(config.seed), x.shape)
    tx, ty = jnp.asarray(task.test.x), jnp.argmax(jnp.asarray(task.test.y), 1)

    def look(params: object) -> jax.Array:
        wrong = jnp.mean(jnp.argmax(net.apply(params, tx), 1) != ty)
        square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        return jnp.stack([problem.objective(params), wrong, square])

    most = config.amplify[-1]
    # One loop serves all: runs with less amplification go on for longer, and are cut where the others end.
    found = simulate(
        lambda amplify, draw: svag(problem, Batches(config.batch, seed=draw, replace=True), config.lr, amplify),
        start,
        config.steps * most,
        probes={"look": Probe(look, every=most, dims=("what",))},
        over={"amplify": np.array(config.amplify, np.float32), "draw": config.seed % 2**20 + np.arange(config.draws)},
    )["look"].values
    # Amplification l has a record every most/l steps of SGD: all have records at multiples of `most`.
    times = np.arange(0, config.steps + 1, most)
    rows = [found[i, :, : config.steps * ell // most + 1 : ell] for i, ell in enumerate(config.amplify)]
    return xr.Dataset(
        {"seen": (("amplify", "draw", "time", "what"), np.stack(rows))},
        coords={"amplify": list(config.amplify), "time": times * config.lr, "what": list(WHAT)},
    )


def ends(data: xr.Dataset, what: str) -> xr.DataArray:
    """Means over the second half of every run."""
    return data.seen.sel(what=what).isel(time=slice(data.sizes["time"] // 2, None)).mean("time")


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    last, before = config.amplify[-1], config.amplify[-2]
    for what, words in WHAT.items():
        late = ends(data, what)
        scale, most = float(late.sel(amplify=last).mean()), late.sel(amplify=last)
        for key, one in (("svag", before), ("sgd", 1)):
            name = rf"$\ell = {one}$" if key == "svag" else "SGD"
            apart = estimate((late.sel(amplify=one) - most) / scale)
            yield claim(
                f"{what}-{key}",
                rf"{words}: {name} less $\ell = {last}$, over the latter",
                given=scale > 0,
                otherwise="it has fallen to zero",
            ).equal(0, apart, CLOSE, "five percent, what the eye sees")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3)
    for axes, (what, words) in zip(panels, WHAT.items(), strict=True):
        for i, ell in enumerate(config.amplify):
            rows = data.seen.sel(what=what, amplify=ell)
            mean, error = rows.mean("draw"), rows.std("draw") / config.draws**0.5
            axes.plot(data.time, mean, color=f"C{i}", label="SGD" if ell == 1 else rf"$\ell = {ell}$")
            axes.fill_between(data.time, mean - 2 * error, mean + 2 * error, color=f"C{i}", alpha=0.15, lw=0)
        sheet.label(axes, words[0].upper() + words[1:], r"$t = k\eta/\ell$", None, "best" if what == "loss" else None)
    panels[0].set_yscale("log")
