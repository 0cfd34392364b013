"""Section 6.2.2: another objective for one neuron, which is convex and has no plateau."""

import numpy as np
import xarray as xr

from secant.lab import Figure, Findings, Seeded, claim, option, options, sheet, study
from secant.studies.shared.numerics.differences import relative
from secant.studies.shared.numerics.orbits import orbit


class Config(Seeded):
    samples: int = options.samples(4_000, 20_000, 20_000, at_least=500, at_most=10**6)
    features: int = options.features(5, at_least=2, at_most=20)
    noise: float = option(0.1, at_least=0, at_most=0.5, help="standard deviation of the noise")
    looks: tuple[int, ...] = option(
        (10, 50, 200, 400), at_least=1, at_most=5_000, ascending=True, longest=12, help="steps to compare errors at"
    )
    rate: float = option(1.0, at_least=0.1, at_most=2, help="step size")


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z / 2))


def integral(z: np.ndarray) -> np.ndarray:
    """The integral of the sigmoid from zero."""
    return np.logaddexp(0, z) - np.log(2)


def gradients(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of the squared loss and of the surrogate."""
    value = sigmoid(x @ w)
    return ((value - y) * value * (1 - value)) @ x / len(x), (value - y) @ x / len(x)


@study("book/surrogate", section="6.2", title="A convex objective for one neuron")
def run(config: Config) -> xr.Dataset:
    r"""Let $y = \sigma(w_*\cdot x) + \epsilon$. The vector $\mathbb E[(\sigma(w\cdot x) - y)\,x]$ is the gradient of
    $g(w) = \mathbb E[T(w\cdot x) - \sigma(w_*\cdot x)\,w\cdot x]$, $T = \int_0\sigma$. The Hessian of $g$ is
    $\mathbb E[\sigma'(w\cdot x)\,xx^\top] \succeq 0$, and its gradient is zero at $w_*$. So $g$ is convex with the same
    minimum as the squared loss. The gradient lacks the factor $\sigma'(w\cdot x)$, so that there is no plateau.
    """
    rng = np.random.default_rng(config.seed)
    x = rng.normal(size=(config.samples, config.features))
    star = rng.normal(size=config.features)
    star *= 3 / np.linalg.norm(star)
    clean = sigmoid(x @ star)
    y = clean + config.noise * rng.normal(size=config.samples)
    errors = []
    for which, seen in ((0, clean), (1, clean), (1, y)):
        step = lambda w, which=which, seen=seen: w - config.rate * gradients(x, seen, w)[which]  # noqa: E731
        path = orbit(step, np.zeros(config.features), config.looks[-1])
        errors.append([np.linalg.norm(w - star) for w in path])
    aside = rng.normal(size=config.features)
    aside -= aside @ star / (star @ star) * star
    radii, aside = np.array([10.0, 20.0, 40.0]), aside / np.linalg.norm(aside)
    slopes = [[np.linalg.norm(g) for g in gradients(x, clean, r * (aside - star / 3) / 2**0.5)] for r in radii]
    inside = np.linalg.inv((x.T * clean * (1 - clean)) @ x / len(x))
    probe, way = rng.normal(size=(8, config.features)), rng.normal(size=config.features) * 1e-4
    g = lambda w: (integral(x @ w) - clean * (x @ w)).mean()  # noqa: E731
    slope = [(g(w + way) - g(w - way)) / 2 for w in probe]
    hessians = [(x.T * (s := sigmoid(x @ w)) * (1 - s)) @ x / len(x) for w in probe]
    bend = [(gradients(x, clean, w + way)[1] - gradients(x, clean, w - way)[1]) @ way / 2 for w in probe]
    return xr.Dataset(
        {
            "error": (("objective", "step"), np.array(errors[:2])),
            "noisy": ("step", errors[2]),
            "slope": (("radius", "objective"), np.array(slopes)),
            "difference": ("probe", slope),
            "along": ("probe", [gradients(x, clean, w)[1] @ way for w in probe]),
            "bend": (("probe", "mode"), np.stack([np.linalg.eigvalsh(hessian) for hessian in hessians])),
            "bend_difference": ("probe", bend),
            "bend_along": ("probe", [way @ hessian @ way for hessian in hessians]),
            "rest": float(np.linalg.norm(gradients(x, clean, star)[1])),
            "floor": config.noise * np.sqrt(np.trace(inside @ (x.T @ x / len(x)) @ inside) / len(x)),
        },
        coords={"objective": ["squared", "surrogate"], "radius": radii},
    )


@run.findings
def check(data: xr.Dataset, config: Config) -> Findings:
    why = "the third order of a step of 1e-4"
    yield claim("gradient", "differences of $g$ less its gradient, over the largest").zero(
        relative(data.difference, data.along), 1e-6, why
    )
    yield claim("hessian", r"differences of the gradient less $\mathbb{E}\,\sigma'xx^\top$, over the largest").zero(
        relative(data.bend_difference, data.bend_along), 1e-6, why
    )
    yield claim("convex", "smallest eigenvalue of the Hessian of $g$, over 8 points").at_least(
        0.0, data.bend.min(), "convex"
    )
    yield claim("minimum", "gradient of $g$ at $w_*$").zero(data.rest, 1e-14, "rounding")
    otherwise = "both have arrived, or have hardly moved"
    for step in config.looks:
        squared, other = (float(data.error.sel(objective=name)[step]) for name in ("squared", "surrogate"))
        some, sentence = squared > 1e-12 and step * config.rate >= 2, f"over that of the squared loss, step {step}"
        yield claim(f"error-{step}", f"error of the surrogate {sentence}", given=some, otherwise=otherwise).at_most(
            1.0, other / squared, "no plateau"
        )
    yield claim(
        "noisy",
        "error of the surrogate on noisy data in the end, over the standard error of its minimum",
        given=config.noise >= 0.01 and config.looks[-1] * config.rate >= 200,
        otherwise="with hardly any noise, or after a few steps, there is nothing to compare",
    ).at_most(
        4.0, lambda: data.noisy[-1] / float(data.floor), "the error of estimating so many weights from so many samples"
    )
    slope, doubling = np.log(data.slope / data.slope[0]), np.log(data.radius / data.radius[0])
    for name, power in (("squared", -1.0), ("surrogate", 0.0)):
        yield claim(f"far-{name}", f"exponent of the gradient's size far out, {name}").equal(
            power,
            slope.sel(objective=name)[-1] / doubling[-1],
            0.05 + 3.3 * np.sqrt(1.25 * 40 / config.samples) / np.log(4),
            "the next order, and the sampling error: only inputs within $1/|w|$ of its plane count",
        )


@run.figure
def draw(data: xr.Dataset, figure: Figure, config: Config) -> None:
    left, right = sheet.panels(figure, (11, 4.2), 2)
    steps = np.arange(config.looks[-1] + 1)
    for i, name in enumerate(data.objective.values):
        left.semilogy(steps, data.error.sel(objective=name), color=f"C{i}", label=name)
        left.plot(config.looks, data.error.sel(objective=name)[list(config.looks)], "o", ms=5, color=f"C{i}")
    left.semilogy(steps, data.noisy, ":", color="C1", label=f"surrogate, noise {config.noise:g}")
    sheet.label(left, "Gradient descent from zero", "step", "$|w - w_*|$", "best", ylim=(1e-8, 8))
    for i, name in enumerate(data.objective.values):
        right.loglog(data.radius, data.slope.sel(objective=name), "o-", color=f"C{i}", label=name)
    sheet.guide(right, data.radius, data.slope[0, 0].item() * data.radius[0].item() / data.radius, r"$\propto 1/|w|$")
    sheet.label(right, "Far out", "$|w|$", "|gradient|", "best")
