"""Sections 9.1 and 9.2: outputs move by a kernel, which in a wide layer is near its limit and stays there."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from secant import nets
from secant.core.device import jit
from secant.curvature import ntk
from secant.lab import Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study
from secant.studies.shared.numerics.exponents import exponent
from secant.theory.wide.concentration import entry_distance

STEP = 0.25
"""Step of the integration in time. It is of fourth order, and the kernel's eigenvalues are about 1."""

MANY = 1_000
"""Further networks of the least width, at the start: they are many because sums of squares scatter far to one side."""

DELTA = 0.01
"""Chance with which a bound may be missed."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (64, 256, 1024), (64, 256, 1024, 4096), at_least=32, at_most=10**5, shortest=2, longest=8, ascending=True
    )
    samples: int = options.samples(8, at_least=2, at_most=30)
    features: int = options.features(10, at_least=2, at_most=100)
    time: float = option(2.0, at_least=1, at_most=20, help="how long the gradient flow is followed")
    draws: int = options.draws(40, 100, at_least=4, at_most=1_000)

    def check(self) -> None:
        """Networks that a machine holds."""
        neurons = max(self.widths) * self.draws + MANY * self.widths[0]
        fits_memory(200.0 * (self.samples + self.features) * neurons, "widths or draws")


def any_network(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How the outputs of a deep network with biases move along the gradient flow, and what the kernel predicts."""
    net = nets.mlp([6, 5], activation="tanh", bias=True)
    random = np.random.default_rng(seed)
    x, y = jnp.asarray(random.normal(size=(7, 3))), jnp.asarray(random.normal(size=7))

    def both(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        params = net.init(key, x.shape)
        outputs = lambda p: net.apply(p, x).reshape(-1)  # noqa: E731
        slope = jax.grad(lambda p: jnp.sum((outputs(p) - y) ** 2) / 2)(params)
        now, moved = jax.jvp(outputs, (params,), (jax.tree.map(jnp.negative, slope),))
        return moved, -ntk(net.apply, params, x).dense() @ (now - y)

    return jit(both, quick=True)(jax.random.key(seed))


def flow(w: np.ndarray, a: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Hidden weights after all steps of gradient flow, and the sum of all residuals' sizes over time."""

    def slope(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        t = np.tanh(w @ x.T)
        r = (a[:, None] @ t)[:, 0] / math.sqrt(a.shape[1]) - y
        return -(a[..., None] * (1 - t**2) * r[:, None]) @ x / math.sqrt(a.shape[1]), np.abs(r).sum(1)

    total = np.zeros(len(w))
    for _ in range(steps):
        k1, r1 = slope(w)
        k2, r2 = slope(w + STEP / 2 * k1)
        k3, r3 = slope(w + STEP / 2 * k2)
        k4, r4 = slope(w + STEP * k3)
        w, total = w + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4), total + STEP / 6 * (r1 + 2 * r2 + 2 * r3 + r4)
    return w, total


def kernels(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return products(1 - np.tanh(w @ x.T) ** 2, x)


def products(slopes: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""$x_i\cdot x_j\,\frac1m\sum_r \sigma'(w_r\cdot x_i)\sigma'(w_r\cdot x_j)$ of each draw."""
    return x @ x.T * (slopes.swapaxes(1, 2) @ slopes) / slopes.shape[1]


def linearised(kernel: np.ndarray, residual: np.ndarray, steps: int) -> np.ndarray:
    """What is left of residuals under constant kernels, by the same steps."""
    z = kernel * STEP
    one = np.eye(z.shape[1])
    step = one - z @ (one - z @ (one / 2 - z @ (one / 6 - z / 24)))
    return (np.linalg.matrix_power(step, steps) @ residual[..., None])[..., 0]


def both_on(x: np.ndarray) -> np.ndarray:
    """How often a ReLU is on for both of two unit inputs: half of 1 less the angle over pi."""
    cosine = np.clip(x @ x.T, -1, 1)
    np.fill_diagonal(cosine, 1.0)
    return (np.pi - np.arccos(cosine)) / (2 * np.pi)


def norm(matrices: np.ndarray) -> np.ndarray:
    return np.abs(np.linalg.eigvalsh(matrices)).max(-1)


@study("book/sec-9.2", section="9.2", title="The kernel of a wide layer, at the start and in training")
def run(config: Config) -> xr.Dataset:
    r"""Under gradient flow on $\frac12\sum_i(u_i - y_i)^2$ the outputs $u$ of any network move by $\dot u = -H(u - y)$,
    $H$ the products of their gradients. A layer $\frac1{\sqrt m}\sum_r a_r\sigma(w_r\cdot x)$ in front of fixed signs
    has $\|H(0) - H^*\| \le n\sqrt{(2/m)\log(2n^2/\delta)}$ with probability $1 - \delta$. No $w_r$ moves by more than
    $\frac1{\sqrt m}\int\sum_i|u_i - y_i|$, so that entries of $H$ move by order $m^{-1/2}$ at most. In fact they move
    by order $1/m$, because the signs $a_r$ cancel the first order.
    """
    rng = np.random.default_rng(config.seed)
    x = rng.normal(size=(config.samples, config.features))
    x, y = x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], config.samples)
    limit, steps, rows = x @ x.T * both_on(x), round(config.time / STEP), []
    for m in config.widths:
        w, a = rng.normal(size=(config.draws, m, config.features)), rng.choice([-1.0, 1.0], (config.draws, m))
        apart = products((w @ x.T > 0).astype(float), x) - limit
        end, total = flow(w, a, x, y, steps)
        before, behind = kernels(w, x), kernels(end, x)
        start, last = ((a[:, None] @ np.tanh(v @ x.T))[:, 0] / math.sqrt(m) - y for v in (w, end))
        moved = np.linalg.norm(end - w, axis=2)
        rows.append(
            {
                "apart": norm(apart),
                "entry": np.abs(apart).max((1, 2)),
                "largest": moved.max(1),
                "typical": np.sqrt((moved**2).mean(1)),
                "allowed": total / math.sqrt(m),
                "change": norm(behind - before),
                "entry_change": np.abs(behind - before).max((1, 2)),
                "nonlinear": np.linalg.norm(last - linearised(before, start, steps), axis=1),
            }
        )
    many = products((rng.normal(size=(MANY, config.widths[0], config.features)) @ x.T > 0).astype(float), x) - limit
    exact, predicted = any_network(config.seed)
    return xr.Dataset(
        {name: (("width", "draw"), np.stack([row[name] for row in rows])) for name in rows[0]}
        | {
            "moved": ("output", np.asarray(exact)),
            "by_kernel": ("output", np.asarray(predicted)),
            "square": ("start", (many**2).sum((1, 2))),
            "x": (("sample", "feature"), x),
        },
        coords={"width": list(config.widths)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    n, least = config.samples, config.widths[0]
    left, name = np.abs(data.moved - data.by_kernel).max() / np.abs(data.moved).max(), "lemma 9.1.1, a deep network"
    yield claim("9.1.1", f"{name}: motion of the outputs against the kernel").zero(left, 1e-12, "rounding")
    # An entry is a mean of m coins, times a product of inputs.
    x, both = data.x.values, both_on(data.x.values)
    scatter = ((x @ x.T) ** 2 * both * (1 - both)).sum()
    yield claim(
        "start-square", f"width {least}: mean squared distance of $H(0)$ from its limit, times the width"
    ).equal(scatter, estimate(data.square * least), 0, "exact in the mean")
    yield claim("9.2.2-exponent", "lemma 9.2.2: distance of $H(0)$ from its limit, exponent of the width").equal(
        -0.5, exponent(data.apart), 1 / least, "the next order, at the least width"
    )
    entry = np.asarray(entry_distance(data.width.values[:, None], n, DELTA))
    yield claim("9.2.2-bound", "lemma 9.2.2: distance of $H(0)$ from its limit over the bound, largest").at_most(
        1.0, (data.apart / (n * entry)).max(), f"with probability {1 - DELTA:g} each"
    )
    name = "lemma 9.2.2: largest distance of an entry, over the distance of the norm that is to be shown"
    printed, corrected, found = (r"\epsilon/n^2", 1 / n**2), (r"\epsilon/n", 1 / n), (data.entry / (n * entry)).max()
    where, note = "proof of lemma 9.2.2", r"so many neurons bring all entries within $\epsilon/n$: enough for the norm"
    yield claim("9.2.2-entry", name).erratum(
        printed, corrected, found, 0, "an inequality", relation="at most", where=where, note=note
    )
    neuron, entry = data.largest / data.allowed, data.entry_change / (2 * data.largest)
    name = "lemma 9.2.3: motion of a neuron over its bound, largest"
    yield claim("9.2.3-neuron", name).at_most(1.0, neuron.max(), r"$|\sigma'|$ is at most 1")
    name = "lemma 9.2.3: motion of an entry of $H$ over twice that of a neuron, largest"
    yield claim("9.2.3-entry", name).at_most(1.0, entry.max(), r"$|\sigma'|$ and $|\sigma''|$ are at most 1")
    order = 1 / math.sqrt(least)
    for name in ("typical", "largest"):
        power = exponent(data[name] / data.allowed / np.sqrt(data.width))
        yield claim(f"9.2.3-{name}", f"lemma 9.2.3: {name} motion of a neuron, exponent of the width").equal(
            -0.5, power, order / 2, "the next order, at the least width"
        )
    for name, words in (("change", "change of the kernel"), ("nonlinear", "distance from the linearised network")):
        power, words = exponent(data[name]), f"{words}: exponent of the width"
        yield claim(f"{name}-bound", words).at_most(-0.5, power, "the lemma's bound")
        yield claim(f"{name}-signs", f"{words}, by random signs").equal(-1.0, power, order, "the next order")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    panels = sheet.panels(figure, (13, 4.2), 3)
    widths = data.width.values.astype(float)
    rows = (
        ("The kernel at the start", {"apart": "from its limit"}, -0.5, "$m^{-1/2}$"),
        ("Motion of a neuron", {"largest": "largest", "typical": "typical"}, -0.5, "$m^{-1/2}$"),
        ("What training changes", {"change": "the kernel", "nonlinear": "outputs less linearised"}, -1.0, "$m^{-1}$"),
    )
    for axes, (title, names, power, law) in zip(panels, rows, strict=True):
        for i, (name, words) in enumerate(names.items()):
            sheet.spread(axes, data[name], "draw", words, color=f"C{i}", fmt="o")
            guide = float(data[name].mean("draw")[-1]) * (widths / widths[-1]) ** power
            sheet.guide(axes, widths, guide, None if i else law)
        sheet.label(axes, title, "width", None, "best", xscale="log", yscale="log")
        axes.set_xticks(config.widths, [str(width) for width in config.widths])
        axes.set_xticks([], minor=True)
    panels[0].set_ylabel("operator norm")
