"""Lecture of 10/12: in a wide network weights hardly move, the kernel stays, and the loss goes to zero."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import optimize

from secant.core.device import jit
from secant.lab import Figure, Findings, Seeded, Tolerance, claim, estimate, fits_memory, options, sheet, study
from secant.studies.shared.numerics.exponents import exponent
from secant.theory.wide import lazy_convergence as lc

INPUTS = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]) / math.sqrt(2)
LABELS = np.array([1.0, -1.0, 0.5])
"""Three inputs of length 1 at angles of 60 degrees."""

STEP = 0.5
"""Step of the integration in time, of fourth order. The kernel over the samples is at most 1."""

EVERY = 5
"""Steps between two looks."""

MOVES = (0.01, 0.1, 0.5)
"""Lengths of random moves of all neurons."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (32, 128, 512), (64, 256, 1024, 4096), at_least=16, at_most=10**5, shortest=2, longest=6, ascending=True
    )
    steps: int = options.steps(100, at_least=20, at_most=10_000)
    draws: int = options.draws(6, 20, at_least=3, at_most=1_000)

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(400.0 * max(self.widths) * len(self.widths) * self.draws, "widths or draws")


@study("lectures/10-12-convergence", section="10-12", title="Why wide networks reach zero loss")
def run(config: Config) -> xr.Dataset:
    r"""In a two-layer network $z = n^{-1/2}\sum_k a_k\sigma(w_k\cdot x)$ with $|a_k| \le 1$ frozen,
    $|\sigma'|, |\sigma''| \le 1$ and $m$ inputs of length 1, gradient flow on $\mathcal L = \frac1{2m}|z - y|^2$ has a
    kernel $K$ with $\lambda_0 = \lambda_{\min}(K(0))$.

    - While no $w_k$ moves by more than $\Delta$, $\|K - K(0)\| \le 2m\Delta$.
    - While $K \ge \lambda_0/2$, $\mathcal L(t) \le e^{-\lambda_0t/m}\mathcal L(0)$ and no $w_k$ moves by more than
      $\Delta_* = 2\sqrt2\,m\sqrt{\mathcal L(0)}/(\lambda_0\sqrt n)$.

    From $n = 512\,m^4\mathcal L(0)/\lambda_0^4$ on, $\Delta_* \le \lambda_0/8m$: neither condition ever ends, and the
    loss goes to zero.
    """
    widths, draws = config.widths, config.draws
    random = np.random.default_rng(config.seed)
    most, X, y = max(widths), jnp.asarray(INPUTS), jnp.asarray(LABELS)
    # Narrower networks have neurons without an output, which never move.
    signs = random.choice([-1.0, 1.0], (len(widths), draws, most)) * (np.arange(most) < np.array(widths)[:, None, None])
    start = random.standard_normal((len(widths), draws, most, X.shape[1]))
    moves = random.standard_normal((len(MOVES), most, X.shape[1]))
    moves *= np.array(MOVES)[:, None, None] / np.linalg.norm(moves, axis=2, keepdims=True)

    def one(w0: jax.Array, a: jax.Array, width: jax.Array) -> tuple[lc.Monitors, jax.Array]:
        def slope(w: jax.Array) -> jax.Array:
            t = jnp.tanh(w @ X.T)
            r = a @ t / jnp.sqrt(width) - y
            return -(a[:, None] * (1 - t**2) * r) @ X / (jnp.sqrt(width) * len(y))

        def step(_: int, w: jax.Array) -> jax.Array:
            k1 = slope(w)
            k2 = slope(w + STEP / 2 * k1)
            k3 = slope(w + STEP / 2 * k2)
            k4 = slope(w + STEP * k3)
            return w + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        def watch(w: jax.Array, _: None) -> tuple[jax.Array, lc.Monitors]:
            return jax.lax.fori_loop(0, EVERY, step, w), lc.observe(w, w0, a, X, y, width=width)

        end, seen = jax.lax.scan(watch, w0, None, length=config.steps // EVERY + 1)
        moved = jnp.sum((end - w0) ** 2)
        loss, pushed = slope(w0), a @ jnp.tanh(w0 @ X.T) / jnp.sqrt(width) - y
        K = lc.hidden_kernel(w0, a, X, width=width)
        return seen, jnp.stack([jnp.sqrt(moved / width), jnp.sum(loss**2) * len(y) ** 2 / (pushed @ K @ pushed)])

    def all_of_them(start: jax.Array, signs: jax.Array, sizes: jax.Array) -> tuple[Any, ...]:
        trained = jax.vmap(jax.vmap(one, (0, 0, None)), (0, 0, 0))(start, signs, sizes)
        w, a = start[-1, 0], signs[-1, 0]
        shaken = jax.vmap(lambda move: lc.observe(w + move, w, a, X, y).change)(jnp.asarray(moves))
        return *trained, shaken, _steepest(1e-4)

    seen, numbers, shaken, steepest = jit(all_of_them)(start, signs, jnp.asarray(widths, float))
    axes = ("width", "draw", "time")
    return xr.Dataset(
        {
            **{name: (axes, np.asarray(values)) for name, values in seen._asdict().items()},
            "typical": (axes[:2], np.asarray(numbers[..., 0])),
            "identity": (axes[:2], np.asarray(numbers[..., 1])),
            "shaken": ("move", np.asarray(shaken)),
            "steepest": float(steepest),
        },
        coords={"width": list(widths), "time": STEP * EVERY * np.arange(seen.loss.shape[-1]), "move": list(MOVES)},
    )


def _steepest(move: float) -> jax.Array:
    """The largest change of the kernel over m Delta: one input m times, and all neurons where tanh bends most."""
    m, x = 4, jnp.array([1.0, 0.0])
    w, X = jnp.tile(math.atanh(1 / math.sqrt(5)) * x, (10, 1)), jnp.tile(x, (m, 1))
    before, behind = (lc.hidden_kernel(v, jnp.ones(len(w)), X) for v in (w, w + move * x))
    return jnp.linalg.norm(behind - before) / (m * move)  # of rank one


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    m, width = len(LABELS), config.widths[-1]
    loss, smallest = data.loss.isel(time=0), data.smallest.isel(time=0)
    start = float(loss[0, 0]), float(smallest[0, 0])
    name = r"slope of the loss: $m^2 |\nabla\mathcal L|^2 / r^\top K r$ less 1"
    yield claim("loss-slope", name).zero(abs(data.identity - 1).max(), 1e-12, "rounding")
    for move in MOVES:
        bound, shaken = lc.kernel_change_bound(m, move), data.shaken.sel(move=move)
        name = f"neurons moved by {move:g}: change of the kernel"
        yield claim(f"moved-{move:g}", name).at_most(bound, shaken, "first lemma")
    name, why = "neurons where tanh bends most: change of the kernel over m times the move", "up to the move itself"
    yield claim("steepest", name).equal(
        64 / (25 * math.sqrt(5)), data.steepest, 1e-3, f"the greatest slope of the square of tanh', {why}"
    )
    room = (data.change / lc.kernel_change_bound(m, data.motion.values)).isel(time=slice(1, None))
    name = "training: largest change of the kernel over its bound"
    yield claim("kernel-bound", name).at_most(1.0, room.max(), "first lemma")
    kept = (data.smallest >= smallest / 2).cumprod("time") > 0
    late = np.asarray(lc.loss_bound(loss.values[..., None], smallest.values[..., None], m, data.time.values))
    yield claim("loss-bound", "loss over its bound while the kernel is kept").at_most(
        1.0, (data.loss / late).where(kept).isel(time=slice(1, None)).max(), "an inequality"
    )
    bound = np.asarray(lc.motion_bound(loss.values, smallest.values, m, data.width.values[:, None]))
    yield claim("motion-bound", "motion over its bound while the kernel is kept").at_most(
        1.0, (data.motion.where(kept).max("time") / bound).max(), "second lemma"
    )
    wide, whole = data.sel(width=width), kept.sel(width=width).all("time")
    name, why = f"width {width}: runs that keep half of the least eigenvalue", "far below the width that is enough"
    yield claim("kept", name).share(1.0, whole, xr.ones_like(whole), why, otherwise="no run")
    half = data.sizes["time"] // 2
    fall = np.log(wide.loss.isel(time=half) / wide.loss.isel(time=-1)) / float(data.time[-1] - data.time[half])
    yield claim("late-decay", rf"width {width}: late decay of the loss over $2 \lambda_{{\min}}/m$").equal(
        1.0,
        estimate(fall * m / (2 * wide.smallest.isel(time=-1))),
        4 / math.sqrt(width),
        r"the two least eigenvalues are equal up to $1/\sqrt{n}$",
    )
    order, why = 0.5 / math.sqrt(config.widths[0]), "the next order, at the least width"
    for name, values in (("typical", data.typical), ("largest", data.motion.isel(time=-1))):
        what = rf"{name} motion of a neuron over $\sqrt{{\mathcal L(0)}}$: exponent of the width"
        yield claim(f"{name}-motion", what).equal(-0.5, exponent(values / np.sqrt(loss)), order, why)
    gap = lambda log: math.log(lc.motion_bound(*start, m, math.exp(log)) / lc.allowed_motion(start[1], m))  # noqa: E731
    printed = r"16\,m^2\mathcal L(0)/\lambda_0^2", 16 * m**2 * start[0] / start[1] ** 2
    right = r"512\,m^4\mathcal L(0)/\lambda_0^4", lc.enough_width(*start, m)
    found, rounding = math.exp(optimize.brentq(gap, 0, 50)), Tolerance(0.0, 1e-9, "rounding")
    where = "lecture of 10/12, behind the second lemma"
    note = r"To solve for the width both sides are squared. Before, the root of the loss has lost $\sqrt{2}$."
    yield claim("enough-width", "width from which the second lemma's motion is allowed by the first").erratum(
        printed, right, found, rounding, where=where, by="derivation", note=note
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    m, first = len(LABELS), data.isel(draw=0)
    for i, width in enumerate(config.widths):
        one = first.sel(width=width)
        left.semilogy(data.time, one.loss / one.loss[0], color=f"C{i}", label=f"width {width}")
        middle.plot(data.time, one.smallest / one.smallest[0], color=f"C{i}")
    one = first.isel(width=-1)
    sheet.guide(left, data.time, np.exp(-float(one.smallest[0]) / m * data.time), "bound")
    sheet.label(left, "Loss", "time", "over its start", "lower left")
    sheet.mark(middle, y=0.5)
    sheet.label(middle, "Least eigenvalue of the kernel", "time", "over its start", ylim=(0, 1.3))
    sizes, root, of = np.array(config.widths, float), np.sqrt(data.loss.isel(time=0)), r"over $\sqrt{\mathcal{L}(0)}$"
    for i, (name, values) in enumerate((("largest", data.motion.isel(time=-1)), ("typical", data.typical))):
        sheet.spread(right, values / root, "draw", name, color=f"C{i}", fmt="o")
        guide = float((values / root).mean("draw")[-1]) * (sizes / sizes[-1]) ** -0.5
        sheet.guide(right, sizes, guide, None if i else "$n^{-1/2}$")
    sheet.label(right, "Motion of a neuron", "width", of, "lower left", xscale="log", yscale="log")
    sheet.ticks(right, config.widths)
