"""The seventh lecture, of 9/26: how large a learning rate may be, what noise leaves, and what depth makes of it."""

import math

import numpy as np
import xarray as xr

from secant.kernels import susceptibilities
from secant.lab import Estimate, Figure, Findings, Seeded, claim, estimate, fits_memory, option, options, sheet, study
from secant.theory.wide import relu_kernel as rk
from secant.theory.wide import relu_paths as rp

EXACT = "exact at every step"

BEYOND = 1.5
"""Variance of weights, over the fan-in, of networks that are not critical."""


class Config(Seeded):
    dim: int = options.dim(6, at_least=2, at_most=100)
    condition: float = option(10.0, at_least=3, at_most=100, help="largest curvature; the smallest is 1")
    noise: float = option(0.3, above=0, at_most=10, help="standard deviation of the noise of a gradient's entry")
    steps: int = options.steps(300, at_least=50, at_most=10_000)
    depths: tuple[int, ...] = option((2, 4, 8), at_least=1, at_most=64, longest=6, ascending=True, help="hidden layers")
    width: int = options.width(64, at_least=16, at_most=1_000)
    draws: int = options.draws(2_000, 20_000, at_least=500, at_most=10**6)

    def check(self) -> None:
        """Refuses kernels whose mean no number of draws can measure, and networks that do not fit the memory."""
        if max(self.depths) > self.width / 8:
            raise ValueError(
                f"depths: must be at most an eighth of width, {self.width // 8}, got {max(self.depths)}. In deeper "
                "networks a few rare draws make up the mean of the kernel."
            )
        fits_memory(1.6 * self.draws * self.width**2 * max(self.depths), "draws, width or depths")


@study("lectures/09-26-rates", section="09-26", title="Learning rates: contraction, noise and depth")
def run(config: Config) -> xr.Dataset:
    r"""Gradient descent on $\frac12|\theta X - Y|^2$ multiplies the error by $I - \eta XX^\top$ and converges for
    $\eta < 2/\lambda_{\max}$. The best step size is $\eta = 2/(\lambda_{\min} + \lambda_{\max})$, with a contraction by
    $(\kappa - 1)/(\kappa + 1)$ a step. Below the best step size the contraction is $1 - \eta\lambda_{\min}$, above
    $\eta\lambda_{\max} - 1$.

    Noise of variance $s^2$ in the gradient leaves a variance of $\eta s^2/(\lambda(2 - \eta\lambda))$ along a direction
    of curvature $\lambda$. With $\eta_t = c/t$ this variance goes to zero, as $c^2s^2/((2c\lambda - 1)t)$. In critical
    networks every layer adds the same to the tangent kernel, which grows as the depth. Off criticality a layer
    multiplies the kernel by $\chi_\perp$.
    """
    random = np.random.default_rng(config.seed)
    curvature = np.geomspace(1, config.condition, config.dim)
    turn, _ = np.linalg.qr(random.standard_normal((config.dim, config.dim)))
    H = turn * curvature @ turn.T
    best = 2 / (1 + config.condition)
    ratios = _ratios(config)
    error = np.tile(random.standard_normal(config.dim), (len(ratios), 1))
    factor = np.ones(len(ratios))
    for _ in range(config.steps):
        behind = error - best * np.array(ratios)[:, None] * (error @ H)
        factor = np.linalg.norm(behind, axis=1) / np.linalg.norm(error, axis=1)
        error = behind / np.linalg.norm(behind, axis=1, keepdims=True)  # only its direction matters
    constant, falling = np.zeros((2, config.draws, config.dim))
    for t in range(1, config.steps + 1):
        noise = config.noise * random.standard_normal((config.draws, config.dim))
        constant = constant - best / 2 * (constant @ H + noise)
        falling = falling - 1 / (t + _late(config)) * (falling @ H + noise)
    kernels = {}
    for depth in config.depths:
        weights = rp.draw_weights(random, (4, *[config.width] * depth), config.draws // 10)
        kernels[depth] = rk.kernel_draws(weights, np.ones(4) / 2).sum(1)
    off = [math.sqrt(BEYOND / 2) * layer for layer in weights]
    return xr.Dataset(
        {
            "factor": ("ratio", factor),
            "constant": (("draw", "direction"), constant @ turn),
            "falling": (("draw", "direction"), falling @ turn),
            "curvature": ("direction", curvature),
            "kernel": (("network", "depth"), np.stack(list(kernels.values()), 1)),
            "off": ("network", rk.kernel_draws(off, np.ones(4) / 2).sum(1)),
        },
        coords={"ratio": list(ratios), "depth": list(config.depths)},
    )


def _ratios(config: Config) -> tuple[float, ...]:
    """Step sizes over the best one; the last two are between the best and the largest that converges."""
    return 0.25, 0.5, 1.0, 1 + 0.4 / config.condition, 1 + 0.8 / config.condition


def _late(config: Config) -> float:
    """Time at which a falling step size 1/t begins, so that the first one is below the critical one."""
    return config.condition


def _floor(curvature: float, lr: float, noise: float, steps: int) -> float:
    """Variance that a constant step size leaves, from a start without error."""
    return lr * noise**2 / (curvature * (2 - lr * curvature)) * (1 - (1 - lr * curvature) ** (2 * steps))


def _falling(curvature: float, config: Config) -> float:
    """Variance that the falling step sizes leave, step by step."""
    variance = 0.0
    for t in range(1, config.steps + 1):
        lr = 1 / (t + _late(config))
        variance = (1 - lr * curvature) ** 2 * variance + lr**2 * config.noise**2
    return variance


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    kappa, best, noise = config.condition, 2 / (1 + config.condition), config.noise
    # The second slowest direction fades as a power of the steps, from a start where it may be a hundred times as long.
    rates = np.abs(1 - best * data.ratio.values[:, None] * data.curvature.values)
    slowest = [[*sorted(set(np.round(row, 12)))[::-1], 0.0] for row in rates]
    fades = [1e4 * (row[1] / row[0]) ** (2 * config.steps) + 1e-10 for row in slowest]
    left_over, steep = "what is left of the second slowest direction", r"|1 - \eta\lambda_{\max}|"
    note = "Beyond the best step size the steepest direction is the slowest."
    for ratio, found, fade in zip(data.ratio.values, data["factor"].values, fades, strict=True):
        what = f"factor a step at {ratio:g} of the best step size"
        if ratio <= 1:
            name = rf"{what}, $1 - \eta\lambda_{{\min}}$"
            yield claim(f"factor-{ratio:g}", name).equal(1 - ratio * best, found, fade, left_over)
        else:
            printed, right = (r"1 - \eta\lambda_{\min}", 1 - ratio * best), (steep, ratio * best * kappa - 1)
            yield claim(f"factor-{ratio:g}", what).erratum(
                printed, right, found, fade, left_over, where="seventh lecture, first intuition", note=note
            )
    yield claim("best-factor", "best factor a step, by the condition number").equal(
        (kappa - 1) / (kappa + 1), data["factor"][2], fades[2], left_over
    )
    last = config.steps + _late(config)
    for i in (0, config.dim - 1):
        curvature, at = float(data.curvature[i]), ("flattest" if i == 0 else "steepest")
        floor, left = _floor(curvature, best / 2, noise, config.steps), estimate(data.falling[:, i] ** 2)
        what = f"variance at curvature {curvature:g}"
        yield claim(f"constant-{at}", f"noise at half of the best step size: {what}").equal(
            floor, estimate(data.constant[:, i] ** 2), 0, EXACT
        )
        yield claim(f"falling-{at}", f"noise at falling step sizes: {what}").equal(
            _falling(curvature, config), left, 0, EXACT
        )
        yield claim(f"falling-times-t-{at}", f"noise at falling step sizes: t times the {what}").equal(
            noise**2 / (2 * curvature - 1),
            Estimate(last * left.value, last * left.error, left.freedom),
            0,
            "the next order, and what is left of the start",
            relative=2 * curvature / last + (kappa / last) ** (2 * curvature - 1),
        )
    for depth in config.depths:
        name = f"critical ReLU, {depth} layers of {config.width}: mean of the tangent kernel"
        found = estimate(data.kernel.sel(depth=depth))
        yield claim(f"kernel-{depth}", name).equal((depth + 1) / 2, found, 0, "exact at every width")
    deepest = config.depths[-1]
    chi = float(susceptibilities("relu", 1.0, BEYOND).perpendicular)
    found = float((data.off / data.kernel.sel(depth=deepest)).median()) ** (1 / deepest)
    name = f"ReLU with weights of variance {BEYOND:g}: factor of the kernel a layer"
    yield claim("off-critical", name).equal(chi, found, 1e-10, "an identity of each network: rounding")


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, middle, right = sheet.panels(figure, (13, 4.2), 3)
    best = 2 / (1 + config.condition)
    ratios = np.linspace(0.02, 1.15, 200)
    low, high = np.abs(1 - best * ratios), np.abs(1 - best * config.condition * ratios)
    sheet.guide(left, ratios, np.maximum(low, high), "slowest direction")
    left.plot(ratios, low, color="C3", ls=":", label=r"$1 - \eta\lambda_{min}$")
    left.plot(data.ratio, data["factor"], "o", color="C0", label="gradient descent")
    sheet.mark(left, y=1, color=sheet.faint())
    sheet.label(left, "Contraction", "step size over the best", "factor a step", "lower left")
    grid = np.geomspace(1, config.condition, 50)
    rows = (
        ("constant step size", data.constant, [_floor(c, best / 2, config.noise, config.steps) for c in grid]),
        ("falling step size", data.falling, [_falling(c, config) for c in grid]),
    )
    for i, (name, values, theory) in enumerate(rows):
        middle.loglog(data.curvature, (values**2).mean("draw"), "o", color=f"C{i}", label=name)
        sheet.guide(middle, grid, theory, color=f"C{i}")
    sheet.label(middle, "What noise leaves", "curvature", "variance of the error", "lower left")
    found = [estimate(data.kernel.sel(depth=depth)) for depth in config.depths]
    sheet.errors(right, config.depths, found, f"width {config.width}", color="C0")
    depths = np.linspace(0, config.depths[-1], 50)
    sheet.guide(right, depths, (depths + 1) / 2, "$2(L + 1)|x|^2/n_0$")
    right.plot(depths, (depths + 1) / 2 * (BEYOND / 2) ** depths, color="C3", ls=":", label=f"$C_w = {BEYOND:g}$")
    sheet.label(right, "Tangent kernel of ReLU", "hidden layers", "mean", "upper left")
