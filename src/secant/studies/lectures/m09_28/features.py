"""Lecture on pathologies, of 9/28: in the kernel regime features stand still, in mean-field scaling they move."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, options, sheet, study
from secant.studies.shared.numerics.exponents import exponent

INPUTS = (np.eye(4) + 0.15) / math.sqrt(1.15**2 + 3 * 0.15**2)
LABELS = np.array([1.0, -1.0, 1.0, -1.0])
"""Four inputs of length 1, and their labels."""

RULES = {"kernel": (0.5, 0, 0), "mean field": (1.0, 1, 1), "mean field as printed": (1.0, 0, 1)}
"""Powers of the width that divide outputs, and that multiply the step sizes of hidden and output weights."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (64, 256, 1024), (64, 256, 1024, 4096), at_least=16, at_most=10**5, shortest=2, longest=6, ascending=True
    )
    steps: int = options.steps(20, at_least=10, at_most=10_000)
    lr: float = options.lr(1.0, at_least=1e-3, at_most=1)
    draws: int = options.draws(16, 40, at_least=3, at_most=1_000)

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(400.0 * len(RULES) * max(self.widths) * len(self.widths) * self.draws, "widths or draws")


@study("lectures/09-28-features", section="09-28", title="Wide networks that learn no features, and others that do")
def run(config: Config) -> xr.Dataset:
    r"""In the kernel regime, $z = n^{-1/2}\sum_k a_k\sigma(w_k\cdot x)$ with step sizes of order 1, gradient descent on
    a wide network follows gradient descent on its linearisation. Relative to their sizes, weights move by $n^{-1/2}$,
    and the tangent kernel and the features $\sigma(w_k\cdot x)$ by $1/n$. Learning happens in the last layer, and to
    first order. The cure is a smaller output, $z = n^{-1}\sum_k a_k\sigma(w_k\cdot x)$: with step sizes of order $n$
    features move by as much at every width. With step sizes of order 1 for the hidden weights features would stand
    still again.
    """
    widths, draws = config.widths, config.draws
    random = np.random.default_rng(config.seed)
    most, X, y = max(widths), jnp.asarray(INPUTS), jnp.asarray(LABELS)
    shape = (len(widths), draws, most)
    there = np.broadcast_to(np.arange(most) < np.array(widths)[:, None, None], shape).astype(float)
    start = random.standard_normal((*shape, X.shape[1])), random.standard_normal(shape) * there

    def one(w0: jax.Array, a0: jax.Array, on: jax.Array, width: jax.Array, rule: jax.Array) -> jax.Array:
        scale, lr_w, lr_a = width ** -rule[0], config.lr * width ** rule[1], config.lr * width ** rule[2]

        def parts(w: jax.Array, a: jax.Array) -> tuple[jax.Array, ...]:
            h = jnp.tanh(w @ X.T) * on[:, None]
            return h, (1 - h**2) * a[:, None], scale * a @ h - y

        def step(_: int, state: Any) -> Any:
            w, a = state
            h, slopes, r = parts(w, a)
            return w - lr_w * scale * (slopes * r) @ X / len(y), a - lr_a * scale * h @ r / len(y)

        def matrices(w: jax.Array, a: jax.Array) -> tuple[jax.Array, ...]:
            h, slopes, r = parts(w, a)
            G = h.T @ h / width
            return G, width * scale**2 * (G + (slopes.T @ slopes) * (X @ X.T) / width), r

        w, a = jax.lax.fori_loop(0, config.steps, step, (w0, a0))
        (G0, K0, r0), (G, K, r) = matrices(w0, a0), matrices(w, a)
        linear = jnp.linalg.matrix_power(jnp.eye(len(y)) - config.lr * K0 / len(y), config.steps) @ r0
        size = jnp.linalg.norm
        moved = size((w - w0) * on[:, None]) / size(w0 * on[:, None])
        ends = [size(K - K0) / size(K0), moved, size(G - G0) / size(G0), size(r - linear), size(r) / size(r0), size(r0)]
        return jnp.stack(ends)

    over = jax.vmap(jax.vmap(jax.vmap(one, (0, 0, 0, None, None)), (0, 0, 0, 0, None)), (None, None, None, None, 0))
    rules = jnp.asarray(list(RULES.values()), float)
    found = np.asarray(jit(over)(*start, there, jnp.asarray(widths, float), rules))
    names = ("kernel", "weights", "features", "nonlinear", "residual", "start")
    return xr.Dataset(
        {name: (("rule", "width", "draw"), found[..., i]) for i, name in enumerate(names)},
        coords={"rule": list(RULES), "width": list(widths)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    order, why, last = 1 / math.sqrt(config.widths[0]), "the next order, at the least width", config.widths[-1]
    lazy, free = data.sel(rule="kernel"), data.features.sel(rule="mean field")
    for name, what, power in (
        ("weights", "weights", -0.5),
        ("kernel", "tangent kernel", -1.0),
        ("features", "features", -1.0),
        ("nonlinear", "distance from the linearised network", -1.0),
    ):
        found = exponent(lazy[name] / lazy.start)
        yield claim(f"lazy-{name}", f"kernel regime: {what}, exponent of the width").equal(power, found, order, why)
    name = "mean-field scaling: features, exponent of the width"
    yield claim("rich-features", name).zero(exponent(free), order, why)
    ratio = estimate(free.sel(width=last) / lazy.features.sel(width=last))
    name = f"width {last}: change of the features in mean-field scaling over the change in the kernel regime"
    yield claim("rich-over-lazy", name).at_least(10.0, ratio, "an order of magnitude")
    name = "hidden step sizes of mean-field scaling: exponent of the features' change"
    yield claim("hidden-step-sizes", name).erratum(
        (r"\eta = O(1)\colon\; \text{as with } O(n),\; 0", 0.0),
        (r"\eta = O(1)\colon\; -1", -1.0),
        exponent(data.features.sel(rule="mean field as printed")),
        order,
        why,
        note="The gradient of a hidden weight is of order 1/n in this scaling. Its step size must be of order n.",
        where="lecture on pathologies, the cure",
    )
    for rule in ("kernel", "mean field"):
        found = estimate(data.residual.sel(rule=rule, width=last))
        yield claim(f"{rule}-learns", f"{rule}: residual at the end over the start").at_most(0.5, found, "they learn")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2, sharex=True)
    sizes, lazy = np.array(config.widths, float), (data / data.start).sel(rule="kernel")

    def fan(axes: Any, i: int, values: xr.DataArray, label: str, power: float) -> None:
        sheet.spread(axes, values, "draw", label, fmt="o", color=f"C{i}")
        sheet.guide(axes, sizes, float(values.mean("draw")[-1]) * (sizes / sizes[-1]) ** power, color=f"C{i}")

    for i, (name, power) in enumerate((("weights", -0.5), ("kernel", -1.0), ("nonlinear", -1.0))):
        fan(left, i, lazy[name], "distance from linear" if name == "nonlinear" else name, power)
    for i, (rule, power) in enumerate((("mean field", 0.0), ("kernel", -1.0), ("mean field as printed", -1.0))):
        fan(right, i, (data.features / data.start).sel(rule=rule), rule, power)
    for axes, title in ((left, "The kernel regime"), (right, "Features")):
        what = "change over the first residual"
        sheet.label(axes, title, "width", what, "lower left", xscale="log", yscale="log")
    sheet.ticks(right, config.widths)
