"""Beyond the lecture on pathologies, of 9/28: in one parametrisation the best step size is the same at every width."""

from typing import Any

import numpy as np
import xarray as xr

from secant.lab import Estimate, Figure, Findings, Seeded, bootstrap, claim, fits_memory, option, options, sheet, study
from secant.nets import Parametrization
from secant.optim.coordinates import paired_power_law
from secant.studies.shared.width import next_order

SAMPLES, INPUTS = 6, 4
WORST = 10.0
"""The largest loss that counts, ten times the loss at the start."""

RULES = {
    "maximal update, SGD": (Parametrization("mup"), False, 2.0**-1),
    "maximal update, Adam": (Parametrization("mup", optimizer="adam"), True, 2.0**-2),
    "kernel regime, SGD": (Parametrization("ntk"), False, 2.0**-1),
    "standard, SGD": (Parametrization("standard"), False, 2.0**-5),
    "standard, Adam": (Parametrization("standard"), True, 2.0**-6),
}
"""Parametrisation, whether the optimiser is Adam, and the middle of the step sizes that are tried."""

HIDDEN = {"maximal update, SGD": 0.0, "maximal update, Adam": 0.0, "kernel regime, SGD": -0.5, "standard, Adam": 1.0}
"""Powers of the width by which a step moves the second hidden layer."""


class Config(Seeded):
    widths: tuple[int, ...] = options.widths(
        (16, 32, 64),
        (32, 64, 128, 256),
        (64, 128, 256, 512, 1024),
        at_least=16,
        at_most=4096,
        shortest=2,
        longest=6,
        ascending=True,
    )
    steps: int = options.steps(12, at_least=5, at_most=1_000)
    octaves: int = option(4, at_least=3, at_most=10, help="step sizes are tried so many factors of two up and down")
    draws: int = options.draws(48, 64, at_least=4, at_most=1_000)

    def check(self) -> None:
        """Refuses networks that do not fit the memory."""
        fits_memory(60.0 * len(RULES) * max(self.widths) ** 2 * len(self.widths) * self.draws, "widths or draws")


@study("lectures/transfer", section="09-28", title="The step size that suits every width", new=True)
def run(config: Config) -> xr.Dataset:
    r"""The lecture's cure, a smaller output and larger steps, is for one hidden layer. For all depths the cure is the
    maximal-update parametrisation. With $m$ incoming edges and $k$ neurons, a weight's product is

    - for SGD divided by $\sqrt{m/k}$, with weights of variance $1/k$; in the last layer by $\sqrt m$, with $1/m$,
    - for Adam divided by $m$, with weights of variance $m$; in the last layer by $m$, with variance 1.

    One step size serves all tensors. A step then moves hidden signals by as much at every width, and the best step
    size at one width is the best at another. In the standard parametrisation the best step size falls as $1/n$ for SGD.
    In the kernel regime it stays, but hidden signals move by $n^{-1/2}$ only. From every network its outputs at the
    start are subtracted.
    """
    sizes = 2.0 ** np.arange(-config.octaves, config.octaves + 1)
    lrs = np.array([middle for *_, middle in RULES.values()])[:, None] * sizes
    x = np.random.default_rng([config.seed, 0]).standard_normal((config.draws, SAMPLES, INPUTS), np.float32)
    y = np.sign(x[..., 0] * x[..., 1])
    found = [
        [_trained(rule, adam, lr, width, x, y, config) for width in config.widths]
        for (rule, adam, _), lr in zip(RULES.values(), lrs, strict=True)
    ]
    loss, moved = (np.array([[one[part] for one in row] for row in found]) for part in (0, 1))
    dims = ("rule", "width", "size", "draw")
    return xr.Dataset(
        {"loss": (dims, loss), "moved": (("rule", "width", "draw"), moved), "lr": (("rule", "size"), lrs)},
        coords={"rule": list(RULES), "width": list(config.widths)},
    )


def _trained(
    rule: Parametrization, adam: bool, lrs: np.ndarray, width: int, x: np.ndarray, y: np.ndarray, config: Config
) -> tuple[np.ndarray, np.ndarray]:
    """Last losses for all step sizes and draws, at most `WORST`, and the first move of the second hidden layer.

    The move is the change of the layer's signals in the first step, with the smallest step size.
    """
    random = np.random.default_rng([config.seed, width])
    edges = ((INPUTS, width, False), (width, width, False), (width, 1, True))
    draws = [rule.weight(m, k, last=last) for m, k, last in edges]
    s0, s1, s2 = (draw.scale for draw in draws)
    spreads, lr = [np.float32(draw.spread) for draw in draws], lrs.astype(np.float32)[:, None, None, None]
    shapes = [(config.draws, m, k) for m, k, _ in edges]
    start = [spread * random.standard_normal(shape, np.float32) for spread, shape in zip(spreads, shapes, strict=True)]
    W = [np.broadcast_to(w, (len(lrs), *w.shape)) for w in start]
    mean, square = ([0.0] * 3 for _ in range(2))
    turned = lambda a: np.swapaxes(a, -1, -2)  # noqa: E731
    with np.errstate(over="ignore", invalid="ignore"):  # step sizes that are too large
        for number in range(1, config.steps + 2):
            h1 = np.tanh(s0 * (x @ W[0]))
            z2 = s1 * (h1 @ W[1])
            h2 = np.tanh(z2)
            f = s2 * (h2 @ W[2])
            if number == 1:
                before, outset = z2[0], f
            elif number == 2:
                moved = np.abs(z2[0] - before).mean((-1, -2))
            r = f - outset - y[..., None]
            d2 = 2 / SAMPLES * s2 * r @ turned(W[2]) * (1 - h2**2)
            d1 = s1 * d2 @ turned(W[1]) * (1 - h1**2)
            slopes = [s0 * (turned(x) @ d1), s1 * (turned(h1) @ d2), 2 / SAMPLES * s2 * (turned(h2) @ r)]
            if adam:
                mean = [0.9 * a + 0.1 * g for a, g in zip(mean, slopes, strict=True)]
                square = [0.999 * a + 0.001 * g**2 for a, g in zip(square, slopes, strict=True)]
                late, later = 1 - 0.9**number, 1 - 0.999**number
                slopes = [a / late / (np.sqrt(b / later) + 1e-30) for a, b in zip(mean, square, strict=True)]
            W = [w - lr * g for w, g in zip(W, slopes, strict=True)]
        loss = np.nan_to_num((r[..., 0] ** 2).mean(-1), nan=WORST)
    return np.minimum(loss, WORST), moved


def best_steps(data: xr.Dataset, draws: Any = slice(None)) -> np.ndarray:
    """The logarithm to base 2 of the best step size of a rule, by width.

    A mean over step sizes with weights of one over the square of the loss: unlike the least of a grid this is smooth.
    """
    logs = np.log(data["loss"].transpose("width", "size", "draw").values[..., draws]).mean(-1)
    weights = np.exp(-2 * logs)
    return weights @ np.log2(data["lr"].values) / weights.sum(1)


def _falls(data: xr.Dataset, rule: str) -> Any:
    """The exponent of the best step size in the width."""
    x, own = np.log2(data["width"].values), data.sel(rule=rule)
    apart = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    return bootstrap(lambda draws: apart @ best_steps(own, draws), data.sizes["draw"])[0]


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    order = next_order(config.widths, 0.5, 2.0)  # two hidden layers, each with fluctuations of one over the root
    key = {rule: rule.replace(",", "") for rule in RULES}
    best = "exponent of the best step size in the width"
    falls = {rule: claim(f"{key[rule]}-best-step", f"{rule}: {best}") for rule in RULES}
    for rule in ("maximal update, SGD", "maximal update, Adam", "kernel regime, SGD"):
        yield falls[rule].zero(_falls(data, rule), order)
    yield falls["standard, SGD"].equal(-1.0, _falls(data, "standard, SGD"), order)
    why = "hidden signals move by n times the step size, outputs by more"
    yield falls["standard, Adam"].at_most(-1.0, _falls(data, "standard, Adam"), why, slack=order.absolute)
    for rule, power in HIDDEN.items():
        law = paired_power_law(data["width"], data["moved"].sel(rule=rule))
        found, name = Estimate(*law[:2], law.freedom), f"{rule}: exponent of the first step of the second hidden layer"
        moved = claim(f"{key[rule]}-first-step", name)
        if power < 0:
            yield moved.at_most(power / 2, found, f"the theory's is {power:g}; half of it is still none")
        else:
            yield moved.equal(power, found, order)


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    axes = sheet.panels(figure, (11, 6.4), 3, 2).ravel()
    loss = data["loss"].reduce(lambda values, axis: np.exp(np.log(values).mean(axis)), "draw")
    for panel, rule in zip(axes, RULES, strict=False):
        best = 2 ** best_steps(data.sel(rule=rule))
        for i, width in enumerate(config.widths):
            of = {"rule": rule, "width": width}
            panel.loglog(data.lr.sel(rule=rule), loss.sel(of), "o-", ms=3, color=f"C{i}", label=width)
            sheet.mark(panel, x=best[i], color=f"C{i}", lw=1)
        sheet.label(panel, rule, "step size", f"loss after {config.steps} steps")
    axes[0].legend(title="width", loc="lower left")
    for i, rule in enumerate(HIDDEN):
        sheet.spread(axes[5], data["moved"].sel(rule=rule), "draw", rule, color=f"C{i}")
    sheet.label(axes[5], "First step of the second layer", "width", "mean absolute change", xscale="log", yscale="log")
    sheet.ticks(axes[5], config.widths)
    axes[5].set_ylim(bottom=axes[5].get_ylim()[0] / 15)
    axes[5].legend(fontsize=8, loc="lower left")
