"""Figure 3.2a: how far gradient descent travels below and above the critical step size."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import lab
from secant.core.device import jit
from secant.dynamics import Map, Stop, simulate
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study, unfold
from secant.studies.shared.numerics.exponents import exponent
from secant.studies.shared.two_layer.models import Kind, descent, distance, model, one_sample
from secant.theory.catapult import one_sample as ct
from secant.theory.catapult import scaling as cs
from secant.theory.catapult.infinite_width import wide_limit, wide_network_limit
from secant.theory.regression.quadratic_model import TwoLayer

MODELS: dict[Kind, tuple[str, str, str]] = {
    "quadratic": ("quadratic model", "o", "C0"),
    "network": ("ReLU network", "s", "C1"),
}
"""Names, marks and colours in the figure."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (100, 1_000, 4_000), (100, 1_000, 10_000, 100_000), at_least=100, at_most=10**7, ascending=True
    )
    dim: int = options.dim(2, 5)
    gap: float = option(0.7, at_least=0.1, at_most=3, help="label minus initial output")
    below: float = option(1.5, at_least=0.1, at_most=1.9, help="sub-critical step size times the initial curvature")
    above: float = option(3.0, at_least=2.2, at_most=3.4, help="super-critical step size times the initial curvature")
    draws: int = options.draws(4, 4, 16, at_least=2, at_most=10**4)
    steps: int = options.steps(80, at_least=60, at_most=10**5)

    def check(self) -> None:
        """Refuses what no memory holds."""
        weights = float(max(self.widths)) * (self.dim + 1) * len(self.widths) * self.draws
        fits_memory(64 * weights + 48.0 * len(self.widths) * self.draws * self.steps, "widths, dim, draws or steps")


@study("thesis/fig-3.2a", section="3.1", title="Large steps leave the ball")
def run(config: Config) -> xr.Dataset:
    r"""With sub-critical step sizes the whole path stays in a ball around the start whose radius does not depend
    on the width, and the tangent kernel hardly moves. With super-critical step sizes the loss rises, the
    kernel falls, and the path leaves every such ball: the distance from the start grows like $\sqrt m$.

    At infinite width the distance is known. The weights of the quadratic model end
    $1 - \sqrt{\lambda_\infty/\lambda_0}$ times $\sqrt{m\lambda_0}$ away, where $\lambda_\infty$ depends on the width
    only through the phase of the start. The weights of the network end at its limit for Gaussian neurons. Below the
    critical step the kernel of the quadratic model moves by $O(1/m)$ and the kernel of the network by
    $O(1/\sqrt m)$. The largest move $|\sum a|$ of $u_i^\top x/\|x\|$ carries some neurons over zero and switches
    them off, a share of $|\sum a|/(2\sqrt{2\pi})$.
    """
    widest, ratios = max(config.widths), np.array([config.below, config.above])
    keys = jax.random.split(jax.random.key(config.seed), (len(config.widths), config.draws))

    # A narrow network is a wide one with dead neurons, on an input that makes up for the scale: one run for all. Inner
    # weights move along the input alone, and their other components do not matter: one input entry is enough.
    def padded(key: jax.Array, width: int) -> dict[str, Any]:
        sample = jax.tree.map(np.asarray, one_sample(key, width, config.dim))
        along = sample.params.u @ sample.x / np.sqrt(config.dim)
        u, v = (np.pad(part, (0, widest - width)) for part in (along, sample.params.v))
        return {
            "params": sample.params._replace(u=u[:, None], v=v),
            "x": np.sqrt([widest / width]),
            "y": sample.output + config.gap,
            "curvature": sample.curvature,
            "output": sample.output,
        }

    members = [padded(k, m) for row, m in zip(keys, config.widths, strict=True) for k in row]
    networks = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    found = [_followed(kind, networks, ratios, config.steps) for kind in MODELS]
    starts = {f"start_{name}": ("network", networks[name]) for name in ("curvature", "output")}
    data = xr.concat(found, "model").rename(ratio="regime").assign(starts)
    data = unfold(data, "network", width=config.widths, seed=range(config.draws))
    return data.assign_coords(model=list(MODELS), regime=["below", "above"])


def _followed(kind: Kind, networks: dict[str, Any], ratios: np.ndarray, steps: int) -> xr.Dataset:
    """Distance and loss along the runs of one model, and the curvature at the end times the step size."""

    def output(network: dict[str, Any]) -> Callable[[TwoLayer], jax.Array]:
        return model(kind, network["params"], network["x"])

    def curvature(network: dict[str, Any], params: TwoLayer) -> jax.Array:
        gradient = jax.grad(output(network))(params)
        return jnp.sum(jnp.stack([jnp.sum(g**2) for g in jax.tree.leaves(gradient)]))

    def system(network: dict[str, Any], ratio: jax.Array) -> Map:
        return descent(kind, network["params"], network["x"], network["y"], ratio / network["curvature"])

    probes = {
        "distance": lambda params, network: distance(params, network["params"]),
        "loss": lambda params, network: (output(network)(params) - network["y"]) ** 2 / 2,
    }
    over = {"network": networks, "ratio": ratios}
    path = simulate(system, lambda network: network["params"], steps, over=over, probes=probes, stop=Stop())
    end = np.asarray(jax.jit(jax.vmap(jax.vmap(curvature, (None, 0))))(networks, path.state))
    ends = (("network", "ratio"), end * ratios / networks["curvature"][:, None])
    return path.dataset[["distance", "loss"]].assign(curvature=ends)


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    far, why = data.distance.max("step").rename(seed="network"), r"start and curvature: $1/\sqrt m$ and $\sqrt{2/m}$"
    judged: dict[str, Any] = {"given": len(config.widths) > 1, "otherwise": "one width has no exponent"}
    for kind, (regime, power) in product(MODELS, (("below", 0.0), ("above", 0.5))):
        name = f"{kind}, {regime} the critical step: exponent of the distance in the width"
        found = partial(exponent, far.sel(model=kind, regime=regime))
        yield claim(f"{kind}-{regime}", name, **judged).equal(power, found, 1 / np.sqrt(min(config.widths)), why)
    wide, width, excess = data.isel(width=-1), config.widths[-1], config.above - 2
    end = wide.sel(regime="above").isel(step=-1)
    why = r"the limit's range over the phases at which a peak is met, and $1/\sqrt m$"
    moving = f"some runs still move after {config.steps} steps"
    # The distance beyond the critical step, against the limit of infinite width.
    for kind, limit in (("quadratic", jit(wide_limit, quick=True)), ("network", jax.jit(wide_network_limit))):
        reached = np.asarray(limit(excess).distance)
        low, high = reached.min(), reached.max()
        name = rf"{kind}, largest width, $\eta\lambda_0 = {config.above:g}$: final distance over $\sqrt{{m\lambda_0}}$"
        reach = estimate(end.distance.sel(model=kind) / np.sqrt(width * wide.start_curvature))
        rests = (end.loss.sel(model=kind) < 1e-6 * config.gap**2).all()
        yield claim(f"{kind}-distance", name, given=rests, otherwise=moving).equal(
            (high + low) / 2, reach, (high - low) / 2 + 1 / np.sqrt(width), why
        )
    yield from _kernels(wide, config)


def _kernels(wide: xr.Dataset, config: Config) -> Findings:
    """The change of the kernel below the critical step, against its known leading order."""
    width, v = float(wide.width), config.below
    lr, target = v / wide.start_curvature.values, wide.start_output.values + config.gap
    change, delta = (wide.curvature - v).sel(regime="below"), min(v, 2 - v)

    def leading(lr: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
        a, bend = ct.rescale(0.0, 1.0, lr, width, config.gap).a, ct.rescaled_target(lr, width, target)
        bounds = cs.lazy_bounds(delta, width, width * a**2, np.sqrt(width) * jnp.abs(bend))
        return a, cs.lazy_drift(a**2, v, a * bend), bounds[0]

    a, drift, bound = map(np.asarray, jit(leading, quick=True)(lr, target))
    name = r"{}: change of $\eta\lambda$ below the critical step over its leading term, largest width"
    one, other = (change.sel(model=kind) for kind in ("quadratic", "network"))
    why = r"relative; the next order is the bound on the drift over $\delta$"
    note = f"{float(np.abs(one).max()):.2g} of {v:g}"
    yield claim("quadratic-kernel", name.format("quadratic")).equal(
        1.0, (one / drift).mean(), bound.max() / delta, why, note=note
    )
    # The residual alternates above 1 and keeps its sign below: its partial sums reach a, or a / v, but not further.
    reach = np.abs(a) * max(1.0, 1 / v)
    share = reach / (2 * np.sqrt(2 * np.pi))
    lost, flips = -share * lr + drift, float(width * share.sum())
    found = lab.Estimate(float(other.sum() / lost.sum()), 1 / np.sqrt(flips))
    why = "the next order in the share of the neurons that switch off"
    note = f"about {flips:.0f} neurons switch off in {config.draws} networks, a random number"
    yield claim("network-kernel", name.format("network")).equal(1.0, found, 2 * reach.max(), why, note=note)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    first, second, third = sheet.panels(figure, (11, 3.8), 3)
    shown = data.sel(model="quadratic").isel(seed=0, step=slice(0, 40))
    for i, m in enumerate(data.width.values):
        for regime, width, label in (("below", 1.0, None), ("above", 2.0, rf"$m = 10^{{{np.log10(m):.0f}}}$")):
            one, line = shown.sel(width=m, regime=regime), {"color": f"C{i}", "lw": width}
            first.semilogy(one.distance, label=label, **line)
            second.loglog(one.distance[1:], one.loss[1:] + 1e-12, ".-", ms=4, **line)
    legend, away = {"loc": "center right", "fontsize": 8}, r"$\|w - w_0\|$"
    sheet.label(first, "Distance from the start", "step", away, legend, ylim=(0.2, None))
    note = {"ha": "right", "color": sheet.ink()}
    first.text(0.97, 0.03, "thin: below, thick: above", transform=first.transAxes, fontsize=8, **note)
    sheet.label(second, "The path", away, "loss", ylim=(1e-8, None))
    far = data.distance.max("step").mean("seed")
    for kind, (name, mark, color) in MODELS.items():
        for regime, look in (("above", {"label": name}), ("below", {"mfc": "none"})):
            third.plot(data.width, far.sel(model=kind, regime=regime), f"{mark}-", ms=5, color=color, **look)
    reach = float(np.asarray(jit(wide_limit, quick=True)(config.above - 2).distance).mean())
    sheet.guide(third, data.width, reach * np.sqrt(data.width), rf"${reach:.2f}\,\sqrt{{m}}$", lw=1)
    scales, legend = {"xscale": "log", "yscale": "log"}, {"fontsize": 8, "loc": "upper left"}
    sheet.label(third, "Largest distance", "width $m$", r"$\max_t \|w - w_0\|$", legend, **scales)
    third.text(float(data.width[-1]), 1.5 * float(far.sel(regime="below").max()), "below", **note)
