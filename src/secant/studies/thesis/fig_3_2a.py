"""Figure 3.2a: how far gradient descent travels below and above the critical step size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Finding, Tolerance, option, scaled, study
from secant.studies.thesis._models import Kind, descent, distance, model, one_sample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS: tuple[Kind, ...] = ("quadratic", "network")


@dataclass(frozen=True)
class Config:
    """Widths, sample and the two step sizes."""

    widths: tuple[int, ...] = scaled(
        smoke=(100, 1_000, 10_000),
        laptop=(100, 1_000, 10_000, 100_000),
        paper=(100, 1_000, 10_000, 100_000),
        at_least=10,
        help="hidden neurons",
    )
    dim: int = option(5, at_least=1, help="input dimension")
    gap: float = option(0.7, help="label minus initial output")
    below: float = option(1.5, above=0, below=2, help="sub-critical step size times the initial curvature")
    above: float = option(3.0, above=2, below=4, help="super-critical step size times the initial curvature")
    seeds: int = scaled(smoke=2, laptop=2, paper=16, at_least=1, help="random networks per width")
    steps: int = option(80, at_least=10, help="gradient-descent steps")
    seed: int = option(0, help="random seed")


@study(
    "thesis/fig-3.2a",
    section="3.1",
    title="Large steps leave the ball",
    statement=r"""
    With sub-critical step sizes the whole path stays in a ball around the start whose radius does not depend
    on the width, and the tangent kernel hardly moves. With super-critical step sizes the loss rises, the
    kernel falls, and the path leaves every such ball: the distance from the start grows like $\sqrt m$.""",
)
def run(config: Config) -> xr.Dataset:
    widest = max(config.widths)
    keys = jax.random.split(jax.random.key(config.seed), (len(config.widths), config.seeds))

    # a narrow network is a wide one with dead neurons, on an input that makes up for the scale: one run for all
    def padded(key: jax.Array, width: int) -> dict[str, object]:
        sample = one_sample(key, width, config.dim)
        params = jax.tree.map(lambda p: jnp.pad(p, [(0, widest - width)] + [(0, 0)] * (p.ndim - 1)), sample.params)
        return {
            "params": params,
            "x": sample.x * jnp.sqrt(widest / width),
            "y": sample.output + config.gap,
            "curvature": sample.curvature,
        }

    members = [padded(k, m) for row, m in zip(keys, config.widths, strict=True) for k in row]
    networks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    shape = (len(config.widths), config.seeds, 2, -1)
    found: dict[str, list[np.ndarray]] = {}
    for kind in MODELS:
        data = simulate(
            lambda network, ratio, kind=kind: descent(
                kind, network["params"], network["x"], network["y"], ratio / network["curvature"]
            ),
            lambda network: network["params"],
            config.steps,
            over={"network": networks, "ratio": jnp.array([config.below, config.above])},
            probes={
                "distance": lambda p, network: distance(p, network["params"]),
                "loss": lambda p, network, kind=kind: (
                    (model(kind, network["params"], network["x"])(p) - network["y"]) ** 2 / 2
                ),
                "curvature": lambda p, network, ratio, kind=kind: (
                    ratio / network["curvature"] * _curvature(kind, network, p)
                ),
            },
            stop=Stop(),
        ).dataset
        for name in ("distance", "loss", "curvature"):
            found.setdefault(name, []).append(data[name].values.reshape(shape))
    dims = ("model", "width", "seed", "regime", "step")
    return xr.Dataset(
        {name: (dims, np.stack(values)) for name, values in found.items()},
        coords={"model": list(MODELS), "width": list(config.widths), "regime": ["below", "above"]},
    )


def _curvature(kind: Kind, network: dict[str, object], params: object) -> jax.Array:
    gradient = jax.grad(model(kind, network["params"], network["x"]))(params)  # type: ignore[arg-type]
    return jnp.sum(jnp.stack([jnp.sum(g**2) for g in jax.tree.leaves(gradient)]))


@run.findings
def check(data: xr.Dataset, config: Config) -> Iterator[Finding]:
    log_width = np.log(data.width)
    far = data.distance.max("step").mean("seed")
    for kind in MODELS:
        for regime, power in (("below", 0.0), ("above", 0.5)):
            slope = np.polyfit(log_width, np.log(far.sel(model=kind, regime=regime)), 1)[0]
            yield Finding(
                f"{kind}, {regime} the critical step: exponent of the distance in the width",
                predicted=power,
                measured=slope,
                tolerance=Tolerance(
                    0.05, why="all start at the same distance from their label; the drift is of order 1/sqrt(m)"
                )
                if regime == "below"
                else Tolerance(0.05, why="corrections of order 1/sqrt(m) at width 100"),
            )
    end = data.distance.isel(width=-1, step=-1).sel(regime="above").mean("seed") / np.sqrt(float(data.width[-1]))
    if config.above == 3.0:
        yield Finding(
            "quadratic: final distance over sqrt(m) at eta lambda_0 = 3",
            predicted=0.73,
            measured=float(end.sel(model="quadratic")),
            tolerance=Tolerance(0.03, why="it varies with the fraction of a step at which the peak is met"),
        )
        yield Finding(
            "network: final distance over sqrt(m) at eta lambda_0 = 3",
            predicted=0.51,
            measured=float(end.sel(model="network")),
            tolerance=Tolerance(0.03, why="it varies with the fraction of a step at which the peak is met"),
        )
    lazy = np.abs(data.curvature - config.below).sel(regime="below").max(("step", "seed")).isel(width=-1)
    widest = float(data.width[-1])
    yield Finding(
        "quadratic: largest change of eta lambda below the critical step, largest width",
        predicted=0.0,
        measured=float(lazy.sel(model="quadratic")),
        tolerance=Tolerance(50 / widest, why="lazy drift: (4 - v) u_0 / (v (2 - v)) + 4 w_0 / v, of order 1/m"),
    )
    yield Finding(
        "network: largest change of eta lambda below the critical step, largest width",
        predicted=0.0,
        measured=float(lazy.sel(model="network")),
        tolerance=Tolerance(
            2 / np.sqrt(widest), why="weights move by 1/sqrt(m), so a share 1/sqrt(m) of the gates flips"
        ),
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    import matplotlib.pyplot as plt

    figure.set_size_inches(11, 3.8)
    first, second, third = figure.subplots(1, 3)
    ink = plt.rcParams["text.color"]
    steps = np.arange(min(40, data.sizes["step"]))
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m, model="quadratic").isel(seed=0)
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        for regime, style in (("below", "-"), ("above", "-")):
            part = one.sel(regime=regime)
            first.semilogy(
                steps,
                part.distance[steps],
                style,
                color=f"C{i}",
                label=label if regime == "above" else None,
                lw=1.0 if regime == "below" else 2.0,
            )
            second.semilogy(
                part.distance[steps][1:],
                part.loss[steps][1:] + 1e-12,
                ".-",
                ms=4,
                lw=1.0 if regime == "below" else 2.0,
                color=f"C{i}",
            )
    first.set(title="Distance from the start", xlabel="step", ylabel=r"$\|w - w_0\|$", ylim=(0.2, None))
    first.text(0.97, 0.03, "thin: below, thick: above", transform=first.transAxes, ha="right", color=ink, fontsize=8)
    first.legend(loc="center right", fontsize=8)
    second.set(title="The path", xlabel=r"$\|w - w_0\|$", ylabel="loss", xscale="log", ylim=(1e-8, None))
    far = data.distance.max("step").mean("seed")
    names = {"quadratic": ("o", "quadratic model"), "network": ("s", "ReLU network")}
    for kind, (mark, name) in names.items():
        third.loglog(
            data.width,
            far.sel(model=kind, regime="above"),
            mark + "-",
            ms=5,
            color="C0" if kind == "quadratic" else "C1",
            label=name,
        )
        third.loglog(
            data.width,
            far.sel(model=kind, regime="below"),
            mark + "-",
            ms=5,
            mfc="none",
            color="C0" if kind == "quadratic" else "C1",
        )
    third.loglog(data.width, 0.73 * np.sqrt(data.width), "--", lw=1, color=ink, label=r"$0.73\,\sqrt{m}$")
    third.set(title="Largest distance", xlabel="width $m$", ylabel=r"$\max_t \|w - w_0\|$")
    third.legend(fontsize=8, loc="upper left")
    third.text(float(data.width[-1]), 1.5 * float(far.sel(regime="below").max()), "below", ha="right", color=ink)
