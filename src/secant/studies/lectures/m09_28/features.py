"""Lecture on pathologies, of 9/28: in the kernel regime features stand still, in mean-field scaling they move."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant.core.device import jit
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, options, sheet, study
from secant.studies.shared.exponents import exponent

INPUTS = (np.eye(4) + 0.15) / math.sqrt(1.15**2 + 3 * 0.15**2)
LABELS = np.array([1.0, -1.0, 1.0, -1.0])
"""Four inputs of length 1, and what to say of them."""

RULES = {"kernel": (0.5, 0, 0), "mean field": (1.0, 1, 1), "mean field as printed": (1.0, 0, 1)}
"""Powers of the width by which outputs are divided, and step sizes of hidden and output weights multiplied."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (64, 256, 1024), (64, 256, 1024, 4096), at_least=16, at_most=10**5, shortest=2, longest=6, ascending=True
    )
    steps: int = options.steps(20, at_least=10, at_most=10_000)
    lr: float = options.lr(1.0, at_least=1e-3, at_most=1)
    draws: int = options.draws(16, 40, at_least=3, at_most=1_000)

    def check(self) -> None:
        """Networks that a machine holds."""
        fits_memory(400.0 * len(RULES) * max(self.widths) * len(self.widths) * self.draws, "widths or draws")


@study("lectures/09-28-features", section="09-28", title="Wide networks that learn no features, and others that do")
def run(config: Config) -> xr.Dataset:
    r"""In the kernel regime, $z = n^{-1/2}\sum_k a_k\sigma(w_k\cdot x)$ with step sizes of order 1, gradient descent on
    a wide network is that on its linearisation: weights move by $n^{-1/2}$ of themselves, the tangent kernel and the
    features $\sigma(w_k\cdot x)$ by $1/n$ of theirs. Learning happens in the last layer, and to first order. The cure
    is a smaller output, $z = n^{-1}\sum_k a_k\sigma(w_k\cdot x)$: with step sizes of order $n$ features move by as much
    at every width. With step sizes of order 1 for the hidden weights they would again stand still.
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
    order = 1 / math.sqrt(config.widths[0])
    lazy = data.sel(rule="kernel")
    for name, what, power in (
        ("weights", "weights", -0.5),
        ("kernel", "tangent kernel", -1.0),
        ("features", "features", -1.0),
        ("nonlinear", "distance from the linearised network", -1.0),
    ):
        yield claim(f"kernel-regime-{what}-exponent", f"kernel regime: {what}, exponent of the width").equal(
            power, exponent(lazy[name] / lazy.start), order, "the next order, at the least width"
        )
    free = data.features.sel(rule="mean field")
    yield claim("mean-field-scaling", "mean-field scaling: features, exponent of the width").zero(
        exponent(free), order, "the next order, at the least width"
    )
    last = config.widths[-1]
    yield claim(
        f"mean-field-scaling-{last}",
        f"mean-field scaling: change of the features over that in the kernel regime, width {last}",
    ).at_least(10.0, estimate(free.sel(width=last) / lazy.features.sel(width=last)), "an order of magnitude")
    yield claim(
        "hidden-step-sizes", "hidden step sizes of mean-field scaling: exponent of the features' change"
    ).erratum(
        (r"\eta = O(1)\colon\; \text{as with } O(n),\; 0", 0.0),
        (r"\eta = O(1)\colon\; -1", -1.0),
        exponent(data.features.sel(rule="mean field as printed")),
        order,
        "the next order, at the least width",
        note="The gradient of a hidden weight is of order 1/n in this scaling; its step size must be of order n.",
        where="lecture on pathologies, the cure",
    )
    for rule in ("kernel", "mean field"):
        yield claim(f"{rule}-residual-end-start", f"{rule}: residual in the end over that at the start").at_most(
            0.5, estimate(data.residual.sel(rule=rule, width=last)), "they learn"
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (10, 4.2), 2, sharex=True)
    sizes = np.array(config.widths, float)
    for i, (name, label, power) in enumerate(
        (("weights", "weights", -0.5), ("kernel", "kernel", -1.0), ("nonlinear", "distance from linear", -1.0))
    ):
        values = (data[name] / data.start).sel(rule="kernel")
        sheet.spread(left, values, "draw", label, fmt="o", color=f"C{i}")
        sheet.guide(left, sizes, float(values.mean("draw")[-1]) * (sizes / sizes[-1]) ** power, color=f"C{i}")
    what = "change over the first residual"
    sheet.label(left, "The kernel regime", "width", what, "lower left", xscale="log", yscale="log")
    for i, (rule, power) in enumerate((("mean field", 0.0), ("kernel", -1.0), ("mean field as printed", -1.0))):
        values = (data.features / data.start).sel(rule=rule)
        sheet.spread(right, values, "draw", rule, fmt="o", color=f"C{i}")
        sheet.guide(right, sizes, float(values.mean("draw")[-1]) * (sizes / sizes[-1]) ** power, color=f"C{i}")
    sheet.label(right, "Features", "width", what, "lower left", yscale="log")
    right.set_xticks(config.widths, [str(width) for width in config.widths])
    right.set_xticks([], minor=True)
