"""Section 12.1: does the shape of the noise matter, and not only its size?"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.data import load
from secant.dynamics import Probe
from secant.lab import Figure, Findings, Seeded, claim, estimate, options, sheet, study
from secant.losses import half_mean
from secant.optim import Problem, noises, noisy, train

KINDS = ("batches", "isotropic", "Gaussian")


class Config(Seeded):
    width: int = options.width(64, at_least=8, at_most=256)
    samples: int = options.samples(48, 128, at_least=16, at_most=500)
    batch: int = options.batch(4, at_most=16)
    lr: float = options.lr(1.0, at_least=0.01, at_most=10)
    steps: int = options.steps(20, 600, at_least=10, at_most=4_000)
    draws: int = options.draws(3, 8, at_least=3, at_most=32)


def largest(loss: Any, theta: Any) -> Any:
    """The largest eigenvalue of the Hessian: a power iteration of forty products, from the gradient on."""
    gradient = jax.grad(loss)

    def norm(v: Any) -> Any:
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(v)))

    def step(_: Any, pair: Any) -> Any:
        v, _ = pair
        v = jax.tree.map(lambda leaf: leaf / jnp.maximum(norm(v), 1e-30), v)
        w = jax.jvp(gradient, (theta,), (v,))[1]
        return w, sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(v), jax.tree.leaves(w), strict=True))

    return jax.lax.fori_loop(0, 40, step, (gradient(theta), jnp.zeros(())))[1]


@study("book/noise-shape", section="12.1", title="The shape of gradient noise")
def run(config: Config) -> xr.Dataset:
    r"""The shape of the noise seems to matter, not only its size. The source claims that the noise of batches has a
    benefit, and that the full gradient plus isotropic Gaussian noise of the same total size lacks this benefit.
    Gaussian noise of the covariance $\Sigma(\theta)/B$ should come near to the noise of batches where the equation
    describes SGD. The study compares test error and sharpness at the end of all three, from the same starts at the same
    step size.
    """
    task = load("digits", classes=(3, 8), samples=config.samples, label_noise=0.1, seed=config.seed)
    net = nets.mlp([config.width])
    x, y = task.train
    problem = Problem(net.apply, x, y, half_mean)
    keys = jax.random.split(jax.random.key(config.seed), config.draws)
    params = jax.vmap(lambda key: net.init(key, x.shape))(keys)
    drawn = (noises.matched(problem, config.batch), noises.gaussian(problem, config.batch))
    full = jax.grad(problem.objective)

    def of_batch(key: Any, theta: Any) -> Any:
        rows = jax.random.randint(key, (config.batch,), 0, len(problem.y))
        seen = jax.grad(problem.objective_on)(theta, problem.x[rows], problem.y[rows])
        return jax.tree.map(jnp.subtract, seen, full(theta))

    def noise(kind: Any) -> noises.Noise:
        """One of the three kinds. All are computed, so that one program serves all runs."""

        def draw(key: Any, theta: Any) -> Any:
            three = [of_batch(key, theta), *(one(key, theta) for one in drawn)]
            return jax.tree.map(lambda *leaves: jnp.stack(leaves)[kind], *three)

        return draw

    tx, ty = jnp.asarray(task.test.x), jnp.asarray(task.test.y).reshape(-1)
    every = max(1, config.steps // 40)
    found = train(
        problem,
        lambda start: start["params"],
        steps=config.steps,
        rule=lambda loss, kind, start: noisy(loss, config.lr, noise(kind), seed=start["seed"]),
        over={"kind": np.arange(3), "start": {"params": params, "seed": np.arange(config.draws)}},
        probes={
            "loss": Probe(problem.objective, every=every),
            "wrong": Probe(lambda theta: jnp.mean(net.apply(theta, tx).reshape(-1) * ty <= 0), every=every),
        },
    )
    top = jit(jax.vmap(jax.vmap(lambda theta: largest(problem.objective, theta))), quick=True)(found.state)
    return xr.Dataset(
        {
            "loss": (("kind", "draw", "step"), found["loss"].values),
            "wrong": (("kind", "draw", "step"), found["wrong"].values),
            "sharpness": (("kind", "draw"), np.asarray(top)),
        },
        coords={"kind": list(KINDS), "step": np.arange(found["loss"].shape[-1]) * every},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    wrong = data.wrong.isel(step=slice(-5, None)).mean("step")
    for what, values in (("test error", wrong), ("sharpness", data.sharpness)):
        one, plain, shaped = (values.sel(kind=kind) for kind in KINDS)
        scale = float(plain.mean()) or np.nan
        known = scale > 0 and bool(np.isfinite(values).all())
        given: dict[str, Any] = {"given": known, "otherwise": "there is no error, or a run diverged"}
        yield claim(
            f"{what}-isotropic", f"{what}: noise of batches less isotropic noise, over isotropic noise", **given
        ).at_most(0, estimate((one - plain) / scale), "the source's claim: isotropic noise lacks the benefit")
        yield claim(
            f"{what}-gaussian",
            f"{what}: Gaussian noise of the same covariance less noise of batches, over isotropic noise",
            **given,
        ).equal(0, estimate((shaped - one) / scale), 0.1, "ten percent, and the sampling error")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3)
    shown = ((panels[0], "loss", "Train loss", "best"), (panels[1], "wrong", "Test error", None))
    for axes, name, title, legend in shown:
        for i, kind in enumerate(KINDS):
            rows = data[name].sel(kind=kind)
            axes.plot(data.step, rows.mean("draw"), color=f"C{i}", label=kind)
            axes.fill_between(data.step, rows.min("draw"), rows.max("draw"), color=f"C{i}", alpha=0.15, lw=0)
        sheet.label(axes, title, "step", None, legend)
    panels[0].set_yscale("log")
    for i, kind in enumerate(KINDS):
        values = data.sharpness.sel(kind=kind).values
        panels[2].plot(np.full(len(values), i) + np.linspace(-0.15, 0.15, len(values)), values, "o", color=f"C{i}")
        panels[2].plot([i - 0.25, i + 0.25], [values.mean()] * 2, color=f"C{i}")
    sheet.mark(panels[2], y=2 / config.lr, label=r"$2/\eta$")
    panels[2].set_xticks(range(3), KINDS)
    sheet.label(panels[2], "Sharpness at the end", None, None, "best")
