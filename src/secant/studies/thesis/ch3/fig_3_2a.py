"""Figure 3.2a: how far gradient descent travels below and above the critical step size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.dynamics import Stop, simulate
from secant.lab import Estimate, Figure, Findings, claims, estimate, fits_memory, option, scaled, sheet, study
from secant.setups.two_layer.models import Kind, descent, distance, model, one_sample
from secant.theory import catapult as ct
from secant.theory import catapult_scaling as cs
from secant.theory.catapult_limit import WideLimit, wide_limit, wide_network_limit
from secant.theory.power_law import fit_power_law

MODELS: tuple[Kind, ...] = ("quadratic", "network")


@dataclass(frozen=True)
class Config:
    """Widths, sample and the two step sizes."""

    widths: tuple[int, ...] = scaled(
        smoke=(100, 1_000, 10_000), laptop=(100, 1_000, 10_000, 100_000), at_least=100, at_most=10**7, ascending=True,
        help="hidden neurons",
    )
    dim: int = scaled(smoke=2, laptop=5, at_least=1, help="input dimension")
    gap: float = option(0.7, at_least=0.1, at_most=3, help="label minus initial output")
    below: float = option(1.5, at_least=0.1, at_most=1.9, help="sub-critical step size times the initial curvature")
    above: float = option(3.0, at_least=2.2, at_most=3.4, help="super-critical step size times the initial curvature")
    seeds: int = scaled(smoke=4, laptop=4, paper=16, at_least=2, at_most=10**4, help="random networks per width")
    steps: int = option(80, at_least=60, at_most=10**5, help="gradient-descent steps")
    seed: int = option(0, at_least=0, at_most=2**31, help="random seed")

    def check(self) -> None:
        """Refuses what no memory holds."""
        weights = float(max(self.widths)) * (self.dim + 1) * len(self.widths) * self.seeds
        fits_memory(64 * weights + 48.0 * len(self.widths) * self.seeds * self.steps, "widths, dim, seeds or steps")


@study(
    "thesis/fig-3.2a", section="3.1", title="Large steps leave the ball",
    statement=r"""
    With sub-critical step sizes the whole path stays in a ball around the start whose radius does not depend
    on the width, and the tangent kernel hardly moves. With super-critical step sizes the loss rises, the
    kernel falls, and the path leaves every such ball: the distance from the start grows like $\sqrt m$.

    How far is known at infinite width. The weights of the quadratic model end
    $1 - \sqrt{\lambda_\infty/\lambda_0}$ times $\sqrt{m\lambda_0}$ away, where $\lambda_\infty$ depends on the width by
    the phase of the start alone; those of the network as far as its limit for Gaussian neurons. Below the critical step
    the kernel of the quadratic model moves by $O(1/m)$, that of the network by $O(1/\sqrt m)$: neurons that the
    largest move $|\sum a|$ of $u_i^\top x/\|x\|$ carries over zero switch off, a share of
    $|\sum a|/(2\sqrt{2\pi})$.""",
)
def run(config: Config) -> xr.Dataset:
    widest = max(config.widths)
    keys = jax.random.split(jax.random.key(config.seed), (len(config.widths), config.seeds))

    # a narrow network is a wide one with dead neurons, on an input that makes up for the scale: one run for all
    def padded(key: jax.Array, width: int) -> dict[str, object]:
        sample = one_sample(key, width, config.dim)
        params = jax.tree.map(lambda p: jnp.pad(p, [(0, widest - width)] + [(0, 0)] * (p.ndim - 1)), sample.params)
        return {
            "params": params, "x": sample.x * jnp.sqrt(widest / width), "y": sample.output + config.gap,
            "curvature": sample.curvature, "output": sample.output,
        }

    members = [padded(k, m) for row, m in zip(keys, config.widths, strict=True) for k in row]
    networks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    shape = (len(config.widths), config.seeds, 2, -1)
    found: dict[str, list[np.ndarray]] = {}
    ratios = jnp.array([config.below, config.above])
    for kind in MODELS:
        path = simulate(
            lambda network, ratio, kind=kind: descent(
                kind, network["params"], network["x"], network["y"], ratio / network["curvature"]
            ),
            lambda network: network["params"], config.steps, over={"network": networks, "ratio": ratios},
            probes={
                "distance": lambda p, network: distance(p, network["params"]), "loss": lambda p, network, kind=kind: (
                    (model(kind, network["params"], network["x"])(p) - network["y"]) ** 2 / 2
                ),
            },
            stop=Stop(),
        )
        for name in ("distance", "loss"):
            found.setdefault(name, []).append(path.dataset[name].values.reshape(shape))
        end = jax.jit(jax.vmap(jax.vmap(partial(_curvature, kind), (None, 0))))(networks, path.state)
        curvature = np.asarray(end * ratios / networks["curvature"][:, None])
        found.setdefault("curvature", []).append(curvature.reshape(shape[:3]))
    dims = ("model", "width", "seed", "regime", "step")
    starts = {name: np.asarray(networks[name]).reshape(shape[:2]) for name in ("curvature", "output")}
    return xr.Dataset(
        {name: (dims[: values[0].ndim + 1], np.stack(values)) for name, values in found.items()}
        | {"start_curvature": (dims[1:3], starts["curvature"]), "start_output": (dims[1:3], starts["output"])},
        coords={"model": list(MODELS), "width": list(config.widths), "regime": ["below", "above"]},
    )


def _curvature(kind: Kind, network: dict[str, object], params: object) -> jax.Array:
    gradient = jax.grad(model(kind, network["params"], network["x"]))(params)  # type: ignore[arg-type]
    return jnp.sum(jnp.stack([jnp.sum(g**2) for g in jax.tree.leaves(gradient)]))


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    far = data.distance.max("step")
    for kind in MODELS:
        for regime, power in (("below", 0.0), ("above", 0.5)):
            name = f"{kind}, {regime} the critical step: exponent of the distance in the width"
            if len(config.widths) < 2:
                yield claims.undecided(name, power, "one width has no exponent")
                continue
            law = fit_power_law(data.width, far.sel(model=kind, regime=regime).transpose("width", "seed"))
            yield claims.equal(
                name, power, Estimate(law.exponent, law.error, law.freedom), 1 / np.sqrt(min(config.widths)),
                "the start and the curvature, 1/sqrt(m) and sqrt(2/m) at first",
            )
    wide = data.isel(width=-1)
    yield from _distances(wide, config)
    yield from _kernels(wide, config)


def _distances(wide: xr.Dataset, config: Config) -> Findings:
    """How far beyond the critical step, against the limit of infinite width."""
    excess, width = config.above - 2, float(wide.width)
    limits: dict[str, WideLimit] = {
        "quadratic": wide_limit(excess), "network": jax.jit(wide_network_limit)(excess),
    }
    end = wide.sel(regime="above").isel(step=-1)
    for kind, limit in limits.items():
        name = f"{kind}: final distance over sqrt(m lambda_0) at eta lambda_0 = {config.above:g}, largest width"
        band = np.asarray(limit.distance)
        centre, half = float(band.max() + band.min()) / 2, float(band.max() - band.min()) / 2
        if not bool((end.loss.sel(model=kind) < 1e-6 * config.gap**2).all()):
            yield claims.undecided(name, centre, f"some runs have not come to rest within {config.steps} steps")
            continue
        yield claims.equal(
            name, centre, estimate(end.distance.sel(model=kind) / np.sqrt(width * wide.start_curvature)),
            half + 1 / np.sqrt(width), "its range over the phases at which a peak is met, and 1/sqrt(m)",
        )


def _kernels(wide: xr.Dataset, config: Config) -> Findings:
    """What becomes of the kernel below the critical step, against what is known of it to leading order."""
    width, v = float(wide.width), config.below
    lr = v / wide.start_curvature
    target = wide.start_output + config.gap
    a = np.asarray(ct.rescale(0.0, 1.0, lr.values, width, config.gap).a)
    bend = np.asarray(ct.rescaled_target(lr.values, width, target.values))
    change = (wide.curvature - v).sel(regime="below")
    drift = np.asarray(cs.lazy_drift(a**2, v, a * bend))
    delta = min(v, 2 - v)
    yield claims.equal(
        "quadratic: change of eta lambda below the critical step over its leading term, largest width", 1.0,
        (change.sel(model="quadratic") / drift).mean(),
        float(cs.lazy_bounds(delta, width, width * a**2, np.sqrt(width) * np.abs(bend))[0].max()) / delta,
        "relative; the next order is the bound on the drift over delta",
        note=f"{float(np.abs(change.sel(model='quadratic')).max()):.2g} of {v:g}",
    )
    # The residual alternates above 1 and keeps its sign below: its partial sums reach a, or a / v, but not further.
    reach = np.abs(a) * max(1.0, 1 / v)
    share = reach / (2 * np.sqrt(2 * np.pi))
    lost = -share * lr.values + drift
    flips = float(width * share.sum())
    name = "network: change of eta lambda below the critical step over its leading term, largest width"
    yield claims.equal(
        name, 1.0, Estimate(float(change.sel(model="network").sum() / lost.sum()), 1 / np.sqrt(flips)),
        2 * float(reach.max()), "the next order in the share of the neurons that switch off",
        note=f"about {flips:.0f} neurons switch off in {config.seeds} networks, a random number",
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    first, second, third = sheet.panels(figure, (11, 3.8), 3)
    ink = sheet.ink()
    steps = np.arange(min(40, data.sizes["step"]))
    for i, m in enumerate(data.width.values):
        one = data.sel(width=m, model="quadratic").isel(seed=0)
        label = rf"$m = 10^{{{np.log10(m):.0f}}}$"
        for regime, style in (("below", "-"), ("above", "-")):
            part = one.sel(regime=regime)
            first.semilogy(
                steps, part.distance[steps], style, color=f"C{i}", label=label if regime == "above" else None,
                lw=1.0 if regime == "below" else 2.0,
            )
            second.semilogy(
                part.distance[steps][1:], part.loss[steps][1:] + 1e-12, ".-", ms=4,
                lw=1.0 if regime == "below" else 2.0, color=f"C{i}",
            )
    first.set(title="Distance from the start", xlabel="step", ylabel=r"$\|w - w_0\|$", ylim=(0.2, None))
    first.text(0.97, 0.03, "thin: below, thick: above", transform=first.transAxes, ha="right", color=ink, fontsize=8)
    first.legend(loc="center right", fontsize=8)
    second.set(title="The path", xlabel=r"$\|w - w_0\|$", ylabel="loss", xscale="log", ylim=(1e-8, None))
    far = data.distance.max("step").mean("seed")
    names = {"quadratic": ("o", "quadratic model"), "network": ("s", "ReLU network")}
    for kind, (mark, name) in names.items():
        third.loglog(
            data.width, far.sel(model=kind, regime="above"), mark + "-", ms=5,
            color="C0" if kind == "quadratic" else "C1", label=name,
        )
        third.loglog(
            data.width, far.sel(model=kind, regime="below"), mark + "-", ms=5, mfc="none",
            color="C0" if kind == "quadratic" else "C1",
        )
    reach = float(np.asarray(wide_limit(config.above - 2).distance).mean())
    third.loglog(data.width, reach * np.sqrt(data.width), "--", lw=1, color=ink, label=rf"${reach:.2f}\,\sqrt{{m}}$")
    third.set(title="Largest distance", xlabel="width $m$", ylabel=r"$\max_t \|w - w_0\|$")
    third.legend(fontsize=8, loc="upper left")
    third.text(float(data.width[-1]), 1.5 * float(far.sel(regime="below").max()), "below", ha="right", color=ink)
