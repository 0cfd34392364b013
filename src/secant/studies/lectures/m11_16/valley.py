"""Lecture of 11/16: a valley, the noise across it, and the force along it."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, Tolerance, claim, estimate, option, options, scaled, sheet, study
from secant.studies.shared.numerics.exponents import rate
from secant.studies.shared.numerics.orbits import orbit
from secant.theory.noise.fluctuation import valley_drift, valley_variance

SLOPES = np.array([[2.0], [-1.0]])
"""Slopes of two steep curvatures along one flat direction: the second grows while the trace falls."""


class Config(Seeded):
    alpha: float = option(0.4, at_least=0.01, at_most=10, help="noise over curvature across the valley")
    lr: float = options.lr(0.01, at_least=1e-3, at_most=0.1)
    curvatures: tuple[float, ...] = option((0.5, 1.3, 8.0), at_least=0.4, at_most=9, help="lambda across the valley")
    lrs: tuple[float, ...] = options.lrs(
        (0.02, 0.04, 0.08), at_least=0.01, at_most=0.1, shortest=2, longest=6, ascending=True, distinct=True
    )
    chains: int = scaled(smoke=4_000, laptop=20_000, at_least=500, at_most=100_000, help="simulated runs")


def across(config: Config, random: np.random.Generator) -> np.ndarray:
    """Places of the runs after they have forgotten the bottom of the valley, shape `(curvature, chain)`."""
    slope = 2 * config.lr * np.array(config.curvatures)[:, None]
    kick = config.lr * np.sqrt(2 * config.alpha * np.array(config.curvatures))[:, None]
    # Runs start at the bottom, and last until the missing part of the variance, |1 - slope|^(2 t), is 1e-4.
    rate = 1 - np.abs(1 - slope).max()
    theta = np.zeros((len(config.curvatures), config.chains))
    for _ in range(int(np.ceil(4.7 / rate))):
        theta = (1 - slope) * theta + kick * random.normal(size=theta.shape)
    return theta


def along(lr: float, steps: int, chains: int, random: np.random.Generator) -> np.ndarray:
    """Logarithms of h along runs on b^2 (1 + h^2) with noise 2 (1 + h^2) across, from h = 1, `(time, chain)`."""
    h, b = np.ones(chains), np.sqrt(valley_variance(1.0, lr, 2.0)) * random.normal(size=chains)
    found = np.zeros((21, chains))
    marks = np.linspace(0, steps, 21).astype(int)
    for t in range(steps + 1):
        found[np.flatnonzero(marks == t)] = np.log(h)
        steep = 1 + h**2
        b, h = b - lr * (2 * steep * b + np.sqrt(2 * steep) * random.normal(size=chains)), h * (1 - 2 * lr * b**2)
    return found


def predicted(lr: float, steps: int) -> np.ndarray:
    """Logarithms of h at the same times, with the mean of b^2 at every h."""
    path = orbit(lambda h: h * (1 - 2 * lr * valley_variance(1.0, lr, 1 + h**2)), 1.0, steps)
    return np.log(np.array(path)[np.linspace(0, steps, 21).astype(int)])


@study("lectures/11-16-valley", section="11-16", title="A valley and its entropic force")
def run(config: Config) -> xr.Dataset:
    r"""On $L = \sum_i\lambda_i(\hat\theta)\,\bar\theta_i^2$ with noise $C = \alpha H$, $H_{ii} = 2\lambda_i$: across
    the valley $\langle\bar\theta_i^2\rangle = \frac\eta4\langle\tilde C_{ii}\rangle/\lambda_i = \frac{\alpha\eta}{2(1 -
    \eta\lambda_i)}$, about $\alpha\eta/2$ in every direction. These fluctuations push the run along the valley to
    places where the valley is wide: $E[\mathrm{tr}\,H(t + 1) - \mathrm{tr}\,H(t)] =
    -\alpha\eta^2|\sum_i\nabla\lambda_i|^2$, to leading order. On $L = b^2(1 + h^2)$, $h$ falls like
    $e^{-\eta^2\alpha t}$.
    """
    random = np.random.default_rng(config.seed)
    chains = config.chains // 10
    steps = [int(np.ceil(1.2 / lr**2)) for lr in config.lrs]
    pairs = list(zip(config.lrs, steps, strict=True))
    runs = np.stack([along(lr, count, chains, random) for lr, count in pairs])
    return xr.Dataset(
        {
            "theta": (("curvature", "chain"), across(config, random)),
            "steps": ("lr", steps),
            "log_h": (("lr", "time", "run"), runs),
            "predicted": (("lr", "time"), np.stack([predicted(lr, count) for lr, count in pairs])),
        },
        coords={"curvature": list(config.curvatures), "lr": list(config.lrs)},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    yield from variances(data, config)
    alpha, lr = config.alpha, config.lr
    fast = np.array([[valley_variance(alpha, lr, c)] for c in (1.0, 1.0)])
    drift = -lr * SLOPES @ (SLOPES.T @ fast)  # one step of the flat direction, exactly
    name = r"fall of the trace of the Hessian in a step over $\alpha\eta^2|\sum_i\nabla\lambda_i|^2$"
    yield claim("trace", name).equal(
        1.0,
        -2 * drift.sum() / (alpha * lr**2 * float(SLOPES.sum()) ** 2),
        2 * lr,
        r"the next order, $1/(1 - \eta\lambda)$",
    )
    rise = valley_drift(SLOPES, alpha, lr)[1]
    name = "change of the curvature that rises while the trace falls"
    yield claim("rising", name).at_least(0.0, rise, "its slope is opposite to the sum of all slopes")
    yield from falls(data, config)


def variances(data: xr.Dataset, config: Config) -> Findings:
    """Across the valley."""
    alpha, lr, why = config.alpha, config.lr, "sampling error, and the part not yet reached"
    for i, curvature in enumerate(config.curvatures):
        exact, at = valley_variance(alpha, lr, curvature), rf"$\lambda = {curvature:g}$"
        second = 2 * alpha * curvature + (2 * curvature) ** 2 * exact  # C~ = C + (dL)^2
        name = r"$\frac{\eta}{4}\langle\tilde C\rangle/\lambda$ over the variance"
        yield claim(f"relation-{curvature:g}", f"{at}: {name}").equal(
            1.0, lr / 4 * second / curvature / exact, 1e-12, "an identity: rounding"
        )
        name = r"simulated variance over $\alpha\eta/(2(1 - \eta\lambda))$"
        yield claim(f"variance-{curvature:g}", f"{at}: {name}").equal(
            1.0, estimate(data.theta[i] ** 2 / exact), 1e-4, why
        )
    middle = len(config.curvatures) // 2
    exact, at = valley_variance(alpha, lr, config.curvatures[middle]), rf"$\lambda = {config.curvatures[middle]:g}$"
    yield claim("variance", rf"variance across the valley at {at}, over $\alpha\eta$").erratum(
        (r"$\alpha\eta/4$", 0.25),
        (r"$\alpha\eta/(2(1 - \eta\lambda))$", exact / (alpha * lr)),
        estimate(data.theta[middle] ** 2 / (alpha * lr)),
        1e-4,
        why,
        where="lecture of 11/16, the corollary",
        note=r"The Hessian of $\lambda\theta^2$ is $2\lambda$. The print has lost a half.",
    )


def falls(data: xr.Dataset, config: Config) -> Findings:
    """Along the valley."""
    beyond, mean = "twice what fluctuations of $b^2$ add", data.log_h[:, -1].mean("run")
    expected = data.predicted[:, -1]
    for i, own in enumerate(config.lrs):
        # Fluctuations of b^2 add a relative 3 eta <b^2>, half of 3 eta^2, to the mean of log(1 - 2 eta b^2).
        found = estimate(data.log_h[i, -1] / float(expected[i]))
        yield claim(f"fall-{own:g}", rf"$\eta = {own:g}$: fall of $\log h$ over its prediction").equal(
            1.0, found, 3 * own**2, f"sampling error, and {beyond}"
        )
    own, steps = config.lrs[0], int(data.steps[0])
    yield claim("rate", rf"rate at which $h$ falls at $\eta = {own:g}$").erratum(
        (r"$\eta\alpha$", own),
        (r"$\eta^2\alpha$, with $1/(1 - \eta\lambda)$ for the next order", -float(expected[0]) / steps),
        estimate(-data.log_h[0, -1] / steps),
        Tolerance(0.0, 3 * own**2, f"sampling error, and {beyond}"),
        where="lecture of 11/16, the entropic force",
        note=r"One factor of $\eta$ is from the step, the other from the variance across the valley.",
    )
    predicted, measured = (rate(config.lrs, -values / data.steps) for values in (expected, mean))
    spread = float((data.log_h[:, -1].std("run") / np.abs(expected)).max())
    reach, close = np.ptp(np.log(config.lrs)), "the step sizes are too close to each other"
    slack = 4 * spread / np.sqrt(data.sizes["run"]) + 3 * max(config.lrs) ** 2
    yield claim("exponent", r"exponent of $\eta$ in the rate", given=reach > 0.3, otherwise=close).equal(
        predicted, measured, slack / max(reach, 1e-9), f"four sampling errors and {beyond}, over the log of the range"
    )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11.5, 4.6), 2)
    grid, unit = np.linspace(-4, 4, 300), np.sqrt(config.alpha * config.lr / 2)
    bars = {"bins": 60, "density": True, "histtype": "step", "lw": 1.6}
    for i, curvature in enumerate(config.curvatures):
        left.hist(data.theta[i] / unit, color=f"C{i}", label=rf"$\lambda$ = {curvature:g}", **bars)
    sheet.guide(left, grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), r"$\alpha\eta/2$", ls="-")
    printed = np.exp(-(grid**2)) / np.sqrt(np.pi)
    sheet.guide(left, grid, printed, r"$\alpha\eta/4$, printed", ls=":", lw=1.4)
    sheet.label(left, "Across: as wide however steep", r"$\bar\theta/\sqrt{\alpha\eta/2}$", "density", "upper right")
    for i, lr in enumerate(config.lrs):
        time = np.linspace(0, int(data.steps[i]), 21) * lr**2
        mean, spread = data.log_h[i].mean("run"), data.log_h[i].std("run")
        right.plot(time, np.exp(mean), "o", color=f"C{i}", ms=5, label=rf"$\eta$ = {lr:g}")
        right.fill_between(time, np.exp(mean - spread), np.exp(mean + spread), color=f"C{i}", alpha=0.12, lw=0)
        right.plot(time, np.exp(data.predicted[i]), color=f"C{i}", lw=1.2)
    sheet.guide(right, time, np.exp(-time), r"$e^{-\eta^2\alpha t}$")
    title = "Along: towards where the valley is wide"
    sheet.label(right, title, r"$\eta^2\alpha\,t$", "$h$", "upper right", yscale="log")
