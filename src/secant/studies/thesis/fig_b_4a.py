"""Figure B.4a: random quadratic models catapult too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, gradient_descent, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.theory import catapult as ct

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Model, step sizes and bends."""

    dim: int = option(100, at_least=2, help="parameters")
    gammas: tuple[float, ...] = option((1e-2, 1e-3, 1e-4), above=0, help="size of the quadratic part")
    lrs: tuple[float, ...] = option((1.8, 1.95, 2.2, 2.5, 2.8, 3.2, 3.6, 3.9, 4.1), above=0, help="step sizes")
    gamma: float = option(1e-3, above=0, help="default size of the quadratic part, one of `gammas`")
    lr: float = option(2.8, above=0, help="default step size, one of `lrs`")
    target: float = option(1.0, help="label")
    seeds: int = scaled(smoke=6, laptop=32, paper=200, at_least=2, help="random models")
    steps: int = scaled(smoke=400, laptop=1_000, paper=2_000, at_least=50, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/fig-B.4a",
    section="B.14",
    title="Random quadratic models catapult too",
    statement=r"""
    The model $g = w^\top\phi + \frac{\gamma}{2} w^\top\Sigma w$ with $\|\phi\| = 1$, random diagonal
    $\Sigma_{ii} = \pm 1$, $w \sim \mathcal N(0, I_{100})$, on one example: smaller $\gamma$ or larger step
    sizes raise the peak of the loss, larger step sizes lower the kernel more, and $\gamma$ has no effect on
    the kernel at convergence.

    Completing the square explains it: with $\tilde w = w + \Sigma\phi/\gamma$ this is the model without
    linear part for the label $\tilde y = y + \phi^\top\Sigma\phi/(2\gamma)$, so $a = \gamma\eta(g - y)$ and
    $v = \eta\lambda$ follow the map of one sample exactly, with $b = \gamma\eta\tilde y$. The peak is
    proportional to $\gamma^{-2}$ and the border is $4/\lambda_0 \approx 4$ up to order $\gamma$.""",
)
def run(config: Config) -> xr.Dataset:
    def one(key: jax.Array) -> dict[str, jax.Array]:
        k1, k2, k3 = jax.random.split(key, 3)
        x = jax.random.normal(k1, (config.dim,))
        return {
            "phi": x / jnp.linalg.norm(x),
            "sigma": jax.random.rademacher(k2, (config.dim,)).astype(float),
            "w": jax.random.normal(k3, (config.dim,)),
        }

    models = jax.vmap(one)(jax.random.split(jax.random.key(config.seed), config.seeds))

    def residual(w: jax.Array, model: dict[str, jax.Array], gamma: jax.Array) -> jax.Array:
        return w @ model["phi"] + gamma / 2 * jnp.sum(model["sigma"] * w**2) - config.target

    data = simulate(
        lambda model, gamma, lr: gradient_descent(lambda w: residual(w, model, gamma) ** 2 / 2, lr),
        lambda model: model["w"],
        config.steps,
        over={"model": models, "gamma": jnp.asarray(config.gammas), "lr": jnp.asarray(config.lrs)},
        probes={
            "loss": lambda w, model, gamma: residual(w, model, gamma) ** 2 / 2,
            "kernel": lambda w, model, gamma: jnp.sum((model["phi"] + gamma * model["sigma"] * w) ** 2),
        },
        stop=Stop(
            converged=lambda w, model, gamma: residual(w, model, gamma) ** 2 < 1e-18,
            diverged=lambda w, model, gamma: jnp.abs(residual(w, model, gamma)) > 1e9,
        ),
    ).dataset

    def bend(model: dict[str, jax.Array], gamma: jax.Array, lr: jax.Array) -> jax.Array:
        return gamma * lr * (config.target + jnp.sum(model["sigma"] * model["phi"] ** 2) / (2 * gamma))

    def start(model: dict[str, jax.Array], gamma: jax.Array, lr: jax.Array) -> ct.Catapult:
        features = model["phi"] + gamma * model["sigma"] * model["w"]
        return ct.Catapult(gamma * lr * residual(model["w"], model, gamma), lr * jnp.sum(features**2))

    reduced = simulate(
        lambda model, gamma, lr: ct.reduced_catapult(bend(model, gamma, lr)),
        start,
        60,
        over={"model": models, "gamma": jnp.asarray(config.gammas), "lr": jnp.asarray(config.lrs)},
        probes={"kernel_map": lambda s, lr: s.v / lr},
    ).dataset
    return data.assign(kernel_map=reduced.kernel_map.rename(step="step_map").drop_vars("step_map"))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    peak = data.loss.max("step")
    final = data.kernel.isel(step=-1)
    wide = data.sel(gamma=config.gamma)
    short = min(data.sizes["step"], 61)
    fine = (data.loss.isel(step=slice(0, short)) * data.gamma**2 < 100).values
    gap = np.abs(data.kernel.values[..., :short] - data.kernel_map.values[..., :short])
    yield Finding(
        "kernel against the map of one sample, sixty steps: largest deviation",
        predicted=0.0,
        measured=float(gap[fine].max()),
        tolerance=Tolerance(1e-6, why="rounding, amplified by the growth of the loss by up to 1e8"),
    )
    crit = 2 / wide.kernel.isel(step=0)
    sub = wide.lr < 0.95 * crit
    yield Finding(
        "sub-critical runs whose loss ever rose",
        predicted=0.0,
        measured=float(((wide.loss.max("step") > wide.loss.isel(step=0)) & sub).sum()),
        tolerance=Tolerance(0.0, why="at least five per cent below 2/lambda_0"),
    )
    inside = (wide.lr > 1.02 * crit) & (wide.lr < 1.95 * crit)
    yield Finding(
        "share of the super-critical runs that stay bounded",
        predicted=1.0,
        measured=float((wide.outcome != 2).where(inside).sum() / inside.sum()),
        tolerance=Tolerance(0.0, why="between 1.02 and 1.95 critical step sizes"),
    )
    outside = wide.lr > 2.03 * crit
    if bool(outside.any()):
        yield Finding(
            "share of the runs past 4/lambda_0 that diverge",
            predicted=1.0,
            measured=float((wide.outcome == 2).where(outside).sum() / outside.sum()),
            tolerance=Tolerance(0.0, why="at least one and a half per cent past the border"),
        )
    at = np.log(peak.sel(lr=config.lr)).median("model")
    slope = np.polyfit(np.log(data.gamma), at, 1)[0]
    yield Finding(
        "exponent of the peak loss in gamma at the default step size",
        predicted=-2.0,
        measured=slope,
        tolerance=Tolerance(0.15, why="gamma = 0.01 shifts lambda_0 by 0.1 and with it the excess"),
    )
    small = final.sel(gamma=[g for g in config.gammas if g <= 1e-3])
    ends = small.sel(lr=2.5).median("model") if 2.5 in config.lrs else small.sel(lr=config.lr).median("model")
    yield Finding(
        "kernel at convergence: largest relative difference between values of gamma, step size 2.5",
        predicted=0.0,
        measured=float((ends.max() - ends.min()) / ends.mean()),
        tolerance=Tolerance(0.1, why="gamma = 0.001 shifts lambda_0 by 0.01, and the end falls four times as fast"),
    )
    regular = [r for r in config.lrs if 2.05 <= r <= 2.85]
    means = final.sel(gamma=config.gamma, lr=regular).median("model").values
    yield Finding(
        "kernel at convergence falls with the step size up to 2.8: largest increase",
        predicted=0.0,
        measured=float(np.diff(means).max()),
        relation="at most",
        tolerance=Tolerance(0.0, why="beyond 3 the end point depends chaotically on the start"),
    )
    rise = peak.sel(gamma=config.gamma, lr=[r for r in config.lrs if 2.05 <= r <= 3.25]).median("model").values
    yield Finding(
        "peak loss rises with the step size: smallest ratio of neighbours",
        predicted=1.0,
        measured=float((rise[1:] / rise[:-1]).min()),
        relation="at least",
        tolerance=Tolerance(0.0, why="the claim"),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(9.5, 6)
    (a, b), (c, d) = figure.subplots(2, 2, sharex=True, sharey="row")
    ink = plt.rcParams["text.color"]
    one = data.isel(model=0, step=slice(0, min(60, data.sizes["step"])))
    for i, g in enumerate(data.gamma.values):
        part = one.sel(gamma=g, lr=config.lr)
        a.semilogy(part.step, part.loss + 1e-12, color=f"C{i}", label=rf"$\gamma = 10^{{{np.log10(g):.0f}}}$")
        c.plot(part.step, part.kernel, color=f"C{i}")
    shown = [r for r in config.lrs if r in (1.8, 2.2, 2.8, 3.2, 3.9, 4.1)]
    for i, r in enumerate(shown):
        part = one.sel(gamma=config.gamma, lr=r)
        fine = part.loss < 1e9
        b.semilogy(part.step, part.loss.where(fine) + 1e-12, color=f"C{i}", label=rf"$\eta = {r:g}$")
        d.plot(part.step, part.kernel.where(fine), color=f"C{i}")
    a.set(title=rf"Smaller $\gamma$, higher peak ($\eta = {config.lr:g}$)", ylabel="loss", ylim=(1e-6, 1e9))
    b.set(title=rf"Larger steps, higher peak ($\gamma = {config.gamma:g}$)")
    c.set(title=r"$\gamma$ does not matter to the end", xlabel="step", ylabel=r"kernel $\lambda$", ylim=(0, 1.4))
    d.set(title="Larger steps end flatter", xlabel="step")
    a.legend(fontsize=8, loc="upper right")
    b.legend(fontsize=8, loc="upper right", ncols=2)
    for axes, r in ((c, config.lr),):
        axes.axhline(2 / r, color=ink, lw=0.8, ls=":")
        axes.text(59, 2 / r + 0.02, r"$2/\eta$", ha="right", color=ink)
