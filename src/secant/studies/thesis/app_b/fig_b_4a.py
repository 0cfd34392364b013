"""Figure B.4a: random quadratic models catapult too."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.dynamics import Outcome, Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, study
from secant.lab.verdicts.significance import falling_trend
from secant.optim import gradient_descent
from secant.studies.shared.catapults.peaks import draw_peaks, refuse_strangers
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult.infinite_width import wide_limit


class Config(Seeded):
    dim: int = options.dim(100, at_least=20, at_most=10**6)
    gammas: tuple[float, ...] = option(
        (1e-2, 1e-3, 1e-4), at_least=1e-6, at_most=0.02, distinct=True, help="size of the quadratic part"
    )
    lrs: tuple[float, ...] = options.lrs(
        (1.8, 1.95, 2.2, 2.5, 2.8, 3.2, 3.6, 3.9, 4.1), at_least=0.1, at_most=6, ascending=True
    )
    gamma: float = option(1e-3, above=0, help="default size of the quadratic part, one of `gammas`")
    lr: float = options.lr(2.8, at_least=2.2, at_most=3.8)
    target: float = option(1.0, at_least=-5, at_most=5, help="label of the example")
    draws: int = options.draws(12, 32, 200, at_least=2, at_most=10**5)
    steps: int = options.steps(400, 1_000, 2_000, at_least=100, at_most=10**6)

    def check(self) -> None:
        """Refuses a `gamma` or `lr` that is not among the values, and what no memory holds."""
        refuse_strangers(self, "gamma", "lr")
        runs = self.draws * len(self.gammas) * len(self.lrs)
        fits_memory(32.0 * runs * (self.dim + self.steps), "draws, dim or steps")


@study("thesis/fig-B.4a", section="B.14", title="Random quadratic models catapult too")
def run(config: Config) -> xr.Dataset:
    r"""The model $g = w^\top\phi + \frac{\gamma}{2} w^\top\Sigma w$ with $\|\phi\| = 1$, random diagonal
    $\Sigma_{ii} = \pm 1$ and $w \sim \mathcal N(0, I_{100})$ learns one example. Smaller $\gamma$ or larger step sizes
    raise the peak of the loss, larger step sizes lower the kernel more, and $\gamma$ has no effect on the kernel at
    convergence.

    Completing the square explains these effects: with $\tilde w = w + \Sigma\phi/\gamma$ this is the model without
    linear part for the label $\tilde y = y + \phi^\top\Sigma\phi/(2\gamma)$. Therefore $a = \gamma\eta(g - y)$ and
    $v = \eta\lambda$ follow the map of one sample exactly, with $b = \gamma\eta\tilde y$. The peak is proportional to
    $\gamma^{-2}$, and the border is $4/\lambda_0 \approx 4$ up to order $\gamma$.
    """

    def one(key: jax.Array) -> dict[str, jax.Array]:
        k1, k2, k3 = jax.random.split(key, 3)
        x = jax.random.normal(k1, (config.dim,))
        return {
            "phi": x / jnp.linalg.norm(x),
            "sigma": jax.random.rademacher(k2, (config.dim,)).astype(float),
            "w": jax.random.normal(k3, (config.dim,)),
        }

    drawn = jit(lambda key: jax.vmap(one)(jax.random.split(key, config.draws)), quick=True)
    models = drawn(jax.random.key(config.seed))
    over = {"model": models, "gamma": np.asarray(config.gammas), "lr": np.asarray(config.lrs)}

    def residual(w: jax.Array, model: dict[str, jax.Array], gamma: jax.Array) -> jax.Array:
        return w @ model["phi"] + gamma / 2 * jnp.sum(model["sigma"] * w**2) - config.target

    def kernel(w: jax.Array, model: dict[str, jax.Array], gamma: jax.Array) -> jax.Array:
        return jnp.sum((model["phi"] + gamma * model["sigma"] * w) ** 2)

    def bend(model: dict[str, jax.Array], gamma: jax.Array, lr: jax.Array) -> jax.Array:
        return gamma * lr * (config.target + jnp.sum(model["sigma"] * model["phi"] ** 2) / (2 * gamma))

    def start(model: dict[str, jax.Array], gamma: jax.Array, lr: jax.Array) -> ct.Catapult:
        return ct.Catapult(gamma * lr * residual(model["w"], model, gamma), lr * kernel(model["w"], model, gamma))

    data = simulate(
        lambda model, gamma, lr: gradient_descent(lambda w: residual(w, model, gamma) ** 2 / 2, lr),
        lambda model: model["w"],
        config.steps,
        over=over,
        probes={"loss": lambda w, model, gamma: residual(w, model, gamma) ** 2 / 2, "kernel": kernel},
        stop=Stop(
            converged=lambda w, model, gamma: residual(w, model, gamma) ** 2 < 1e-18,
            diverged=lambda w, model, gamma: jnp.abs(residual(w, model, gamma)) > 1e9,
        ),
    ).dataset
    reduced = simulate(
        lambda model, gamma, lr: ct.reduced_catapult(bend(model, gamma, lr)),
        start,
        60,
        over=over,
        probes={"kernel_map": lambda s, lr: s.v / lr},
    ).dataset
    return data.assign(kernel_map=reduced.kernel_map.rename(step="step_map").drop_vars("step_map"))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    short = min(data.sizes["step"], 61)
    fine = (data.loss.isel(step=slice(0, short)) * data.gamma**2 < 100).values
    gap = np.abs(data.kernel.values[..., :short] - data.kernel_map.values[..., :short])
    yield claim("map", "kernel against the map of one sample, sixty steps: largest deviation").zero(
        gap[fine].max(), 1e-6, "rounding, amplified by the growth of the loss by up to 1e8"
    )
    # As in the theorems on networks, of width gamma^-2.
    margin = config.gamma * np.log(config.gamma**-2)
    one = data.sel(gamma=config.gamma)
    v = one.lr * one.kernel.isel(step=0)
    rose = one.loss.max("step") > one.loss.isel(step=0)
    diverged = one.outcome == Outcome.DIVERGED
    between = (v >= 2 + margin) & (v <= 4 - margin)
    two, four = r"$2/\lambda_0$", r"$4/\lambda_0$"
    why, none = r"the claim, $\gamma\log(1/\gamma^2)$ away from the borders", "no step size lies there"
    for key, name, seen, among, predicted in (
        ("rise-below", f"below {two} whose loss ever rose", rose, v <= 2 - margin, 0.0),
        ("rise-between", f"between {two} and {four} whose loss rose", rose, between, 1.0),
        ("diverge-between", f"between {two} and {four} that diverge", diverged, between, 0.0),
        ("diverge-past", f"past {four} that diverge", diverged, v >= 4 + margin, 1.0),
    ):
        yield claim(key, f"share of the runs {name}").share(predicted, seen, among, why, otherwise=none)
    yield from _exponents(data.sel(lr=config.lr), config)
    yield from _trends(one)


def _exponents(data: xr.Dataset, config: Config) -> Findings:
    """How peak and end depend on gamma at the default step size."""
    few, settled = len(config.gammas) < 2, bool((data.outcome == Outcome.CONVERGED).all())
    # gamma moves lambda_0 = |phi + gamma Sigma w|^2 away from one, and with it the excess.
    excess, largest = config.lr - 2, max(config.gammas)
    shift = min(config.lr * largest * (2 + largest * config.dim), 0.9 * min(excess, 2 - excess))
    steps = max(2_000, int(60 / (excess - shift)))
    limit = jit(lambda excess: wide_limit(excess, steps=steps))(np.array([excess - shift, excess, excess + shift]))
    logs, spread = np.log(config.gammas), np.log(largest / min(config.gammas))
    centred = logs - np.mean(logs)
    for key, name, predicted, values, range_ in (
        ("peak-law", "the peak loss", -2.0, data.loss.max("step"), limit.peak),
        ("end-law", "the kernel at convergence", 0.0, data.kernel[..., -1], limit.curvature),
    ):
        yield claim(
            key,
            rf"exponent of {name} in $\gamma$, step size {config.lr:g}",
            given=settled and not few,
            otherwise=r"one $\gamma$ has no exponent" if few else "some runs have not converged in time",
        ).equal(
            predicted,
            lambda v=values: estimate(np.log(v.transpose("model", "gamma").values) @ centred / (centred**2).sum()),
            np.log(np.max(range_) / np.min(range_)) / (spread or np.nan),
            r"the range at infinite width, over all phases and over the excesses to which the largest $\gamma$ moves"
            r" $\lambda_0$, in so many decades",
        )


def _trends(one: xr.Dataset) -> Findings:
    """How peak and end depend on the step size, where every model catapults."""
    past = (one.outcome == Outcome.CONVERGED) & (one.lr * one.kernel.isel(step=0, drop=True) > 2)
    beyond = one.rename(model="seed").sel(lr=past.all("model"))
    few = "fewer than three step sizes at which all models catapult"
    for key, sentence, values in (
        ("peak-trend", "the peak of the loss rises with the step size", -beyond.loss.max("step")),
        ("end-trend", "the kernel at convergence falls with the step size", beyond.kernel.isel(step=-1)),
    ):
        rho, p = falling_trend(values, "lr")
        note = f"correlation {abs(rho):.2f}, mean over models, of {beyond.sizes['lr']} step sizes"
        yield claim(key, sentence, not np.isnan(rho), few).significant(p, "by permutation within models", note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    one = data[["loss", "kernel"]].isel(model=0, step=slice(0, 60))
    one = one.assign(loss=one.loss + 1e-12).where(one.loss < 1e9)
    bends = [(rf"$\gamma = 10^{{{np.log10(g):.0f}}}$", one.sel(gamma=g, lr=config.lr)) for g in config.gammas]
    shown = config.lrs[:: max(1, len(config.lrs) // 5)]
    titles = (
        rf"Smaller $\gamma$, higher peak ($\eta = {config.lr:g}$)",
        rf"Larger steps, higher peak ($\gamma = {config.gamma:g}$)",
        r"$\gamma$ does not matter to the end",
        "Larger steps end flatter",
    )
    steps = [(rf"$\eta = {lr:g}$", one.sel(gamma=config.gamma, lr=lr)) for lr in shown]
    grid = draw_peaks(figure, (9.5, 6), (bends, steps), titles, config.lr)
    grid[0, 0].set_ylim(1e-6, 1e9)
    grid[1, 0].set(ylabel=r"kernel $\lambda$", ylim=(0, 1.4))
