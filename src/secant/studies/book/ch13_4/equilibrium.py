"""Weight decay and noise set the length of scale-invariant weights, and the angle by which a step turns them."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, estimate, option, options, ratio_of_means, scaled, sheet, study
from secant.theory.normalization.weight_decay import equilibrium, norm_after

PACE = r"$\sqrt{2\eta\lambda/\langle|g|^2\rangle}$"
FORCES = {0.0: "noise alone", 10.0: "noise and a signal"}
"""Curvature of the loss that all chains share -> its name; the noise of each weight has variance 1."""
SIGNALS = tuple(FORCES)
STARTS = (0.5, 2.0)
"""Lengths at the start over the equilibrium, for runs on the way to it."""


class Config(Seeded):
    weights: int = option(20, at_least=5, at_most=500, help="weights of each chain")
    chains: int = scaled(smoke=32, laptop=256, at_least=4, at_most=10**4, help="independent runs")
    lr: float = options.lr(0.1, at_least=1e-3, at_most=10)
    products: tuple[float, ...] = option(
        (1e-3, 1e-2), at_least=2e-4, at_most=0.05, ascending=True, longest=5, help="step size times decay"
    )
    steps: int = options.steps(2_500, 20_000, at_least=500, at_most=10**6)


def wander(random: np.random.Generator, config: Config) -> dict[str, np.ndarray]:
    r"""Chains on $w\cdot Aw/|w|^2 + z\cdot w/|w|$ with a normal $z$ a step; axes are (product, signal, chain)."""
    shape = (len(config.products), len(SIGNALS), config.chains)
    product = np.array(config.products)[:, None, None, None]
    spectrum = np.linspace(0, 1, config.weights)
    strength = np.array(SIGNALS)[:, None, None]
    gradient = np.sqrt(config.weights - 1)
    w = random.normal(size=(*shape, config.weights))
    sizes = np.array([equilibrium(config.lr, p / config.lr, gradient).norm for p in config.products])
    w *= sizes[:, None, None, None] / np.linalg.norm(w, axis=-1, keepdims=True)
    burn = config.steps // 3
    sums = {name: np.zeros(shape) for name in ("fourth", "slope", "turn", "pace", "cosine")}
    square = (w**2).sum(-1, keepdims=True)
    begin = square.copy()
    for t in range(config.steps):
        u = w / np.sqrt(square)
        pull = strength * 2 * spectrum * u + random.normal(size=w.shape)
        pull -= (pull * u).sum(-1, keepdims=True) * u  # the gradient on the sphere
        size = (pull**2).sum(-1, keepdims=True)
        new = (1 - product) * w - config.lr * pull / np.sqrt(square)
        after = (new**2).sum(-1, keepdims=True)
        cosine = (w * new).sum(-1, keepdims=True) / np.sqrt(square * after)
        sums["cosine"] += np.log(cosine)[..., 0]
        if t >= burn:
            seen = {"fourth": square**2, "slope": size, "turn": np.arccos(cosine) ** 2, "pace": config.lr / square}
            for name, value in seen.items():
                sums[name] += value[..., 0]
        w, square = new, after
    kept = config.steps - burn
    found = {name: value / (config.steps if name == "cosine" else kept) for name, value in sums.items()}
    return found | {"drift": np.log(square / begin)[..., 0] / 2 / config.steps}


def approach(random: np.random.Generator, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Fourth powers of lengths over their equilibrium, for noise alone; axes are (start, step, chain)."""
    product = config.products[0]
    size = float(equilibrium(config.lr, product / config.lr, np.sqrt(config.weights - 1)).norm)
    square = np.repeat((np.array(STARTS) * size)[:, None] ** 2, config.chains, axis=1)
    rows = []
    steps = int(1 / product)
    for _ in range(steps):
        rows.append(square**2 / size**4)
        noise = random.chisquare(
            config.weights - 1, square.shape
        )  # the squared length of a normal vector orthogonal to the weights
        square = (1 - product) ** 2 * square + config.lr**2 * noise / square
    return np.stack(rows, 1), np.arange(steps)


@study("book/equilibrium", section="13.4", title="The equilibrium of scale-invariant weights", new=True)
def run(config: Config) -> xr.Dataset:
    r"""Steps $w' = (1 - \eta\lambda)w - \eta g$ on scale-invariant losses, with batches or without, obey $\ln\cos\theta
    = \ln(1 - \eta\lambda) - \ln(|w'|/|w|)$ at every step. So weights that stay bounded turn by $\sqrt{2\eta\lambda}$ a
    step. They settle at $\langle|w|^4\rangle = \eta\langle|g(\bar w)|^2\rangle/(2\lambda)$, where the step size on the
    sphere is $\eta/|w|^2 = \sqrt{2\eta\lambda/\langle|g(\bar w)|^2\rangle}$. From any length $|w_t|^4$ approaches its
    equilibrium as $e^{-4\eta\lambda t}$; long weights take $1/(2\eta\lambda)$ steps for each factor $e$ of $|w|^2$.
    """
    random = np.random.default_rng(config.seed)
    found = wander(random, config)
    way, steps = approach(random, config)
    return xr.Dataset(
        {name: (("product", "signal", "chain"), value) for name, value in found.items()}
        | {"way": (("start", "step", "chain"), way)},
        coords={"product": list(config.products), "signal": list(SIGNALS), "start": list(STARTS), "step": steps},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    left = data.cosine - np.log(1 - data["product"]) + data.drift
    identity = r"mean of $\ln\cos\theta$ less $\ln(1 - \eta\lambda)$, plus the drift of $\ln|w|$, largest"
    yield claim("angle-identity", identity).zero(np.abs(left).max(), 1e-12, "an identity of every step, to rounding")
    burn, why = config.steps // 3, r"the next order in $\eta\lambda$, times less than 3"
    for product in config.products:
        for signal, force in FORCES.items():
            one = data.sel(product=product, signal=signal)
            key, name = f"{product:g}-{'signal' if signal else 'noise'}", rf"$\eta\lambda = {product:g}$, {force}"
            first = np.exp(-4 * product * burn) / (4 * product * (config.steps - burn))
            near = 3 * product, why
            begun = 3 * product + first, f"{why}, and what is left of a start that is off by its own size"
            mean = float(one.slope.mean())
            theory = equilibrium(config.lr, product / config.lr, np.sqrt(mean))
            length = ratio_of_means(one.fourth, theory.norm**4 * one.slope / mean)
            turn, pace = estimate(one.turn / theory.angle**2), estimate(one.pace / theory.effective_lr)
            for what, words, found, within in (
                ("length", r"$\langle|w|^4\rangle$ over $\eta\langle|g|^2\rangle/(2\lambda)$", length, begun),
                ("angle", r"mean square angle of a step over $2\eta\lambda$", turn, near),
                ("step", rf"mean step size on the sphere over {PACE}", pace, begun),
            ):
                yield claim(f"{key}-{what}", f"{name}: {words}").equal(1.0, found, *(within if signal else near))
    at, decay, slope = int(1 / (4 * config.products[0])), config.products[0] / config.lr, np.sqrt(config.weights - 1)
    size = float(equilibrium(config.lr, decay, slope).norm)
    why = r"the next order in $\eta\lambda$: at most $1 + \ln$ of what $|w|^4$ lacks, times it"
    for start in STARTS:
        expected = (norm_after(at, start * size, config.lr, decay, slope) / size) ** 4
        name = rf"from {start:g} of the equilibrium: $|w|^4$ over it after $1/(4\eta\lambda)$ steps"
        found = estimate(data.way.sel(start=start)[at])
        yield claim(f"way-{start:g}", name).equal(expected, found, 5 * config.products[0], why)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    size = np.sqrt(config.weights - 1)
    unit = float(equilibrium(config.lr, config.products[0] / config.lr, size).norm)
    for i, start in enumerate(STARTS):
        left.plot(data.step, data.way.sel(start=start) ** 0.25, color=f"C{i}", lw=0.4, alpha=0.5)
        path = norm_after(data.step.values, start * unit, config.lr, config.products[0] / config.lr, size) / unit
        sheet.guide(left, data.step, path, r"$|w|^4 \to$ at rate $4\eta\lambda$" if i == 0 else None)
    sheet.mark(left, x=1 / (4 * config.products[0]), color=sheet.faint())
    sheet.label(left, "Length on its way", "step", "$|w|$ over its equilibrium", "upper right")
    for i, signal in enumerate(SIGNALS):
        one = data.sel(signal=signal)
        look: dict[str, Any] = {"ms": 9 - 4 * i, "color": f"C{i}", "label": FORCES[signal]}
        middle.plot(data["product"], np.sqrt(one.turn.mean("chain")), "os"[i], **look)
        predicted = config.lr**2 * one.slope.mean("chain") / (2 * data["product"])
        right.plot(predicted, one.fourth.mean("chain"), "os"[i], **look)
    x = np.geomspace(config.products[0] / 2, config.products[-1] * 2, 50)
    sheet.guide(middle, x, np.sqrt(2 * x), r"$\sqrt{2\eta\lambda}$")
    sheet.label(middle, "Angle of a step", r"$\eta\lambda$", "radians", "upper left", xscale="log", yscale="log")
    ends = np.array(right.get_xlim()) * [1, 1.05]
    sheet.guide(right, ends, ends, "equal")
    right.set(xscale="log", yscale="log")
    theory = r"$\eta\langle|g(\bar w)|^2\rangle/(2\lambda)$"
    sheet.label(right, "Length", theory, r"$\langle|w|^4\rangle$", "upper left")
